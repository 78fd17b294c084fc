use super::*;
use crate::domain::ReservationId;
use crate::limit::{Scope, ScopeKey};
use crate::store::embedded::disk::Journal;
use crate::store::embedded::record::{Entry, Kind};
use crate::store::embedded::tests::{NOW, clock};

fn ended(time: Timestamp, id: u128) -> Change {
    let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
    Change::Ended(1, Entry { kind: Kind::Settled, time, reservation: ReservationId::new(id), customer, lines: Vec::new() })
}

fn writer(directory: &std::path::Path) -> Writer<Journal> {
    // The sender is dropped: these tests drive the writer by hand.
    let (_, inbox) = mpsc::channel(1);
    Writer::new(Journal::open(directory).expect("it opens"), inbox, clock(), 0)
}

fn kept(writer: &Writer<Journal>) -> Vec<u64> {
    let mut kept: Vec<_> = writer.disk.ledger().expect("readable").map(|e| e.expect("readable").0).collect();
    kept.reverse();
    kept
}

#[test]
fn ledger_entries_leave_after_35_days_a_bounded_number_at_a_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut writer = writer(directory.path());
    let old = Timestamp(NOW.micros() - KEPT - 1);
    let entries = (0..2_000).map(|id| ended(old, id)).chain([ended(Timestamp(NOW.micros() - KEPT), 2_000)]);
    writer.take(Message { changes: entries.collect(), ack: None, admission: false });
    writer.commit();
    writer.written = 100;
    writer.tick();
    assert_eq!(kept(&writer), (712..=2_000).collect::<Vec<_>>(), "512 and twice the 100 written");
    for _ in 0..5 {
        writer.tick();
    }
    assert_eq!(kept(&writer), [2_000], "what is not older stays");
    assert!(writer.health.check().is_ok());
}

#[test]
fn nobody_waits_for_an_admission_that_was_taken_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut writer = writer(directory.path());
    let hold = |id| {
        let Change::Ended(_, entry) = ended(NOW, id) else { unreachable!("as made above") };
        Change::Hold(0, Entry { kind: Kind::Held, ..entry })
    };
    let (gone, _) = oneshot::channel();
    let (ack, mut waits) = oneshot::channel();
    writer.take(Message { changes: vec![hold(1)], ack: Some(gone), admission: true });
    writer.take(Message { changes: vec![hold(2)], ack: Some(ack), admission: true });
    assert!(waits.try_recv().is_err(), "not before it is written");
    writer.commit();
    assert!(waits.try_recv().expect("acknowledged").is_ok());
    let holds: Vec<_> = writer.disk.holds().expect("readable").map(|h| h.expect("readable").1.reservation.bits()).collect();
    assert_eq!(holds, [2]);
}

#[test]
fn of_several_changes_to_a_key_the_last_one_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut writer = writer(directory.path());
    let scope = ScopeKey { scope: Scope::Gateway, owner: "".into() };
    let key = super::super::record::BalanceKey {
        scope,
        limit: crate::limit::LimitName::Spend(crate::domain::Period::Month),
        period: 5,
    };
    let balances = (1..=300).map(|spent| Change::Balance(key.clone(), spent)).collect();
    writer.take(Message { changes: balances, ack: None, admission: false });
    writer.mark();
    assert_eq!(writer.waiting.len(), 2, "one write, and the mark");
    writer.commit();
    assert_eq!(writer.disk.balance(&key).expect("readable"), 300);
}
