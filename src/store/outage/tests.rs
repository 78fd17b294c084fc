use super::fixture::{DAY, admission, customer, settlement};
use super::*;
use crate::store::embedded::EmbeddedLedger;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

/// How long a call to a silent store takes.
const DEADLINE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mood {
    Well,
    /// Answers nothing, and does nothing.
    Silent,
    /// Does what it is asked, and its answer is lost.
    Mute,
    Refusing(&'static str),
}

/// A store with moods, and the books behind it.
struct Moody {
    books: EmbeddedLedger,
    mood: Mutex<Mood>,
    /// Its error for the settlement of reservation 13 alone.
    picky: AtomicBool,
    admits: AtomicUsize,
    beats: Mutex<Vec<Instant>>,
    settled: Mutex<Vec<u128>>,
}

/// The day of the fixture, and as much later as a test says.
#[derive(Default)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        DAY.plus(self.0.load(Ordering::Relaxed))
    }
}

impl Moody {
    async fn answer<T>(&self, act: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let mood = *self.mood.lock();
        if matches!(mood, Mood::Well | Mood::Mute) {
            let done = act.await;
            if mood == Mood::Well {
                return done;
            }
        }
        if let Mood::Refusing(text) = mood {
            return Err(StoreError::Failed(text.into()));
        }
        tokio::time::sleep(DEADLINE).await;
        Err(StoreError::Unreachable("no reply".into()))
    }
}

impl Ledger for Moody {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.admits.fetch_add(1, Ordering::Relaxed);
        self.answer(self.books.admit(admission, now)).boxed()
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.answer(async move {
            if self.picky.load(Ordering::Relaxed) && batch.iter().any(|s| s.reservation.bits() == 13) {
                return Err(StoreError::Failed("\"WRONGTYPE\": of one customer".into()));
            }
            self.settled.lock().extend(batch.iter().map(|settlement| settlement.reservation.bits()));
            self.books.settle(batch, now).await
        })
        .boxed()
    }

    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.answer(self.books.replace(old, admission, now)).boxed()
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        self.answer(self.books.read(scope)).boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.answer(self.books.ping()).boxed()
    }
}

impl Remote for Moody {
    fn beat(&self, _: u128, _: u64) -> BoxFuture<'_, Result<usize, StoreError>> {
        self.beats.lock().push(Instant::now());
        self.answer(async { Ok(1) }).boxed()
    }

    fn known_lines<'a>(&'a self, settlement: &'a Settlement) -> BoxFuture<'a, Result<Vec<Line>, StoreError>> {
        self.answer(async move {
            let held = self.books.read(&settlement.customer).await?.iter().any(|balance| balance.held > 0);
            Ok(if held { settlement.lines.clone() } else { Vec::new() })
        })
        .boxed()
    }
}

struct Scene {
    store: Arc<Moody>,
    clock: Arc<Hands>,
    guarded: Guarded,
    directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self::with(Outage::default())
    }

    fn with(settings: Outage) -> Self {
        let clock = Arc::new(Hands::default());
        let store = Arc::new(Moody {
            books: EmbeddedLedger::in_memory(clock.clone()),
            mood: Mutex::new(Mood::Well),
            picky: AtomicBool::new(false),
            admits: AtomicUsize::new(0),
            beats: Mutex::default(),
            settled: Mutex::default(),
        });
        let directory = tempfile::tempdir().expect("a directory");
        let settings = Outage { journal: directory.path().to_owned(), ..settings };
        let guarded = Guarded::new(store.clone(), settings, clock.clone()).expect("it opens");
        Self { store, clock, guarded, directory }
    }

    fn mood(&self, mood: Mood) {
        *self.store.mood.lock() = mood;
    }

    /// As the next process finds it.
    async fn restart(mut self) -> Self {
        let guard = Arc::downgrade(&self.guarded.guard);
        let settings = self.guarded.guard.settings.clone();
        let between = Outage { journal: self.directory.path().join("between"), ..settings.clone() };
        self.guarded = Guarded::new(self.store.clone(), between, self.clock.clone()).expect("it opens");
        while guard.upgrade().is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await; // its task ends
        }
        self.guarded = Guarded::new(self.store.clone(), settings, self.clock.clone()).expect("it opens");
        self
    }

    async fn admit(&self, id: u128, who: &str, amount: u64) -> Result<bool, StoreError> {
        self.guarded.admit(&admission(id, who, amount), None).await.map(|decision| decision.admitted)
    }

    async fn settle(&self, id: u128, claimed: u64, actual: u64) {
        self.guarded.settle(&[settlement(id, "c", claimed, actual, DAY)], None).await.expect("kept");
    }

    /// Spent and held of `c`.
    async fn books(&self) -> (u64, u64) {
        let balances = self.store.books.read(&customer("c")).await.expect("in memory");
        balances.first().map_or((0, 0), |balance| (balance.spent, balance.held))
    }

    async fn back(&self) {
        self.mood(Mood::Well);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!self.guarded.status().away && !self.guarded.status().breaker_open);
    }
}

fn away<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Away(_)))
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_bounded_by_deadlines_and_then_by_the_breaker_and_ends_by_itself() {
    for mood in [Mood::Silent, Mood::Refusing("\"OOM\": full"), Mood::Refusing("ReadOnly: a replica")] {
        let scene = Scene::new();
        assert_eq!(scene.admit(1, "c", 10).await, Ok(true));
        scene.settle(1, 10, 10).await;
        scene.mood(mood);
        let began = Instant::now();
        for id in 2..40 {
            assert_eq!(scene.admit(id, "c", 10).await, Ok(true), "{mood:?}");
        }
        assert!(began.elapsed() <= DEADLINE * 3, "{mood:?}: {:?}", began.elapsed());
        assert!(scene.store.admits.load(Ordering::Relaxed) <= 1 + 3, "{mood:?}: it is not asked any more");
        let status = scene.guarded.status();
        assert_eq!((status.away, status.breaker_open, status.alone, status.outages), (true, true, 38, 1), "{mood:?}");
        assert_eq!(status.alone_until, Some(DAY.plus(300_000_000)));
        assert!(away(&scene.guarded.ping().await) && away(&scene.guarded.read(&customer("c")).await));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let beats = scene.store.beats.lock().clone();
        let pauses: Vec<_> = beats.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(1) + DEADLINE), "{pauses:?}");
        assert!(beats.len() < 75, "{} probes in a minute", beats.len());
        scene.mood(Mood::Well);
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        assert!(!scene.guarded.status().breaker_open, "{mood:?}");
        assert_eq!(scene.admit(90, "c", 10).await, Ok(true));
        scene.back().await;
        assert_eq!(scene.guarded.status().outages, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_unknown_is_admitted_alone_and_nobody_beyond_the_share_or_the_time() {
    let scene = Scene::new();
    assert_eq!(scene.admit(1, "c", 1_000).await, Ok(true));
    scene.mood(Mood::Refusing("LOADING"));
    assert!(away(&scene.admit(2, "stranger", 1).await));
    // 999,000 are left of a million.
    assert_eq!(scene.admit(3, "c", 99_900).await, Ok(true));
    assert!(away(&scene.admit(4, "c", 1).await), "the share is used up");
    scene.settle(3, 99_900, 40_000).await;
    assert_eq!(scene.admit(5, "c", 59_900).await, Ok(true), "what was not used came back");
    scene.settle(5, 59_900, 0).await;
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(scene.admit(6, "c", 1).await, Ok(true));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(away(&scene.admit(7, "c", 1).await), "five minutes are over");
    let status = scene.guarded.status();
    assert_eq!((status.alone_until, status.alone, status.refused_alone), (None, 3, 3));
    scene.back().await;
    assert_eq!(scene.admit(8, "c", 1).await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn settlements_wait_and_are_replayed_in_order_and_the_books_are_right() {
    let scene = Scene::new();
    for id in 1..4 {
        assert_eq!(scene.admit(id, "c", 100).await, Ok(true));
    }
    scene.mood(Mood::Silent);
    assert_eq!(scene.admit(4, "c", 100).await, Ok(true));
    for (id, actual) in [(3, 70), (4, 60), (1, 50)] {
        scene.settle(id, 100, actual).await;
    }
    assert_eq!((scene.guarded.status().waiting, scene.books().await), (3, (0, 300)));
    scene.back().await;
    assert_eq!(scene.store.settled.lock().as_slice(), [3, 4, 1]);
    assert_eq!(scene.books().await, (180, 100), "the request still in flight is held");
    scene.settle(2, 100, 20).await;
    assert_eq!(scene.books().await, (200, 0));
    let status = scene.guarded.status();
    assert_eq!((status.waiting, status.replayed, status.stale), (0, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn what_waits_survives_the_process_and_what_was_in_flight_alone_is_charged_as_held() {
    let scene = Scene::new();
    assert_eq!(scene.admit(1, "c", 100).await, Ok(true));
    scene.mood(Mood::Refusing("\"OOM\": full"));
    for id in 2..5 {
        assert_eq!(scene.admit(id, "c", 100).await, Ok(true));
    }
    scene.settle(1, 100, 30).await;
    scene.settle(2, 100, 40).await;
    let scene = scene.restart().await;
    assert_eq!(scene.guarded.status().waiting, 4);
    assert!(away(&scene.admit(9, "c", 1).await), "a new process has seen nobody");
    scene.back().await;
    assert_eq!(scene.books().await, (30 + 40 + 100 + 100, 0));
    let scene = scene.restart().await;
    scene.back().await;
    assert_eq!(scene.books().await, (270, 0), "nothing twice");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_did_what_it_could_not_answer_ends_with_right_books() {
    let scene = Scene::new();
    assert_eq!(scene.admit(1, "c", 100).await, Ok(true));
    scene.mood(Mood::Mute);
    assert_eq!(scene.admit(2, "c", 100).await, Ok(true), "alone");
    assert!(away(&scene.admit(3, "stranger", 100).await));
    scene.settle(1, 100, 30).await;
    scene.settle(2, 100, 40).await;
    assert_eq!(scene.guarded.status().alone, 1);
    scene.back().await;
    assert_eq!(scene.books().await, (70, 0));
    let strangers = scene.store.books.read(&customer("stranger")).await.expect("in memory");
    assert!(strangers.iter().all(|balance| (balance.spent, balance.held) == (0, 0)), "{strangers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_before_the_answer_leaves_no_hold() {
    let scene = Scene::new();
    assert_eq!(scene.admit(1, "c", 100).await, Ok(true));
    tokio::time::sleep(Duration::from_secs(1)).await; // the first sign of life is through
    scene.mood(Mood::Mute);
    let left = tokio::time::timeout(DEADLINE / 2, scene.admit(2, "c", 100)).await;
    assert!(left.is_err() && scene.books().await == (0, 200));
    scene.mood(Mood::Well);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.books().await, (0, 100));
    assert_eq!(scene.guarded.status().outages, 0, "nothing failed");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_booked_before_the_store_forgot_is_not_booked_again() {
    for (tried, known, right) in [(false, false, (60, 0)), (true, true, (60, 0)), (true, false, (0, 0))] {
        let scene = Scene::new();
        if known {
            assert_eq!(scene.admit(1, "c", 100).await, Ok(true));
        }
        scene.mood(Mood::Silent);
        if !tried {
            for _ in 0..3 {
                assert!(away(&scene.admit(9, "stranger", 1).await));
            }
        }
        scene.settle(1, 100, 60).await;
        scene.clock.0.store(3_600_000_000, Ordering::Relaxed);
        scene.back().await;
        assert_eq!(scene.books().await, right, "tried {tried}, known {known}");
        let status = scene.guarded.status();
        assert_eq!((status.waiting, status.stale), (0, u64::from(right == (0, 0))));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_store_cannot_take_of_one_customer_harms_nobody_else() {
    let scene = Scene::new();
    scene.store.picky.store(true, Ordering::Relaxed);
    let batch: Vec<_> = (12..15).map(|id| settlement(id, "c", 0, 10, DAY)).collect();
    scene.guarded.settle(&batch, None).await.expect("kept");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.store.settled.lock().as_slice(), [12, 14]);
    let status = scene.guarded.status();
    assert_eq!((status.waiting, status.outages, status.breaker_open), (1, 0, false));
    scene.store.picky.store(false, Ordering::Relaxed);
    let scene = scene.restart().await;
    scene.back().await;
    assert_eq!((scene.guarded.status().waiting, scene.books().await), (0, (30, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_and_goes_does_not_hand_out_a_new_share_each_time() {
    let scene = Scene::new();
    assert_eq!(scene.admit(1, "c", 0).await, Ok(true));
    let mut alone = 0_u128;
    for flap in 0..3 {
        scene.mood(Mood::Refusing("LOADING"));
        let mut here = 0;
        while scene.admit(1_000 + alone + here, "c", 10_000).await.is_ok() {
            here += 1;
        }
        alone += here;
        // A tenth of a million, of 900,000, of 810,000.
        assert_eq!(here, [10, 9, 8][flap]);
        scene.back().await;
    }
    assert_eq!(scene.guarded.status().outages, 3);
}

#[tokio::test(start_paused = true)]
async fn without_room_in_the_journal_nothing_is_admitted_alone() {
    let scene = Scene::with(Outage { journal_max: 2_000, ..Outage::default() });
    assert_eq!(scene.admit(1, "c", 1).await, Ok(true));
    scene.mood(Mood::Refusing("LOADING"));
    let mut admitted = 0;
    while scene.admit(10 + admitted, "c", 1).await.is_ok() {
        admitted += 1;
    }
    assert!((1..10).contains(&admitted), "{admitted}");
    let refused = scene.guarded.settle(&[settlement(1, "c", 1, 1, DAY)], None).await;
    assert!(matches!(refused, Err(StoreError::Failed(_))), "the queue keeps it: {refused:?}");
    scene.back().await;
    scene.settle(1, 1, 1).await;
    for id in 0..admitted {
        scene.settle(10 + id, 1, 1).await;
    }
    assert_eq!(scene.books().await, (1 + u64::try_from(admitted).expect("few"), 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_keeps_what_it_has_while_the_store_is_away() {
    let scene = Scene::new();
    let old = settlement(1, "c", 900, 20, DAY);
    assert!(scene.guarded.admit(&admission(1, "c", 900), None).await.expect("it answers").admitted);
    for mood in [Mood::Mute, Mood::Silent, Mood::Refusing("READONLY"), Mood::Well] {
        scene.mood(mood);
        assert!(away(&scene.guarded.replace(&old, &admission(2, "c", 950), None).await), "{mood:?}: until a probe succeeds");
    }
    // What the mute store took is given back; the old reservation is settled by its owner, and was booked by the replacement.
    scene.mood(Mood::Well);
    while scene.guarded.status().away {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    scene.guarded.settle(std::slice::from_ref(&old), None).await.expect("it answers");
    while scene.books().await.1 > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(scene.books().await, (20, 0));
    // Back in order, it is asked again; an old one that it does not know is not its business.
    let next = admission(3, "c", 100);
    assert!(scene.guarded.admit(&next, None).await.expect("it answers").admitted);
    let used = settlement(3, "c", 100, 5, DAY);
    assert!(scene.guarded.replace(&used, &admission(4, "c", 200), None).await.expect("it answers").admitted);
    assert_eq!(scene.books().await, (25, 200));
}

#[tokio::test(start_paused = true)]
async fn what_was_admitted_alone_is_not_replaced() {
    let scene = Scene::new();
    assert!(scene.guarded.admit(&admission(1, "c", 10), None).await.expect("it answers").admitted);
    scene.mood(Mood::Refusing("READONLY"));
    assert!(scene.guarded.admit(&admission(2, "c", 10), None).await.expect("alone").admitted);
    scene.mood(Mood::Well);
    while scene.guarded.status().away {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let old = settlement(2, "c", 10, 5, DAY);
    let refused = scene.guarded.replace(&old, &admission(3, "c", 10), None).await;
    assert_eq!(refused, Err(StoreError::Away("the request was admitted without it")));
    scene.guarded.settle(&[old], None).await.expect("it answers");
    assert_eq!(scene.books().await, (5, 10));
}
