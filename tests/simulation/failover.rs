//! A Redis that forgets its last writes, under seeded schedules: a replica takes over, or a copy on disk is loaded.
//!
//! Here the store is the real one with its scripts, since what a failover loses is mended between the scripts and what gateways
//! remember. Two gateways admit, settle, repeat themselves and die; holds are swept and corrected late; now and then the ledger is copied,
//! and later all of it goes back to that copy. Every answer is compared with a model of the copy and of what each gateway saw, and with the
//! promise of the README: what a living gateway saw spent is not lost, nothing is booked that nobody used, and at the end nothing is held.

#[path = "failover/ledger.rs"]
mod ledger;
#[path = "failover/run.rs"]
mod run;

use crate::redis_server::RedisServer;
use run::{Checked, Fault, Run};
use std::collections::HashMap;

/// Runs of the suite; `TOLLGATE_FAILOVER_RUNS` asks for more.
const RUNS: u64 = 250;
/// Within so many runs a fault must be noticed.
const CAUGHT_WITHIN: u64 = 40;
async fn run(server: &RedisServer, seed: u64, fault: Option<Fault>) -> (Checked, Vec<String>, HashMap<&'static str, u64>) {
    let mut run = Run::new(server, seed, fault);
    let mut result = Ok(());
    let steps = run.rng.usize(20..80);
    for _ in 0..steps {
        result = run.step().await;
        if result.is_err() {
            break;
        }
    }
    if result.is_ok() {
        result = run.end().await;
    }
    (result, run.trace, run.tally)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_what_nobody_saw_and_nothing_else() {
    let server = RedisServer::start();
    let seeds = match number("TOLLGATE_FAILOVER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TOLLGATE_FAILOVER_RUNS").unwrap_or(RUNS),
    };
    let single = seeds.end - seeds.start == 1;
    let mut all: HashMap<&str, u64> = HashMap::new();
    for seed in seeds.clone() {
        let (result, trace, tally) = run(&server, seed, None).await;
        if let Err(error) = result {
            let trace = trace.join("\n");
            panic!("{trace}\n\n{error}\n\nTOLLGATE_FAILOVER_SEED={seed} cargo test --test simulation failover");
        }
        tally.into_iter().for_each(|(what, times)| *all.entry(what).or_default() += times);
        if single {
            println!("{}", trace.join("\n"));
        }
    }
    // Nothing of it may quietly stop to happen.
    let happens = [
        "admitted",
        "copied",
        "failed over",
        "gateway died",
        "put back",
        "refused",
        "settled",
        "settled after the sweep",
        "settled again",
        "settled without a hold",
        "swept",
    ];
    for what in happens.into_iter().filter(|_| !single) {
        let times = all.get(what).copied().unwrap_or(0);
        assert!(times * 10 >= seeds.end, "{what}: {times} times in {} runs", seeds.end);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_without_what_gateways_saw_is_noticed() {
    let server = RedisServer::start();
    let mut caught = false;
    for seed in 0..CAUGHT_WITHIN {
        let (result, ..) = run(&server, seed, Some(Fault::NoFloor)).await;
        caught |= matches!(&result, Err(error) if error.contains("spent of budget") && error.contains("saw"));
    }
    assert!(caught, "{:?} went unnoticed in {CAUGHT_WITHIN} runs", Fault::NoFloor);
}
