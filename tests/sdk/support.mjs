// What the Node tests share: clients that count their HTTP calls, each for a customer of its own.
//
// TOLLGATE_URL names the gateway (`http://127.0.0.1:8080`). With TOLLGATE_STAND_IN=1 it may name the stand-in provider instead
// (`cargo run --example provider`); the tests of refusals, which only a gateway can give, are then skipped. TOLLGATE_KEYS_URL names a
// second gateway, with the configuration gateway.toml.

import { randomUUID } from "node:crypto";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const env = process.env;

export const URL = (env.TOLLGATE_URL ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
export const KEYS_URL = (env.TOLLGATE_KEYS_URL ?? "").replace(/\/+$/, "");
export const STAND_IN = env.TOLLGATE_STAND_IN === "1";

export const CHAT_MODEL = env.TOLLGATE_DEMO_CHAT_MODEL ?? "gpt-4o-mini";
export const DEAR_MODEL = env.TOLLGATE_DEMO_DEAR_MODEL ?? "gpt-4o";
export const CLAUDE_MODEL = env.TOLLGATE_DEMO_CLAUDE_MODEL ?? "claude-haiku-4-5";
export const EMBEDDING_MODEL = env.TOLLGATE_DEMO_EMBEDDING_MODEL ?? "text-embedding-3-small";

// Keys of gateway.toml.
export const APP_KEY = env.APP_KEY ?? "app-key";
export const NARROW_KEY = env.NARROW_KEY ?? "narrow-key";
export const BROKE_KEY = env.BROKE_KEY ?? "broke-key";

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
export const openai = (options) => client(OpenAI, `${options?.url ?? URL}/v1`, options);

/** An Anthropic client, its base URL without `/v1`, and the list of HTTP calls it makes. */
export const anthropic = (options) => client(Anthropic, options?.url ?? URL, options);

/** All items of a stream; `into` receives them one by one, so they survive an exception. */
export async function each(stream, into = []) {
  for await (const item of stream) into.push(item);
  return into;
}

/** Runs `body` with the SDKs' pauses between attempts noted and skipped; shorter and longer timers run as they are. */
export async function withoutPauses(body) {
  const real = globalThis.setTimeout;
  const pauses = [];
  globalThis.setTimeout = (run, delay, ...rest) => {
    // The request timeout of these clients is 30 s sharp; pauses are jittered or whole seconds above 0.3 s.
    const pause = delay > 300 && delay <= 120_000 && delay !== 30_000;
    if (pause) pauses.push(delay / 1_000);
    return real(run, pause ? 0 : delay, ...rest);
  };
  try {
    await body(pauses);
  } finally {
    globalThis.setTimeout = real;
  }
}
