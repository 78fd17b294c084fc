// Every page as people see it, or hear it: no serious finding of axe, nothing wider than a phone, nothing that the content policy refuses.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AXE, DARK, PHONE, SHOTS, WIDE, fits, operator, world } from "./support.mjs";

let w;
let pages;
before(async () => {
  w = await world();
  const long = "My order 4711 should have been here on Friday. The page says it is on its way, and nobody answers the phone. ".repeat(6);
  const { ticket } = await w.ask("handed", long, { headers: { "x-request-class": "billing", "x-user-id": "maria", "x-conversation-id": "c-17" } });
  await w.api(`/admin/triage/${ticket}/claim`, "POST", { agent: "ann" });
  const { ticket: answered } = await w.ask("handed", "Where are you?");
  await w.api(`/admin/triage/${answered}/answer`, "POST", { agent: "ann", text: "In the back room." });
  for (let n = 0; n < 4; n++) await w.ask("handed", `Question ${n}`);
  for (let n = 0; n < 12; n++) await w.ask(n % 3 ? "acme" : "small", "hi");
  await w.ask(`long-${"0123456789".repeat(50)}`, "hi");
  const { id } = await w.ask("acme", "hi");
  await w.kept(id);
  await w.api("/admin/levels/big", "PUT", { level: 1, for: "2h", by: "ann" });
  await w.api("/admin/levels/big", "PUT", { level: 3, for: "1h", by: "bob" });
  pages = {
    overview: "/console",
    levels: "/console/levels",
    customers: "/console/customers",
    "customers-by-id": "/console/customers?sort=id",
    customer: "/console/customers/small",
    request: `/console/requests?id=${id}`,
    keys: "/console/keys",
    desk: "/console/desk",
    "desk-answered": "/console/desk?state=answered",
    ticket: `/console/desk/${ticket}`,
    "ticket-answered": `/console/desk/${answered}`,
  };
});
after(async () => { await w?.stop(); });

for (const [look, options] of [["wide", WIDE], ["dark", DARK], ["phone", PHONE]]) {
  test(`every page is sound for everybody: ${look}`, async () => {
    const strangers = await w.browser.newContext({ ...options, bypassCSP: true });
    const login = await strangers.newPage();
    await login.goto(`${w.base}/console/login`);
    await sound(login, "login", look);
    await strangers.close();
    const ann = await operator(w, "ann", options);
    // axe is put in from outside, which the content policy rightly refuses: it looks with a browser that does not mind.
    const other = await w.browser.newContext({ ...options, bypassCSP: true, storageState: await ann.context.storageState() });
    const page = await other.newPage();
    for (const [name, path] of Object.entries(pages)) {
      await ann.go(path);
      await page.goto(w.base + path);
      await sound(page, name, look);
    }
    await other.close();
    await ann.close();
  });
}

async function sound(page, name, look) {
  const where = `${name}, ${look}`;
  await page.addScriptTag({ path: AXE });
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const found = violations.flatMap(({ id, impact, nodes }) => nodes.map((node) => `${impact} ${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
  assert.deepEqual(found, [], where);
  const [wide, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= width, `${where}: ${wide} pixels wide on ${width}`);
  const unnamed = await page.locator("input:not([type=hidden]), select, textarea").evaluateAll((all) => all.filter((one) => !one.labels?.length).map((one) => one.outerHTML));
  assert.deepEqual(unnamed, [], `${where}: fields without a label`);
  assert.equal(await page.locator("main").count(), 1, where);
  assert.equal(await page.locator("table:not(:has(caption)), th:not([scope])").count(), 0, `${where}: tables without a caption or a scope`);
  await fits(page, where);
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/${look}-${name}.png`, fullPage: true });
}

test("a chart of a customer's days shows today on a phone", async () => {
  const ann = await operator(w, "ann", PHONE);
  await ann.go("/console/customers/small");
  const today = new Date().toISOString().slice(5, 10);
  for (const name of ["Money by day", "Requests by day"]) {
    const label = ann.page.getByRole("img", { name }).getByText(today, { exact: true });
    const { x, width } = await label.boundingBox();
    assert.ok(x > 0 && x + width <= PHONE.viewport.width, `${name}: ${x}`);
  }
  await ann.close();
});
