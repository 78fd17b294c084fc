use super::*;
use crate::domain::Timestamp;
use crate::limit::{Admission, Decision, Scope, Settlement};
use crate::store::Balance;
use crate::store::settler::Settler;
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

/// A store that notes when it was asked what.
struct Noting {
    born: Instant,
    away: AtomicBool,
    /// Seconds after its birth, and the reservations.
    renewed: Mutex<Vec<(u64, Vec<u128>)>>,
    /// Seconds after its birth, and whether it answered.
    swept: Mutex<Vec<(u64, bool)>>,
}

impl Noting {
    fn new() -> Arc<Self> {
        let (renewed, swept) = Default::default();
        Arc::new(Self { born: Instant::now(), away: AtomicBool::new(false), renewed, swept })
    }

    fn seconds(&self) -> u64 {
        self.born.elapsed().as_secs()
    }

    fn answer<T: Send + 'static>(&self, good: T) -> BoxFuture<'static, Result<T, StoreError>> {
        let away = self.away.load(Ordering::Relaxed);
        Box::pin(std::future::ready(if away { Err(StoreError::Away("a test says so")) } else { Ok(good) }))
    }
}

impl Ledger for Noting {
    fn admit<'a>(&'a self, _: &'a Admission, _: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        Box::pin(std::future::ready(Err(StoreError::Away("it admits nothing"))))
    }

    fn settle<'a>(&'a self, _: &'a [Settlement], _: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.answer(())
    }

    fn read<'a>(&'a self, _: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        self.answer(Vec::new())
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(())
    }

    fn renew<'a>(&'a self, batch: &'a [Renewal], _: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        assert!(batch.iter().all(|renewal| renewal.lease == 90_000_000 && renewal.metered == 0), "{batch:?}");
        let mut ids: Vec<_> = batch.iter().map(|renewal| renewal.reservation.bits()).collect();
        ids.sort_unstable();
        self.renewed.lock().push((self.seconds(), ids));
        self.answer(())
    }

    fn sweep(&self, _: Option<Timestamp>) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.swept.lock().push((self.seconds(), !self.away.load(Ordering::Relaxed)));
        self.answer(0)
    }
}

const LEASE: Duration = Duration::from_secs(90);

#[tokio::test(start_paused = true)]
async fn a_hold_is_renewed_three_times_a_lease_until_its_settlement_is_in_the_ledger() {
    let store = Noting::new();
    let ledger: Arc<dyn Ledger> = store.clone();
    let settler = Settler::start(ledger.clone(), 4);
    let keeper = Keeper::start(&ledger, settler.running(), LEASE);
    let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
    let mut places = Vec::new();
    for id in [1, 2] {
        let mut place = settler.place().await.expect("room");
        place.hold(ReservationId::new(id), &customer);
        places.push(place);
    }
    sleep(Duration::from_secs(65)).await;
    assert_eq!(std::mem::take(&mut *store.renewed.lock()), [(30, vec![1, 2]), (60, vec![1, 2])]);
    drop(places.pop());
    store.away.store(true, Ordering::Relaxed);
    let settlement = Settlement { reservation: ReservationId::new(1), customer, lines: Vec::new() };
    places.remove(0).settle(settlement);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(std::mem::take(&mut *store.renewed.lock()), [(90, vec![1]), (120, vec![1])], "ended, but not in the ledger");
    store.away.store(false, Ordering::Relaxed);
    assert_eq!(settler.drain(LEASE).await, 0);
    sleep(2 * LEASE).await;
    assert!(store.renewed.lock().is_empty(), "nothing to renew is no call");
    drop(keeper);
    let swept = store.swept.lock().len();
    sleep(2 * LEASE).await;
    assert_eq!(store.swept.lock().len(), swept, "a gateway that ended asks nothing more");
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_nothing_is_swept_before_the_others_could_renew() {
    let store = Noting::new();
    let ledger: Arc<dyn Ledger> = store.clone();
    let _keeper = Keeper::start(&ledger, Arc::default(), LEASE);
    sleep(Duration::from_secs(300)).await;
    let well = std::mem::take(&mut *store.swept.lock());
    assert_eq!(well[0], (45, true), "half a lease after the start: {well:?}");
    let pauses = well.windows(2).map(|pair| pair[1].0 - pair[0].0);
    assert!(pauses.clone().all(|pause| (16..=29).contains(&pause)), "about four in a lease: {well:?}");
    store.away.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(400)).await;
    store.away.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(70)).await;
    let swept = store.swept.lock().clone();
    assert_eq!(swept.iter().filter(|(_, answered)| !answered).count(), 1, "then it only waits for the store: {swept:?}");
    let first = swept.iter().find(|(_, answered)| *answered).expect("it goes on");
    assert!((745..=753).contains(&first.0), "back after 700 s: {swept:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_used_is_asked_for_by_renewals_and_told_once_a_request_has_run_for_a_lease() {
    let running = Arc::<Running>::default();
    let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
    let held = running.hold(ReservationId::new(1), &customer);
    let metered = held.metered();
    let renewed = || running.renewals(LEASE)[0].metered;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((renewed(), metered.is_wanted()), (0, false), "too young: nobody counts anything");
    sleep(Duration::from_secs(30)).await;
    assert_eq!((renewed(), metered.is_wanted()), (0, true), "wanted from now on");
    metered.tell(NanoUsd::new(700));
    assert!(!metered.is_wanted(), "once for each renewal");
    assert_eq!((renewed(), metered.is_wanted()), (700, true));
    assert_eq!(renewed(), 700, "a stream that stands still has used no more");
    metered.tell(NanoUsd::new(650));
    assert_eq!(renewed(), 700, "never less");
    let other = running.hold(ReservationId::new(2), &customer);
    drop(held);
    sleep(LEASE).await;
    assert_eq!(renewed(), 0, "each reservation has its own");
    drop(other);
    assert!(running.renewals(LEASE).is_empty());
}
