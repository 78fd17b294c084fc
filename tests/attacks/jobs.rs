//! Jobs that meet the chain.

use crate::bed::Bed;
use crate::scene::{Answer, ROUTES, bed, config, models_seen, tickets};
use std::sync::Arc;
use std::time::Duration;
use tollgate::demo::provider::Script;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::telemetry::SystemClock;

const OPEN: &str = "messages = \"unlimited\"\nrpm = 60\ntpm = 100_000\nmax_output_tokens = 1_000\nspend = { day = 1.0 }";

fn look(bed: &Bed, url: &str) -> reqwest::RequestBuilder {
    bed.client.get(bed.url(url)).header("authorization", "Bearer sk-test").header("x-customer-id", "c")
}

/// The result of a job, once it has one.
async fn result(bed: &Bed, accepted: &Answer) -> Answer {
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    let url = accepted.header("location").to_owned();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(15);
    loop {
        let status = Answer::of(look(bed, &url)).await.json();
        if status["status"] == "done" || status["status"] == "failed" {
            return Answer::of(look(bed, &format!("{url}/result"))).await;
        }
        assert!(tokio::time::Instant::now() < deadline, "{status}");
        tokio::time::sleep(Duration::from_millis(10)).await; // polling with a deadline
    }
}

/// Nobody waits on the line for a job: where a request would be handed to a person, it runs again and has the model's whole answer.
#[tokio::test]
async fn a_job_is_not_handed_off_but_runs_again_and_is_charged_once() {
    let bed = bed(&[("open", OPEN)], "").await;
    bed.provider.script(Script::json(503, "{}"));
    bed.provider.script(Script::json(400, r#"{"error":{"message":"what is that"}}"#));
    let request = bed.post("/v1/chat/completions", "c", ROUTES[0].body("")).header("x-customer-plan", "open");
    let request = request.header("x-request-class", "general").header("x-priority", "live").header("prefer", "respond-async");
    let accepted = Answer::of(request).await;
    let answer = result(&bed, &accepted).await;
    assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, ""), "{}", answer.body);
    assert_eq!(models_seen(&bed), ["m-big", "m-small", "m-big"]);
    tickets(&bed, 0).await;
    bed.assert_books(&["c"]).await;
}

/// A request that says two things of its personal data says both of them when it runs later.
#[tokio::test]
async fn a_job_carries_every_mark_of_its_request_to_the_other_provider_or_not() {
    for (marks, leaves) in [(&["none"][..], true), (&["none", "some"][..], false), (&["some", "none"][..], false)] {
        let other = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
        let key = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(key.path(), "sk-other").expect("written");
        let more = format!(
            "[upstreams.other]\nbase_url = \"{}\"\ndialect = \"openai\"\napi_key = {{ file = {:?} }}\n[pools.other]\nupstream = \"other\"\nmodels = [\"away\"]\n[models.home]\nprice = {{ input = 2.0, output = 8.0 }}\nfallback = {{ model = \"away\", other_provider = true }}\n[models.away]\nprice = {{ input = 1.0, output = 2.0 }}",
            other.base_url(),
            key.path(),
        );
        let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
        let ledger = Arc::new(EmbeddedLedger::in_memory(Arc::new(SystemClock)));
        let bed = Bed::on(&config(&[("open".to_owned(), OPEN.to_owned())], &more), provider, ledger).await;
        bed.provider.script(Script::json(500, "{}"));
        let body = r#"{"model":"home","messages":[{"role":"user","content":"What is the capital of France?"}]}"#;
        let request = bed.post("/v1/chat/completions", "c", body).header("x-customer-plan", "open");
        let request = request.header("x-request-class", "general").header("x-priority", "live").header("prefer", "respond-async");
        let request = marks.iter().fold(request, |request, mark| request.header("x-personal-data", *mark));
        let accepted = Answer::of(request).await;
        let answer = result(&bed, &accepted).await;
        // Where it may not leave, it runs again at home.
        let right = if leaves { "cheaper;cause=provider" } else { "" };
        assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, right), "{marks:?} {}", answer.body);
        assert_eq!((other.seen(), bed.provider.seen()), if leaves { (1, 1) } else { (0, 2) }, "{marks:?}");
        bed.quiet().await;
    }
}
