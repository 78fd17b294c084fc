// The lab and the settings in a real browser, with scripts and without.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AXE, APP_KEY, DARK, PHONE, SHOTS, TOKEN, WIDE, fits, operator, world } from "./support.mjs";

let w;
before(async () => { w = await world(); });
after(async () => { await w?.stop(); });

const INCIDENT = "/console/lab?preset=twenty-at-once";
const TRIED = "/console/lab?tier=&messages=60&burst=10&rpm=120&tpm=100000&account_rpm=500&account_tpm=400000&rate=120&shape=burst&input=1500&output=500&minutes=10";
const WRONG = "/console/lab?tier=&rpm=many&rate=50000&minutes=60";

for (const [how, options] of [["with scripts", WIDE], ["without scripts", { ...WIDE, javaScriptEnabled: false }]]) {
  test(`a tier is tried, put right and tried again: ${how}`, async () => {
    const ann = await operator(w, "ann", options);
    const { page } = ann;
    await page.getByRole("link", { name: "Lab" }).click();
    await page.getByLabel("Messages a minute").fill("60");
    await page.getByLabel("Messages at once").fill("ten");
    await page.getByLabel("Requests sent a minute").fill("120");
    await page.getByLabel("Minutes").fill("5");
    await page.getByRole("button", { name: "Play it" }).click();
    assert.match(await page.getByRole("alert").innerText(), /Messages at once: a whole number from 1 to/);
    assert.equal(await page.getByLabel("Messages at once").inputValue(), "ten", "what was typed is kept");
    assert.equal(await page.getByLabel("Messages at once").getAttribute("aria-invalid"), "true");
    assert.equal(await page.getByLabel("Requests sent a minute").inputValue(), "120");
    ann.forgive(); // the 400 is told on the console
    await page.getByLabel("Messages at once").fill("10");
    await page.getByLabel("Requests a minute (rpm)").first().fill("");
    await page.getByLabel("Tokens a minute (tpm)").first().fill("");
    await page.getByLabel("Account's tokens a minute").fill("");
    await page.getByRole("button", { name: "Play it" }).press("Enter");
    const result = page.getByRole("region", { name: "Result", exact: true });
    await result.waitFor();
    assert.match(await result.innerText(), /309 of 600 served, 0 degraded, 291 refused\. What binds: customer messages, which stopped 291 first\./);
    const drawing = page.getByRole("img", { name: /Buckets/ });
    assert.ok((await drawing.boundingBox()).height > 300, "it is drawn");
    await ann.close();
  });

  test(`an incident shows its table and its picture: ${how}`, async () => {
    const ann = await operator(w, "ann", options);
    await ann.go("/console/lab");
    await ann.page.getByRole("link", { name: "Twenty at once" }).click();
    const row = ann.page.getByRole("row", { name: /cust_42 spent today/ });
    assert.match(await row.innerText(), /\$4\.90 -> \$9\.00 of \$5\.00\s+\$4\.90 -> \$5\.00 of \$5\.00/);
    await ann.page.getByRole("img", { name: "Twenty at once" }).waitFor();
    await ann.close();
  });

  test(`the settings say from where they come, and no secret: ${how}`, async () => {
    const ann = await operator(w, "ann", options);
    await ann.page.getByRole("link", { name: "Settings" }).click();
    const text = await ann.page.getByRole("main").innerText();
    assert.match(text, /pools\.big\.ceiling\.rpm\s+100\s+file .*gateway\.toml, line \d+/);
    assert.match(text, /environment, TOLLGATE_STORE__PATH/);
    assert.match(text, /concurrency\.slots\s+32\s+default/);
    const html = await ann.page.content();
    for (const secret of [TOKEN, APP_KEY, "sk-demo"]) assert.ok(!html.includes(secret), "no secret");
    await ann.close();
  });
}

for (const [look, options] of [["wide", WIDE], ["dark", DARK], ["phone", PHONE]]) {
  test(`lab and settings are sound for everybody: ${look}`, async () => {
    const ann = await operator(w, "ann", options);
    // axe is put in from outside, which the content policy rightly refuses: it looks with a browser that does not mind.
    const other = await w.browser.newContext({ ...options, bypassCSP: true, storageState: await ann.context.storageState() });
    const page = await other.newPage();
    for (const [name, path] of Object.entries({ lab: "/console/lab", tried: TRIED, wrong: WRONG, incident: INCIDENT, sweep: "/console/lab?preset=which-limit-binds", settings: "/console/settings" })) {
      await ann.go(path);
      await page.goto(w.base + path);
      await page.addScriptTag({ path: AXE });
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      const found = violations.flatMap(({ id, impact, nodes }) => nodes.map((node) => `${impact} ${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
      assert.deepEqual(found, [], `${name}, ${look}`);
      const [wide, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= width, `${name}, ${look}: ${wide} pixels wide on ${width}`);
      await fits(page, `${name}, ${look}`);
      if (SHOTS) await page.screenshot({ path: `${SHOTS}/${look}-lab-${name}.png`, fullPage: true });
    }
    ann.forgive();
    await other.close();
    await ann.close();
  });
}
