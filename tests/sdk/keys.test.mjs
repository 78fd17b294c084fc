// What the SDKs for Node make of a gateway in keys mode: its keys, and the refusals that take more than a small plan to see.

import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import * as support from "./support.mjs";
import { APP_KEY, BROKE_KEY, CHAT_MODEL, CLAUDE_MODEL, KEYS_URL, NARROW_KEY, each, withoutPauses } from "./support.mjs";

const skip = !KEYS_URL && "TOLLGATE_KEYS_URL names no gateway";
const messages = [{ role: "user", content: "Where is my order? [20 tokens]" }];

const kinds = {
  openai: {
    Sdk: OpenAI,
    full: "full-gpt",
    call: (client, ask) => client.chat.completions.create({ model: CHAT_MODEL, messages, ...ask }),
    code: (error) => error.code,
  },
  anthropic: {
    Sdk: Anthropic,
    full: "full-claude",
    call: (client, ask) => client.messages.create({ model: CLAUDE_MODEL, max_tokens: 600, messages, ...ask }),
    code: (error) => error.error.error.details.error_code,
  },
};

// The SDKs' own default of two retries.
const make = (kind, { key = APP_KEY, plan, headers = {}, ...rest } = {}) =>
  support[kind]({ url: KEYS_URL, key, maxRetries: 2, headers: plan ? { ...headers, "X-Customer-Plan": plan } : headers, ...rest });

async function refusal(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  assert.fail("it was not refused");
}

for (const [kind, { Sdk, full, call, code }] of Object.entries(kinds)) {
  test(`${kind}: a gateway key takes the place of the provider's`, { skip }, async () => {
    const { client } = make(kind);
    assert.ok((await call(client)).id);
    assert.ok((await each(await call(client, { stream: true }))).length > 20);
  });

  for (const [options, ask, status, right, error] of [
    [{ key: "no-such-key" }, {}, 401, "invalid_api_key", Sdk.AuthenticationError],
    [{ customer: "" }, {}, 400, "missing_customer_id", Sdk.BadRequestError],
    [{ key: NARROW_KEY }, { model: full }, 403, "model_not_allowed", Sdk.PermissionDeniedError],
    [{ key: NARROW_KEY, plan: "open" }, {}, 403, "plan_not_allowed", Sdk.PermissionDeniedError],
    [{}, { model: "no-such-model" }, 400, "model_not_priced", Sdk.BadRequestError],
    [{ key: BROKE_KEY }, {}, 402, "spend_cap_exceeded", Sdk.PaymentRequiredError ?? Sdk.APIError],
  ]) {
    for (const stream of [false, true]) {
      test(`${kind}: ${right} is raised at once, stream: ${stream}`, { skip }, async () => {
        const { client, calls } = make(kind, options);
        const raised = await refusal(() => call(client, { stream, ...ask }));
        assert.equal(raised.constructor, error);
        assert.deepEqual([raised.status, code(raised), calls.length], [status, right, 1]);
        assert.equal(raised.requestID, raised.headers.get("x-tollgate-request-id"));
      });
    }
  }

  test(`${kind}: whoever waits as long as told gets in`, { skip }, async () => {
    const { client, calls } = make(kind, { plan: "brisk" });
    const took = [];
    // A slow machine may need no wait between the first calls.
    while (!took.includes(2) && took.length < 20) {
      const before = calls.length;
      assert.ok((await call(client)).id);
      took.push(calls.length - before);
    }
    assert.ok(took.includes(2) && took.every((n) => n <= 2), `one wait, made by the SDK, and one retry are enough: ${took}`);
  });

  for (const [plan, right] of [["one-at-once", "rate_limit_exceeded"], ["tight", "budget_in_flight"]]) {
    test(`${kind}: who has too much in flight may try again soon, ${right}`, { skip }, async () => {
      const { client, calls } = make(kind, { plan });
      const ask = { model: "fault-stall", stream: true };
      const held = await call(client, ask);
      await withoutPauses(async (pauses) => {
        const before = calls.length;
        const raised = await refusal(() => call(client, ask));
        assert.equal(raised.constructor, Sdk.RateLimitError);
        assert.deepEqual([code(raised), calls.length - before], [right, 3]);
        assert.ok(pauses.slice(-2).every((pause) => pause > 0 && pause <= 10), `${pauses}`);
      });
      held.controller.abort();
      assert.ok((await call(client)).id, "its place is free again");
    });
  }

  test(`${kind}: a full account is 503 without anybody's numbers`, { skip }, async () => {
    const { client, calls } = make(kind);
    await withoutPauses(async () => {
      for (let i = 0; i < 3; i += 1) {
        const before = calls.length;
        try {
          await call(client, { model: full });
        } catch (raised) {
          assert.ok(raised instanceof Sdk.InternalServerError);
          assert.deepEqual([raised.status, code(raised), calls.length - before], [503, "overloaded", 3]);
          return;
        }
      }
      assert.fail("two requests a minute, and three passed");
    });
  });
}
