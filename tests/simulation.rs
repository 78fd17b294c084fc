//! The ledger under a simulated fleet: seeded schedules over a virtual clock.
//!
//! Three gateways ask, wait, start, change to another model, settle, crash, freeze, repeat themselves and lose replies; plans change, periods end, the clock
//! jitters. After every step the store's answer is compared with an oracle that shares no arithmetic with it, and with what a customer, a
//! provider and an accountant would hold against it. `failover` does so to a Redis that forgets its last writes. A run is its seed: a failing one prints how to see it again, step by step.

#[path = "simulation/books.rs"]
mod books;
#[path = "simulation/broken.rs"]
mod broken;
#[path = "simulation/events.rs"]
mod events;
#[path = "simulation/failover.rs"]
mod failover;
#[path = "simulation/limits.rs"]
mod limits;
#[path = "simulation/mishaps.rs"]
mod mishaps;
#[path = "simulation/oracle.rs"]
mod oracle;
#[path = "simulation/provider.rs"]
mod provider;
#[path = "support/redis_server.rs"]
#[expect(dead_code, reason = "the server serves several tests; none uses all of it")]
mod redis_server;
#[path = "simulation/replace.rs"]
mod replace;
#[path = "simulation/world.rs"]
mod world;

use broken::{Broken, FAULTS, Fault};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tollgate::store::embedded::EmbeddedLedger;
use world::World;

/// Runs of the whole suite; `TOLLGATE_SIM_RUNS` asks for more.
const RUNS: u64 = 4_000;
/// Within so many runs every fault must be noticed.
const CAUGHT_WITHIN: u64 = 60;

/// What happened how often, or what went wrong at which step.
type Outcome = Result<BTreeMap<&'static str, u64>, (usize, String)>;

/// One run. Steps are many more than fit a minute of limits, and few enough that thousands of runs are quick.
fn run(seed: u64, fault: Option<Fault>, traced: bool) -> (Outcome, Vec<String>) {
    let ledger = |clock| -> Box<dyn tollgate::store::Ledger> {
        let sound = EmbeddedLedger::in_memory(clock);
        match fault {
            Some(fault) => Box::new(Broken::new(sound, fault)),
            None => Box::new(sound),
        }
    };
    let mut world = World::new(seed, ledger, traced);
    let steps = world.rng.usize(20..140);
    let mut at = 0;
    let result = catch_unwind(AssertUnwindSafe(|| {
        while at < steps {
            at += 1;
            world.step()?;
        }
        world.end()
    }));
    let panicked = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default())
    };
    let outcome = result.unwrap_or_else(panicked).map(|()| std::mem::take(&mut world.tally)).map_err(|error| (at, error));
    (outcome, world.trace.unwrap_or_default())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Runs a seed; when it fails, runs it again and tells all of it.
fn must_hold(seed: u64) -> BTreeMap<&'static str, u64> {
    run(seed, None, false).0.unwrap_or_else(|_| {
        let (outcome, trace) = run(seed, None, true);
        let (step, error) = outcome.expect_err("a run is its seed");
        let trace = trace.join("\n");
        panic!("{trace}\n\nstep {step}: {error}\n\nTOLLGATE_SIM_SEED={seed} cargo test --test simulation");
    })
}

#[test]
fn the_books_hold_whatever_happens() {
    if let Some(seed) = number("TOLLGATE_SIM_SEED") {
        let (outcome, trace) = run(seed, None, true);
        println!("{}", trace.join("\n"));
        let counts = outcome.unwrap_or_else(|(step, error)| panic!("step {step}: {error}"));
        println!("{counts:#?}");
        return;
    }
    let mut tally: BTreeMap<&str, u64> = BTreeMap::new();
    let runs = number("TOLLGATE_SIM_RUNS").unwrap_or(RUNS);
    for seed in 0..runs {
        for (what, times) in must_hold(seed) {
            *tally.entry(what).or_default() += times;
        }
    }
    // Nothing of it may quietly stop to happen.
    let all = [
        "a day ended",
        "a month ended",
        "admission's reply lost",
        "admitted as asked",
        "ceiling deferred",
        "finished",
        "finished over its estimate",
        "fits",
        "further attempt",
        "gateway crashed",
        "gateway frozen",
        "larger than the limit",
        "late at its start",
        "left while waiting",
        "never attempted",
        "no ceiling at the start",
        "not replaced",
        "output cap lowered",
        "plan changed",
        "refused by a rate",
        "refused by what is in flight",
        "refused by what is spent",
        "replaced",
        "replaced after its end",
        "replacement's reply lost",
        "settled after the sweep",
        "settled again",
        "settled again after a lost reply",
        "settled late, before the sweep",
        "settled without a hold",
        "starts later",
        "swept",
        "twice in one batch",
    ];
    assert_eq!(tally.keys().copied().collect::<Vec<_>>(), all, "{tally:#?}");
    assert!(tally.values().all(|times| *times * 40 >= runs), "{tally:#?}");
}

#[test]
fn a_run_is_its_seed() {
    for seed in 0..5 {
        let (first, second) = (run(seed, None, true), run(seed, None, true));
        assert_eq!(first, second);
        assert!(first.1.len() > 10, "the trace tells what happened");
    }
    assert_ne!(run(1, None, true), run(2, None, true));
}

#[test]
fn every_broken_ledger_is_noticed() {
    for fault in FAULTS {
        let caught = (0..CAUGHT_WITHIN).find(|seed| run(*seed, Some(fault), false).0.is_err());
        assert!(caught.is_some(), "{fault:?} went unnoticed in {CAUGHT_WITHIN} runs");
    }
}
