//! Which answers are kept under a key: those that would be the same again. After any other the same key may still succeed.

use crate::rig::{Answer, Rig, chat_body, keyed};
use tollgate::demo::provider::Script;

#[tokio::test]
async fn only_what_would_be_the_same_again_is_kept() {
    let rig = Rig::new("").await;
    let bed = rig.gateway().await;
    let error = r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"c"}}"#;
    for (status, kept) in [
        (400, true),
        (401, false),
        (403, false),
        (404, true),
        (408, false),
        (409, false),
        (413, true),
        (422, true),
        (429, false),
        (500, false),
        (503, false),
        (529, false),
    ] {
        let (key, before) = (format!("status-{status}"), rig.provider.seen());
        rig.provider.script(Script::json(status, error).header("retry-after", "3"));
        let first = Answer::to(keyed(&bed, "t", &key, &chat_body("m-small", ""))).await;
        assert_eq!(first.status, status);
        let again = Answer::to(keyed(&bed, "t", &key, &chat_body("m-small", ""))).await;
        if kept {
            assert_eq!((again.status, &again.body), (status, &first.body), "{status} is given again");
            assert_eq!((again.header("x-tollgate-replayed"), again.header("x-tollgate-refused-by")), ("true", "provider"));
        } else {
            assert_eq!((again.status, again.header("x-tollgate-replayed")), (200, ""), "{status}: the retry succeeds");
        }
        assert_eq!(rig.provider.seen() - before, if kept { 1 } else { 2 }, "{status}");
    }
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn an_answer_that_broke_or_carries_an_error_is_not_kept() {
    let rig = Rig::new("").await;
    let bed = rig.gateway().await;
    let chunk = r#"data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m-small","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#;
    let error = r#"{"error":{"message":"no","type":"server_error","param":null,"code":null}}"#;
    for (name, status, stream, script) in [
        ("a cut stream", 200, true, Script::sse().send(format!("{chunk}\n\n")).close()),
        ("a stream that only stops", 200, true, Script::sse().send(format!("{chunk}\n\n"))),
        ("an error event", 200, true, Script::sse().send(format!("{chunk}\n\ndata: {error}\n\ndata: [DONE]\n\n"))),
        ("200 with an error", 200, false, Script::json(200, error)),
        ("half a body", 502, false, Script::http(200).header("content-type", "application/json").send("{\"id\":").close()),
    ] {
        let more = if stream { r#","stream":true"# } else { "" };
        rig.provider.script(script);
        let broken =
            keyed(&bed, "u", name.replace(' ', "-").as_str(), &chat_body("m-small", more)).send().await.expect("an answer");
        assert_eq!(broken.status(), status, "{name}");
        let _ = broken.bytes().await; // broken, or not
        bed.quiet().await;
        let before = rig.provider.seen();
        let again = Answer::to(keyed(&bed, "u", name.replace(' ', "-").as_str(), &chat_body("m-small", more))).await;
        assert_eq!((again.status, again.header("x-tollgate-replayed")), (200, ""), "{name}: the retry succeeds");
        assert_eq!(rig.provider.seen() - before, 1, "{name}");
    }
}

#[tokio::test]
async fn our_own_refusals_leave_the_key_free() {
    let more = "[plans.poor]\nspend = { day = 0.0 }\nmessages = \"unlimited\"\non_spend = []\n[customers.poor]\nplan = \"poor\"\n\
                [plans.tiny]\nmessages = \"unlimited\"\ntpm = 5\non_spend = []\n[customers.tiny]\nplan = \"tiny\"\n";
    let rig = Rig::new(more).await;
    let bed = rig.gateway().await;
    for (customer, status, code) in [("poor", 402, "spend_cap_exceeded"), ("tiny", 413, "request_exceeds_limit")] {
        for _ in 0..2 {
            let answer = Answer::to(keyed(&bed, customer, "k", &chat_body("m-small", ""))).await;
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "not 409, not a replay");
            assert_eq!(answer.header("x-tollgate-replayed"), "");
        }
    }
    assert_eq!(rig.provider.seen(), 0);
    bed.assert_books(&["poor", "tiny"]).await;
}

#[tokio::test]
async fn a_reply_that_is_too_long_to_keep_is_never_charged_again() {
    let rig = Rig::new("[repeats]\nmax_reply = \"1KiB\"\n").await;
    let bed = rig.gateway().await;
    let body = r#"{"model":"m-big","stream":true,"messages":[{"role":"user","content":"[300 tokens]"}]}"#;
    let first = Answer::to(keyed(&bed, "t", "k", body)).await;
    assert_eq!(first.status, 200);
    assert!(first.body.len() > 1_024 && first.body.ends_with(b"data: [DONE]\n\n"), "the client has all of it");
    let again = Answer::to(keyed(&bed, "t", "k", body)).await;
    assert_eq!((again.status, again.code().as_str()), (410, "reply_not_kept"), "{again:?}");
    assert_eq!(again.header("x-should-retry"), "false");
    assert!(again.json()["error"]["message"].as_str().expect("a text").contains("longer than 1024 bytes"));
    assert_eq!(rig.provider.seen(), 1);
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn an_answer_that_took_several_attempts_is_kept() {
    let rig = Rig::new("[retry]\nmax = 2\n").await;
    let bed = rig.gateway().await;
    rig.provider.script(Script::json(500, r#"{"error":{"message":"no"}}"#));
    let body = chat_body("m-small", r#","stream":true"#);
    let first = Answer::to(keyed(&bed, "t", "k", &body)).await;
    assert_eq!((first.status, rig.provider.seen()), (200, 2));
    let again = Answer::to(keyed(&bed, "t", "k", &body)).await;
    assert_eq!((again.status, &again.body, again.header("x-tollgate-replayed")), (200, &first.body, "true"));
    assert_eq!(rig.provider.seen(), 2);
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_hand_off_is_an_answer_and_a_repeat_of_it_names_the_same_ticket() {
    let more = "[plans.poor]\nspend = { day = 0.000001 }\nmessages = \"unlimited\"\non_spend = [\"handoff\"]\n[customers.poor]\nplan = \"poor\"\n";
    let rig = Rig::new(more).await;
    let bed = rig.gateway().await;
    let first = Answer::to(keyed(&bed, "poor", "k", &chat_body("m-small", ""))).await;
    assert_eq!((first.status, first.json()["model"].as_str()), (200, Some("human-triage")));
    let again = Answer::to(keyed(&bed, "poor", "k", &chat_body("m-small", ""))).await;
    assert_eq!((again.status, &again.body, again.header("x-tollgate-replayed")), (200, &first.body, "true"));
    for name in ["x-tollgate-ticket", "x-tollgate-degraded", "x-tollgate-model"] {
        assert!(!first.header(name).is_empty(), "{name}");
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
    assert_eq!(rig.provider.seen(), 0);
    bed.assert_books(&["poor"]).await;
}
