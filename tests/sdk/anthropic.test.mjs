// The Anthropic SDK for Node works through the gateway as it does against the provider itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { CLAUDE_MODEL, PLAIN, WEATHER, anthropic, each } from "./support.mjs";

const ask = { model: CLAUDE_MODEL, max_tokens: 100, messages: [{ role: "user", content: "Where is my order? [40 tokens]" }] };
const tools = [{ name: "get_weather", description: "The weather.", input_schema: WEATHER }];
const trip = { city: "Lisbon", days: 1 };

test("messages answer with usage", async () => {
  const { client, calls } = anthropic();
  const reply = await client.messages.create(ask);
  assert.match(reply.content[0].text, /^Thank you/);
  assert.equal(reply.stop_reason, "end_turn");
  assert.equal(reply.usage.output_tokens, 40);
  assert.equal(calls.length, 1);
});

test("messages stream every event", async () => {
  const { client } = anthropic();
  const events = await each(await client.messages.create({ ...ask, stream: true }));
  assert.equal(events.filter((event) => event.type === "content_block_delta").length, 40);
  assert.equal(events.find((event) => event.type === "message_delta").usage.output_tokens, 40);
  assert.equal(events.at(-1).type, "message_stop");
});

test("the stream helper puts the message together", async () => {
  const message = await anthropic().client.messages.stream(ask).finalMessage();
  assert.match(message.content[0].text, /^Thank you for writing in\./);
  assert.equal(message.usage.output_tokens, 40);
});

test("messages use tools, streaming and not", async () => {
  const { client } = anthropic();
  const call = { ...ask, tools, tool_choice: { type: "any" } };
  for (const reply of [await client.messages.create(call), await client.messages.stream(call).finalMessage()]) {
    assert.equal(reply.stop_reason, "tool_use");
    assert.equal(reply.content[0].name, "get_weather");
    assert.deepEqual(reply.content[0].input, trip);
  }
});

test("messages answer in JSON that fits a schema", async () => {
  const output_config = { format: { type: "json_schema", schema: WEATHER } };
  const reply = await anthropic().client.messages.create({ ...ask, output_config });
  assert.deepEqual(JSON.parse(reply.content[0].text), trip);
});

test("tokens are counted without an answer, and models are listed", async () => {
  const { client } = anthropic();
  const counted = await client.messages.countTokens({ model: CLAUDE_MODEL, messages: ask.messages });
  assert.ok(counted.input_tokens > 5);
  assert.ok((await each(await client.models.list())).some((model) => model.id === CLAUDE_MODEL));
});

for (const [model, error, type] of [
  ["fault-400", Anthropic.BadRequestError, "invalid_request_error"],
  ["fault-429-retry-7", Anthropic.RateLimitError, "rate_limit_error"],
  ["fault-529", Anthropic.InternalServerError, "overloaded_error"],
]) {
  for (const stream of [false, true]) {
    test(`${model} keeps its class, stream: ${stream}`, async () => {
      const { client, calls } = anthropic({ headers: PLAIN });
      await assert.rejects(client.messages.create({ ...ask, model, stream }), (raised) => {
        assert.ok(raised instanceof error, raised.constructor.name);
        assert.equal(raised.type, type);
        return true;
      });
      assert.equal(calls.length, 1);
    });
  }
}

test("an error in the middle of a stream is raised after the text", async () => {
  const { client, calls } = anthropic({ maxRetries: 2, headers: PLAIN });
  const events = [];
  const stream = await client.messages.create({ ...ask, model: "fault-error-event", stream: true });
  await assert.rejects(each(stream, events), Anthropic.APIError);
  assert.equal(events.filter((event) => event.type === "content_block_delta").length, 3);
  assert.equal(calls.length, 1);
});

test("a cut stream is an error and not a finished one", async () => {
  const { client, calls } = anthropic({ maxRetries: 2, headers: PLAIN });
  const events = [];
  const stream = await client.messages.create({ ...ask, model: "fault-cut", stream: true });
  await assert.rejects(each(stream, events), (raised) => raised instanceof Anthropic.APIError && raised.type === "api_error");
  assert.equal(events.filter((event) => event.type === "content_block_delta").length, 3);
  assert.equal(calls.length, 1);
});
