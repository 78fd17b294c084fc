//! The worker by hand: one turn at a time, with the time, the pools and the store in the test's hands.

use super::observation::Observation;
use super::work::Worker;
use super::{Alert, Cap, Gauge, Kind, Owner, Recent, Seen, Sources};
use crate::config::{Env, Policy};
use crate::domain::{Clock, CustomerId, Period, Timestamp};
use crate::limit::{Scope, ScopeKey};
use crate::store::documents::memory::MemoryDocuments;
use crate::store::documents::{Collection, Document, Documents, Listed, Page, Write, Written};
use crate::store::embedded::EmbeddedLedger;
use crate::store::{Balance, Ledger, StoreError};
use crate::telemetry::Metrics;
use crate::telemetry::alerts::KindLabels;
use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::mpsc;

const START: u64 = 1_800_000_000;
const DAY: u64 = 86_400;

#[derive(Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(START + self.0.load(Ordering::SeqCst))
    }
}

/// Documents that are away when a test says so.
struct Moody {
    inner: MemoryDocuments,
    away: AtomicBool,
}

impl Moody {
    fn answer<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if self.away.load(Ordering::SeqCst) { Err(StoreError::Unreachable("the test says so".into())) } else { answer }
    }
}

impl Documents for Moody {
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        Box::pin(async move { self.answer(self.inner.get(collection, id, now).await) })
    }

    fn put<'a>(&'a self, write: &'a Write, now: Option<Timestamp>) -> BoxFuture<'a, Result<Written, StoreError>> {
        Box::pin(async move {
            self.answer(Ok(()))?;
            self.inner.put(write, now).await
        })
    }

    fn put_all<'a>(&'a self, writes: &'a [Write], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.put_all(writes, now)
    }

    fn list<'a>(
        &'a self,
        collection: Collection,
        page: &'a Page,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Listed>, StoreError>> {
        Box::pin(async move { self.answer(self.inner.list(collection, page, now).await) })
    }
}

/// A ledger that says what a test says of every cap of a day, and counts how often it is read.
struct Books {
    inner: EmbeddedLedger,
    spent: AtomicU64,
    held: AtomicU64,
    period: AtomicU64,
    reads: AtomicU64,
}

impl Ledger for Books {
    fn admit<'a>(
        &'a self,
        admission: &'a crate::limit::Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<crate::limit::Decision, StoreError>> {
        self.inner.admit(admission, now)
    }

    fn settle<'a>(
        &'a self,
        batch: &'a [crate::limit::Settlement],
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.settle(batch, now)
    }

    fn read<'a>(&'a self, _: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let balance = Balance {
            limit: crate::limit::LimitName::Spend(Period::Day),
            period: self.period.load(Ordering::SeqCst),
            spent: self.spent.load(Ordering::SeqCst),
            held: self.held.load(Ordering::SeqCst),
        };
        Box::pin(std::future::ready(Ok(vec![balance])))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.ping()
    }
}

/// What gateways share.
struct Fleet {
    clock: Arc<Hand>,
    documents: Arc<Moody>,
    books: Arc<Books>,
    gauges: Arc<Mutex<Vec<Gauge>>>,
    policy: Arc<ArcSwap<Policy>>,
}

/// One gateway.
struct One {
    worker: Worker,
    seen: mpsc::Sender<Observation>,
    recent: Arc<Recent>,
    metrics: Arc<Metrics>,
}

impl Fleet {
    fn new(config: &str) -> Self {
        let clock = Arc::<Hand>::default();
        let (policy, _) = Policy::parse(config, "f", &Env::default()).unwrap_or_else(|problems| panic!("{problems:#?}"));
        Self {
            documents: Arc::new(Moody { inner: MemoryDocuments::new(clock.clone()), away: AtomicBool::new(false) }),
            books: Arc::new(Books {
                inner: EmbeddedLedger::in_memory(clock.clone()),
                spent: AtomicU64::new(0),
                held: AtomicU64::new(0),
                period: AtomicU64::new(day(0)),
                reads: AtomicU64::new(0),
            }),
            gauges: Arc::default(),
            policy: Arc::new(ArcSwap::from_pointee(policy)),
            clock,
        }
    }

    fn gateway(&self) -> One {
        let (seen, inbox) = mpsc::channel(64);
        let (recent, metrics, gauges) = (Arc::<Recent>::default(), Arc::<Metrics>::default(), self.gauges.clone());
        let sources = Sources {
            policy: self.policy.clone(),
            ledger: self.books.clone(),
            documents: self.documents.clone(),
            clock: self.clock.clone(),
            metrics: metrics.clone(),
            pools: Box::new(move || Seen { gauges: gauges.lock().clone(), pins: Vec::new() }),
        };
        One { worker: Worker::new(sources, inbox, recent.clone()), seen, recent, metrics }
    }

    fn at(&self, secs: u64) {
        self.clock.0.store(secs, Ordering::SeqCst);
    }

    async fn kept(&self) -> Vec<Alert> {
        super::shelf::read(&*self.documents, 1_000, None).await.expect("it answers")
    }
}

impl One {
    fn see(&self, observation: Observation) {
        self.seen.try_send(observation).expect("room");
    }

    fn raised(&self, kind: Kind) -> u64 {
        self.metrics.alerts.raised.get_or_create(&KindLabels { kind: kind.as_str() }).get()
    }

    /// The kinds it told, oldest first.
    fn told(&self) -> Vec<Kind> {
        self.recent.0.lock().iter().map(|alert| alert.kind).collect()
    }
}

/// When the n-th day begins.
fn day(n: u64) -> u64 {
    START - START % DAY + n * DAY
}

/// A cap of 1,000 on a day.
fn near(n: u64, refused: bool) -> Observation {
    let cap = Cap {
        scope: ScopeKey { scope: Scope::Customer, owner: "acme".into() },
        owner: Owner::Customer(CustomerId::from_trusted("acme")),
        plan: Some("open".into()),
        period: Period::Day,
        start: day(n),
        end: day(n + 1),
        cap: 1_000,
    };
    Observation::Spend { cap, refused }
}

fn gauge(used: u64) -> Gauge {
    Gauge { owner: "mini".into(), level: 0, before: 0, changed: Timestamp(0), used }
}

#[tokio::test]
async fn what_is_only_held_is_no_news_and_what_is_told_is_not_read_again() {
    let fleet = Fleet::new("");
    let mut one = fleet.gateway();
    fleet.books.spent.store(499, Ordering::SeqCst);
    fleet.books.held.store(501, Ordering::SeqCst);
    one.see(near(0, false));
    for _ in 0..100 {
        one.worker.step().await;
    }
    assert_eq!(one.told(), [], "it may all come back");
    let reads = fleet.books.reads.load(Ordering::SeqCst);
    assert!((4..=12).contains(&reads), "looks grow rare: {reads}");
    fleet.books.spent.store(500, Ordering::SeqCst);
    fleet.books.held.store(0, Ordering::SeqCst);
    for _ in 0..40 {
        one.worker.step().await;
    }
    assert_eq!(one.told(), [Kind::SpendCap], "seen without another request");
    let reads = fleet.books.reads.load(Ordering::SeqCst);
    for _ in 0..100 {
        one.worker.step().await;
    }
    assert_eq!(fleet.books.reads.load(Ordering::SeqCst), reads, "nothing in flight, nothing to look at");
    fleet.books.spent.store(1_000, Ordering::SeqCst);
    one.see(near(0, false));
    one.worker.step().await;
    assert_eq!(one.told(), [Kind::SpendCap, Kind::SpendCap, Kind::FirstAtCap]);
    let reads = fleet.books.reads.load(Ordering::SeqCst);
    for _ in 0..20 {
        one.see(near(0, true));
        one.worker.step().await;
    }
    assert_eq!(fleet.books.reads.load(Ordering::SeqCst), reads, "a flood of refusals asks the store nothing");
    assert_eq!(one.told().len(), 3);
}

#[tokio::test]
async fn days_at_a_cap_count_once_a_day_over_all_gateways_and_start_again_after_a_day_without() {
    let fleet = Fleet::new("");
    let (mut one, mut two) = (fleet.gateway(), fleet.gateway());
    let mut days = Vec::new();
    for n in [0, 1, 2, 3, 5, 6, 7] {
        fleet.at(n * DAY);
        fleet.books.period.store(day(n), Ordering::SeqCst);
        for _ in 0..3 {
            one.see(near(n, true));
            two.see(near(n, true));
            one.worker.step().await;
            two.worker.step().await;
        }
        days.push(one.raised(Kind::DaysAtCap) + two.raised(Kind::DaysAtCap));
    }
    assert_eq!(days, [0, 0, 1, 1, 1, 1, 2], "on the third day in a row, and on the third after a day without");
    assert_eq!(one.raised(Kind::FirstAtCap) + two.raised(Kind::FirstAtCap), 1);
    assert_eq!(one.raised(Kind::SpendCap) + two.raised(Kind::SpendCap), 7, "each day's cap");
}

#[tokio::test]
async fn a_busy_pool_is_told_after_five_minutes_and_once_an_hour_while_it_lasts() {
    let fleet = Fleet::new("");
    let (mut one, mut two) = (fleet.gateway(), fleet.gateway());
    *fleet.gauges.lock() = vec![gauge(850)];
    let mut told = Vec::new();
    for secs in (0..=7_800).step_by(100) {
        fleet.at(secs);
        one.worker.step().await;
        two.worker.step().await;
        let count = one.raised(Kind::PoolBusy) + two.raised(Kind::PoolBusy);
        if told.last().is_none_or(|(_, before)| *before != count) {
            told.push((secs, count));
        }
    }
    assert_eq!(told, [(0, 0), (300, 1), (3_900, 2), (7_500, 3)]);
    let alerts = fleet.kept().await;
    let first = alerts.last().expect("kept");
    assert!(
        first.text.starts_with(
            "Pool mini has used more than 80 % of its provider ceiling for 300 seconds, since 2027-01-15T08:00:00Z: 85 %"
        ),
        "{}",
        first.text
    );
    assert_eq!(first.since, Some(Timestamp::from_secs(START)));
}

#[tokio::test]
async fn what_has_to_be_told_once_waits_for_the_store_and_is_told_once_after_it() {
    let fleet = Fleet::new("");
    let (mut one, mut two) = (fleet.gateway(), fleet.gateway());
    fleet.documents.away.store(true, Ordering::SeqCst);
    let looped =
        || Observation::Loop { customer: CustomerId::from_trusted("acme"), app: "shop".into(), model: "m".into(), times: 31 };
    for _ in 0..5 {
        one.see(looped());
        two.see(looped());
        one.worker.step().await;
        two.worker.step().await;
    }
    assert_eq!((one.told(), two.told()), (vec![], vec![]), "nobody knows who told it");
    fleet.documents.away.store(false, Ordering::SeqCst);
    two.worker.step().await;
    one.worker.step().await;
    assert_eq!((one.told(), two.told()), (vec![], vec![Kind::PromptLoop]));
    assert_eq!(fleet.kept().await.len(), 1);
}

#[tokio::test]
async fn what_waits_is_bounded_and_what_is_dropped_is_counted() {
    let fleet = Fleet::new("");
    let mut one = fleet.gateway();
    fleet.documents.away.store(true, Ordering::SeqCst);
    for n in 0..1_100_u64 {
        let customer = CustomerId::from_trusted(&format!("c{n}"));
        one.see(Observation::Loop { customer, app: "shop".into(), model: "m".into(), times: 31 });
        if n % 50 == 49 {
            one.worker.step().await;
        }
    }
    assert_eq!(one.metrics.alerts.missed.get(), 1_100 - 1_024);
    fleet.documents.away.store(false, Ordering::SeqCst);
    one.worker.step().await;
    assert_eq!(one.raised(Kind::PromptLoop), 1_024);
    assert_eq!(fleet.kept().await.len(), 1_000, "and only so many are kept");
    let page = Page {
        limit: 1_000,
        after: fleet.kept().await.last().map(|last| (((1 << 53) - 1) - last.at.micros(), last.id.clone())),
        up_to: None,
    };
    let beyond = fleet.documents.list(Collection::Alerts, &page, None).await.expect("it answers");
    assert!(beyond.len() < 50, "those beyond are pruned every fifty: {}", beyond.len());
}

#[tokio::test]
async fn quiet_kinds_ask_nobody_and_a_change_of_the_configuration_counts_at_once() {
    let fleet = Fleet::new("[alerts]\nquiet = [\"prompt_loop\", \"spend_cap\", \"first_at_cap\", \"days_at_cap\"]");
    let mut one = fleet.gateway();
    let looped = |n: u64| Observation::Loop {
        customer: CustomerId::from_trusted(&format!("c{n}")),
        app: "shop".into(),
        model: "m".into(),
        times: 31,
    };
    one.see(looped(0));
    fleet.books.spent.store(900, Ordering::SeqCst);
    one.see(near(0, true));
    one.worker.step().await;
    assert_eq!(one.told(), []);
    let (policy, _) = Policy::parse("[alerts]\nquiet = [\"spend_cap\"]", "f", &Env::default()).expect("sound");
    fleet.policy.store(Arc::new(policy));
    one.see(looped(0));
    one.worker.step().await;
    assert_eq!(one.told(), [Kind::PromptLoop]);
}
