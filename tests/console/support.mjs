// What the tests of the console share: a gateway with its stand-in provider, a Chromium, and operators in it.
//
// TOLLGATE_BIN names the program (target/debug/tollgate), CHROMIUM the browser (chromium). With TOLLGATE_SHOTS=DIRECTORY every page is
// photographed there: wide, dark, and on a phone.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const HERE = dirname(fileURLToPath(import.meta.url));
const BIN = process.env.TOLLGATE_BIN ?? join(HERE, "../../target/debug/tollgate");
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];

export const TOKEN = "an-admin-token-for-the-browser";
export const APP_KEY = "key-of-the-app-under-test";
export const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
export const SHOTS = process.env.TOLLGATE_SHOTS;
export const EVIL = "<script>pwned=1</script>";
export const WIDE = { viewport: { width: 1280, height: 800 } };
export const DARK = { ...WIDE, colorScheme: "dark" };
export const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true };

/** The first thing that an expression finds in what a program says. */
function said(child, stream, expression) {
  return new Promise((resolve, reject) => {
    let text = "";
    child[stream].on("data", (piece) => {
      text += piece;
      const found = expression.exec(text);
      if (found) resolve(found);
    });
    child.once("exit", () => reject(new Error(`it did not start:\n${text}`)));
  });
}

/** A gateway, the provider behind it, and a browser. `stop` ends what was started, and nothing else. */
export async function world() {
  const started = [];
  const scratch = mkdtempSync(join(tmpdir(), "tollgate-console-"));
  const run = (args, env) => {
    const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TOLLGATE_")));
    const child = spawn(BIN, args, { env: { ...clean, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    started.push(child);
    child.stdout.resume();
    child.stderr.resume();
    return child;
  };
  const demo = run(["demo", "--listen", "127.0.0.1:0", "--print-url", "--log", "off"], {});
  const [, provider] = await said(demo, "stdout", /^provider (http:\S+)/m);
  const serve = run(["serve", "--config", join(HERE, "gateway.toml")], {
    ADMIN_TOKEN: TOKEN,
    APP_KEY,
    PROVIDER_KEY: "sk-demo",
    TOLLGATE_STORE__PATH: join(scratch, "data"),
    TOLLGATE_UPSTREAMS__OPENAI__BASE_URL: provider,
  });
  const [, gateway, admin] = await said(serve, "stderr", /"address":"([^"]+)","admin":"([^"]+)"/);
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS });
  const base = `http://${admin}`;
  return {
    base,
    gateway: `http://${gateway}`,
    browser,
    /** Ends everything; the gateway has to be there still, and to end in order. */
    async stop() {
      await browser.close();
      const alive = serve.exitCode === null;
      for (const child of started) {
        if (child.exitCode !== null) continue;
        child.kill("SIGTERM");
        await once(child, "exit");
      }
      rmSync(scratch, { recursive: true, force: true });
      if (!alive || serve.exitCode !== 0) throw new Error(`the gateway ended by itself, or with ${serve.exitCode}`);
    },
    /** What the API of the operators says. */
    async api(path, method = "GET", body) {
      const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
      const reply = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
      return reply.json();
    },
    /** Waits until a request's record can be read, which is written behind its answer. */
    async kept(id) {
      for (let tries = 0; tries < 500; tries++) {
        if (!(await this.api(`/admin/requests/${id}`)).error) return;
      }
      assert.fail(`nothing is kept of ${id}`);
    },
    /** A request of a customer; its ticket, if a person takes over, once that is written. */
    async ask(customer, question, more = {}) {
      const { model = "gpt-4o-mini", headers = {} } = more;
      const reply = await fetch(`http://${gateway}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${APP_KEY}`, "content-type": "application/json", "x-customer-id": customer, ...headers },
        body: JSON.stringify({ model, messages: [{ role: "user", content: question }] }),
      });
      await reply.text();
      const ticket = reply.headers.get("x-tollgate-ticket");
      for (let tries = 0; ticket && tries < 500; tries++) {
        if (!(await this.api(`/admin/triage/${ticket}`)).error) break;
      }
      return { status: reply.status, ticket, id: reply.headers.get("x-tollgate-request-id") };
    },
  };
}

/** Nothing is cut off: no table is wider than its place, times stand on two lines at most, and of charts the newest is in sight. */
export async function fits(page, where) {
  const found = await page.evaluate(() => {
    for (const one of document.querySelectorAll("details")) one.open = true;
    const cut = [];
    const text = (one) => (one.getAttribute("aria-label") ?? one.textContent).trim().slice(0, 60);
    for (const one of document.querySelectorAll(".scroll, .scroll td, .scroll th, .scroll caption, .chart")) {
      const head = one.closest("thead");
      if (head && getComputedStyle(head).position === "absolute") continue; // it stands before each cell instead
      if (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline") cut.push(`${one.tagName} ${text(one)}: ${one.scrollWidth} > ${one.clientWidth}`);
    }
    for (const one of document.querySelectorAll("time")) {
      const lines = new Set([...one.getClientRects()].map(({ top }) => Math.round(top))).size;
      const days = [...one.querySelectorAll("span")].every((day) => day.getClientRects().length < 2);
      if (lines > 2 || !days) cut.push(`${text(one)} on ${lines} lines`);
    }
    for (const chart of document.querySelectorAll(".chart")) {
      const drawn = [...chart.querySelectorAll("svg[role=img]")].filter((svg) => svg.getClientRects().length);
      if (!drawn.length) cut.push(`${text(chart)} is not drawn`);
      for (const words of drawn.flatMap((svg) => [...svg.querySelectorAll("text")])) {
        const { left, right, height } = words.getBoundingClientRect();
        if (left < 0 || right > innerWidth) cut.push(`${words.textContent.trim()}, of ${text(chart)}, is out of sight`);
        if (height < 8) cut.push(`${words.textContent.trim()}, of ${text(chart)}, is ${height} pixels high`);
      }
    }
    return cut;
  });
  assert.deepEqual(found, [], where);
}

/**
 * A page of an operator who has logged in through the form. What a page must never do is noted and checked by `quiet`: errors, refused
 * content, dialogs, requests to anywhere else.
 */
export async function operator(world, name, options = WIDE) {
  const context = await world.browser.newContext(options);
  const page = await context.newPage();
  const noise = [];
  page.on("pageerror", (error) => noise.push(`error: ${error}`));
  page.on("console", (message) => message.type() === "error" && noise.push(`console: ${message.text()}`));
  page.on("dialog", (dialog) => { noise.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => request.url().startsWith(world.base) || noise.push(`elsewhere: ${request.url()}`));
  await page.goto(`${world.base}/console`);
  await page.getByLabel("Your name").fill(name);
  await page.getByLabel("Admin token").fill(TOKEN);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  return {
    page,
    context,
    go: (path) => page.goto(world.base + path),
    /** Answers 4xx are told on the browser's console; those that a test asks for are no noise. */
    forgive: () => noise.splice(0),
    async close() {
      await context.close();
      if (noise.length) throw new Error(`a page was not quiet:\n${noise.join("\n")}`);
    },
  };
}
