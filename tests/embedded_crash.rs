//! `kill -9` at any moment: every acknowledged booking is there afterwards, and what was in flight is booked once.
//!
//! The test starts itself as a child process, which reports every step before and after it takes it, and kills it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};
use tollgate::domain::{Boundaries, Clock, Period, ReservationId, Timestamp};
use tollgate::limit::{Admission, Claim, LimitName, Measure, Rule, Scope, ScopeKey, Settlement};
use tollgate::store::Ledger;
use tollgate::store::embedded::{EmbeddedLedger, LostHold, audit};

/// Set for the child: the directory of its store.
const DIRECTORY: &str = "TOLLGATE_TEST_CRASH_DIRECTORY";
/// Customers at work at once in the child.
const CUSTOMERS: u64 = 4;

struct Wall;

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        Timestamp(u64::try_from(since.as_micros()).expect("before the year 586,912"))
    }
}

/// What the `n`th request of a customer holds, and what it costs in the end.
const fn amounts(n: u64) -> (u64, u64) {
    (1_000_000 + n, 700_000 + n)
}

fn customer(which: u64) -> ScopeKey {
    ScopeKey { scope: Scope::Customer, owner: format!("c{which}").into() }
}

fn request(which: u64, n: u64) -> Admission {
    // One period around the whole life of the process: midnight cannot come in between.
    static START: LazyLock<u64> = LazyLock::new(|| Wall.now().secs() - 86_400);
    let boundaries = Boundaries([-1, 0, 10, 20].map(|days| START.saturating_add_signed(days * 86_400)));
    let claim = Claim {
        scope: customer(which),
        limit: LimitName::Spend(Period::Month),
        rule: Rule::Budget { cap: 9_000_000_000_000_000, boundaries },
        measure: Measure::Money,
        amount: amounts(n).0,
    };
    let reservation = ReservationId::new(u128::from(which) << 64 | u128::from(n));
    Admission { reservation, customer: customer(which), claims: vec![claim], elastic: None, lease: 60_000_000 }
}

fn say(step: &str, which: u64, n: u64) {
    let line = format!("step {step} {which} {n}\n");
    // One write, so that the kill cannot cut a line in two.
    std::io::stdout().write_all(line.as_bytes()).expect("the parent listens");
    std::io::stdout().flush().expect("the parent listens");
}

/// The child: every customer settles request `n` only after `n + 1` is admitted, so some are in flight at any moment.
#[test]
fn child_process_works_until_it_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let ledger = Arc::new(EmbeddedLedger::open(directory, Arc::new(Wall), LostHold::Charge).expect("it opens"));
        let work = (0..CUSTOMERS).map(|which| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                let mut before: Option<Settlement> = None;
                for n in 0.. {
                    let admission = request(which, n);
                    say("asks", which, n);
                    let decision = ledger.admit(&admission, None).await.expect("it decides");
                    assert!(decision.admitted);
                    say("holds", which, n);
                    let mut lines = admission.lines(&decision);
                    lines[0].actual = amounts(n).1;
                    let settlement = Settlement { reservation: admission.reservation, customer: admission.customer, lines };
                    if let Some(settlement) = before.replace(settlement) {
                        say("ends", which, n - 1);
                        ledger.settle(&[settlement], None).await.expect("it books");
                        say("settled", which, n - 1);
                    }
                }
            })
        });
        futures_util::future::join_all(work).await;
    });
}

/// The last step each customer's requests had reached, as the child reported.
fn run_and_kill(directory: &Path, after: usize) -> HashMap<(u64, u64), String> {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "child_process_works_until_it_is_killed", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut steps = HashMap::new();
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut seen = 0;
    for line in output.lines() {
        let line = line.expect("text");
        // The test harness writes its own lines, the first of them without an end.
        let Some((_, step)) = line.split_once("step ") else { continue };
        let mut words = step.split(' ');
        let (Some(step), Some(Ok(which)), Some(Ok(n))) =
            (words.next(), words.next().map(str::parse), words.next().map(str::parse))
        else {
            panic!("not a step: {line}");
        };
        steps.insert((which, n), step.to_owned());
        seen += 1;
        if seen == after {
            child.kill().expect("SIGKILL");
        }
    }
    let status = child.wait().expect("it ended");
    assert!(!status.success() && seen >= after, "killed at work, not ended by itself: {status}");
    steps
}

/// What may be spent: acknowledged steps count for certain, a step that was under way counts either way.
fn possible(steps: &HashMap<(u64, u64), String>, customer: u64) -> Vec<u64> {
    let mut sums = vec![0];
    for ((_, n), step) in steps.iter().filter(|((which, _), _)| *which == customer) {
        let (held, cost) = amounts(*n);
        let choices: &[u64] = match step.as_str() {
            "asks" => &[0, held],
            "holds" => &[held],
            "ends" => &[held, cost],
            _ => &[cost],
        };
        sums = sums.iter().flat_map(|sum| choices.iter().map(move |choice| sum + choice)).collect();
    }
    sums
}

async fn spent(directory: &Path) -> Vec<u64> {
    let ledger = EmbeddedLedger::open(directory, Arc::new(Wall), LostHold::Charge).expect("it opens");
    let mut all = Vec::new();
    for which in 0..CUSTOMERS {
        let balances = ledger.read(&customer(which)).await.expect("it reads");
        assert!(balances.iter().all(|balance| balance.held == 0), "nothing is in flight after a start");
        all.push(balances.first().map_or(0, |balance| balance.spent));
    }
    all
}

#[tokio::test]
async fn kill_9_loses_no_booking_and_books_what_was_in_flight_once() {
    for _ in 0..6 {
        let directory = tempfile::tempdir().expect("a directory");
        let after = fastrand::usize(1..3_000);
        let steps = run_and_kill(directory.path(), after);
        let differences = || audit(directory.path(), Wall.now()).expect("it reads").differences;
        assert_eq!(differences(), [], "right after the kill");
        let first = spent(directory.path()).await;
        for (which, spent) in (0..CUSTOMERS).zip(&first) {
            let possible = possible(&steps, which);
            assert!(possible.contains(spent), "killed after {after} steps: {spent} is none of {possible:?}");
        }
        assert_eq!(spent(directory.path()).await, first, "a second start books nothing again");
        assert_eq!(differences(), [], "with the lost holds booked");
    }
}
