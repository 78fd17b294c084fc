//! Providers that speak HTTP/2: connections that end in good order, streams that are refused, and few streams at once (G18). What the
//! provider did not process is sent again, and nothing else is.

use crate::bodies::{STREAM, USAGE_COST};
use crate::certificates::Authority;
use crate::frames::{Act, Heard, INTERNAL_ERROR, Log, Provider, REFUSED_STREAM};
use crate::pace::Waits;
use crate::rig::{Outcome, Rig, complete, config, until};
use crate::statuses::JSON;
use futures_util::future::join_all;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tollgate::telemetry::SystemClock;

/// Set for a case: the directory of its certificates.
const DIRECTORY: &str = "TOLLGATE_TEST_HTTP2";
/// A deadlock, not a slow machine.
const STUCK: Duration = Duration::from_secs(60);
/// What fails at the provider is not tried again.
const NO_RETRY: &str = "max = 0\nbreaker = { failures = 0 }\n";
/// As many streams at once as servers usually allow.
const MANY: u32 = 100;

/// Runs the test of this name in a process of its own that trusts an authority of this test: which ones are trusted is read from where
/// `SSL_CERT_FILE` says, and that variable cannot be set in here without `unsafe`.
fn trusting<F: Future<Output = ()>>(name: &str, case: impl FnOnce(PathBuf) -> F) {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        return runtime.block_on(async { tokio::time::timeout(STUCK, case(directory.into())).await.expect("no deadlock") });
    }
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::new("a provider's authority");
    authority.issue("localhost", 365).write(directory.path());
    let trusted = directory.path().join("authority.pem");
    std::fs::write(&trusted, authority.pem()).expect("written");
    let ended = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", &format!("http2::{name}"), "--nocapture"])
        .env(DIRECTORY, directory.path())
        .env("SSL_CERT_FILE", trusted)
        .env_remove("SSL_CERT_DIR")
        .output()
        .expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && out.contains("1 passed"), "{}\n{out}\n{err}", ended.status);
}

/// A gateway before this provider, with the shipped retries or these, and room for everything that these tests ask at once.
async fn gateway(provider: &Provider, retry: &str) -> (Rig, Waits) {
    let waits = Waits::default();
    let text = config("", "").replace("{provider}", &provider.base_url()).replace(NO_RETRY, &format!("{retry}\n"));
    let text = text.replace("rpm = 60\ntpm = 10_000\nmax_in_flight = 4\n", "rpm = 1_000\ntpm = 1_000_000\nmax_in_flight = 100\n");
    let text = format!("{text}\n[concurrency]\nslots = 100\n");
    (Rig::paced(&text, Arc::new(SystemClock), Box::new(waits.clone())).await, waits)
}

/// Asks a question of this number: the status, and whether the answer is the provider's.
async fn ask(rig: &Rig, number: usize) -> (u16, bool) {
    let reply = rig.chat(&format!(r#","seed":{number}"#)).send().await.expect("an answer");
    (reply.status().as_u16(), reply.text().await.expect("a body") == JSON)
}

/// Asks them all at once; how many got the provider's answer. Everybody else must have got a 502 of ours.
async fn answered(rig: &Rig, numbers: std::ops::Range<usize>) -> usize {
    let answers = join_all(numbers.map(|number| ask(rig, number))).await;
    let answered = answers.iter().filter(|answer| **answer == (200, true)).count();
    let failed = answers.iter().filter(|answer| **answer == (502, false)).count();
    assert_eq!(answered + failed, answers.len(), "{answers:?}");
    answered
}

/// So many requests were processed, none of them twice, and that is what is booked.
async fn books(rig: &Rig, log: &Log, asked: usize) {
    let processed: BTreeSet<_> = log.processed.iter().collect();
    assert_eq!((processed.len(), log.processed.len()), (asked, asked), "each is processed, and once");
    assert!(rig.outcomes(asked).await.iter().all(|outcome| *outcome == complete(109, asked_cost(1))));
}

fn asked_cost(count: u64) -> u64 {
    count * USAGE_COST
}

/// How many requests came so many times.
fn times(log: &Log) -> HashMap<usize, usize> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    log.seen.iter().for_each(|body| *seen.entry(body).or_default() += 1);
    let mut times = HashMap::new();
    seen.values().for_each(|count| *times.entry(*count).or_default() += 1);
    times
}

/// Takes so many requests a connection, and does not look at what comes behind them. Streams are numbered 1, 3, 5 in the order in which
/// they are opened; their requests may be whole in another.
fn takes(most: u32) -> impl FnMut(Heard) -> Vec<Act> {
    let last = 2 * most - 1;
    move |heard| match heard {
        Heard::Request { stream, .. } if stream == last => vec![Act::GoAway(last), Act::Answer(stream)],
        Heard::Request { stream, .. } if stream < last => vec![Act::Answer(stream)],
        _ => Vec::new(),
    }
}

async fn ten_each(directory: &Path, at_once: u32) {
    let provider = Provider::start(directory, at_once, takes(10)).await;
    let (rig, _waits) = gateway(&provider, NO_RETRY).await;
    for number in 0..25 {
        assert_eq!(ask(&rig, number).await, (200, true), "{number}");
    }
    assert_eq!(provider.log().connections, 3);
    for wave in 0..3 {
        let numbers = 100 * (wave + 1)..100 * (wave + 1) + 60;
        assert_eq!(answered(&rig, numbers).await, 60, "wave {wave}");
    }
    books(&rig, &provider.log(), 25 + 3 * 60).await;
}

#[test]
fn a_connection_that_ends_in_good_order_fails_no_request() {
    trusting("a_connection_that_ends_in_good_order_fails_no_request", async |directory| ten_each(&directory, MANY).await);
}

/// Requests that wait for a stream of a connection that takes no more were never sent.
#[test]
fn nor_does_it_fail_one_that_waits_for_a_stream() {
    trusting("nor_does_it_fail_one_that_waits_for_a_stream", async |directory| ten_each(&directory, 1).await);
}

/// On the first connection, behind the first request: gathers twenty, then says that the tenth was the last it took.
fn halves(mut then: impl FnMut(&[u32]) -> Vec<Act>) -> impl FnMut(Heard) -> Vec<Act> {
    let mut gathered = Vec::new();
    move |heard| match heard {
        Heard::Request { connection: 1, nth, stream } if nth > 1 => {
            gathered.push(stream);
            if gathered.len() < 20 {
                return Vec::new();
            }
            gathered.sort_unstable();
            let mut acts = vec![Act::GoAway(gathered[9])];
            acts.extend(then(&gathered[..10]));
            acts
        }
        Heard::Request { stream, .. } => vec![Act::Answer(stream)],
        _ => Vec::new(),
    }
}

#[test]
fn only_streams_that_were_not_taken_are_sent_again() {
    trusting("only_streams_that_were_not_taken_are_sent_again", async |directory| {
        let manner = halves(|taken| taken.iter().map(|stream| Act::Answer(*stream)).collect());
        let provider = Provider::start(&directory, MANY, manner).await;
        let (rig, _waits) = gateway(&provider, NO_RETRY).await;
        assert_eq!(answered(&rig, 0..1).await, 1);
        assert_eq!(answered(&rig, 1..21).await, 20);
        let log = provider.log();
        assert_eq!(times(&log), HashMap::from([(1, 11), (2, 10)]), "ten were sent twice");
        books(&rig, &log, 21).await;
    });
}

/// What was taken and then lost may have been processed: where nothing is to be tried again, it is not.
#[test]
fn streams_that_were_taken_and_lost_are_not_sent_again() {
    trusting("streams_that_were_taken_and_lost_are_not_sent_again", async |directory| {
        let provider = Provider::start(&directory, MANY, halves(|_| vec![Act::Close])).await;
        let (rig, _waits) = gateway(&provider, NO_RETRY).await;
        assert_eq!(answered(&rig, 0..1).await, 1);
        assert_eq!(answered(&rig, 1..21).await, 10);
        let log = provider.log();
        assert_eq!(times(&log), HashMap::from([(1, 11), (2, 10)]), "only those that were not taken were sent twice");
        let cost: u64 = rig.outcomes(21).await.iter().map(|outcome| outcome.cost).sum();
        assert_eq!((log.processed.len(), cost), (11, asked_cost(11)));
    });
}

/// Answers when the caller had time to open more streams than one.
fn unhurried() -> impl FnMut(Heard) -> Vec<Act> {
    let mut open = VecDeque::new();
    move |heard| match heard {
        Heard::Request { stream, .. } => {
            open.push_back(stream);
            vec![Act::Ping]
        }
        Heard::Pong => open.pop_front().map(Act::Answer).into_iter().collect(),
        Heard::Left => Vec::new(),
    }
}

#[test]
fn one_stream_at_a_time_is_slow_but_no_deadlock() {
    trusting("one_stream_at_a_time_is_slow_but_no_deadlock", async |directory| {
        let provider = Provider::start(&directory, 1, unhurried()).await;
        let (rig, _waits) = gateway(&provider, NO_RETRY).await;
        assert_eq!(answered(&rig, 0..1).await, 1);
        assert_eq!(answered(&rig, 1..61).await, 60);
        let log = provider.log();
        assert_eq!(log.most_open, 1);
        books(&rig, &log, 61).await;
    });
}

#[test]
fn whoever_leaves_gives_the_only_stream_back() {
    trusting("whoever_leaves_gives_the_only_stream_back", async |directory| {
        let mut silent = false;
        let provider = Provider::start(&directory, 1, move |heard| match heard {
            // The second is left without an answer.
            Heard::Request { nth: 2, .. } if !std::mem::replace(&mut silent, true) => Vec::new(),
            Heard::Request { stream, .. } => vec![Act::Answer(stream)],
            _ => Vec::new(),
        })
        .await;
        let (rig, _waits) = gateway(&provider, NO_RETRY).await;
        assert_eq!(answered(&rig, 0..1).await, 1);
        let leaver = tokio::spawn(rig.chat(STREAM).send());
        until("the leaver's request", || (provider.log().seen.len() == 2).then_some(())).await;
        // One more who leaves while it waits for the stream, and some who stay.
        let waiter = tokio::spawn(rig.chat(STREAM).send());
        let stays = answered(&rig, 1..11);
        let leaves = async {
            until("all of them", || (rig.bed.gateway.metrics.in_flight.get() == 12).then_some(())).await;
            waiter.abort();
            until("its end", || (rig.bed.gateway.metrics.in_flight.get() == 11).then_some(())).await;
            leaver.abort();
        };
        assert_eq!(futures_util::future::join(stays, leaves).await.0, 10);
        let outcomes = rig.outcomes(13).await;
        let whole = outcomes.iter().filter(|outcome| outcome.cost == asked_cost(1)).count();
        assert_eq!((provider.log().processed.len(), whole), (11, 11));
    });
}

#[test]
fn a_refused_stream_is_sent_again() {
    trusting("a_refused_stream_is_sent_again", async |directory| {
        // Every other request of the first connection is refused, and so what is sent again may be refused again.
        let provider = Provider::start(&directory, MANY, |heard| match heard {
            Heard::Request { connection: 1, nth, stream } if nth % 2 == 0 => vec![Act::Reset(stream, REFUSED_STREAM)],
            Heard::Request { stream, .. } => vec![Act::Answer(stream)],
            _ => Vec::new(),
        })
        .await;
        let (rig, _waits) = gateway(&provider, NO_RETRY).await;
        assert_eq!(answered(&rig, 0..1).await, 1);
        assert_eq!(answered(&rig, 1..61).await, 60);
        let log = provider.log();
        assert!(log.seen.len() >= 61 + 30, "half of them were refused");
        books(&rig, &log, 61).await;
    });
}

#[test]
fn a_stream_that_is_refused_every_time_costs_nothing() {
    trusting("a_stream_that_is_refused_every_time_costs_nothing", async |directory| {
        let provider = Provider::start(&directory, MANY, |heard| match heard {
            Heard::Request { stream, .. } => vec![Act::Reset(stream, REFUSED_STREAM)],
            _ => Vec::new(),
        })
        .await;
        let (rig, waits) = gateway(&provider, "breaker = { failures = 0 }").await;
        assert_eq!(answered(&rig, 0..1).await, 0);
        let log = provider.log();
        assert_eq!((log.seen.len(), log.processed.len()), (9, 0), "three attempts, each sent three times");
        assert_eq!(waits.take().len(), 2);
        assert_eq!(rig.metric("tollgate_upstream_calls_total", "unprocessed"), 3);
        let outcome = rig.outcome().await;
        assert_eq!((outcome.requests, outcome.tokens, outcome.cost), (0, 0, 0), "{outcome:?}");
    });
}

/// Any other reset says nothing about what was done before it.
#[test]
fn a_stream_that_ends_for_another_reason_is_not_sent_again() {
    trusting("a_stream_that_ends_for_another_reason_is_not_sent_again", async |directory| {
        let provider = Provider::start(&directory, MANY, |heard| match heard {
            Heard::Request { stream, .. } => vec![Act::Reset(stream, INTERNAL_ERROR)],
            _ => Vec::new(),
        })
        .await;
        let (rig, _waits) = gateway(&provider, NO_RETRY).await;
        assert_eq!(answered(&rig, 0..1).await, 0);
        assert_eq!(provider.log().seen.len(), 1);
        let outcome: Outcome = rig.outcome().await;
        assert_eq!((outcome.requests, outcome.cost), (1, 0), "the provider has seen it: {outcome:?}");
    });
}
