//! What the client gets when trying again did not help, or does not fit.

use crate::pace::paced;
use crate::rig::{Outcome, complete, read};
use crate::statuses::{answer, fails};
use serde_json::Value;
use std::time::Instant;
use tollgate::demo::provider::Script;

const BODY: &str = r#"{"type":"error","error":{"type":"rate_limit_error","message":"m"}}"#;

fn text(reply: &reqwest::Response, header: &str) -> Option<String> {
    reply.headers().get(header).map(|value| value.to_str().expect("text").to_owned())
}

#[tokio::test]
async fn the_providers_error_passes_with_its_body_and_headers_and_no_advice_to_try_again() {
    let (rig, waits) = paced("", "", "").await;
    for _ in 0..3 {
        let script = Script::json(429, BODY).header("retry-after", "1").header("x-request-id", "r1");
        rig.bed.provider.script(script.header("anthropic-ratelimit-tokens-limit", "5").header("x-should-retry", "true"));
    }
    let mut reply = rig.chat("").send().await.expect("an answer");
    let header = |name| text(&reply, name);
    assert_eq!(
        [
            header("retry-after"),
            header("x-request-id"),
            header("x-tollgate-refused-by"),
            header("x-should-retry"),
            header("x-ratelimit-remaining-requests"),
            header("anthropic-ratelimit-tokens-limit"),
        ],
        [Some("1"), Some("r1"), Some("provider"), Some("false"), Some("59"), None].map(|value| value.map(str::to_owned))
    );
    assert_eq!((reply.status().as_u16(), read(&mut reply).await), (429, (BODY.into(), true)));
    assert_eq!(waits.take(), [1_000, 1_000]);
    assert_eq!(rig.bed.provider.seen(), 3, "an SDK that does as it is told makes no fourth");
    assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_error"));
    assert_eq!(rig.metric("tollgate_retries_ended_total", "reason=\"attempts\""), 1);
}

#[tokio::test]
async fn a_wait_beyond_the_budget_is_handed_up_at_once() {
    let (rig, waits) = paced("", "wait_budget = \"10s\"", "").await;
    rig.bed.provider.script(Script::json(429, BODY).header("retry-after", "60"));
    let before = Instant::now();
    let reply = rig.chat("").send().await.expect("an answer");
    assert!(before.elapsed().as_millis() < 1_000);
    assert_eq!(
        (reply.status().as_u16(), text(&reply, "retry-after"), text(&reply, "x-should-retry")),
        (429, Some("60".into()), None)
    );
    assert_eq!((waits.take().len(), rig.bed.provider.seen()), (0, 1));
    assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_error"));
    assert_eq!(rig.metric("tollgate_retries_ended_total", "reason=\"wait_budget\""), 1);
}

#[tokio::test]
async fn waits_that_each_fit_do_not_add_up_to_more_than_the_budget() {
    let (rig, waits) = paced("", "max = 5\nwait_budget = \"10s\"", "").await;
    for _ in 0..3 {
        rig.bed.provider.script(fails(503).header("retry-after", "4"));
    }
    assert_eq!(rig.chat("").send().await.expect("an answer").status(), 503);
    assert_eq!((waits.take(), rig.bed.provider.seen()), (vec![4_000, 4_000], 3));
    rig.outcome().await;
}

#[tokio::test]
async fn the_time_inside_a_failing_attempt_counts() {
    let (rig, waits) = paced("first_byte_timeout = \"300ms\"", "wait_budget = \"350ms\"", "").await;
    rig.bed.provider.script(Script::raw().silence());
    let reply = rig.chat("").send().await.expect("an answer");
    assert_eq!(reply.status(), 504);
    assert_eq!((waits.take().len(), rig.bed.provider.seen()), (0, 1), "300 ms are gone, and 100 ms do not fit into the rest");
    assert_eq!(rig.outcome().await, complete(0, 0).cause("upstream_timeout"));
}

#[tokio::test]
async fn no_retries_are_no_retries() {
    for retry in ["max = 0", "wait_budget = \"0s\""] {
        let (rig, waits) = paced("", retry, "").await;
        rig.bed.provider.script(fails(503));
        let reply = rig.chat("").send().await.expect("an answer");
        assert_eq!((reply.status().as_u16(), text(&reply, "x-should-retry")), (503, None), "the SDK may");
        assert_eq!((waits.take().len(), rig.bed.provider.seen()), (0, 1), "{retry}");
        rig.outcome().await;
    }
}

#[tokio::test]
async fn who_was_never_reached_gets_everything_back() {
    let closed = tokio::net::TcpSocket::new_v4().expect("a socket");
    closed.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let gone = closed.local_addr().expect("bound");
    let more = format!(
        "[upstreams.gone]\nbase_url = \"http://{gone}/v1\"\ndialect = \"openai\"\n\
         [pools.gone]\nupstream = \"gone\"\nmodels = [\"m-gone\"]\nceiling = {{ rpm = 100, tpm = 100_000 }}\n\
         [models.m-gone]\nprice = {{ input = 1.0, output = 1.0 }}"
    );
    let (rig, waits) = paced("", "", &more).await;
    let customer = rig.customer();
    let reply = rig.bed.chat(&customer, "m-gone", "").send().await.expect("an answer");
    assert_eq!(
        (reply.status().as_u16(), text(&reply, "x-should-retry")),
        (502, Some("false".into())),
        "three attempts are enough"
    );
    let body: Value = serde_json::from_str(&reply.text().await.expect("a body")).expect("JSON");
    assert_eq!(body["error"]["code"], "upstream_unreachable");
    assert_eq!(waits.take(), [100, 100], "the dice show nothing, and no wait is shorter");
    assert_eq!(rig.metric("tollgate_upstream_calls_total", "connect"), 3);
    assert_eq!(rig.logged(&customer, "attempts"), "3");
    rig.bed.quiet().await;
    let settled = rig.ledger.take();
    assert_eq!(settled.len(), 1);
    assert!(settled[0].lines.iter().all(|line| line.actual == 0), "the ceiling, too: {settled:?}");
}

#[tokio::test]
async fn a_client_that_leaves_during_a_wait_ends_it_all() {
    let (rig, waits) = paced("", "", "").await;
    for more in ["", crate::bodies::STREAM] {
        rig.bed.provider.script(fails(500));
        let gate = waits.hold();
        let call = tokio::spawn(rig.chat(more).send());
        waits.begun(1).await;
        let before = rig.bed.provider.seen();
        call.abort();
        assert_eq!(rig.outcome().await, Outcome { ending: "client_gone".into(), ..complete(0, 0).cause("upstream_error") });
        gate.open();
        assert_eq!(rig.bed.provider.seen(), before, "no further attempt");
        waits.take();
    }
    rig.bed.provider.script(answer());
}
