//! Journals made by the store itself, then spoiled in one place.

use super::super::disk::{Disk, Space, Writes};
use super::super::record::{self, balance_key, balance_value, entry_value, ledger_key};
use super::super::tests::{NOW, clock, end, request};
use super::super::{EmbeddedLedger, LostHold};
use super::*;
use crate::domain::Period;
use crate::limit::Scope;
use crate::store::Ledger;

const LIMIT: LimitName = LimitName::Spend(Period::Day);
/// The day of [`NOW`].
const TODAY: u64 = NOW.secs() / 86_400 * 86_400;

fn customer_b() -> BalanceKey {
    let scope = ScopeKey { scope: Scope::Customer, owner: "b".into() };
    BalanceKey { scope, limit: LIMIT, period: TODAY }
}

/// Forty requests of three customers, four of them in flight when the process ended; booked by a second process, which leaves two more
/// in flight itself. The even ids are customer a's, the odd ones b's.
async fn journal(lost: LostHold) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (ids, unsettled) in [(0..40_u64, 4), (40..42, 2)] {
        let ledger = EmbeddedLedger::open(directory.path(), clock(), lost).expect("it opens");
        let last = ids.end;
        for id in ids {
            let admission = request(id.into(), ["a", "b"][(id % 2) as usize], 1_000 + id);
            let decision = ledger.admit(&admission, None).await.expect("it decides");
            assert!(decision.admitted);
            if id < last - unsettled {
                ledger.settle(&[end(&admission, &decision, 900 + id / 2)], None).await.expect("it books");
            }
        }
        ledger.close();
    }
    directory
}

/// What customer b spent: odd ids up to 35 settled, 37 and 39 lost.
fn spent_by_b(lost: LostHold) -> u64 {
    let settled: u64 = (1..36).step_by(2).map(|id| 900 + id / 2).sum();
    settled + if lost == LostHold::Charge { 1_037 + 1_039 } else { 0 }
}

fn spoil(directory: &tempfile::TempDir, writes: impl FnOnce(&Journal) -> Writes) {
    let mut journal = Journal::open(directory.path()).expect("it opens");
    let writes = writes(&journal);
    journal.commit(&writes).expect("it writes");
    journal.finish().expect("it writes");
}

fn entry(journal: &Journal, number: u64) -> Entry {
    let mut entries = journal.ledger().expect("readable").map(|entry| entry.expect("readable"));
    entries.find(|(n, _)| *n == number).expect("there").1
}

/// The balances that differ: owner, stored, recomputed.
/// The mark of balances that reflect every entry before this one.
fn reflected(next: u64) -> ((Space, Vec<u8>), Option<Vec<u8>>) {
    ((Space::Mark, record::MARK.to_vec()), Some(record::mark_value(next)))
}

fn wrong(audit: &Audit) -> Vec<(&str, Option<u64>, u64)> {
    let found = audit.differences.iter().filter_map(|difference| match difference {
        Difference::Balance(balance) => Some(balance),
        _ => None,
    });
    found.map(|found| (&*found.scope.owner, found.stored, found.recomputed)).collect()
}

#[tokio::test]
async fn what_the_store_wrote_is_clean_lost_holds_included() {
    for lost in [LostHold::Charge, LostHold::Release] {
        let directory = journal(lost).await;
        for _ in 0..2 {
            let found = audit(directory.path(), NOW).expect("it reads");
            // Two customers, a user each, the app; forty entries; what is in flight stays in flight.
            let right = Audit { balances: 5, entries: 40, holds: 2, ..Audit::default() };
            assert_eq!(found, right, "{lost:?}");
        }
        let ledger = EmbeddedLedger::open(directory.path(), clock(), lost).expect("it opens");
        let balances = ledger.read(&customer_b().scope).await.expect("it reads");
        let in_flight = if lost == LostHold::Charge { 1_041 } else { 0 };
        assert_eq!(balances[0].spent, spent_by_b(lost) + in_flight, "the audit has booked nothing itself");
        drop(ledger);
        assert_eq!(audit(directory.path(), NOW).expect("it reads").entries, 42);
    }
}

#[tokio::test]
async fn a_tampered_balance_is_named_with_its_last_bookings() {
    let directory = journal(LostHold::Charge).await;
    let value = spent_by_b(LostHold::Charge);
    spoil(&directory, |_| [((Space::Balances, balance_key(&customer_b())), Some(balance_value(value - 1)))].into());
    let found = audit(directory.path(), NOW).expect("it reads");
    let [Difference::Balance(balance)] = &*found.differences else { panic!("{found:?}") };
    let BalanceKey { scope, limit, period } = customer_b();
    assert_eq!((&balance.scope, balance.limit, balance.period), (&scope, limit, period));
    assert_eq!((balance.stored, balance.recomputed, balance.held), (Some(value - 1), value, 1_041));
    let last: Vec<_> = balance.last.iter().map(|b| (b.number, b.reservation.bits(), b.how, b.claimed, b.actual)).collect();
    let lost = |n: u64| (n, u128::from(n), "lost, charged", 1_000 + n, 1_000 + n);
    let settled = |n: u64| (n, u128::from(n), "settled", 1_000 + n, 900 + n / 2);
    assert_eq!(last, [lost(39), lost(37), settled(35), settled(33), settled(31)]);
}

#[tokio::test]
async fn a_removed_balance_is_named() {
    let directory = journal(LostHold::Charge).await;
    spoil(&directory, |_| [((Space::Balances, balance_key(&customer_b())), None)].into());
    let found = audit(directory.path(), NOW).expect("it reads");
    assert_eq!(wrong(&found), [("b", None, spent_by_b(LostHold::Charge))]);
    assert_eq!(found.differences.len(), 1);
}

#[tokio::test]
async fn a_removed_entry_is_named_first_and_then_what_it_spoils() {
    let directory = journal(LostHold::Charge).await;
    let before = audit(directory.path(), NOW).expect("it reads");
    spoil(&directory, |_| [7, 8].map(|n| ((Space::Ledger, ledger_key(n)), None)).into());
    let found = audit(directory.path(), NOW).expect("it reads");
    assert_eq!(found.differences[0], Difference::Missing { from: 7, to: 8 });
    assert_eq!(found.entries, before.entries - 2);
    let owners: Vec<_> =
        wrong(&found).iter().map(|(owner, stored, recomputed)| (*owner, stored.unwrap_or(0) - recomputed)).collect();
    // 7 is b's, 8 is a's, and the app has both.
    assert_eq!(owners, [("a/u", 904), ("b/u", 903), ("a", 904), ("b", 903), ("app", 1_807)]);
}

#[tokio::test]
async fn the_newest_and_the_oldest_entry_cannot_be_removed_unseen_either() {
    for (number, amount) in [(39, 1_039), (0, 900)] {
        let directory = journal(LostHold::Charge).await;
        spoil(&directory, |_| [((Space::Ledger, ledger_key(number)), None)].into());
        let found = audit(directory.path(), NOW).expect("it reads");
        let (_, stored, recomputed) = wrong(&found)[1];
        assert_eq!(stored, Some(recomputed + amount), "entry {number}");
    }
}

#[tokio::test]
async fn a_doubled_entry_is_named_with_its_reservation() {
    let directory = journal(LostHold::Charge).await;
    spoil(&directory, |journal| [((Space::Ledger, ledger_key(40)), Some(entry_value(&entry(journal, 7)))), reflected(41)].into());
    let found = audit(directory.path(), NOW).expect("it reads");
    assert_eq!(found.differences[0], Difference::Doubled { reservation: ReservationId::new(7), number: 7 });
    let value = spent_by_b(LostHold::Charge);
    assert_eq!(wrong(&found)[1], ("b", Some(value), value + 903));
}

#[tokio::test]
async fn a_doubled_booking_is_found_though_its_balance_agrees() {
    let directory = journal(LostHold::Charge).await;
    spoil(&directory, |journal| {
        let again = entry(journal, 7);
        let mut writes = Writes::from([((Space::Ledger, ledger_key(40)), Some(entry_value(&again))), reflected(41)]);
        for Booking { balance, actual, .. } in again.lines {
            let spent = journal.balance(&balance).expect("readable") + actual;
            writes.insert((Space::Balances, balance_key(&balance)), Some(balance_value(spent)));
        }
        writes
    });
    let found = audit(directory.path(), NOW).expect("it reads");
    assert_eq!(found.differences, [Difference::Doubled { reservation: ReservationId::new(7), number: 7 }]);
}

#[tokio::test]
async fn a_hold_that_outlived_its_end_and_an_end_that_is_none_are_named() {
    let directory = journal(LostHold::Charge).await;
    spoil(&directory, |journal| {
        let mut open = entry(journal, 7);
        open.kind = Kind::Held;
        let hold = (Space::Holds, record::hold_key(open.reservation, 0));
        let unended = (Space::Ledger, ledger_key(7));
        Writes::from([(hold, Some(entry_value(&open))), (unended, Some(entry_value(&open)))])
    });
    let found = audit(directory.path(), NOW).expect("it reads");
    let reservation = ReservationId::new(7);
    assert_eq!(found.differences, [Difference::Unended { reservation, number: 7 }, Difference::HeldAfterEnd { reservation }]);
}

#[tokio::test]
async fn periods_are_compared_until_the_ledger_no_longer_reaches_back() {
    let directory = journal(LostHold::Charge).await;
    spoil(&directory, |_| [((Space::Balances, balance_key(&customer_b())), Some(balance_value(1)))].into());
    let days = |n: u64| NOW.plus(n * 86_400_000_000);
    let counts = |found: &Audit| (found.balances, found.skipped, found.differences.len());
    assert_eq!(counts(&audit(directory.path(), days(1)).expect("it reads")), (5, 0, 1));
    // The ledger begins in the middle of that day, so of a day that is over it may have lost the morning.
    assert_eq!(counts(&audit(directory.path(), days(3)).expect("it reads")), (0, 5, 0));
    // A balance that is gone is expected to be once its period is over.
    spoil(&directory, |_| [((Space::Balances, balance_key(&customer_b())), None)].into());
    assert_eq!(counts(&audit(directory.path(), days(1)).expect("it reads")), (5, 0, 1));
    assert_eq!(counts(&audit(directory.path(), days(3)).expect("it reads")), (0, 4, 0));
}

#[tokio::test]
async fn a_running_gateway_a_missing_and_a_foreign_directory_are_told_apart_and_left_alone() {
    let directory = journal(LostHold::Charge).await;
    let running = EmbeddedLedger::open(directory.path(), clock(), LostHold::Charge).expect("it opens");
    let message = |path: &Path| audit(path, NOW).expect_err("no audit").to_string();
    let in_use = message(directory.path());
    assert!(in_use.contains("in use by another process") && in_use.contains("audited while none runs"), "{in_use}");
    drop(running);
    let missing = directory.path().join("missing");
    assert!(message(&missing).contains("cannot read"), "{}", message(&missing));
    assert!(!missing.exists());
    let empty = tempfile::tempdir().expect("a directory");
    assert!(message(empty.path()).contains("holds no journal"), "{}", message(empty.path()));
    assert_eq!(std::fs::read_dir(empty.path()).expect("readable").count(), 0);
}
