//! Which failures are tried again, and when.

use crate::bodies::{IN, OUT, ROUTES, USAGE_COST};
use crate::pace::paced;
use crate::rig::{complete, read};
use std::time::Duration;
use tollgate::degrade::retry::DICE;
use tollgate::demo::provider::Script;

pub const JSON: &str = r#"{"choices":[{"message":{"content":" this"}}],"usage":{"prompt_tokens":10,"completion_tokens":99}}"#;
const ERROR: &str = r#"{"error":{"message":"m","type":"server_error","param":null,"code":null}}"#;

pub fn answer() -> Script {
    Script::json(200, JSON)
}

pub fn fails(status: u16) -> Script {
    Script::json(status, ERROR)
}

#[tokio::test]
async fn two_failures_and_a_success_cost_the_customer_one_request() {
    let (rig, waits) = paced("", "", "").await;
    let customer = rig.customer();
    let script = Script::json(200, r#"{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100}}"#);
    for script in [fails(500), fails(503), script] {
        rig.bed.provider.script(script);
    }
    waits.dice(DICE / 2);
    let gate = waits.hold();
    let call = tokio::spawn(rig.chat(r#","max_tokens":1000"#).send());
    waits.begun(1).await;
    let held: Vec<_> = rig.bed.balances(&customer).await.iter().map(|balance| (balance.held, balance.spent)).collect();
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].1, 0);
    gate.open();
    let mut reply = call.await.expect("no panic").expect("an answer");
    assert_eq!((reply.status().as_u16(), read(&mut reply).await.1), (200, true));
    assert!((10_000_000..12_500_000).contains(&held[0].0), "one reservation, not three: {held:?}");
    assert!(reply.headers().get("x-tollgate-refused-by").is_none() && reply.headers().get("x-should-retry").is_none());
    assert_eq!(reply.headers()["x-ratelimit-remaining-requests"], "59");
    assert_eq!(rig.outcome().await, complete(1_100, 1_000 * IN + 100 * OUT), "$0.0035");
    assert_eq!(waits.take(), [250, 500], "half of 0.5 s, and of twice that");
    assert_eq!(rig.bed.provider.seen(), 3);
    assert_eq!((rig.logged(&customer, "attempts"), rig.logged(&customer, "waited_us")), ("3".into(), "750000".into()));
    assert_eq!(rig.metric("tollgate_retries_total", "cause=\"server_error\""), 2);
    assert_eq!(rig.metric("tollgate_upstream_calls_total", "server_error"), 2);
}

#[tokio::test]
async fn what_may_be_cured_by_trying_again_is_tried_again() {
    let (rig, _waits) = paced("", "max = 1", "").await;
    let error = |code: &str| format!(r#"{{"error":{{"message":"your quota is used up","type":"{code}","code":"{code}"}}}}"#);
    for (status, should_retry, body, calls) in [
        (400, None, ERROR, 1),
        (401, None, ERROR, 1),
        (403, None, ERROR, 1),
        (404, None, ERROR, 1),
        (413, None, ERROR, 1),
        (422, None, ERROR, 1),
        (302, None, "", 1),
        (408, None, ERROR, 2),
        (409, None, ERROR, 2),
        (500, None, ERROR, 2),
        (502, None, "<html>bad gateway</html>", 2),
        (503, None, ERROR, 2),
        (504, None, ERROR, 2),
        (529, None, ERROR, 2),
        (500, Some("false"), ERROR, 1),
        (429, Some("false"), ERROR, 1),
        (400, Some("true"), ERROR, 2),
        (400, Some("TRUE"), ERROR, 1),
        (429, None, &error("insufficient_quota"), 1),
        (429, Some("true"), &error("insufficient_quota"), 1),
        (429, None, &error("usage_limit_reached"), 1),
        (429, None, &error("rate_limit_exceeded"), 2),
    ] {
        let before = rig.bed.provider.seen();
        let case = format!("{status} {should_retry:?} {body}");
        for _ in 0..2 {
            let script = Script::json(status, body.to_owned());
            rig.bed.provider.script(match should_retry {
                Some(value) => script.header("x-should-retry", value),
                None => script,
            });
        }
        let mut reply = rig.chat("").send().await.expect("an answer");
        assert_eq!((reply.status().as_u16(), read(&mut reply).await), (status, (body.to_owned(), true)), "{case}");
        assert_eq!(rig.bed.provider.seen() - before, calls, "{case}");
        assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_error"), "{case}");
        while rig.bed.provider.scripts_left() > 0 {
            rig.chat("").send().await.expect("an answer");
            rig.outcome().await;
        }
    }
}

#[tokio::test]
async fn a_stated_wait_is_kept_in_every_spelling() {
    let (rig, waits) = paced("", "max = 1\nwait_budget = \"10s\"", "").await;
    let later = |seconds: u64| httpdate::fmt_http_date(rig_time(&rig) + Duration::from_secs(seconds));
    let own = 250; // half of the dice's 0.5 s
    for (headers, least, calls) in [
        (vec![("retry-after", "0".to_owned())], 100, 2),
        (vec![("retry-after", "-1".into())], own, 2),
        (vec![("retry-after", "1.5".into())], 1_575, 2),
        (vec![("retry-after", " 2 ".into())], 2_100, 2),
        (vec![("retry-after", "999999999999".into())], 0, 1),
        (vec![("retry-after", "99999999999999999999999999999".into())], 0, 1),
        (vec![("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT".into())], 100, 2),
        (vec![("retry-after", "abc".into())], own, 2),
        (vec![("retry-after", String::new())], own, 2),
        (vec![("retry-after", "NaN".into())], own, 2),
        (vec![("retry-after", "1".into()), ("retry-after", "5".into())], 5_250, 2),
        (vec![("retry-after-ms", "250".into())], 262, 2),
        (vec![("retry-after-ms", "250".into()), ("retry-after", "60".into())], 262, 2),
        (vec![("x-ratelimit-reset-tokens", "2s".into()), ("x-ratelimit-remaining-tokens", "0".into())], 2_100, 2),
        (vec![("x-ratelimit-reset-requests", "6m0s".into())], 0, 1),
    ] {
        for status in [429, 503] {
            waits.dice(DICE / 2);
            let script = headers.iter().fold(fails(status), |script, (name, value)| script.header(name, value));
            rig.bed.provider.script(script);
            if calls == 2 {
                rig.bed.provider.script(answer());
            }
            let reply = rig.chat("").send().await.expect("an answer");
            assert_eq!(reply.status().as_u16(), if calls == 2 { 200 } else { status }, "{headers:?}");
            reply.bytes().await.expect("a whole body");
            let right = if calls == 2 { vec![least] } else { vec![] };
            assert_eq!(waits.take(), right, "{headers:?} {status}");
            rig.outcome().await;
        }
    }
    // A date: about three seconds ahead, as its seconds are whole.
    rig.bed.provider.script(fails(429).header("retry-after", later(3)));
    rig.bed.provider.script(answer());
    waits.dice(0);
    assert_eq!(rig.chat("").send().await.expect("an answer").status(), 200);
    let [wait] = waits.take()[..] else { panic!("one wait") };
    assert!((2_000..=3_000).contains(&wait), "{wait}");
    rig.outcome().await;
}

fn rig_time(rig: &crate::rig::Rig) -> std::time::SystemTime {
    std::time::UNIX_EPOCH + Duration::from_micros(rig.bed.gateway.clock.now().micros())
}

#[tokio::test]
async fn a_hundred_that_are_told_the_same_come_back_one_by_one() {
    let (rig, waits) = paced("", "max = 1", "[concurrency]\nslots = 200").await;
    for dice in [0, DICE / 4, DICE / 2, DICE - 1] {
        waits.dice(dice);
        rig.bed.provider.script(fails(429).header("retry-after", "2"));
        rig.bed.provider.script(answer());
        assert_eq!(rig.chat("").send().await.expect("an answer").status(), 200);
        rig.outcome().await;
    }
    assert_eq!(waits.take(), [2_000, 2_050, 2_100, 2_199], "never before, up to a tenth after");
}

#[tokio::test]
async fn each_attempt_sends_the_same_bytes() {
    let (rig, _waits) = paced("", "", "").await;
    for script in [fails(500), fails(500), answer()] {
        rig.bed.provider.script(script);
    }
    let chunks =
        ["{\"model\":\"m-big\", \"messages\":[{\"role\":\"user\",", "\"content\":\"h\\u0069\"}], \"max_tokens\": 5e2, \"n\":1}"];
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks.map(Ok::<_, std::io::Error>)));
    let reply = rig.post("/v1/chat/completions", body).header("idempotency-key", "k").send().await.expect("an answer");
    assert_eq!(reply.status(), 200);
    let seen = rig.bed.provider.log();
    assert_eq!(seen.len(), 3);
    for attempt in &seen {
        assert_eq!(attempt.body, chunks.concat(), "as the client sent it");
        assert_eq!(attempt.header("content-length"), chunks.concat().len().to_string());
        assert!(!attempt.headers.contains_key("transfer-encoding"));
        assert_eq!(attempt.headers, seen[0].headers, "the idempotency key, too");
    }
    assert_eq!(rig.outcome().await, complete(109, USAGE_COST));
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_is_tried_again_and_booked_once() {
    let (rig, _waits) = paced("first_byte_timeout = \"300ms\"", "", "").await;
    for (how, script, label) in [
        ("RST", Script::raw().reset(), "broken"),
        ("FIN", Script::raw().close(), "broken"),
        ("silence", Script::raw().silence(), "timeout"),
    ] {
        let before = rig.metric("tollgate_upstream_calls_total", label);
        rig.bed.provider.script(script);
        rig.bed.provider.script(answer());
        let mut reply = rig.chat("").send().await.expect("an answer");
        assert_eq!((reply.status().as_u16(), read(&mut reply).await), (200, (JSON.into(), true)), "{how}");
        assert_eq!(rig.outcome().await, complete(109, USAGE_COST), "{how}");
        assert_eq!(rig.metric("tollgate_upstream_calls_total", label) - before, 1, "{how}: the lost attempt shows");
    }
    assert_eq!(rig.bed.provider.seen(), 6);
}

#[tokio::test]
async fn a_stream_is_tried_again_on_every_route() {
    let (rig, _waits) = paced("", "", "").await;
    for route in &ROUTES {
        let stream = format!("{}{}", route.half(), route.their_error);
        rig.bed.provider.script(fails(529));
        rig.bed.provider.script(Script::sse().send(stream.clone()));
        let mut reply = rig.post(route.path, route.request).send().await.expect("an answer");
        assert_eq!((reply.status().as_u16(), read(&mut reply).await), (200, (stream, true)), "{}", route.path);
        let outcome = rig.outcome().await;
        assert_eq!((outcome.requests, outcome.cause.as_str()), (1, "upstream_failed"), "{}", route.path);
    }
    assert_eq!(rig.bed.provider.seen(), 6, "an error after content is final");
}

#[tokio::test]
async fn free_routes_are_tried_again_too() {
    let (rig, _waits) = paced("", "", "").await;
    rig.bed.provider.script(fails(503));
    rig.bed.provider.script(Script::json(200, r#"{"input_tokens":5}"#));
    let ask = r#"{"model":"c-big","messages":[{"role":"user","content":"hi"}]}"#;
    let reply = rig.post("/v1/messages/count_tokens", ask).send().await.expect("an answer");
    assert_eq!((reply.status().as_u16(), reply.text().await.expect("a body")), (200, r#"{"input_tokens":5}"#.into()));
    assert_eq!(rig.outcome().await, complete(0, 0));
    assert_eq!(rig.bed.provider.seen(), 2);
}
