mod failing;
mod replaced;

use super::disk::Space;
use super::record::{BalanceKey, Booking, Entry, Kind};
use super::*;
use crate::domain::{Period, ReservationId, Zone};
use crate::limit::Outcome;
use crate::limit::{Bucket, LimitName, Measure, Rule, Scope};
use failing::{FlakyDisk, over};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that stands still until it is moved.
pub struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

pub const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
const DAY: LimitName = LimitName::Spend(Period::Day);
const CAP: u64 = 5_000_000_000;

pub fn clock() -> Arc<TestClock> {
    Arc::new(TestClock(AtomicU64::new(NOW.micros())))
}

fn scope(scope: Scope, owner: &str) -> ScopeKey {
    ScopeKey { scope, owner: owner.into() }
}

fn customer(name: &str) -> ScopeKey {
    scope(Scope::Customer, name)
}

/// A request of a customer: one message, one request, and dollars of the customer, one of its users and the app.
pub fn request(id: u128, name: &str, dollars: u64) -> Admission {
    let bucket = Bucket::new(1_000, 1_000, 60_000_000).expect("exact");
    let boundaries = Zone::default().boundaries(Period::Day, NOW);
    let rate = |limit, measure| Claim {
        scope: customer(name),
        limit,
        rule: Rule::Bucket { bucket, max_wait: 0, forgive: true, mirrors: false },
        measure,
        amount: 1,
    };
    let spend = |whose| Claim {
        scope: whose,
        limit: DAY,
        rule: Rule::Budget { cap: CAP, boundaries },
        measure: Measure::Money,
        amount: dollars,
    };
    let claims = vec![
        rate(LimitName::Messages, Measure::Message),
        rate(LimitName::Rpm, Measure::Request),
        spend(customer(name)),
        spend(scope(Scope::User, &format!("{name}/u"))),
        spend(scope(Scope::App, "app")),
    ];
    Admission { reservation: ReservationId::new(id), customer: customer(name), claims, elastic: None, lease: 60_000_000 }
}

pub fn end(admission: &Admission, decision: &Decision, cost: u64) -> Settlement {
    let mut lines = admission.lines(decision);
    for line in &mut lines {
        line.actual = if line.claim.measure == Measure::Money { cost } else { line.claim.amount };
    }
    Settlement { reservation: admission.reservation, customer: admission.customer.clone(), lines }
}

/// Spent and held of the customer's day.
async fn stands(ledger: &EmbeddedLedger, name: &str) -> (u64, u64) {
    let balances = ledger.read(&customer(name)).await.expect("it reads");
    balances.iter().find(|balance| balance.limit == DAY).map_or((0, 0), |balance| (balance.spent, balance.held))
}

fn open(path: &Path, lost_hold: LostHold) -> EmbeddedLedger {
    EmbeddedLedger::open(path, clock(), lost_hold).expect("it opens")
}

#[tokio::test]
async fn bookings_survive_a_restart_and_are_booked_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let settled = {
        let ledger = open(directory.path(), LostHold::Charge);
        let admission = request(1, "c", 100);
        let decision = ledger.admit(&admission, None).await.expect("it decides");
        assert!(decision.admitted);
        assert_eq!(stands(&ledger, "c").await, (0, 100));
        let settled = end(&admission, &decision, 70);
        for _ in 0..3 {
            ledger.settle(std::slice::from_ref(&settled), None).await.expect("it books");
        }
        assert_eq!(stands(&ledger, "c").await, (70, 0));
        settled
    };
    let ledger = open(directory.path(), LostHold::Charge);
    assert_eq!(stands(&ledger, "c").await, (70, 0));
    ledger.settle(&[settled], None).await.expect("it books");
    assert_eq!(stands(&ledger, "c").await, (70, 0), "settled before the restart");
    let user = ledger.read(&scope(Scope::User, "c/u")).await.expect("it reads");
    let app = ledger.read(&scope(Scope::App, "app")).await.expect("it reads");
    assert_eq!((user[0].spent, app[0].spent), (70, 70));
}

#[tokio::test]
async fn what_was_in_flight_is_booked_once_at_the_next_start() {
    for (lost_hold, spent) in [(LostHold::Charge, 30 + 100 + 40), (LostHold::Release, 30)] {
        let directory = tempfile::tempdir().expect("a directory");
        let before = open(directory.path(), lost_hold);
        let done = request(1, "c", 50);
        let decision = before.admit(&done, None).await.expect("it decides");
        before.settle(&[end(&done, &decision, 30)], None).await.expect("it books");
        for (id, dollars) in [(2, 100), (3, 40)] {
            assert!(before.admit(&request(id, "c", dollars), None).await.expect("it decides").admitted);
        }
        before.close();
        for _ in 0..3 {
            let ledger = open(directory.path(), lost_hold);
            assert_eq!(stands(&ledger, "c").await, (spent, 0), "{lost_hold:?}");
        }
    }
}

#[tokio::test]
async fn a_settlement_without_a_known_hold_is_booked_and_frees_nothing() {
    for ledger in [EmbeddedLedger::in_memory(clock()), open(tempfile::tempdir().expect("a directory").path(), LostHold::Charge)] {
        let known = request(1, "c", 100);
        let decision = ledger.admit(&known, None).await.expect("it decides");
        let unknown = request(2, "c", 60);
        ledger.settle(&[end(&unknown, &decision, 25)], None).await.expect("it books");
        assert_eq!(stands(&ledger, "c").await, (25, 100));
    }
}

#[tokio::test]
async fn a_reservation_that_held_twice_gives_both_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = open(directory.path(), LostHold::Charge);
    let (first, second) = (request(1, "c", 100), request(1, "c", 30));
    let decision = ledger.admit(&first, None).await.expect("it decides");
    let further = ledger.admit(&second, None).await.expect("it decides");
    let mut both = end(&first, &decision, 60);
    both.lines.extend(end(&second, &further, 0).lines);
    ledger.settle(&[both], None).await.expect("it books");
    assert_eq!(stands(&ledger, "c").await, (60, 0));
    ledger.close();
    assert_eq!(stands(&open(directory.path(), LostHold::Charge), "c").await, (60, 0), "no part was left in flight");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn five_hundred_at_once_never_pass_the_cap_and_none_that_fits_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = Arc::new(open(directory.path(), LostHold::Charge));
    let spent = request(0, "c", 4_900_000_000);
    let decision = ledger.admit(&spent, None).await.expect("it decides");
    ledger.settle(&[end(&spent, &decision, 4_900_000_000)], None).await.expect("it books");
    let asks = (1..=500).map(|id| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move { ledger.admit(&request(id, "c", 3_000_000), None).await.expect("it decides") })
    });
    let decisions: Vec<_> = futures_util::future::join_all(asks).await.into_iter().map(|d| d.expect("no panic")).collect();
    assert_eq!(decisions.iter().filter(|decision| decision.admitted).count(), 33, "33 x $0.003 fit $0.10");
    let in_flight = decisions.iter().filter(|decision| decision.verdicts[2].outcome == Outcome::InFlight).count();
    assert_eq!(in_flight, 467);
    assert_eq!(stands(&ledger, "c").await, (4_900_000_000, 99_000_000));
}

#[tokio::test]
async fn what_costs_nothing_does_not_wait_for_the_disk() {
    let disk = FlakyDisk::default();
    let ledger = over(&disk);
    let stuck = disk.0.lock();
    let mut free = request(1, "c", 0);
    free.claims.truncate(2);
    let decision = ledger.admit(&free, None).now_or_never().expect("at once").expect("it decides");
    ledger.settle(&[end(&free, &decision, 0)], None).now_or_never().expect("at once").expect("it books");
    assert!(ledger.admit(&request(2, "c", 1), None).now_or_never().is_none(), "money waits");
    drop(stuck);
}

#[test]
fn a_directory_serves_one_store_and_an_unusable_one_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = open(directory.path(), LostHold::Charge);
    let message = |path: &Path| EmbeddedLedger::open(path, clock(), LostHold::Charge).err().expect("refused").to_string();
    let path = directory.path().display().to_string();
    let in_use = message(directory.path());
    assert!(in_use.contains(&path) && in_use.contains("in use by another process"), "{in_use}");
    drop(first);
    for file in std::fs::read_dir(directory.path()).expect("readable").map(|entry| entry.expect("an entry").path()) {
        if file.extension().is_none_or(|extension| extension != "jnl") && file.is_file() {
            std::fs::write(&file, b"damaged").expect("writable");
        }
    }
    let damaged = message(directory.path());
    assert!(damaged.contains(&path) && damaged.contains("restore it from a backup"), "{damaged}");
    let file = directory.path().join("file");
    std::fs::write(&file, b"").expect("writable");
    let not_one = message(&file);
    assert!(not_one.contains("file") && not_one.contains("cannot use the directory"), "{not_one}");
}

#[tokio::test]
async fn every_balance_can_be_recomputed_from_the_ledger() {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = open(directory.path(), LostHold::Charge);
    for id in 0..200_u64 {
        let admission = request(id.into(), ["a", "b", "c"][(id % 3) as usize], 1_000 + id);
        let decision = ledger.admit(&admission, None).await.expect("it decides");
        if id % 7 > 0 {
            ledger.settle(&[end(&admission, &decision, 900 + id / 2)], None).await.expect("it books");
        }
    }
    drop(ledger);
    drop(open(directory.path(), LostHold::Charge));
    let journal = Journal::open(directory.path()).expect("it opens");
    let mut sums: HashMap<BalanceKey, u64> = HashMap::new();
    let (mut settled, mut lost) = (0, 0);
    for entry in journal.ledger().expect("readable") {
        let (_, entry) = entry.expect("readable");
        settled += u32::from(entry.kind == Kind::Settled);
        lost += u32::from(entry.kind == Kind::LostCharged);
        for line in entry.lines {
            *sums.entry(line.balance).or_default() += line.actual;
        }
    }
    let balances: HashMap<_, _> = journal.balances().expect("readable").map(|b| b.expect("readable")).collect();
    assert_eq!((settled, lost, balances.len()), (171, 29, 7), "three customers, their users, one app");
    assert_eq!(sums, balances);
}

/// What a start finds of a process that was killed before its balances were written.
#[tokio::test]
async fn balances_are_brought_up_to_the_end_of_the_ledger() {
    let directory = tempfile::tempdir().expect("a directory");
    let day = |scope: ScopeKey| BalanceKey { scope, limit: DAY, period: NOW.secs() / 86_400 * 86_400 };
    let ended = |id: u128, actual: u64| {
        let line = |scope| Booking { balance: day(scope), claimed: 100, actual };
        let lines = vec![line(customer("c")), line(scope(Scope::App, "app"))];
        Change::Ended(
            0,
            Entry { kind: Kind::Settled, time: NOW, reservation: ReservationId::new(id), customer: customer("c"), lines },
        )
    };
    let balances = |spent| [customer("c"), scope(Scope::App, "app")].map(|scope| Change::Balance(day(scope), spent));
    // Three entries of which the first is reflected, and one more process that is killed.
    let mut next = 0;
    for (first, last) in [(1, 3), (4, 5)] {
        let (_, inbox) = tokio::sync::mpsc::channel(1);
        let mut writer = Writer::new(Journal::open(directory.path()).expect("it opens"), inbox, clock(), next);
        for id in first..=last {
            let changes = balances(10 * id).into_iter().chain([ended(id.into(), 10)]).collect();
            writer.take(Message { changes, ack: None, admission: false });
            writer.commit();
            if id == 1 {
                writer.tick();
            }
        }
        drop(writer);
        let found = audit(directory.path(), NOW).expect("readable");
        assert_eq!((found.balances, found.entries as u64, found.differences), (2, last, vec![]), "also before the next start");
        let ledger = open(directory.path(), LostHold::Charge);
        assert_eq!(stands(&ledger, "c").await, (10 * last, 0));
        drop(ledger);
        let journal = Journal::open(directory.path()).expect("it opens");
        next = journal.next().expect("readable");
        assert_eq!((next, journal.mark().expect("readable")), (last, last));
        assert_eq!(journal.balance(&day(scope(Scope::App, "app"))).expect("readable"), 10 * last);
    }
}

/// What is forgotten takes all marks along: what moved a balance last must not come back by itself.
#[test]
fn of_a_forgotten_balance_nothing_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_, inbox) = tokio::sync::mpsc::channel(1);
    let mut writer = Writer::new(Journal::open(directory.path()).expect("it opens"), inbox, clock(), 0);
    let key = |owner| BalanceKey { scope: customer(owner), limit: DAY, period: NOW.secs() / 86_400 * 86_400 };
    let moves = [Change::Balance(key("gone"), 7), Change::Balance(key("stays"), 8)];
    writer.take(Message { changes: moves.into(), ack: None, admission: false });
    writer.tick();
    writer.take(Message { changes: vec![Change::Balance(key("stays"), 9)], ack: None, admission: false });
    writer.next = 5;
    writer.take(Message { changes: vec![Change::Forget(key("gone"))], ack: None, admission: false });
    writer.commit();
    let journal = &writer.disk;
    let left: Vec<_> = journal.balances().expect("readable").map(|balance| balance.expect("readable")).collect();
    assert_eq!((left, journal.mark().expect("readable")), (vec![(key("stays"), 9)], 5));
}

#[tokio::test]
async fn idle_customers_leave_memory_and_journal() {
    let disk = FlakyDisk::default();
    let clock = clock();
    let ledger = EmbeddedLedger::start(Books::new(clock.clone(), true), disk.clone(), clock.clone(), 0).expect("it starts");
    let admission = request(1, "c", 100);
    let decision = ledger.admit(&admission, None).await.expect("it decides");
    ledger.settle(&[end(&admission, &decision, 70)], None).await.expect("it books");
    assert_eq!(ledger.size().owners, 2, "customer and user");
    clock.0.fetch_add(4 * 86_400_000_000, Ordering::Relaxed);
    // The shard is swept by whoever comes next; the user lives in its customer's.
    let mut newcomer = request(2, "c", 1);
    newcomer.claims.retain(|claim| claim.scope.scope == Scope::App);
    newcomer.claims.push(Claim { scope: scope(Scope::User, "c/other"), ..newcomer.claims[0].clone() });
    assert!(ledger.admit(&newcomer, None).await.expect("it decides").admitted);
    assert_eq!(ledger.size().owners, 1, "the newcomer");
    assert_eq!(stands(&ledger, "c").await, (0, 0));
    ledger.flush().await.expect("written");
    assert_eq!(disk.count(Space::Balances), 1, "the app's");
}
