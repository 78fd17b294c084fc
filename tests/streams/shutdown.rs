//! SIGTERM with streams in flight: they end in the grace period, or are cut and booked; nothing is left unsettled.

use crate::bodies::{DONE, FINISH, HI, IN, OUT, STREAM, USAGE, USAGE_COST, three};
use crate::rig::{Recording, Rig, SOON, booked, config, read, read_some, until};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tollgate::demo::provider::{Gate, Script, Seen};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::CustomerId;
use tollgate::limit::{Measure, Scope, ScopeKey};
use tollgate::store::Ledger;
use tollgate::store::embedded::{EmbeddedLedger, LostHold};
use tollgate::telemetry::SystemClock;

fn rest() -> String {
    format!("{FINISH}{USAGE}{DONE}")
}

/// Nano-dollars booked, sorted.
fn costs(ledger: &Recording) -> Vec<u64> {
    let mut costs: Vec<_> = ledger.take().iter().map(|settlement| booked(settlement, Measure::Money)).collect();
    costs.sort_unstable();
    costs
}

#[tokio::test]
async fn streams_in_flight_end_and_are_booked_before_the_server_does() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let mut replies = Vec::new();
    for number in 0..5 {
        rig.bed.provider.script(Script::sse().send(three()).until(&gate).send(rest()));
        if number == 4 {
            rig.next_customer();
        }
        let mut reply = rig.chat(STREAM).send().await.expect("an answer");
        read_some(&mut reply, &three()).await;
        replies.push(reply);
    }
    let Rig { bed, ledger, .. } = rig;
    let (address, gateway) = (bed.address, bed.gateway.clone());
    let provider = bed.provider.clone();
    let stopping = tokio::spawn(bed.stop());
    until("a closed port", || std::net::TcpStream::connect(address).is_err().then_some(())).await;
    assert!(!stopping.is_finished(), "the streams have their time");
    gate.open();
    for reply in &mut replies {
        assert_eq!(read(reply).await, (rest(), true));
    }
    tokio::time::timeout(SOON, stopping).await.expect("an end, right after the last settlement").expect("no panic");
    assert_eq!(costs(&ledger), [USAGE_COST; 5]);
    assert_eq!(gateway.settler.status().outstanding, 0);
    assert_eq!(provider.seen(), 5);
}

#[tokio::test]
async fn what_outlasts_the_grace_period_is_cut_and_booked_by_our_own_count() {
    let rig = Rig::on(&config("", "[server]\ngrace = \"300ms\"")).await;
    let h2 = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().expect("a client");
    let mut streams = Vec::new();
    for client in [&rig.bed.client, &h2] {
        rig.bed.provider.script(Script::sse().send(three()).silence());
        let mut reply = client.execute(rig.chat(STREAM).build().expect("a request")).await.expect("an answer");
        read_some(&mut reply, &three()).await;
        streams.push(reply);
    }
    // One that is no stream and whose client waits, and one whose client has left already.
    let mut calls = Vec::new();
    for number in 3..=4 {
        rig.bed.provider.script(Script::json(200, "{}").hold(&Gate::new()));
        calls.push(tokio::spawn(rig.chat("").send()));
        rig.provider_saw("the call", |seen| seen.len() == number && !seen[number - 1].body.is_empty()).await;
    }
    calls[1].abort();
    until("its slot", || (rig.bed.gateway.slots.load().free == 32 - 3).then_some(())).await;
    let Rig { bed, ledger, .. } = rig;
    let (gateway, provider) = (bed.gateway.clone(), bed.provider.clone());
    tokio::time::timeout(SOON, bed.stop()).await.expect("an end soon after the grace period");
    assert_eq!(gateway.settler.status().outstanding, 0, "nothing is left to the lease");
    let (prompt, stream) = (HI * IN, HI * IN + 3 * OUT);
    assert_eq!(costs(&ledger), [prompt, prompt, stream, stream]);
    for mut reply in streams {
        assert_eq!(read(&mut reply).await, (String::new(), false), "cut, not ended");
    }
    assert!(calls.remove(0).await.expect("no panic").is_err(), "no answer");
    let all = tokio::time::timeout(SOON, provider.wait_until(|seen| seen.iter().all(Seen::client_left))).await;
    all.expect("all calls cancelled");
}

/// Runs the real program, sends it SIGTERM in mid-stream, and gives what the client still got, the line of the access log, and what the
/// journal says that the customer spent.
async fn terminated(grace: &str, opens: bool) -> ((String, bool), serde_json::Value, u64) {
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let directory = tempfile::tempdir().expect("a directory");
    let (data, log) = (directory.path().join("data"), directory.path().join("log"));
    let text = config("", &format!("[server]\nlisten = \"127.0.0.1:0\"\ngrace = \"{grace}\"\n[store]\npath = {data:?}"));
    let file = directory.path().join("tollgate.toml");
    std::fs::write(&file, text.replace("{provider}", &provider.base_url())).expect("written");
    let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
    program.arg("serve").arg("--config").arg(&file).arg("--log-file").arg(&log).stderr(Stdio::null()).kill_on_drop(true);
    let mut program = program.spawn().expect("the program runs");

    let gate = Gate::new();
    provider.script(Script::sse().send(three()).until(&gate).send(rest()));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let lines = || -> Vec<serde_json::Value> {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let serving =
        || lines().iter().find(|line| line["message"] == "serving").and_then(|line| line["address"].as_str()?.parse().ok());
    let address: std::net::SocketAddr = until("its address in the log", serving).await;
    let body = format!(r#"{{"model":"m-big","messages":[{{"role":"user","content":"hi"}}]{STREAM}}}"#);
    let request = client.post(format!("http://{address}/v1/chat/completions")).header("authorization", "Bearer sk-test");
    let request = request.header("content-type", "application/json").header("x-customer-id", "t").body(body);
    let mut reply = request.send().await.expect("an answer");
    read_some(&mut reply, &three()).await;
    let id = program.id().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
    until("a closed port", || std::net::TcpStream::connect(address).is_err().then_some(())).await;
    if opens {
        gate.open();
    }
    let got = tokio::time::timeout(SOON, read(&mut reply)).await.expect("an end");
    let status = tokio::time::timeout(Duration::from_secs(20), program.wait()).await.expect("an exit").expect("waited for");
    assert_eq!(status.code(), Some(0));

    let access = lines().into_iter().find(|line| line["target"] == "access").expect("an access line");
    let ledger = EmbeddedLedger::open(&data, Arc::new(SystemClock), LostHold::Charge).expect("a journal");
    let owner = CustomerId::from_trusted("t").key().as_ref().into();
    let balances = ledger.read(&ScopeKey { scope: Scope::Customer, owner }).await.expect("balances");
    assert!(balances.iter().all(|balance| balance.held == 0), "{balances:?}");
    (got, access, balances[0].spent)
}

#[tokio::test]
async fn the_program_ends_its_streams_on_sigterm_and_keeps_their_bookings() {
    let (got, access, spent) = terminated("30s", true).await;
    assert_eq!(got, (rest(), true));
    assert_eq!((&access["ending"], &access["usage_estimated"]), (&"complete".into(), &false.into()), "{access}");
    assert_eq!((access["cost_nano_usd"].as_u64(), spent), (Some(USAGE_COST), USAGE_COST));
}

#[tokio::test]
async fn the_program_cuts_what_outlasts_the_grace_period_and_books_it() {
    let (got, access, spent) = terminated("300ms", false).await;
    assert_eq!(got, (String::new(), false));
    let cost = HI * IN + 3 * OUT;
    assert_eq!((&access["ending"], &access["usage_estimated"]), (&"client_gone".into(), &true.into()), "{access}");
    assert_eq!((access["cost_nano_usd"].as_u64(), spent), (Some(cost), cost));
}
