//! Time over several steps of a chain.

use crate::bed::Bed;
use crate::scene::{Answer, ROUTES, config, models_seen};
use std::sync::Arc;
use std::time::Duration;
use tollgate::demo::provider::{Gate, Script};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::telemetry::SystemClock;

const OPEN: &str = "messages = \"unlimited\"\nrpm = 60\ntpm = 100_000\nmax_output_tokens = 1_000\nspend = { day = 1.0 }";

/// All steps of a chain share the wait budget, also what was spent inside attempts that failed (G3).
#[tokio::test]
async fn the_fallback_does_not_get_a_wait_budget_of_its_own() {
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let ledger = Arc::new(EmbeddedLedger::in_memory(Arc::new(SystemClock)));
    let text = config(&[("open".to_owned(), OPEN.to_owned())], "").replace("max = 0", "max = 2");
    let bed = Bed::on(&text, provider, ledger).await;
    let gate = Gate::new();
    bed.provider.script(Script::json(503, "{}").header("retry-after", "1").hold(&gate));
    bed.provider.script(Script::json(503, "{}").header("retry-after", "1"));
    let asking = {
        let request = bed.post("/v1/chat/completions", "c", ROUTES[0].body("")).header("x-customer-plan", "open");
        tokio::spawn(Answer::of(request.header("x-request-class", "general")))
    };
    bed.provider.wait_until(|log| log.len() == 1).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await; // real time inside the attempt is what is counted
    gate.open();
    let answer = asking.await.expect("no panic");
    assert_eq!(models_seen(&bed), ["m-big", "m-small"], "1.2 s and another second are more than the 2 s there are");
    assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, "handoff;cause=provider"), "{}", answer.body);
    bed.assert_books(&["c"]).await;
}
