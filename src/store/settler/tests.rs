use super::*;
use crate::domain::{ReservationId, Timestamp};
use crate::limit::{Admission, Decision, Scope, ScopeKey};
use crate::store::Balance;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

/// A ledger that remembers what was settled and can be told to fail.
#[derive(Default)]
pub struct Recorder {
    settled: Mutex<Vec<Settlement>>,
    batches: Mutex<Vec<usize>>,
    failures: AtomicU64,
    /// A reservation at which it panics.
    poison: Option<u128>,
    /// Whether it settles without waiting.
    here: bool,
}

impl Recorder {
    /// What was settled since the last time.
    pub fn take(&self) -> Vec<Settlement> {
        std::mem::take(&mut self.settled.lock())
    }
}

impl Ledger for Recorder {
    fn admit<'a>(&'a self, _: &'a Admission, _: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(async { Err(StoreError::Failed("it only settles".into())) })
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], _: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        assert!(!batch.iter().any(|settlement| Some(settlement.reservation.bits()) == self.poison), "poisoned");
        let failures = self.failures.load(Ordering::Relaxed);
        if failures > 0 {
            self.failures.store(failures - 1, Ordering::Relaxed);
            return Box::pin(async { Err(StoreError::Unreachable("away".into())) });
        }
        self.settled.lock().extend_from_slice(batch);
        self.batches.lock().push(batch.len());
        Box::pin(async { Ok(()) })
    }

    fn settle_here(&self, settlement: &Settlement) -> bool {
        assert!(!self.here || Some(settlement.reservation.bits()) != self.poison, "poisoned");
        if self.here {
            self.settled.lock().push(settlement.clone());
        }
        self.here
    }

    fn read<'a>(&'a self, _: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A settler over a recorder.
pub fn recorded(recorder: Recorder, capacity: usize) -> (Settler, Arc<Recorder>) {
    let ledger = Arc::new(recorder);
    (Settler::start(Arc::clone(&ledger) as Arc<dyn Ledger>, capacity), ledger)
}

fn settlement(id: u128) -> Settlement {
    let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
    Settlement { reservation: ReservationId::new(id), customer, lines: Vec::new() }
}

fn ids(settled: &[Settlement]) -> Vec<u128> {
    settled.iter().map(|s| s.reservation.bits()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_outage_loses_nothing_doubles_nothing_and_keeps_the_order() {
    let (settler, ledger) = recorded(Recorder { failures: AtomicU64::new(20), ..Recorder::default() }, 500);
    for id in 0..300 {
        settler.try_place().expect("room").settle(settlement(id));
    }
    let before = tokio::time::Instant::now();
    assert_eq!(settler.drain(Duration::from_secs(60)).await, 0);
    assert_eq!(ids(&ledger.take()), (0..300).collect::<Vec<_>>());
    assert_eq!(*ledger.batches.lock(), [128, 128, 44], "many at once");
    assert_eq!(settler.status(), SettlerStatus { outstanding: 0, settled: 300, retries: 20 });
    // 10, 20, ... 640 ms, then 13 pauses of a second.
    assert_eq!(before.elapsed(), Duration::from_millis(1_270 + 13_000));
}

#[tokio::test(start_paused = true)]
async fn places_are_bounded_and_come_back() {
    let (settler, ledger) = recorded(Recorder { failures: AtomicU64::new(1), ..Recorder::default() }, 2);
    let first = settler.try_place().expect("room");
    let second = settler.place().await.expect("room");
    assert!(settler.try_place().is_none(), "both are taken");
    assert_eq!(settler.status().outstanding, 2);
    drop(second);
    let third = settler.try_place().expect("given back unused");
    first.settle(settlement(1));
    third.settle(settlement(3));
    assert_eq!(settler.drain(Duration::from_secs(1)).await, 0);
    assert_eq!(ids(&ledger.take()), [1, 3]);
    assert!(settler.try_place().is_some());
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_places_in_use_and_no_longer_than_told() {
    let (settler, ledger) = recorded(Recorder::default(), 8);
    let place = settler.place().await.expect("room");
    assert_eq!(settler.drain(Duration::from_secs(30)).await, 1, "a request is still in flight");
    let late = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        place.settle(settlement(1));
    });
    assert_eq!(settler.drain(Duration::from_secs(30)).await, 0);
    assert_eq!(ids(&ledger.take()), [1]);
    late.await.expect("it ended");
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_is_settled_though_the_settler_is_gone() {
    let (settler, ledger) = recorded(Recorder::default(), 8);
    let (first, second) = (settler.place().await.expect("room"), settler.place().await.expect("room"));
    first.settle(settlement(1));
    drop(settler);
    second.settle(settlement(2));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ids(&ledger.take()), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_panics_does_not_end_the_queue() {
    let (settler, recorder) = recorded(Recorder { poison: Some(1), ..Recorder::default() }, 8);
    settler.try_place().expect("room").settle(settlement(1));
    while settler.status().outstanding > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await; // paused time
    }
    assert_eq!(settler.status().retries, u64::from(MOST_PANICS), "it is tried again before it is given up");
    settler.try_place().expect("room").settle(settlement(2));
    assert_eq!(settler.drain(Duration::from_secs(1)).await, 0);
    assert_eq!(ids(&recorder.take()), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_need_not_wait_has_it_at_once_whatever_it_does() {
    let (settler, ledger) = recorded(Recorder { here: true, poison: Some(2), ..Recorder::default() }, 8);
    settler.try_place().expect("room").settle(settlement(1));
    assert_eq!(ids(&ledger.take()), [1], "nothing else has run since");
    assert_eq!(settler.status(), SettlerStatus { outstanding: 0, settled: 1, retries: 0 });
    settler.try_place().expect("room").settle(settlement(2));
    assert_eq!(settler.status().outstanding, 1, "what panics here goes the other way");
}
