// The gateway and the SDK both try again: their attempts must not multiply. Witness is the gateway's own count of calls to the provider.

import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { PLAIN, STAND_IN, URL, anthropic, openai } from "./support.mjs";

const skip = STAND_IN && "only a gateway tries again";
const messages = [{ role: "user", content: "Where is my order? [40 tokens]" }];

/** Calls to the provider for this result so far. */
async function providerCalls(result) {
  const text = await (await fetch(`${URL}/metrics`)).text();
  const lines = text.split("\n").filter((line) => line.startsWith("tollgate_upstream_calls_total{") && line.includes(`result="${result}"`));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

const sdks = {
  openai: (model, stream) => {
    const { client, calls } = openai({ maxRetries: 2, headers: PLAIN });
    return { ask: () => client.chat.completions.create({ model, messages, stream }), calls, error: OpenAI.InternalServerError };
  },
  anthropic: (model, stream) => {
    const { client, calls } = anthropic({ maxRetries: 2, headers: PLAIN });
    return { ask: () => client.messages.create({ model, max_tokens: 64, messages, stream }), calls, error: Anthropic.InternalServerError };
  },
};

for (const [kind, make] of Object.entries(sdks)) {
  for (const [model, result, status] of [["fault-503", "server_error", 503], ["fault-close", "broken", 502]]) {
    for (const stream of [false, true]) {
      test(`three attempts are three and not nine: ${kind}, ${model}, stream: ${stream}`, { skip }, async () => {
        const before = await providerCalls(result);
        const { ask, calls, error } = make(model, stream);
        await assert.rejects(ask(), (raised) => {
          assert.ok(raised instanceof error, raised.constructor.name);
          assert.equal(raised.status, status);
          assert.equal(raised.headers.get("x-should-retry"), "false");
          return true;
        });
        assert.equal(calls.length, 1);
        // Other files run beside this one and make calls of their own, so there may be more of them; never three for each of the SDK's.
        const made = (await providerCalls(result)) - before;
        assert.ok(made >= 3, `${made}`);
      });
    }
  }
}
