// A hand-off is an ordinary answer to the official SDKs for Node: nothing is thrown, streams end, helpers put it together.
//
// The demo's customer of this name can afford nothing, so a person takes over whatever it asks.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CHAT_MODEL, CLAUDE_MODEL, STAND_IN, anthropic, each, openai } from "./support.mjs";

const skip = STAND_IN && "only a gateway hands over";
const customer = "demo-handoff";
const SENTENCE = "I am connecting you to one of our agents.";
const messages = [{ role: "user", content: "Where is my order?" }];

function checkHeaders({ headers }) {
  const ticket = headers.get("x-tollgate-ticket");
  assert.match(ticket, /^tt_/);
  assert.equal(headers.get("x-tollgate-ticket-url"), `/v1/triage/${ticket}`);
  assert.equal(headers.get("x-tollgate-degraded"), "handoff;cause=spend");
}

test("chat reads it as an answer", { skip }, async () => {
  const { client, calls } = openai({ customer });
  const { data, response } = await client.chat.completions.create({ model: CHAT_MODEL, messages }).withResponse();
  checkHeaders(response);
  assert.equal(data.model, "human-triage");
  assert.equal(data.choices[0].message.content, SENTENCE);
  assert.equal(data.choices[0].finish_reason, "stop");
  assert.equal(data.usage.total_tokens, 0);
  assert.equal(calls.length, 1);
});

test("chat streams it, and the helper puts it together", { skip }, async () => {
  const { client } = openai({ customer });
  const chunks = await each(await client.chat.completions.create({ model: CHAT_MODEL, messages, stream: true }));
  assert.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join(""), SENTENCE);
  const runner = client.chat.completions.stream({ model: CHAT_MODEL, messages });
  assert.equal(await runner.finalContent(), SENTENCE);
});

test("responses read and stream it", { skip }, async () => {
  const { client } = openai({ customer });
  const reply = await client.responses.create({ model: CHAT_MODEL, input: "Where is my order?" });
  assert.equal(reply.output_text, SENTENCE);
  assert.equal(reply.status, "completed");
  const final = await client.responses.stream({ model: CHAT_MODEL, input: "Where is my order?" }).finalResponse();
  assert.equal(final.output_text, SENTENCE);
  assert.equal(final.model, "human-triage");
});

test("messages read and stream it", { skip }, async () => {
  const { client } = anthropic({ customer });
  const { data, response } = await client.messages.create({ model: CLAUDE_MODEL, max_tokens: 50, messages }).withResponse();
  checkHeaders(response);
  assert.deepEqual([data.model, data.stop_reason, data.content[0].text], ["human-triage", "end_turn", SENTENCE]);
  const final = await client.messages.stream({ model: CLAUDE_MODEL, max_tokens: 50, messages }).finalMessage();
  assert.equal(final.content[0].text, SENTENCE);
  assert.equal(final.usage.output_tokens, 0);
});
