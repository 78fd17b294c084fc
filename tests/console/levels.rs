//! The levels: seen, pinned, let go, and what became of them; in the console and over the API.

use crate::bed::CONFIG;
use crate::browser::{MORE, TOKEN, World, admin};
use serde_json::Value;
use std::time::Duration;

async fn api(world: &World, path: &str) -> (u16, Value) {
    let request = world.bed().client.get(format!("{}{path}", admin(world.bed()))).bearer_auth(TOKEN);
    let reply = request.send().await.expect("an answer");
    let status = reply.status().as_u16();
    (status, serde_json::from_slice(&reply.bytes().await.expect("a body")).expect("JSON"))
}

#[tokio::test]
async fn an_operator_pins_a_pool_lets_it_go_and_reads_what_became_of_it() {
    let world = World::of(2, &format!("{CONFIG}\n{MORE}")).await;
    let mut ann = world.operator("ann <b>").await;
    let page = ann.get("/console/levels").await;
    assert!(page.has("No level changed.") && page.has("<svg role=\"img\""), "{}", page.text);
    for (level, lasts, words) in [
        ("4", "1h", "The level is a number from 0 to 3."),
        ("", "1h", "The level is a number from 0 to 3."),
        ("two", "1h", "The level is a number from 0 to 3."),
        ("2", "", "The time is a duration such as"),
        ("2", "<b>", "The time is a duration such as"),
        ("2", "8days", "at most 7 days"),
    ] {
        let wrong = ann.send(&page, "/console/levels/big/pin", &[("level", level), ("for", lasts)]).await;
        assert_eq!(wrong.status, 400, "{level} {lasts}");
        assert!(wrong.has(words) && wrong.has("aria-invalid=\"true\"") && !wrong.has("value=\"<b>"), "{}", wrong.text);
        assert!(world.bed().gateway.levels.pinned().is_empty());
    }
    let nope = ann.send(&page, "/console/levels/nope/pin", &[("level", "2"), ("for", "1h")]).await;
    assert_eq!(nope.status, 404);
    let pinned = ann.send(&page, "/console/levels/big/pin", &[("level", "2"), ("for", "1h")]).await;
    assert_eq!((pinned.status, pinned.to.as_str()), (303, "/console/levels?done=pin"));
    world.clock.pass(Duration::from_secs(60));
    ann.base = admin(&world.beds[1]);
    let policy = world.bed().gateway.policy.load_full();
    world.beds[1].gateway.levels.tick(&policy.levels).await;
    let page = ann.get("/console/levels?done=pin").await;
    assert!(page.has("Pinned, on every gateway.") && page.has("Pinned to 2 by <bdi>ann &lt;b&gt;</bdi>"), "{}", page.text);
    let overview = ann.get("/console").await;
    assert!(overview.has("big is at level 2; all other pools are at level 0."), "{}", overview.text);
    let free = ann.send(&page, "/console/levels/big/unpin", &[]).await;
    assert_eq!(free.to, "/console/levels?done=unpin");
    let page = ann.get("/console/levels?span=week").await;
    assert!(page.has("let go by <bdi>ann &lt;b&gt;</bdi>") && page.has("Changes in the last 7 days"), "{}", page.text);
    assert!(page.has("pinned by <bdi>ann &lt;b&gt;</bdi> until "), "{}", page.text);

    let (status, told) = api(&world, "/admin/levels/history").await;
    let change = |at: &str, from: u8, to: u8, why: &str, until: Value| {
        serde_json::json!({
            "at": at, "pool": "big", "from": from, "to": to, "why": why, "ceiling_used_percent": null, "by": "ann <b>", "until": until,
            "account": null,
        })
    };
    let changes = [
        change("2027-01-15T08:01:00Z", 2, 0, "unpinned", Value::Null),
        change("2027-01-15T08:00:00Z", 0, 2, "pinned", "2027-01-15T09:00:00Z".into()),
    ];
    assert_eq!((status, &told["changes"]), (200, &serde_json::json!(changes)), "{told}");
    let (_, told) = api(&world, "/admin/levels/history?pool=big&limit=1").await;
    assert_eq!(told["changes"], serde_json::json!(changes[..1]));
    for (query, status, code) in
        [("pool=nope", 404, "pool_not_found"), ("limit=0", 400, "invalid_request"), ("x=1", 400, "invalid_request")]
    {
        let (got, body) = api(&world, &format!("/admin/levels/history?{query}")).await;
        assert_eq!((got, &body["error"]["code"]), (status, &code.into()), "{query}");
    }
    world.clock.pass(Duration::from_secs(7 * 86_400 + 1));
    assert!(ann.get("/console/login").await.status == 200, "the session is over by then");
    let mut bob = world.operator("bob").await;
    assert!(bob.get("/console/levels?span=week").await.has("No level changed."), "older than a week");
    assert!(bob.get("/console/levels?span=month").await.has("let go by"), "and not older than a month");
    world.bed().assert_books(&["h"]).await;
}

#[tokio::test]
async fn a_level_that_rose_with_the_use_of_the_ceiling_says_so() {
    let world = World::of(1, &format!("{CONFIG}\n{MORE}").replace("rpm = 1_000", "rpm = 10")).await;
    let mut ann = world.operator("ann").await;
    for _ in 0..8 {
        world.bed().chat("c", "m-big", "").send().await.expect("an answer").bytes().await.expect("a whole body");
    }
    let policy = world.bed().gateway.policy.load_full();
    world.bed().gateway.levels.tick(&policy.levels).await;
    let page = ann.get("/console/levels").await;
    assert!(page.has("of the ceiling in the minute before") && page.has("level-1\">1</span>"), "{}", page.text);
    assert!(ann.get("/console").await.has("big is at level 1; all other pools are at level 0."));
    world.bed().assert_books(&["c"]).await;
}
