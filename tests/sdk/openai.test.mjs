// The openai SDK for Node works through the gateway as it does against the provider itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { CHAT_MODEL, EMBEDDING_MODEL, PLAIN, WEATHER, each, openai } from "./support.mjs";

const messages = [{ role: "user", content: "Where is my order? [40 tokens]" }];
const chatTool = { type: "function", function: { name: "get_weather", parameters: WEATHER } };
const format = { type: "json_schema", json_schema: { name: "trip", strict: true, schema: WEATHER } };
const trip = { city: "Lisbon", days: 1 };
const textOf = (chunks) => chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join("");

test("chat answers with usage", async () => {
  const { client, calls } = openai();
  const reply = await client.chat.completions.create({ model: CHAT_MODEL, messages });
  assert.match(reply.choices[0].message.content, /^Thank you/);
  assert.equal(reply.usage.completion_tokens, 40);
  assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + 40);
  assert.match(reply._request_id, /^req_/);
  assert.equal(calls.length, 1);
});

test("chat streams without chunks nobody asked for", async () => {
  const { client } = openai();
  const chunks = await each(await client.chat.completions.create({ model: CHAT_MODEL, messages, stream: true }));
  assert.ok(chunks.every((chunk) => chunk.choices.length === 1 && !chunk.usage));
  assert.match(textOf(chunks), /^Thank you for writing in\./);
  assert.equal(chunks.at(-1).choices[0].finish_reason, "stop");
});

test("chat streams usage to whoever asks", async () => {
  const { client } = openai();
  const ask = { model: CHAT_MODEL, messages, stream: true, stream_options: { include_usage: true } };
  const chunks = await each(await client.chat.completions.create(ask));
  assert.deepEqual(chunks.filter((chunk) => chunk.usage).map((chunk) => chunk.usage.completion_tokens), [40]);
  assert.deepEqual(chunks.at(-1).choices, []);
});

test("chat calls tools, streaming and not", async () => {
  const { client } = openai();
  const ask = { model: CHAT_MODEL, messages, tools: [chatTool], tool_choice: "required" };
  const reply = await client.chat.completions.create(ask);
  const [call] = reply.choices[0].message.tool_calls;
  assert.equal(call.function.name, "get_weather");
  assert.deepEqual(JSON.parse(call.function.arguments), trip);
  const final = await client.chat.completions.stream(ask).finalChatCompletion();
  assert.deepEqual(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments), trip);
});

test("chat answers in JSON that fits a schema", async () => {
  const { client } = openai();
  const reply = await client.chat.completions.parse({ model: CHAT_MODEL, messages, response_format: format });
  assert.deepEqual(JSON.parse(reply.choices[0].message.content), trip);
});

test("responses answer, stream, call tools and fit a schema", async () => {
  const { client } = openai();
  const input = "Where is my order? [40 tokens]";
  const reply = await client.responses.create({ model: CHAT_MODEL, input });
  assert.equal(reply.status, "completed");
  assert.match(reply.output_text, /^Thank you/);
  assert.equal(reply.usage.output_tokens, 40);

  const events = await each(await client.responses.create({ model: CHAT_MODEL, input, stream: true }));
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, at) => at));
  assert.equal(events.at(-1).type, "response.completed");
  assert.equal(events.at(-1).response.usage.output_tokens, 40);

  const tools = [{ type: "function", name: "get_weather", parameters: WEATHER, strict: true }];
  const called = await client.responses.create({ model: CHAT_MODEL, input, tools, tool_choice: "required" });
  assert.equal(called.output[0].name, "get_weather");
  assert.deepEqual(JSON.parse(called.output[0].arguments), trip);

  const text = { format: { type: "json_schema", name: "trip", strict: true, schema: WEATHER } };
  const parsed = await client.responses.parse({ model: CHAT_MODEL, input, text });
  assert.deepEqual(JSON.parse(parsed.output_text), trip);
});

test("completions answer and stream", async () => {
  const { client } = openai();
  const reply = await client.completions.create({ model: CHAT_MODEL, prompt: "Once [40 tokens]" });
  assert.equal(reply.usage.completion_tokens, 16);
  const chunks = await each(await client.completions.create({ model: CHAT_MODEL, prompt: "Once", max_tokens: 9, stream: true }));
  assert.equal(chunks.filter((chunk) => chunk.choices[0].text).length, 9);
});

test("embeddings come one per input", async () => {
  const { client } = openai();
  const reply = await client.embeddings.create({ model: EMBEDDING_MODEL, input: ["one", "two"], dimensions: 64 });
  assert.deepEqual(reply.data.map((item) => item.embedding.length), [64, 64]);
  assert.ok(reply.usage.prompt_tokens > 0);
});

test("models are listed", async () => {
  const { client } = openai();
  assert.ok((await each(await client.models.list())).some((model) => model.id === CHAT_MODEL));
  assert.equal((await client.models.retrieve(CHAT_MODEL)).id, CHAT_MODEL);
  await assert.rejects(client.models.retrieve("no-such-model"), OpenAI.NotFoundError);
});

for (const [model, error, code] of [
  ["fault-400", OpenAI.BadRequestError, null],
  ["fault-429-retry-7", OpenAI.RateLimitError, "rate_limit_exceeded"],
  ["fault-429-quota", OpenAI.RateLimitError, "insufficient_quota"],
  ["fault-500", OpenAI.InternalServerError, null],
]) {
  for (const stream of [false, true]) {
    test(`${model} keeps its class, stream: ${stream}`, async () => {
      const { client, calls } = openai({ headers: PLAIN });
      await assert.rejects(client.chat.completions.create({ model, messages, stream }), (raised) => {
        assert.ok(raised instanceof error);
        assert.equal(raised.code, code);
        return true;
      });
      assert.equal(calls.length, 1);
    });
  }
}

test("an error in the middle of a stream is raised after the text", async () => {
  const { client, calls } = openai({ maxRetries: 2, headers: PLAIN });
  const chunks = [];
  const stream = await client.chat.completions.create({ model: "fault-error-event", messages, stream: true });
  await assert.rejects(each(stream, chunks), (raised) => raised instanceof OpenAI.APIError && raised.type === "server_error");
  assert.equal(textOf(chunks), "Thank you for");
  assert.equal(calls.length, 1);
});

test("a cut stream is an error and not a finished one", async () => {
  const { client, calls } = openai({ maxRetries: 2, headers: PLAIN });
  const chunks = [];
  const stream = await client.chat.completions.create({ model: "fault-cut", messages, stream: true });
  // Of a connection that is only cut this SDK would see a normal end.
  await assert.rejects(each(stream, chunks), (raised) => raised instanceof OpenAI.APIError && raised.code === "upstream_broke");
  assert.equal(textOf(chunks), "Thank you for");
  assert.equal(calls.length, 1);
});

test("a used-up account of the provider is not asked again", async () => {
  const { client, calls } = openai({ maxRetries: 2, headers: PLAIN });
  await assert.rejects(client.chat.completions.create({ model: "fault-429-quota", messages }), OpenAI.RateLimitError);
  assert.equal(calls.length, 1);
});
