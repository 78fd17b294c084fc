// Idempotency keys through the SDKs for Node: a call that is sent twice is made once.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { CHAT_MODEL, CLAUDE_MODEL, STAND_IN, anthropic, each, openai } from "./support.mjs";

const messages = [{ role: "user", content: "Where is my order? [20 tokens]" }];
const kinds = {
  openai: (options) => {
    const { client, calls } = openai(options);
    return { calls, call: (body, headers) => client.chat.completions.create({ model: CHAT_MODEL, messages, ...body }, { headers }) };
  },
  anthropic: (options) => {
    const { client, calls } = anthropic(options);
    const fixed = { model: CLAUDE_MODEL, max_tokens: 100, messages };
    return { calls, call: (body, headers) => client.messages.create({ ...fixed, ...body }, { headers }) };
  },
};

for (const [kind, make] of Object.entries(kinds)) {
  test(`${kind}: a call sent twice gives the same answer`, { skip: STAND_IN }, async () => {
    const { call } = make();
    const headers = { "Idempotency-Key": randomUUID() };
    const first = await call({}, headers).withResponse();
    const again = await call({}, headers).withResponse();
    assert.equal(first.response.headers.get("x-tollgate-replayed"), null);
    assert.equal(again.response.headers.get("x-tollgate-replayed"), "true");
    assert.deepEqual(again.data, first.data);
  });

  test(`${kind}: a stream sent twice gives the same events`, { skip: STAND_IN }, async () => {
    const { call } = make();
    const headers = { "Idempotency-Key": randomUUID() };
    const first = await each(await call({ stream: true }, headers));
    assert.ok(first.length > 20);
    assert.deepEqual(await each(await call({ stream: true }, headers)), first);
  });

  test(`${kind}: a key used for something else is raised at once`, { skip: STAND_IN }, async () => {
    const { call, calls } = make({ maxRetries: 2 });
    const headers = { "Idempotency-Key": randomUUID() };
    await call({}, headers);
    const body = { messages: [{ role: "user", content: "Something else" }] };
    await assert.rejects(call(body, headers), (error) => error.status === 422);
    assert.equal(calls.length, 2);
  });
}
