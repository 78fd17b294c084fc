//! Idempotency keys where the answer came round about.

use crate::scene::{Answer, ROUTES, bed, models_seen, tickets};
use tollgate::demo::provider::{Gate, Script};

const OPEN: &str = "messages = \"unlimited\"\nrpm = 60\ntpm = 100_000\nmax_output_tokens = 1_000\nspend = { day = 1.0 }";

/// The fallback refused, and what it had to say was thrown away: that is no break of the answer, which is a person's.
#[tokio::test]
async fn a_hand_off_after_a_fallback_that_refused_is_kept_for_its_key() {
    for endless in [false, true] {
        let bed = bed(&[("open", OPEN)], "").await;
        let gate = Gate::new();
        bed.provider.script(Script::json(503, "{}"));
        let refusal = r#"{"error":{"message":"what is that"}}"#;
        bed.provider.script(if endless { Script::http(400).send(refusal).until(&gate) } else { Script::json(400, refusal) });
        let ask = || {
            let request = bed.post("/v1/chat/completions", "c", ROUTES[0].body("")).header("x-customer-plan", "open");
            request.header("x-request-class", "general").header("idempotency-key", "k")
        };
        let first = Answer::of(ask()).await;
        assert_eq!((first.status, first.header("x-tollgate-degraded")), (200, "handoff;cause=provider"), "{}", first.body);
        gate.open();
        let again = Answer::of(ask()).await;
        assert_eq!((again.status, again.header("x-tollgate-replayed")), (200, "true"), "endless: {endless}; {}", again.body);
        assert_eq!((&again.body, again.header("x-tollgate-ticket")), (&first.body, first.header("x-tollgate-ticket")));
        assert_eq!(models_seen(&bed), ["m-big", "m-small"]);
        tickets(&bed, 1).await;
        bed.assert_books(&["c"]).await;
    }
}

/// A provider refuses a key that comes back with another body, as we do. The same body keeps its key.
#[tokio::test]
async fn a_fallback_does_not_go_under_the_key_of_another_body() {
    let more = "";
    let bed = bed(&[("open", OPEN)], more).await;
    bed.provider.script(Script::json(503, "{}"));
    let ask = |model: &str, customer: &str| {
        let body = ROUTES[0].body("").replace("m-big", model);
        let request = bed.post("/v1/chat/completions", customer, body).header("x-customer-plan", "open");
        request.header("x-request-class", "general").header("idempotency-key", "k")
    };
    let answer = Answer::of(ask("m-big", "c")).await;
    assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, "cheaper;cause=provider"), "{}", answer.body);
    let log = bed.provider.log();
    let keys: Vec<&str> = log.iter().map(|seen| seen.header("idempotency-key")).collect();
    assert!(keys.iter().all(|key| key.len() == 64), "{keys:?}");
    assert_ne!(keys[0], keys[1], "two bodies, two keys");
    bed.assert_books(&["c"]).await;
}
