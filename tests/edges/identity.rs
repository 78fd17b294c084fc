//! Whose request it is: what counts as an id, what is refused, and that no two spellings of one share or split a bucket.

use crate::kit::{Answer, Before, MESSAGES, bed, chat, h2c, messages_left};
use crate::raw::{Raw, head};
use http::HeaderValue;
use std::collections::BTreeSet;
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::Gate;

/// A header value from any bytes.
fn value(bytes: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(bytes).expect("a header value")
}

#[tokio::test]
async fn a_request_without_an_id_is_refused_in_the_routes_format_and_has_no_effect() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["null", "undefined"]).await;
    for id in [None, Some(""), Some("   "), Some("\t")] {
        for (path, anthropic) in [("/v1/chat/completions", false), ("/v1/embeddings", false), ("/v1/messages", true)] {
            let mut request = bed.client.post(bed.url(path)).bearer_auth("sk-test").body(chat("m-big", ""));
            if let Some(id) = id {
                request = request.header("x-customer-id", id);
            }
            let answer = Answer::to(request).await;
            let what = format!("{id:?} on {path}");
            let message = if anthropic {
                answer.refused_anthropic(400, "invalid_request_error", "missing_customer_id", &what)
            } else {
                answer.refused(400, "missing_customer_id", &what)
            };
            assert!(message.contains("X-Customer-Id"), "says what to send: {message}");
        }
    }
    before.assert_no_effect(&bed, "no id").await;
}

#[tokio::test]
async fn words_that_mean_nothing_elsewhere_are_customers_of_their_own_here() {
    let bed = bed("").await;
    let words = ["null", "undefined", "default", "unknown"];
    for word in words {
        assert_eq!(messages_left(&bed, word).await, MESSAGES - 1, "{word} has a bucket of its own");
    }
    bed.assert_books(&words).await;
}

#[tokio::test]
async fn ids_that_are_none_are_refused_without_effect() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["t", "alice", "bob"]).await;
    let long = |n: usize| "i".repeat(n).into_bytes();
    for (id, what) in [
        (b"\xff".to_vec(), "a byte above 127"),
        ("\u{e9}".as_bytes().to_vec(), "UTF-8"),
        (b"a\tb".to_vec(), "a tab inside"),
        (b"a b".to_vec(), "a space inside"),
        (b"t,".to_vec(), "a comma"),
        (b"bob@example.com".to_vec(), "an e-mail address"),
        (long(513), "513 bytes"),
        (long(4_096), "4 KB"),
        (long(60_000), "60 KB"),
    ] {
        let request = bed.chat("t", "m-big", "").header("x-customer-id", value(&id));
        let mut request = request.build().expect("a request");
        request.headers_mut().insert("x-customer-id", value(&id));
        let reply = bed.client.execute(request).await.expect("an answer");
        let answer =
            Answer { status: reply.status().as_u16(), headers: reply.headers().clone(), body: reply.bytes().await.unwrap() };
        let message = answer.refused(400, "invalid_customer_id", what);
        assert!(message.len() < 200, "{what} is not repeated: {message}");
    }
    // A hundred ids made of one customer's by appending mint no buckets.
    for n in 1..=100 {
        Answer::to(bed.chat(&format!("t, {n}"), "m-big", "")).await.refused(400, "invalid_customer_id", "joined");
    }
    before.assert_no_effect(&bed, "ids that are none").await;
}

#[tokio::test]
async fn two_different_ids_are_refused_and_the_same_twice_is_one() {
    let bed = bed("").await;
    for (client, version) in [(bed.client.clone(), "HTTP/1.1"), (h2c(), "HTTP/2")] {
        let post = |ids: [&'static str; 2]| {
            let request = client.post(bed.url("/v1/chat/completions")).bearer_auth("sk-test").body(chat("m-big", ""));
            ids.iter().fold(request, |request, id| request.header("x-customer-id", *id))
        };
        let before = Before::of(&bed, &["alice", "bob"]).await;
        for ids in [["alice", "bob"], ["bob", "alice"], ["alice", "Alice"], ["", "alice"]] {
            Answer::to(post(ids)).await.refused(400, "invalid_customer_id", &format!("{ids:?} over {version}"));
        }
        before.assert_no_effect(&bed, version).await;
        let seen = bed.provider.seen();
        assert_eq!(Answer::to(post(["carol", "carol"])).await.status, 200, "{version}");
        assert_eq!(bed.provider.seen(), seen + 1, "{version}: metered and forwarded once");
    }
    assert_eq!(messages_left(&bed, "carol").await, MESSAGES - 3, "each request was counted once");
    bed.assert_books(&["carol"]).await;
}

#[tokio::test]
async fn other_headers_of_ours_given_twice_say_which_header_it_is() {
    let bed = bed("").await;
    let before = Before::of(&bed, &["t"]).await;
    for (name, values) in
        [("X-User-Id", ["ann", "ben"]), ("X-Priority", ["live", "background"]), ("X-Request-Class", ["general", "legal"])]
    {
        let request = values.iter().fold(bed.chat("t", "m-big", ""), |request, value| request.header(name, *value));
        let message = Answer::to(request).await.refused(400, "invalid_header", name);
        assert!(message.contains(name), "{message}");
    }
    let message =
        Answer::to(bed.chat("t", "m-big", "").header("x-priority", "urgent")).await.refused(400, "invalid_header", "word");
    assert!(message.contains("live, internal, background"), "{message}");
    before.assert_no_effect(&bed, "headers given twice").await;
}

#[tokio::test]
async fn blanks_around_an_id_are_not_part_of_it_and_letter_case_is() {
    let bed = bed("").await;
    for (spelled, left) in [("c", MESSAGES - 1), ("c ", MESSAGES - 2), ("\tc", MESSAGES - 3), ("C", MESSAGES - 1)] {
        let mut raw = Raw::connect(&bed).await;
        let body = chat("m-small", "");
        // By hand, since HTTP libraries trim.
        let head = head("c").replace("x-customer-id: c\r\n", &format!("x-customer-id:{spelled}\r\n"));
        raw.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
        let reply = raw.reply().await;
        assert_eq!(reply.status, 200, "{spelled:?}");
        assert!(reply.head.contains(&format!("ratelimit-remaining: {left}\r\n")), "{spelled:?}: {}", reply.head);
    }
    bed.assert_books(&["c", "C"]).await;
}

#[tokio::test]
async fn ids_of_any_visible_characters_are_opaque_and_stay_apart() {
    let bed = bed("").await;
    let long = "i".repeat(512);
    let ids = ["*", "?", "[a-z]", "\"..os.exit()..\"", "%00", "../t", "a:b", "a", "{a}", "t\"}1x=\"", "t\\", "'", &long];
    for id in ids {
        assert_eq!(messages_left(&bed, id).await, MESSAGES - 1, "{id} has a bucket of its own");
        assert!(bed.spent(id).await.get() > 0, "{id} pays for itself");
    }
    let mut raw = Raw::connect(&bed).await;
    raw.send(format!("{}\r\n", head("a\nSET pwn 1"))).await;
    assert_eq!(raw.reply().await.status, 400, "a line break ends in the parser");
    assert!(raw.is_closed().await);
    bed.assert_books(&ids).await;
}

#[tokio::test]
async fn a_request_id_that_the_client_chose_joins_nothing() {
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let bed = crate::bed::Bed::with(&crate::kit::config(""), options).await;
    let sent = [("a", "b:c"), ("a:b", "c"), ("t1", "1"), ("t1", "1")];
    let send = |(customer, id): (&'static str, &'static str)| {
        let request = bed.chat(customer, "m-big", "").header("x-request-id", id).header("x-tollgate-request-id", id);
        tokio::spawn(async move { Answer::to(request).await })
    };
    let running = sent.map(send);
    bed.provider.wait_until(|seen| seen.len() == sent.len()).await;
    for customer in ["a", "a:b", "t1"] {
        let held: u64 = bed.balances(customer).await.iter().map(|balance| balance.held).sum();
        assert!(held > 0, "{customer} has a hold of its own while all are in flight");
    }
    gate.open();
    let mut ids = BTreeSet::new();
    for request in running {
        let answer = request.await.expect("a request");
        assert_eq!(answer.status, 200, "{answer:?}");
        ids.insert(answer.header("x-tollgate-request-id").to_owned());
    }
    assert_eq!(ids.len(), sent.len(), "every request has an id of its own: {ids:?}");
    bed.assert_books(&["a", "a:b", "t1"]).await;
}
