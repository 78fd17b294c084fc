// What the SDKs for Node make of a refusal: the right class, and no second attempt where none can succeed.
//
// The customers are the demo's, one plan each, with empty chains. Other suites may have used them up already, so every test
// calls until it is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { CHAT_MODEL, CLAUDE_MODEL, DEAR_MODEL, DOLLARS, MESSAGES, QUOTA, STAND_IN, TPM, anthropic, each, openai, withoutPauses } from "./support.mjs";

const skip = STAND_IN && "only a gateway refuses";
const content = "Where is my order? [60 tokens]";
const long = "Where is my order, please? ".repeat(1_000);

const routes = {
  chat: {
    sdk: OpenAI,
    make: openai,
    dear: DEAR_MODEL,
    call: (client, { content: text = content, ...rest } = {}) =>
      client.chat.completions.create({ model: CHAT_MODEL, messages: [{ role: "user", content: text }], ...rest }),
  },
  responses: {
    sdk: OpenAI,
    make: openai,
    dear: DEAR_MODEL,
    call: (client, { content: text = content, ...rest } = {}) => client.responses.create({ model: CHAT_MODEL, input: text, ...rest }),
  },
  messages: {
    sdk: Anthropic,
    make: anthropic,
    dear: CLAUDE_MODEL,
    call: (client, { content: text = content, ...rest } = {}) =>
      client.messages.create({ model: CLAUDE_MODEL, max_tokens: 200, messages: [{ role: "user", content: text }], ...rest }),
  },
};

/** Calls until a refusal is raised; says which, and how many HTTP calls the last call made. */
async function untilRefused(route, customer, { maxRetries = 0, attempts = 8, ...extra } = {}) {
  const { client, calls } = route.make({ customer, maxRetries });
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const before = calls.length;
    try {
      const reply = await route.call(client, extra);
      if (extra.stream) assert.ok((await each(reply)).length > 0, "an admitted stream has events");
    } catch (error) {
      if (!(error instanceof route.sdk.APIError) || error.status === undefined) throw error;
      return { error, made: calls.length - before };
    }
  }
  assert.fail(`${customer} was never refused in ${attempts} calls`);
}

for (const [name, route] of Object.entries(routes)) {
  for (const stream of [false, true]) {
    test(`${name}: out of messages is a rate limit with an exact wait, stream: ${stream}`, { skip }, async () => {
      const { error, made } = await untilRefused(route, MESSAGES, { stream });
      assert.ok(error instanceof route.sdk.RateLimitError);
      assert.equal(made, 1);
      const wait = Number(error.headers.get("retry-after"));
      assert.ok(Number.isInteger(wait) && wait >= 1 && wait <= 60, `${wait}`);
      assert.notEqual(error.headers.get("x-should-retry"), "false");
    });

    test(`${name}: out of money is 402 and tried once, stream: ${stream}`, { skip }, async () => {
      const { error, made } = await untilRefused(route, DOLLARS, { maxRetries: 2, model: route.dear, stream });
      assert.equal(error.status, 402);
      assert.equal(made, 1);
      assert.equal(error.headers.get("x-should-retry"), "false");
      if (name !== "messages") assert.equal(error.code, "spend_cap_exceeded");
    });
  }

  test(`${name}: default retries wait as long as they were told`, { skip }, async () => {
    await untilRefused(route, MESSAGES);
    await withoutPauses(async (pauses) => {
      const { error, made } = await untilRefused(route, MESSAGES, { maxRetries: 2, attempts: 1 });
      assert.ok(error instanceof route.sdk.RateLimitError);
      assert.equal(made, 3, "this refusal passes, so the SDK tries again");
      const told = Number(error.headers.get("retry-after"));
      assert.ok(pauses.filter((pause) => pause >= told - 1 && pause <= 61).length >= 2, `${pauses} for ${told}`);
    });
  });

  test(`${name}: out of quota is 429 and tried once`, { skip }, async () => {
    const { error, made } = await untilRefused(route, QUOTA, { maxRetries: 2 });
    assert.ok(error instanceof route.sdk.RateLimitError);
    assert.equal(made, 1);
    assert.equal(error.headers.get("x-should-retry"), "false");
    if (name !== "messages") assert.equal(error.code, "insufficient_quota");
  });

  test(`${name}: input above the limit itself is 413 and tried once`, { skip }, async () => {
    const { error, made } = await untilRefused(route, TPM, { maxRetries: 2, attempts: 1, content: long });
    assert.equal(error.status, 413);
    assert.equal(made, 1);
    if (name !== "messages") assert.equal(error.code, "request_exceeds_limit");
  });

  test(`${name}: a bad customer id is the caller's mistake`, { skip }, async () => {
    const { error, made } = await untilRefused(route, "someone@example.com", { maxRetries: 2, attempts: 1 });
    assert.ok(error instanceof route.sdk.BadRequestError);
    assert.equal(made, 1);
  });
}
