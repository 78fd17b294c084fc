// What operators do, in a real browser: every form, right and wrong, with scripts and without, with a mouse and with nothing but a keyboard.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { EVIL, TOKEN, WIDE, operator, world } from "./support.mjs";

let w;
before(async () => { w = await world(); });
after(async () => { await w?.stop(); });

const WITHOUT = { ...WIDE, javaScriptEnabled: false };
const ticketOf = (page) => new URL(page.url()).pathname.split("/").pop();

for (const [how, options] of [["with scripts", WIDE], ["without scripts", WITHOUT]]) {
  test(`a wrong token lets nobody in, the right one does, and logging out is out: ${how}`, async () => {
    const context = await w.browser.newContext(options);
    const page = await context.newPage();
    await page.goto(`${w.base}/console/desk?queue=billing`);
    await page.getByLabel("Your name").fill("ann");
    await page.getByLabel("Admin token").fill("not the token");
    await page.getByRole("button", { name: "Log in" }).click();
    assert.match(await page.getByRole("alert").innerText(), /This is not the admin token/);
    assert.equal(await page.getByLabel("Your name").inputValue(), "ann");
    assert.equal(await page.getByLabel("Admin token").inputValue(), "");
    await page.getByLabel("Admin token").fill(TOKEN);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("heading", { level: 1, name: "Desk" }).waitFor();
    assert.equal(new URL(page.url()).search, "?queue=billing", "where they wanted to go");
    const [cookie] = await context.cookies(`${w.base}/console`);
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/console"]);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "Tollgate console" }).waitFor();
    await page.goto(`${w.base}/console`);
    assert.match(page.url(), /\/console\/login/);
    await context.close();
  });

  test(`ten steps at the desk: ${how}`, async () => {
    const ann = await operator(w, "ann", options);
    const { ticket } = await w.ask("handed", "Where is my order?", { headers: { "x-request-class": "billing" } });
    await ann.go("/console/desk");
    await ann.page.getByLabel("Queue").first().selectOption("billing");
    await ann.page.getByRole("button", { name: "Claim the next ticket" }).click();
    assert.equal(ticketOf(ann.page), ticket);
    await ann.page.getByText("The ticket is yours for now.").waitFor();
    assert.equal(await ann.page.getByRole("region", { name: "Conversation" }).innerText(), "user: Where is my order?");

    const bob = await operator(w, "bob", options);
    await bob.go(`/console/desk/${ticket}`);
    await bob.page.getByText("Somebody else works on it.").waitFor();
    assert.equal(await bob.page.getByLabel("What the customer is told").count(), 0);
    await ann.page.getByRole("button", { name: "Hand back" }).click();
    await ann.page.getByText("Handed back; it has kept its place in the queue.").waitFor();
    await bob.page.reload();
    await bob.page.getByRole("button", { name: "Claim" }).click();
    await bob.page.getByText("The ticket is yours for now.").waitFor();
    // Ann's page still offers the answer; what she typed is not lost when it is refused.
    await ann.page.getByLabel("What the customer is told").fill("Too <late>");
    await ann.page.getByRole("button", { name: "Send the answer" }).click();
    assert.match(await ann.page.getByRole("alert").innerText(), /bob has claimed the ticket until/);
    ann.forgive();
    await ann.close();
    await bob.page.getByRole("button", { name: "Ask again" }).click();
    await bob.page.getByRole("cell", { name: "402 spend_cap_exceeded" }).waitFor();
    await bob.page.getByLabel("What the customer is told").fill(`It left <b>this</b> morning.\n${EVIL}`);
    await bob.page.getByRole("button", { name: "Send the answer" }).click();
    await bob.page.getByText("Answered.").waitFor();
    assert.equal(await bob.page.getByRole("region", { name: "The answer" }).innerText(), `It left <b>this</b> morning.\n${EVIL}`);
    const told = await w.api(`/admin/triage/${ticket}`);
    assert.deepEqual([told.status, told.answer.agent, told.answer.text], ["answered", "bob", `It left <b>this</b> morning.\n${EVIL}`]);

    const other = await w.ask("handed", "And this one?", { headers: { "x-request-class": "billing" } });
    await bob.go(`/console/desk?customer=handed&state=open`);
    await bob.page.getByRole("link", { name: other.ticket.slice(0, 11) }).click();
    await bob.page.getByText("End without an answer").click();
    await bob.page.getByRole("button", { name: "End the ticket" }).click();
    await bob.page.getByText("Ended without an answer.", { exact: true }).waitFor();
    assert.equal((await w.api(`/admin/triage/${other.ticket}`)).status, "expired");
    await bob.close();
  });

  test(`a level is pinned and let go: ${how}`, async () => {
    const ann = await operator(w, "ann", options);
    await ann.go("/console/levels");
    const pool = ann.page.getByRole("region", { name: /^big/ });
    await pool.getByLabel("Level").selectOption("3");
    await pool.getByLabel(/^For/).fill("three weeks");
    await pool.getByRole("button", { name: "Pin big" }).click();
    assert.match(await ann.page.getByRole("alert").innerText(), /The time is a duration such as/);
    assert.equal(await pool.getByLabel("Level").inputValue(), "3", "what was chosen is kept");
    ann.forgive();
    await pool.getByLabel(/^For/).fill("15m");
    await pool.getByRole("button", { name: "Pin big" }).click();
    await ann.page.getByText("Pinned, on every gateway.").waitFor();
    await pool.getByText("Pinned to 3 by ann").waitFor();
    await pool.getByRole("button", { name: "Let the gauge decide big" }).click();
    await ann.page.getByText("The gauge decides again.").waitFor();
    const { changes } = await w.api("/admin/levels/history?pool=big&limit=2");
    assert.deepEqual(changes.map(({ why, from, to, by }) => [why, from, to, by]), [["unpinned", 3, 0, "ann"], ["pinned", 0, 3, "ann"]]);
    await ann.page.getByRole("link", { name: "30 days" }).click();
    await ann.page.getByText("Changes in the last 30 days").waitFor();
    await ann.close();
  });
}

test("the whole desk is worked with a keyboard alone", async () => {
  const { ticket } = await w.ask("handed", "Is anybody there?");
  const ann = await operator(w, "ann");
  const { page } = ann;
  await ann.go("/console");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");

  // Goes on with Tab until this has the focus, which then has to be visible.
  const reach = async (wanted) => {
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press("Tab");
      const [label, outline] = await page.evaluate(() => {
        const { activeElement: at } = document;
        return [at.labels?.[0]?.textContent ?? at.textContent, getComputedStyle(at).outlineStyle];
      });
      if (label.trim() !== wanted) continue;
      assert.equal(outline, "solid", `${wanted} shows that it has the focus`);
      return;
    }
    assert.fail(`${wanted} cannot be reached`);
  };
  await page.reload();
  await reach("Desk");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Desk" }).waitFor();
  await reach("Queue");
  await page.keyboard.type("general");
  await reach("Claim the next ticket");
  await page.keyboard.press("Enter");
  await page.getByText("The ticket is yours for now.").waitFor();
  assert.equal(ticketOf(page), ticket);
  await reach("What the customer is told");
  await page.keyboard.type("Yes, I am.");
  await reach("Send the answer");
  await page.keyboard.press("Space");
  await page.getByText("Answered.").waitFor();
  assert.equal((await w.api(`/admin/triage/${ticket}`)).answer.text, "Yes, I am.");
  await ann.close();
});

test("a request is looked up by its id, and leads to its customer and its ticket", async () => {
  const { ticket, id } = await w.ask("handed", "Where is it?");
  await w.kept(id);
  const ann = await operator(w, "ann");
  const { page } = ann;
  await ann.go("/console");
  await page.getByLabel("Id of a request").fill("tg_nothing");
  await page.getByRole("button", { name: "Look it up" }).click();
  assert.match(await page.getByRole("alert").innerText(), /Nothing is kept of such a request/);
  assert.equal(await page.getByLabel("Id of a request").inputValue(), "tg_nothing", "what was typed is kept");
  ann.forgive(); // the 404 is told on the console
  await page.getByLabel("Id of a request").fill(` ${id} `);
  await page.getByRole("button", { name: "Look it up" }).press("Enter");
  const record = await w.api(`/admin/requests/${id}`);
  for (const [name, value] of Object.entries(record)) {
    const row = page.getByRole("row").filter({ has: page.getByRole("rowheader", { name, exact: true }) });
    assert.equal(await row.getByRole("cell").innerText(), String(value), name);
  }
  await page.getByRole("link", { name: ticket }).click();
  await page.getByRole("heading", { name: "Ticket of handed" }).waitFor();
  await page.getByRole("link", { name: id }).click();
  await page.getByRole("heading", { level: 1, name: "Request" }).waitFor();
  await page.getByRole("link", { name: "handed", exact: true }).click();
  await page.getByRole("heading", { name: "Customer handed" }).waitFor();
  await ann.go(`/console/desk/${ticket}`);
  await page.getByRole("link", { name: "handed", exact: true }).click();
  await page.getByRole("heading", { name: "Customer handed" }).waitFor();
  await ann.close();
});

test("nothing that somebody else wrote is ever markup", async () => {
  const image = `"><img/src=x/onerror=pwned=1>'`;
  const { ticket } = await w.ask(EVIL, `${image}</pre>${EVIL}<style>*{display:none}</style>`, {
    headers: { "x-request-class": image, "x-conversation-id": image, "x-user-id": image },
  });
  await w.ask("handed", "x", { model: `gpt-4o-mini-${EVIL}` });
  await w.ask(image, "x", { model: image });
  const ann = await operator(w, "ann");
  for (const path of ["/console", "/console/levels", "/console/desk", `/console/desk?customer=${encodeURIComponent(image)}`, `/console/desk/${ticket}`]) {
    await ann.go(path);
    assert.equal(await ann.page.evaluate(() => globalThis.pwned), undefined, path);
    assert.equal(await ann.page.locator("main script, main style, main img").count(), 0, path);
    assert.ok(await ann.page.getByRole("heading", { level: 1 }).isVisible(), path);
  }
  assert.equal(await ann.page.getByRole("heading", { level: 1 }).innerText(), `Ticket of ${EVIL}`);
  assert.equal(await ann.page.getByRole("region", { name: "Conversation" }).innerText(), `user: ${image}</pre>${EVIL}<style>*{display:none}</style>`);
  await ann.close();
});

test("pages elsewhere cannot send forms, not even from another port of this machine", async () => {
  const { ticket } = await w.ask("handed", "Whose is it?");
  const ann = await operator(w, "ann");
  const proof = await ann.page.locator("input[name=csrf]").first().inputValue();
  const action = `${w.base}/console/desk/${ticket}/claim`;
  const html = (token) => `<form method=post action="${action}"><input name=csrf value="${token}"></form><script>document.forms[0].submit()</script>`;
  // The second knows the proof, as if it had leaked.
  const server = createServer((request, reply) => reply.setHeader("content-type", "text/html").end(html(request.url === "/leaked" ? proof : "")));
  const link = createServer((_, reply) => reply.setHeader("content-type", "text/html").end(`<a href="${w.base}/console/desk/${ticket}">ticket</a>`));
  await new Promise((resolve) => link.listen(0, "127.0.0.1", resolve));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  for (const host of ["127.0.0.1", "localhost"]) {
    for (const path of ["/", "/leaked"]) {
      const page = await ann.context.newPage();
      await page.goto(`http://${host}:${server.address().port}${path}`);
      await page.waitForURL(action);
      assert.equal((await w.api(`/admin/triage/${ticket}`)).status, "open", `${host}${path}`);
      await page.close();
    }
  }
  // A link is no form: it leads in, logged in, although the cookie is only for our own pages.
  const page = await ann.context.newPage();
  await page.goto(`http://localhost:${link.address().port}`);
  await page.getByRole("link").click();
  await page.getByRole("heading", { name: "Ticket of handed" }).waitFor();
  server.close();
  link.close();
  await ann.close();
});

test("what changes is renewed by itself, and not while somebody says no", async () => {
  const ann = await operator(w, "ann");
  const { page } = ann;
  await ann.go("/console");
  await page.evaluate(() => { globalThis.stayed = true; });
  await w.api("/admin/levels/mini", "PUT", { level: 2, for: "5m", by: "bob" });
  await page.getByRole("status").filter({ hasText: "mini is at level 2" }).waitFor({ timeout: 20_000 });
  assert.equal(await page.evaluate(() => globalThis.stayed), true, "without loading the page again");
  await page.getByRole("button", { name: "Stop renewing" }).click();
  await page.getByText("Paused.").waitFor();
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await w.api("/admin/levels/mini", "DELETE");
  await page.waitForTimeout(6_000); // longer than the page waits between two looks
  assert.deepEqual(asked, []);
  await page.getByRole("button", { name: "Renew this page by itself" }).click();
  await page.getByRole("status").filter({ hasText: "Nothing is being given up" }).waitFor({ timeout: 20_000 });
  await ann.close();
});
