//! Request records: what a gateway keeps of each request, found by our id and by the provider's.

#[path = "support/bed.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod bed;

use bed::{Bed, CONFIG};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use tokio::sync::oneshot;
use tollgate::demo::provider::{Gate, Script};
use tollgate::records::Entry;
use tollgate::server::Server;

/// What is kept of the request that was answered so.
async fn kept(bed: &Bed, reply: &reqwest::Response) -> Entry {
    bed.quiet().await;
    assert!(bed.gateway.records.drain(Duration::from_secs(10)).await);
    let id = reply.headers()["x-tollgate-request-id"].to_str().expect("text");
    bed.gateway.records.find(id).await.expect("the store answers").expect("kept")
}

#[tokio::test]
async fn a_request_that_was_served_is_found_by_both_ids_with_what_it_cost() {
    let bed = Bed::new().await;
    let asked = bed.chat("t", "m-big", "").header("x-request-class", "faq").header("x-user-id", "u1");
    let before = bed.gateway.clock.now().micros();
    let reply = asked.send().await.expect("an answer");
    assert_eq!(reply.status(), 200);
    let theirs = reply.headers()["x-request-id"].to_str().expect("text").to_owned();
    let entry = kept(&bed, &reply).await;
    let Entry { customer, user, plan, class, model, served_model, priority, .. } = &entry;
    let words = [customer, user, plan, class, model, served_model].map(|word| word.as_deref().unwrap_or_default());
    assert_eq!(words, ["t", "u1", "case", "faq", "m-big", "m-big"]);
    assert_eq!((&**priority, entry.status, entry.pool_level, entry.attempts, &*entry.ending), ("live", 200, None, 1, "complete"));
    assert_eq!((entry.degraded.as_deref(), entry.cause.as_deref(), entry.refused_limit.as_deref()), (None, None, None));
    let usage = bed.provider.log()[0].usage.clone().expect("it says");
    assert_eq!((entry.input_tokens, entry.output_tokens), (Some(usage.input()), Some(usage.total_output())));
    assert_eq!(entry.cost_nano_usd, bed.provider_cost().get());
    assert!(entry.admitted_us <= entry.first_byte_us && entry.first_byte_us <= Some(entry.duration_us), "{entry:?}");
    let while_asked = before..=bed.gateway.clock.now().micros();
    assert!(entry.decided_at_us.is_some_and(|at| while_asked.contains(&at)), "{entry:?}");
    assert_eq!(entry.provider_request_id.as_deref(), Some(&*theirs));
    assert_eq!(bed.gateway.records.find(&theirs).await, Ok(Some(entry)));
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_refused_request_is_kept_with_the_limit_that_refused() {
    let bed = Bed::plus("[customers.poor]\nspend = { day = 0 }\non_spend = []").await;
    let reply = bed.chat("poor", "m-big", "").send().await.expect("an answer");
    assert_eq!(reply.status(), 402);
    let entry = kept(&bed, &reply).await;
    let refused = (entry.cause.as_deref(), entry.refused_scope.as_deref(), entry.refused_limit.as_deref());
    assert_eq!(refused, (Some("spend_cap_exceeded"), Some("customer"), Some("spend_day")));
    assert_eq!((entry.refused_max, entry.refused_used, entry.refused_held), (Some(0), Some(0), Some(0)));
    assert!(entry.refused_asked.is_some_and(|asked| asked > 0), "{entry:?}");
    assert_eq!((entry.status, entry.attempts, entry.cost_nano_usd), (402, 0, 0));
    assert_eq!(entry.input_tokens, None);
    assert!(entry.decided_at_us.is_some(), "a refusal is a decision: {entry:?}");
    bed.assert_books(&["poor"]).await;
}

#[tokio::test]
async fn a_refused_request_is_kept_with_the_numbers_of_the_limit() {
    let bed = Bed::plus("[customers.few]\nrpm = 2\n[customers.one]\nmax_in_flight = 1").await;
    let mut last = None;
    for _ in 0..3 {
        last = Some(bed.chat("few", "m-big", "").send().await.expect("an answer"));
    }
    let reply = last.expect("asked");
    assert_eq!(reply.status(), 429);
    let entry = kept(&bed, &reply).await;
    let stood = (entry.refused_max, entry.refused_used, entry.refused_held, entry.refused_asked);
    assert_eq!(stood, (Some(2), Some(2), Some(0), Some(1)), "{entry:?}");

    let gate = Gate::new();
    bed.provider.script(Script::json(200, "{}").hold(&gate));
    let first = tokio::spawn(bed.chat("one", "m-big", "").send());
    bed.provider.wait_until(|seen| seen.len() == 3).await;
    let reply = bed.chat("one", "m-big", "").send().await.expect("an answer");
    gate.open();
    first.await.expect("no panic").expect("an answer");
    let entry = kept(&bed, &reply).await;
    let stood = (entry.refused_limit.as_deref(), entry.refused_max, entry.refused_used, entry.refused_asked);
    assert_eq!(stood, (Some("in_flight"), Some(1), Some(1), Some(1)), "{entry:?}");
}

#[tokio::test]
async fn nothing_is_kept_where_that_is_configured() {
    let bed = Bed::plus("[records]\nkeep = 0").await;
    let reply = bed.chat("t", "m-big", "").send().await.expect("an answer");
    assert_eq!(reply.status(), 200);
    bed.quiet().await;
    assert!(bed.gateway.records.drain(Duration::from_secs(10)).await);
    let id = reply.headers()["x-tollgate-request-id"].to_str().expect("text");
    assert_eq!(bed.gateway.records.find(id).await, Ok(None));
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_stop_writes_the_records_of_the_last_requests() {
    let bed = Bed::new().await;
    let reply = bed.chat("t", "m-big", "").send().await.expect("an answer");
    let id = reply.headers()["x-tollgate-request-id"].to_str().expect("text").to_owned();
    drop(reply.bytes().await.expect("whole"));
    let gateway = bed.gateway.clone();
    bed.stop().await;
    assert!(gateway.records.find(&id).await.expect("the store answers").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_find_a_record_over_http_and_on_the_command_line() {
    let bed = Bed::with(&format!("{CONFIG}\n[admin]\nlisten = \"127.0.0.1:0\""), Default::default()).await;
    let server = Server::bind(bed.gateway.clone()).await.expect("loopback ports");
    let url = format!("http://{}", server.admin_address().expect("bound").expect("configured"));
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async { drop(stopped.await) }));
    let reply = bed.chat("t", "m-big", "").send().await.expect("an answer");
    let entry = kept(&bed, &reply).await;
    for id in [&entry.request_id, entry.provider_request_id.as_ref().expect("it named it")] {
        let found = bed.client.get(format!("{url}/admin/requests/{id}")).send().await.expect("an answer");
        assert_eq!(found.status(), 200);
        let found: Value = serde_json::from_str(&found.text().await.expect("text")).expect("JSON");
        assert_eq!(found, json!(entry));
        let (success, out, _) = command(&url, id).await;
        assert!(success);
        assert_eq!(serde_json::from_str::<Value>(&out).expect("JSON"), json!(entry));
    }
    let nothing = bed.client.get(format!("{url}/admin/requests/tg_0")).send().await.expect("an answer");
    assert_eq!(nothing.status(), 404);
    assert!(nothing.text().await.expect("text").contains(r#""code":"request_not_found""#));
    let (success, out, err) = command(&url, "../../{odd} id?").await;
    assert_eq!((success, &*out), (false, ""));
    assert!(err.contains("404 Not Found: Nothing is kept of such a request"), "{err}");
    drop(stop);
    serving.await.expect("it ends in order");
    let (success, _, err) = command(&url, &entry.request_id).await;
    assert!(!success && err.contains("is the gateway running"), "{err}");
    bed.assert_books(&["t"]).await;
}

/// Runs `tollgate request` and gives whether it succeeded, and what it wrote.
async fn command(url: &str, id: &str) -> (bool, String, String) {
    let args = ["request", id, "--url", url].map(str::to_owned);
    let run = move || Command::new(env!("CARGO_BIN_EXE_tollgate")).args(args).output().expect("it runs");
    let output = tokio::task::spawn_blocking(run).await.expect("no panic");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}
