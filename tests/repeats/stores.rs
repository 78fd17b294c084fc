//! The same on every store, and after a restart.

use crate::redis_server::RedisServer;
use crate::rig::{Answer, Rig, chat_body, keyed, look, take_in, until_status};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tollgate::config::policy::LostHold;
use tollgate::demo::ProviderOptions;
use tollgate::demo::provider::Gate;
use tollgate::store::Stores;
use tollgate::store::redis::{RedisDocuments, RedisLedger};
use tollgate::telemetry::SystemClock;

/// A generous deadline: it is not speed that is tested.
const DEADLINE: Duration = Duration::from_secs(5);

fn redis(server: &RedisServer) -> Stores {
    let url = server.url();
    Stores {
        ledger: Arc::new(RedisLedger::connect(&[&url], DEADLINE).expect("well-formed")),
        documents: Arc::new(RedisDocuments::connect(&[&url], DEADLINE).expect("well-formed")),
    }
}

/// Opens the directory as soon as the tasks of the gateway before have let go of it.
async fn embedded(path: &Path) -> Stores {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        match Stores::embedded(path, Arc::new(SystemClock), LostHold::Charge) {
            Ok(stores) => return stores,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
}

/// What a key was answered and a job that waits are both there after a restart.
async fn survives_a_restart(open: impl AsyncFn() -> Stores) {
    let (body, stream) = (chat_body("m-big", ""), chat_body("m-big", r#","stream":true"#));
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let more = "[server]\ngrace = \"0s\"\n[repeats]\njobs_at_once = 1\n";

    let rig = Rig::over(more, options, open().await).await;
    let bed = rig.gateway().await;
    let keys: Vec<_> = [("k1", &body), ("k2", &stream)]
        .iter()
        .map(|(key, body)| tokio::spawn(Answer::to(keyed(&bed, "t", key, body))))
        .collect();
    rig.provider.wait_until(|seen| seen.len() == 2).await;
    let busy = Answer::to(keyed(&bed, "t", "k1", &body)).await;
    assert_eq!((busy.status, busy.code().as_str()), (409, "idempotency_in_progress"));
    gate.open();
    let mut first = Vec::new();
    for key in keys {
        let answer = key.await.expect("it ended");
        assert_eq!(answer.status, 200);
        first.push(answer);
    }
    let done = take_in(&bed, "t", &body).await;
    until_status(&bed, "t", &done, &["done"]).await;
    let result = look(&bed, "t", &format!("{done}/result")).await;
    let deleted = take_in(&bed, "t", &body).await;
    let delete = bed.client.delete(bed.url(&deleted)).header("authorization", format!("Bearer {}", crate::rig::SHOP));
    assert_eq!(Answer::to(delete.header("x-customer-id", "t")).await.status, 204);
    bed.quiet().await;
    bed.stop().await;
    drop(rig);

    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let rig = Rig::over(more, options, open().await).await;
    let bed = rig.gateway().await;
    for (key, body, first) in [("k1", &body, &first[0]), ("k2", &stream, &first[1])] {
        let again = Answer::to(keyed(&bed, "t", key, body)).await;
        assert_eq!((again.status, &again.body, again.header("x-tollgate-replayed")), (200, &first.body, "true"));
    }
    let again = look(&bed, "t", &format!("{done}/result")).await;
    assert_eq!((again.status, &again.body), (200, &result.body));
    assert_eq!(look(&bed, "t", &deleted).await.status, 404);
    assert_eq!(rig.provider.seen(), 0, "nothing ran again: {:#?}", rig.provider.log());
    // One runs and is interrupted, one waits; the next gateway ends both.
    let running = take_in(&bed, "open", &stream).await;
    rig.provider.wait_until(|seen| seen.len() == 1).await;
    let waiting = take_in(&bed, "open", &body).await;
    bed.stop().await;
    drop(rig);

    let rig = Rig::over(more, ProviderOptions::default(), open().await).await;
    let bed = rig.gateway().await;
    let before = bed.spent("open").await;
    for url in [&running, &waiting] {
        let status = until_status(&bed, "open", url, &["done", "failed"]).await;
        assert_eq!((&status["status"], &status["attempts"]), (&"done".into(), &1.into()), "{status}");
    }
    assert_eq!(rig.provider.seen(), 2);
    assert!(before < bed.spent("open").await && before.get() < 100_000, "one short prompt: {before}");
    assert_eq!(bed.spent("open").await.get() - before.get(), bed.provider_cost().get());
    bed.stop().await;
}

#[tokio::test]
async fn embedded_replies_and_jobs_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    survives_a_restart(async || embedded(directory.path()).await).await;
}

#[tokio::test]
async fn replies_and_jobs_in_redis_survive_a_restart() {
    let server = RedisServer::start();
    survives_a_restart(async || redis(&server)).await;
}

#[tokio::test]
async fn of_64_at_once_on_redis_one_runs() {
    let server = RedisServer::start();
    let gate = Gate::new();
    let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
    let rig = Rig::over("", options, redis(&server)).await;
    let (one, two) = (rig.gateway().await, rig.gateway().await);
    let body = chat_body("m-big", "");
    let mut sent: Vec<_> =
        (0..64).map(|n| tokio::spawn(Answer::to(keyed(if n % 2 == 0 { &one } else { &two }, "t", "k", &body)))).collect();
    for _ in 0..63 {
        let (answer, _, left) = futures_util::future::select_all(sent).await;
        let answer = answer.expect("it ended");
        assert_eq!((answer.status, answer.code().as_str()), (409, "idempotency_in_progress"), "{answer:?}");
        sent = left;
    }
    gate.open();
    let first = sent.pop().expect("one is left").await.expect("it ended");
    assert_eq!((first.status, rig.provider.seen()), (200, 1));
    let again = Answer::to(keyed(&two, "t", "k", &body)).await;
    assert_eq!((again.status, again.body), (200, first.body));
    one.quiet().await;
    two.assert_books(&["t"]).await;
}
