//! One open ticket a conversation, with everything in it that an agent has to know and nothing else.

use crate::kit::{World, by, new, of};
use serde_json::json;
use std::collections::BTreeSet;
use tollgate::domain::{NanoUsd, Priority, RequestId, UserId};
use tollgate::triage::{Attempt, NewTicket, transcript};

#[tokio::test]
async fn a_hand_off_is_one_ticket_that_lists_its_attempts() {
    let world = World::new("").await;
    let attempt = |model: &str, outcome: &str| Attempt { model: model.into(), outcome: outcome.into() };
    let id = world
        .hand_off(NewTicket {
            user: Some(UserId::from_trusted("u1")),
            class: Some("billing".into()),
            priority: Priority::Internal,
            attempts: vec![attempt("m-big", "rate_limited"), attempt("m-big", "timeout"), attempt("m-small", "server_error")],
            cost: NanoUsd::new(1_234_567),
            request: RequestId::new(0xabc),
            ..of("t", "conv-1")
        })
        .await;
    assert_eq!(world.ids("").await, [id.as_str()], "exactly one, however many attempts");
    let (status, ticket) = world.look(0, &format!("/admin/triage/{id}")).await;
    assert_eq!(status, 200);
    let right = json!({
        "id": id, "status": "open", "claimed_by": null, "customer": "t", "user": "u1", "app": "passthrough", "plan": "case",
        "queue": "billing", "priority": "internal", "conversation": "conv-1", "opened_at": "2027-01-15T08:00:00Z",
        "expires_at": "2027-01-22T08:00:00Z", "cause": "overloaded", "model": "m-big", "requests": 1, "without_ticket": 0,
        "cost_usd": "0.001234567", "text": null, "resubmittable": false, "resubmitted": [],
        "asked": [{
            "request_id": "tg_00000000000000000000000000000abc", "at": "2027-01-15T08:00:00Z", "cause": "overloaded", "model": "m-big",
            "attempts": [
                { "model": "m-big", "outcome": "rate_limited" },
                { "model": "m-big", "outcome": "timeout" },
                { "model": "m-small", "outcome": "server_error" },
            ],
            "cost_usd": "0.001234567",
        }],
        "history": [{ "at": "2027-01-15T08:00:00Z", "who": null, "what": "opened" }],
    });
    assert_eq!(ticket, right);
    assert_eq!((world.events("opened"), world.events("appended")), (1, 0));
    world.assert_books(&["t"]).await;
}

#[tokio::test]
async fn later_requests_of_a_conversation_join_its_open_ticket() {
    let world = World::new("").await;
    let first = world.hand_off(of("t", "c1")).await;
    assert_eq!(world.hand_off(of("t", "c1")).await, first, "the same conversation");
    let others = [
        world.hand_off(of("t", "c2")).await,
        world.hand_off(of("other", "c1")).await,
        world.hand_off(NewTicket { app: "another".into(), ..of("t", "c1") }).await,
        world.hand_off(new("t")).await,
        world.hand_off(new("t")).await,
    ];
    assert_eq!(others.iter().chain([&first]).collect::<BTreeSet<_>>().len(), 6, "each of these is a ticket of its own");
    let (_, ticket) = world.look(0, &format!("/admin/triage/{first}")).await;
    assert_eq!((&ticket["requests"], ticket["asked"].as_array().map(Vec::len)), (&json!(2), Some(2)));

    // Also while somebody works on it; and no more once it is answered.
    assert_eq!(world.act(0, &format!("/admin/triage/{first}/claim"), by("ann")).await.0, 200);
    assert_eq!(world.hand_off(of("t", "c1")).await, first);
    let answer = json!({ "agent": "ann", "text": "Done." });
    assert_eq!(world.act(0, &format!("/admin/triage/{first}/answer"), answer).await.0, 200);
    let next = world.hand_off(of("t", "c1")).await;
    assert_ne!(next, first);
    assert_eq!(world.poll("t", &next).await.1["status"], "open");
    assert_eq!((world.events("opened"), world.events("appended"), world.events("answered")), (7, 2, 1));
    world.assert_books(&["t", "other"]).await;
}

#[tokio::test]
async fn a_conversation_is_kept_only_where_that_is_configured_and_then_only_its_end() {
    let text = "user: ééé sk-secret-in-the-prompt ééé";
    let plain = World::new("").await;
    let id = plain.hand_off(NewTicket { text: Some(text.into()), ..new("t") }).await;
    let whole = plain.look(0, &format!("/admin/triage/{id}")).await.1;
    assert_eq!(whole["text"], json!(null));
    assert!(!whole.to_string().contains("secret"), "nothing of it is anywhere");
    assert!(!plain.bed().gateway.triage.keeps_text());

    let keeping = World::new("[triage]\nconversation = true\nconversation_max = \"1KiB\"").await;
    let desk = &keeping.bed().gateway.triage;
    assert!(desk.keeps_text());
    assert_eq!(desk.most_text(), 1_024);
    let id = keeping.hand_off(NewTicket { text: Some(text.into()), ..of("t", "c") }).await;
    let kept = keeping.look(0, &format!("/admin/triage/{id}")).await.1["text"].clone();
    assert_eq!(kept, json!({ "text": text, "truncated": false }));

    // A later request brings the conversation as it is by then; a cut in the middle of a character takes the whole character.
    let long = format!("x{}", "é".repeat(600));
    assert_eq!(keeping.hand_off(NewTicket { text: Some(long), ..of("t", "c") }).await, id);
    let kept = keeping.look(0, &format!("/admin/triage/{id}")).await.1["text"].clone();
    assert_eq!(kept, json!({ "text": "é".repeat(512), "truncated": true }));

    // Five megabytes of image are a word.
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{}"}}}},{{"type":"text","text":"?"}}]}}]}}"#,
        "A".repeat(5 << 20)
    );
    assert_eq!(transcript(body.as_bytes(), desk.most_text()), "user: [image_url]\n?");
    keeping.assert_books(&["t"]).await;
}

#[tokio::test]
async fn what_strangers_wrote_is_data() {
    let world = World::new("[triage]\nconversation = true").await;
    for hostile in ["<script>alert(1)</script>", "=HYPERLINK(\"http://x\",\"y\")", "\u{1b}]0;pwn\u{7}", "\u{202e}", "a\nb\0"] {
        let id = world
            .hand_off(NewTicket {
                class: Some(hostile.into()),
                model: hostile.into(),
                attempts: vec![Attempt { model: hostile.into(), outcome: hostile.repeat(100_000).into() }],
                text: Some(hostile.into()),
                ..of("<script>", hostile)
            })
            .await;
        let (_, ticket) = world.look(0, &format!("/admin/triage/{id}")).await;
        for field in [&ticket["queue"], &ticket["model"], &ticket["conversation"], &ticket["text"]["text"]] {
            assert_eq!(field, hostile, "as it was, in JSON");
        }
        assert_eq!(ticket["asked"][0]["attempts"][0]["outcome"].as_str().map(|text| text.chars().count()), Some(100), "cut");
        let expire = world.act(0, &format!("/admin/triage/{id}/expire"), by("ann")).await;
        assert_eq!(expire.0, 200);
    }
    world.assert_books(&["<script>"]).await;
}

#[tokio::test]
async fn a_chat_that_no_model_may_answer_becomes_a_ticket_and_the_answer_comes_back() {
    let plan = "[triage]\nconversation = true\n[plans.person]\nspend = { day = 0.000_001 }\non_spend = [\"handoff\"]\non_provider = []\n\
                [customers.one]\nplan = \"person\"";
    let world = World::new(plan).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let reply = world.bed().chat("one", "m-big", "").header("x-conversation-id", "order-17").send().await.expect("an answer");
        assert_eq!(reply.status(), 200);
        let header = |name: &str| reply.headers()[name].to_str().expect("ASCII").to_owned();
        assert_eq!(header("x-tollgate-ticket-url"), format!("/v1/triage/{}", header("x-tollgate-ticket")));
        ids.push(header("x-tollgate-ticket"));
        reply.bytes().await.expect("a whole body");
    }
    assert_eq!(ids[0], ids[1], "one conversation, one ticket");
    world.written().await;
    let (_, ticket) = world.look(0, &format!("/admin/triage/{}", ids[0])).await;
    assert_eq!(
        (&ticket["customer"], &ticket["conversation"], &ticket["requests"]),
        (&json!("one"), &json!("order-17"), &json!(2))
    );
    assert_eq!(
        (&ticket["cause"], &ticket["model"], &ticket["plan"]),
        (&json!("spend_cap_exceeded"), &json!("m-big"), &json!("person"))
    );
    assert_eq!(ticket["text"], json!({ "text": "user: hi", "truncated": false }));
    assert!(!ticket.to_string().contains("sk-test"), "nothing of the caller's credential");
    let answer = json!({ "agent": "ann", "text": "It left." });
    assert_eq!(world.act(0, &format!("/admin/triage/{}/answer", ids[0]), answer).await.0, 200);
    assert_eq!(world.poll("one", &ids[0]).await.1["answer"]["text"], "It left.");
    world.assert_books(&["one"]).await;
}
