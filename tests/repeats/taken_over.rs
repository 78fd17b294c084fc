//! Jobs whose gateway stops or dies, and jobs that several gateways could run.

use crate::rig::{Rig, SHOP, chat_body, look, take_in, until, until_status};
use std::time::Duration;
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::Gate;
use tollgate::domain::{Clock, Timestamp};
use tollgate::repeats::job::{Job, Request, State};
use tollgate::repeats::jobs::{Added, Bounds, Jobs, new_id};
use tollgate::telemetry::SystemClock;
use tollgate::wire::Api;

const HOUR: Duration = Duration::from_secs(3_600);

/// Puts a job into the store as a gateway that died may have left it.
async fn left_behind(rig: &Rig, change: impl FnOnce(&mut Job)) -> (String, String) {
    let id = new_id();
    let now = SystemClock.now();
    let created = Timestamp(now.micros() - 60_000_000);
    let mut job = Job::new("shop", &tollgate::config::hash_key(SHOP), "t", Api::Chat, (created, 3_600_000_000));
    change(&mut job);
    let mut headers = http::HeaderMap::new();
    headers.insert("x-customer-id", "t".parse().expect("a value"));
    headers.insert("content-type", "application/json".parse().expect("a value"));
    let asked = Request {
        api: Api::Chat,
        method: http::Method::POST,
        uri: "/v1/chat/completions".parse().expect("a path"),
        headers,
        body: chat_body("m-small", "").into(),
    };
    let bounds = Bounds { all: 100, per_customer: 100 };
    let added = Jobs::new(rig.documents.clone()).add(&id, &job, &asked, bounds, HOUR).await;
    assert_eq!(added.expect("it answers"), Added::Stored);
    (format!("/v1/jobs/{id}"), id)
}

#[tokio::test]
async fn a_job_whose_gateway_died_is_run_again_but_not_for_ever() {
    let rig = Rig::new("").await;
    let (again, _) = left_behind(&rig, |job| (job.state, job.runs) = (State::Running, 1)).await;
    let (deadly, _) = left_behind(&rig, |job| (job.state, job.runs) = (State::Running, 5)).await;
    let (late, _) = left_behind(&rig, |job| job.until = job.created + 1).await;
    let bed = rig.gateway().await;
    let status = until_status(&bed, "t", &again, &["done", "failed"]).await;
    assert_eq!((&status["status"], &status["attempts"]), (&"done".into(), &2.into()));
    until_status(&bed, "t", &deadly, &["failed"]).await;
    let result = look(&bed, "t", &format!("{deadly}/result")).await;
    assert_eq!((result.status, result.code().as_str()), (500, "internal_error"));
    until_status(&bed, "t", &late, &["expired"]).await;
    let result = look(&bed, "t", &format!("{late}/result")).await;
    assert_eq!((result.status, result.code().as_str(), result.header("x-should-retry")), (410, "job_expired", "false"));
    assert_eq!(rig.provider.seen(), 1);
    bed.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_gateway_that_stops_leaves_its_jobs_to_the_next() {
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let rig = Rig::with("[server]\ngrace = \"0s\"\n[repeats]\njobs_at_once = 1\n", options).await;
    let first = rig.gateway().await;
    let running = take_in(&first, "t", &chat_body("m-small", r#","stream":true"#)).await;
    rig.provider.wait_until(|seen| seen.len() == 1).await;
    let waiting = take_in(&first, "t", &chat_body("m-small", "")).await;
    first.stop().await;
    gate.open();
    let second = rig.gateway().await;
    for url in [&running, &waiting] {
        let status = until_status(&second, "t", url, &["done", "failed"]).await;
        assert_eq!((&status["status"], &status["attempts"]), (&"done".into(), &1.into()), "{status}");
    }
    assert_eq!(rig.provider.seen(), 3, "the interrupted one ran twice");
    let seen = rig.provider.log();
    assert_eq!((seen[0].client_left(), seen[0].delivered), (true, 0));
    // The prompt of the first run is charged, as that of any stream whose client left before the answer began.
    second.quiet().await;
    let finished: u64 = seen[1..]
        .iter()
        .filter_map(|seen| {
            let policy = second.gateway.policy.load();
            Some(policy.prices.get(&seen.model)?.cost(seen.usage.as_ref()?, None).get())
        })
        .sum();
    let spent = second.spent("t").await.get();
    assert!(spent > finished && spent - finished < 10_000, "{spent} = {finished} and one short prompt");
}

#[tokio::test]
async fn two_gateways_run_each_job_once_and_never_more_at_a_time_than_they_may() {
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let rig = Rig::with("[repeats]\njobs_at_once = 2\n", options).await;
    let (one, two) = (rig.gateway().await, rig.gateway().await);
    let mut urls = Vec::new();
    for n in 0..16 {
        urls.push(take_in(if n % 2 == 0 { &one } else { &two }, "open", &chat_body("m-small", &format!(r#","seed":{n}"#))).await);
    }
    until("both are at their bound", async || rig.provider.seen() == 4).await;
    let few = take_in(&one, "few", &chat_body("m-small", "")).await;
    gate.open();
    for url in &urls {
        until_status(&two, "open", url, &["done"]).await;
    }
    until_status(&two, "few", &few, &["done"]).await;
    let seen = rig.provider.log();
    assert_eq!(seen.len(), 17, "each once");
    let place = seen.iter().position(|seen| !String::from_utf8_lossy(&seen.body).contains("seed")).expect("it ran");
    assert!(place < 10, "one customer's many do not stand before another's few: {place}");
    for bed in [&one, &two] {
        bed.quiet().await;
    }
    one.assert_books(&["open", "few"]).await;
}
