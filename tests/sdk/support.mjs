// What the Node tests share: clients that count their HTTP calls, each for a customer of its own.
//
// TOLLGATE_URL names the gateway (`http://127.0.0.1:8080`). With TOLLGATE_STAND_IN=1 it may name the stand-in provider instead
// (`cargo run --example provider`); the tests of refusals, which only a gateway can give, are then skipped.

import { randomUUID } from "node:crypto";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const env = process.env;

export const URL = (env.TOLLGATE_URL ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
export const STAND_IN = env.TOLLGATE_STAND_IN === "1";

export const CHAT_MODEL = env.TOLLGATE_DEMO_CHAT_MODEL ?? "gpt-4o-mini";
export const DEAR_MODEL = env.TOLLGATE_DEMO_DEAR_MODEL ?? "gpt-4o";
export const CLAUDE_MODEL = env.TOLLGATE_DEMO_CLAUDE_MODEL ?? "claude-haiku-4-5";
export const EMBEDDING_MODEL = env.TOLLGATE_DEMO_EMBEDDING_MODEL ?? "text-embedding-3-small";

// Customers of the demo, each on the plan of the same name.
export const MESSAGES = env.TOLLGATE_DEMO_MESSAGES ?? "demo-messages";
export const DOLLARS = env.TOLLGATE_DEMO_DOLLARS ?? "demo-dollars";
export const QUOTA = env.TOLLGATE_DEMO_QUOTA ?? "demo-quota";
export const TPM = env.TOLLGATE_DEMO_TPM ?? "demo-tpm";

// Plain errors of the provider: background work is never handed over to a person, whatever the plan says.
export const PLAIN = { "X-Priority": "background" };

export const WEATHER = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
  additionalProperties: false,
};

function client(Sdk, baseURL, { customer, maxRetries = 0, key = "sk-demo", headers = {} } = {}) {
  const calls = [];
  const made = new Sdk({
    apiKey: key,
    baseURL,
    maxRetries,
    timeout: 30_000,
    defaultHeaders: { "X-Customer-Id": customer ?? `sdk-${randomUUID()}`, ...headers },
    fetch: (...args) => {
      calls.push(args[0]);
      return fetch(...args);
    },
  });
  return { client: made, calls };
}

/** An OpenAI client and the list of HTTP calls it makes. */
export const openai = (options) => client(OpenAI, `${URL}/v1`, options);

/** An Anthropic client and the list of HTTP calls it makes. */
export const anthropic = (options) => client(Anthropic, URL, options);

/** All items of a stream; `into` receives them one by one, so they survive an exception. */
export async function each(stream, into = []) {
  for await (const item of stream) into.push(item);
  return into;
}
