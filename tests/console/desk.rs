//! The desk without a script: ten steps of a support lead, and what goes wrong on the way.

use crate::browser::World;
use std::time::Duration;

const EVIL: &str = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'&lt;";

#[tokio::test]
async fn tickets_are_listed_by_queue_state_and_customer_as_text() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let page = ann.get("/console/desk").await;
    assert!(page.has("Nobody waits.") && page.has("No such tickets."), "{}", page.text);
    let first = world.ticket("h", EVIL, "billing").await;
    let second = world.ticket("h", "second", "").await;
    let page = ann.get("/console/desk").await;
    assert!(page.has("<strong>2</strong> wait for a person."), "{}", page.text);
    for (id, queue) in [(&first, "billing (1)"), (&second, "general (1)")] {
        assert!(page.has(&format!("href=\"/console/desk/{id}\"")) && page.has(queue), "{}", page.text);
    }
    for (query, shown) in [
        ("queue=billing", vec![&first]),
        ("queue=general", vec![&second]),
        ("queue=nope", vec![]),
        ("state=claimed", vec![]),
        ("state=open&customer=h", vec![&first, &second]),
        ("customer=nobody", vec![]),
        ("state=nonsense&after=nonsense&x=y", vec![&first, &second]),
    ] {
        let page = ann.get(&format!("/console/desk?{query}")).await;
        assert_eq!(page.status, 200, "{query}");
        for id in [&first, &second] {
            assert_eq!(page.has(&format!("href=\"/console/desk/{id}\"")), shown.contains(&id), "{query}");
        }
    }
    let page = ann.get("/console/desk?customer=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&queue=%3Cb%3E").await;
    assert!(page.has("value=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\""), "what was typed is kept as text");
    let page = ann.get(&format!("/console/desk/{first}")).await;
    assert!(page.has("&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;") && !page.has("<script>alert"), "{}", page.text);
    for path in ["/console/desk/tt_00000000000000000000000000000000", "/console/desk/%3Cscript%3E", "/console/desk/x"] {
        let page = ann.get(path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(page.has("There is no such ticket") && !page.has("<script>"), "{}", page.text);
    }
    world.bed().assert_books(&["h"]).await;
}

#[tokio::test]
async fn an_operator_claims_answers_and_hands_back() {
    let world = World::new().await;
    let (mut ann, mut bob) = (world.operator("ann").await, world.operator("bob").await);
    let (first, second) = (world.ticket("h", "first?", "billing").await, world.ticket("h", "second?", "").await);
    let desk = ann.get("/console/desk").await;

    let next = ann.send(&desk, "/console/desk/next", &[("queue", "")]).await;
    assert_eq!((next.status, next.to.as_str()), (303, format!("/console/desk/{first}?done=claim").as_str()), "the oldest first");
    let page = ann.get(&next.to).await;
    assert!(page.has("The ticket is yours for now.") && page.has("user: first?") && page.has("Hand back"), "{}", page.text);

    let bobs = bob.get("/console/desk").await;
    let theirs = bob.get(&format!("/console/desk/{first}")).await;
    assert!(theirs.has("Somebody else works on it.") && theirs.has("claimed by <bdi>ann</bdi>") && !theirs.has("<textarea"));
    let late = bob.send(&bobs, &format!("/console/desk/{first}/answer"), &[("text", "mine <b>")]).await;
    assert_eq!(late.status, 409);
    assert!(late.has("ann has claimed the ticket until "), "{}", late.text);
    let next = bob.send(&bobs, "/console/desk/next", &[("queue", "billing")]).await;
    assert_eq!(next.to, "/console/desk?done=none&queue=billing");
    assert!(bob.get(&next.to).await.has("No ticket waits there."));
    let next = bob.send(&bobs, "/console/desk/next", &[("queue", "")]).await;
    assert_eq!(next.to, format!("/console/desk/{second}?done=claim"));
    let back = bob.send(&bobs, &format!("/console/desk/{second}/release"), &[]).await;
    assert_eq!(back.to, format!("/console/desk/{second}?done=release"));
    assert!(bob.get(&back.to).await.has("Handed back"));

    let answer = format!("/console/desk/{first}/answer");
    for (text, words) in [(String::new(), "this one has 0."), ("é".repeat(9_000), "this one has 18000.")] {
        let wrong = ann.send(&page, &answer, &[("text", &text)]).await;
        assert_eq!(wrong.status, 400);
        assert!(wrong.has("aria-invalid=\"true\"") && wrong.has(words) && wrong.has(&text), "what was typed is kept");
    }
    let done = ann.send(&page, &answer, &[("text", " It left <this> morning.\r\nGreetings ")]).await;
    assert_eq!((done.status, done.to), (303, format!("/console/desk/{first}?done=answer")));
    let page = ann.get(&format!("/console/desk/{first}?done=answer")).await;
    assert!(page.has("It left &lt;this&gt; morning.\nGreetings</pre>") && !page.has("<textarea"), "{}", page.text);
    let url = world.bed().url(&format!("/v1/triage/{first}"));
    let request = world.bed().client.get(url).header("authorization", "Bearer sk-test").header("x-customer-id", "h");
    let said: serde_json::Value =
        serde_json::from_slice(&request.send().await.expect("an answer").bytes().await.expect("a body")).expect("JSON");
    assert_eq!((&said["status"], &said["answer"]["text"]), (&"answered".into(), &"It left <this> morning.\nGreetings".into()));

    let done = bob.send(&bobs, &format!("/console/desk/{second}/expire"), &[]).await;
    assert_eq!(done.to, format!("/console/desk/{second}?done=expire"));
    assert!(bob.get(&done.to).await.has("Ended without an answer."));
    let late = bob.send(&bobs, &format!("/console/desk/{second}/claim"), &[]).await;
    assert_eq!(late.status, 409);
    assert!(late.has("The ticket is expired already, by bob."), "{}", late.text);
    assert!(ann.get("/console/desk?state=answered").await.has(&first));
    world.bed().assert_books(&["h"]).await;
}

#[tokio::test]
async fn a_lease_that_ended_lets_others_claim() {
    let world = World::new().await;
    let (mut ann, mut bob) = (world.operator("ann").await, world.operator("bob").await);
    let ticket = world.ticket("h", "first?", "").await;
    let (mine, theirs) = (ann.get("/console/desk").await, bob.get("/console/desk").await);
    let claim = format!("/console/desk/{ticket}/claim");
    assert_eq!(ann.send(&mine, &claim, &[]).await.status, 303);
    assert_eq!(bob.send(&theirs, &claim, &[]).await.status, 409);
    world.clock.pass(Duration::from_secs(3_600));
    assert_eq!(bob.send(&theirs, &claim, &[]).await.status, 303);
    assert_eq!(ann.send(&mine, &claim, &[]).await.status, 409);
    world.bed().assert_books(&["h"]).await;
}

#[tokio::test]
async fn a_tickets_request_is_asked_again_and_what_came_of_it_stands_there() {
    let world = World::new().await;
    let mut ann = world.operator("ann").await;
    let ticket = world.ticket("h", "Where is it?", "").await;
    let (path, again) = (format!("/console/desk/{ticket}"), format!("/console/desk/{ticket}/again"));
    let page = ann.get(&path).await;
    assert!(page.has("Ask a model again"), "{}", page.text);
    let asked = ann.send(&page, &again, &[]).await;
    assert_eq!((asked.status, asked.to), (303, format!("{path}?done=again")));
    let page = ann.get(&format!("{path}?done=again")).await;
    assert!(page.has("The request was asked again") && page.has("402 spend_cap_exceeded"), "{}", page.text);

    let credit = tollgate::domain::NanoUsd::new(1_000_000_000);
    let directory = &world.bed().gateway.directory;
    directory.add_credit("ann", "h", tollgate::domain::Period::Day, credit).await.expect("kept");
    let asked = ann.send(&page, &again, &[("answers", "yes")]).await;
    assert_eq!(asked.status, 303);
    let page = ann.get(&path).await;
    assert!(page.has("What the model said") && page.has("By <bdi>ann</bdi>") && !page.has("Ask a model again"), "{}", page.text);
    assert_eq!(ann.send(&page, &again, &[]).await.status, 409, "it has ended");
    assert_eq!(world.bed().provider.log().len(), 1);
    world.bed().assert_books(&["h"]).await;
}
