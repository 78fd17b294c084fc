// The JavaScript of the documents runs as it stands, against the gateway under test.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { URL as GATEWAY } from "./support.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
const docs = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md"));
const documents = ["README.md", ...docs.map((name) => join("docs", name))];
const snippets = documents.flatMap((name) =>
  [...readFileSync(join(root, name), "utf8").matchAll(/^```js\n(.*?)^```$/gms)].map(([, text], index) => ({ name: `${name} ${index + 1}`, text })),
);

test("the README shows both SDKs", () => {
  for (const sdk of ["openai", "@anthropic-ai/sdk"]) assert.ok(snippets.some(({ text }) => text.includes(`from "${sdk}"`)), sdk);
});

for (const { name, text } of snippets) {
  test(`${name} prints an answer`, async () => {
    assert.ok(text.includes("http://127.0.0.1:8080"));
    const program = text.replaceAll("http://127.0.0.1:8080", GATEWAY);
    // A process of its own, in this directory, so that the imports find the SDKs.
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program], { cwd: here });
    assert.match(stdout, /order/);
  });
}
