//! Jobs that wait for room: until there is some, until their key is taken away, or until their time is over.

use crate::bed::Bed;
use crate::rig::{Answer, Rig, SHOP, chat_body, look, post, take_in, until, until_status};
use std::sync::Arc;
use tollgate::config::policy::Auth;
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::Gate;

/// `tight` can afford one call of `m-big` at a time: a call in flight holds more than half of its cap.
const TIGHT: &str = "[plans.tight]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\nspend = { day = 0.015 }\nmax_output_tokens = 1_000\n\
                     on_spend = []\non_provider = []\n[customers.tight]\nplan = \"tight\"\n";

async fn held(rig: &Rig, bed: &Bed) -> tokio::task::JoinHandle<Answer> {
    let holding = tokio::spawn(Answer::to(post(bed, SHOP, "tight", "/v1/chat/completions", &chat_body("m-big", ""))));
    rig.provider.wait_until(|seen| seen.len() == 1).await;
    holding
}

/// Waits until a job was tried and found no room.
async fn without_room(bed: &Bed, url: &str) {
    until("it found no room", async || {
        let status = look(bed, "tight", url).await.json();
        assert_ne!(status["status"], "failed", "{status}");
        status["status"] == "queued" && status["reason"] == "budget_in_flight"
    })
    .await;
}

#[tokio::test]
async fn a_job_waits_for_room_and_then_runs() {
    let gate = Gate::new();
    let rig = Rig::with(TIGHT, ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() }).await;
    let bed = rig.gateway().await;
    let holding = held(&rig, &bed).await;
    let url = take_in(&bed, "tight", &chat_body("m-big", "")).await;
    without_room(&bed, &url).await;
    assert_eq!(rig.provider.seen(), 1);
    gate.open();
    assert_eq!(holding.await.expect("it ended").status, 200);
    let status = until_status(&bed, "tight", &url, &["done", "failed"]).await;
    assert_eq!(
        (&status["status"], &status["attempts"]),
        (&"done".into(), &1.into()),
        "what found no room is no attempt: {status}"
    );
    assert_eq!(rig.provider.seen(), 2);
    bed.assert_books(&["tight"]).await;
}

#[tokio::test]
async fn a_job_is_judged_when_it_runs() {
    for revoked in [true, false] {
        let gate = Gate::new();
        let rig = Rig::with(TIGHT, ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() }).await;
        let bed = rig.gateway().await;
        let holding = held(&rig, &bed).await;
        let url = take_in(&bed, "tight", &chat_body("m-big", "")).await;
        without_room(&bed, &url).await;
        // The key is taken away, or the customer's plan allows nothing any more.
        let (mut policy, _) = rig.policy();
        let shop = policy.auth.clone();
        if revoked {
            let Auth::Keys { apps } = &mut policy.auth else { panic!("keys mode") };
            apps.retain(|_, app| &*app.name != "shop");
        } else {
            let plan = policy.customers.get_mut("tight").expect("configured");
            Arc::make_mut(plan).limits.spend[0].1 = tollgate::domain::NanoUsd::ZERO;
        }
        bed.gateway.policy.store(Arc::new(policy));
        gate.open();
        assert_eq!(holding.await.expect("it ended").status, 200, "what was admitted goes on");
        until("it has ended", async || bed.gateway.metrics.render().contains("tollgate_jobs_ended_total{state=\"failed\"} 1\n"))
            .await;
        let (mut policy, _) = rig.policy();
        policy.auth = shop;
        bed.gateway.policy.store(Arc::new(policy));
        let result = look(&bed, "tight", &format!("{url}/result")).await;
        let right = if revoked { (401, "invalid_api_key") } else { (402, "spend_cap_exceeded") };
        assert_eq!((result.status, result.code().as_str()), right, "{result:?}");
        assert_eq!(rig.provider.seen(), 1);
        bed.assert_books(&["tight"]).await;
    }
}

#[tokio::test]
async fn a_job_that_found_no_room_in_its_time_has_expired() {
    let gate = Gate::new();
    let config = format!("{TIGHT}[repeats]\njob_wait = \"3s\"\n");
    let rig = Rig::with(&config, ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() }).await;
    let bed = rig.gateway().await;
    let holding = held(&rig, &bed).await;
    let url = take_in(&bed, "tight", &chat_body("m-big", "")).await;
    // Where the next try would come too late, the refusal is the result.
    let status = until_status(&bed, "tight", &url, &["failed", "expired", "done"]).await;
    let result = look(&bed, "tight", &format!("{url}/result")).await;
    match status["status"].as_str().expect("a text") {
        "failed" => assert_eq!((result.status, result.code().as_str()), (429, "budget_in_flight")),
        "expired" => assert_eq!((result.status, result.code().as_str()), (410, "job_expired")),
        other => panic!("{other}"),
    }
    gate.open();
    assert_eq!(holding.await.expect("it ended").status, 200);
    assert_eq!(rig.provider.seen(), 1);
    bed.assert_books(&["tight"]).await;
}

#[tokio::test]
async fn a_job_waits_where_a_request_is_handed_off() {
    let gate = Gate::new();
    let config = TIGHT.replace("on_spend = []", "on_spend = [\"handoff\"]");
    let rig = Rig::with(&config, ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() }).await;
    let bed = rig.gateway().await;
    let holding = held(&rig, &bed).await;
    let chat = || post(&bed, SHOP, "tight", "/v1/chat/completions", &chat_body("m-big", "")).header("x-priority", "live");
    let direct = Answer::to(chat()).await;
    assert_eq!((direct.status, direct.header("x-tollgate-model")), (200, "human-triage"), "{direct:?}");
    let taken = Answer::to(chat().header("prefer", "respond-async")).await;
    assert_eq!(taken.status, 202, "{taken:?}");
    let url = taken.header("location");
    without_room(&bed, url).await;
    gate.open();
    assert_eq!(holding.await.expect("it ended").status, 200);
    assert_eq!(until_status(&bed, "tight", url, &["done", "failed"]).await["status"], "done");
    let result = look(&bed, "tight", &format!("{url}/result")).await;
    assert_eq!((result.status, result.json()["model"].as_str(), rig.provider.seen()), (200, Some("m-big"), 2));
    bed.assert_books(&["tight"]).await;
}
