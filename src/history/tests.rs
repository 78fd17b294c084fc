use super::counts::{Cause, Count};
use super::flush::additions;
use super::gather::{Counted, MANY_CELLS, MOST_CELLS, Model, OTHER};
use super::*;
use crate::domain::{CustomerId, NanoUsd, Timestamp};
use crate::store::documents::memory::MemoryDocuments;
use crate::store::documents::{Collection, Document, Listed, Page, Write, Written};
use crate::store::reservation::{Actuals, Witness};
use crate::store::series::memory::MemorySeries;
use crate::store::series::{Batch, Kind, Ranking, Row, RowKey, Scanned, Series};
use crate::telemetry::SystemClock;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;

/// 30 November 2026, 12:00:30.
const NOON: Timestamp = Timestamp::from_secs(1_796_040_030);
const PATIENCE: Duration = Duration::from_secs(600);

/// A store that first answers with these errors, some of them after it has done what it was asked.
struct Faulty {
    documents: MemoryDocuments,
    series: MemorySeries,
    errors: Mutex<Vec<(bool, StoreError)>>,
}

impl Faulty {
    fn new(errors: Vec<(bool, StoreError)>) -> Arc<Self> {
        let documents = MemoryDocuments::new(Arc::new(SystemClock));
        Arc::new(Self { documents, series: MemorySeries::default(), errors: Mutex::new(errors) })
    }
}

impl Series for Faulty {
    fn add<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        let error = self.errors.lock().pop();
        match error {
            Some((false, error)) => ready(Err(error)).boxed(),
            Some((true, error)) => self.series.add(batch).map(|_| Err(error)).boxed(),
            None => self.series.add(batch),
        }
    }

    fn rows<'a>(&'a self, keys: &'a [RowKey]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        self.series.rows(keys)
    }

    fn ranked<'a>(&'a self, kind: Kind, day: u32, ranking: &'a Ranking) -> BoxFuture<'a, Result<Vec<(String, Row)>, StoreError>> {
        self.series.ranked(kind, day, ranking)
    }

    fn scan<'a>(&'a self, kind: Kind, day: u32, after: Option<&'a str>) -> BoxFuture<'a, Result<Scanned, StoreError>> {
        self.series.scan(kind, day, after)
    }
}

impl Documents for Faulty {
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        self.documents.get(collection, id, now)
    }

    fn put<'a>(&'a self, write: &'a Write, now: Option<Timestamp>) -> BoxFuture<'a, Result<Written, StoreError>> {
        self.documents.put(write, now)
    }

    fn put_all<'a>(&'a self, writes: &'a [Write], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.documents.put_all(writes, now)
    }

    fn list<'a>(
        &'a self,
        collection: Collection,
        page: &'a Page,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Listed>, StoreError>> {
        self.documents.list(collection, page, now)
    }

    fn series(&self) -> &dyn Series {
        self
    }
}

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        NOON
    }
}

fn history(documents: Arc<dyn Documents>, settings: policy::History) -> Arc<History> {
    History::start(documents, settings, Arc::new(Noon), Arc::default())
}

fn teller(history: &Arc<History>, customer: &str, at: Timestamp) -> Box<Teller> {
    let customer = CustomerId::from_trusted(customer);
    Box::new(Teller { history: history.clone(), customer, upstream: "up".into(), model: "m".into(), at })
}

fn used(cost: u64) -> Actuals {
    Actuals { attempted: true, input: 10, input_uncached: 6, cache_write: 1, output: 5, reasoning: 2, cost: NanoUsd::new(cost) }
}

async fn costs(history: &History, customer: &str) -> u64 {
    let today = Day::of(NOON);
    history.customer_days(customer, today, today).await.expect("it answers")[0].1.cost_nano_usd
}

#[tokio::test(start_paused = true)]
async fn it_flushes_by_itself_at_its_interval_and_each_thing_once() {
    let history = history(Faulty::new(vec![]), policy::History::default());
    teller(&history, "a", NOON).settled(&used(7), Some("m-1"));
    assert_eq!(costs(&history, "a").await, 0, "still gathered");
    for seconds in [11, 30] {
        tokio::time::sleep(Duration::from_secs(seconds)).await; // paused time
        assert_eq!(costs(&history, "a").await, 7);
    }
    let model = history.models(Day::of(NOON)).await.expect("it answers").remove(0);
    let right = ModelUse {
        upstream: "up".into(),
        model: "m".into(),
        served_model: "m-1".into(),
        requests: 1,
        input_tokens: 10,
        cached_tokens: 4,
        cache_write_tokens: 1,
        output_tokens: 5,
        reasoning_tokens: 2,
        cost_nano_usd: 7,
    };
    assert_eq!(model, right);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_or_whose_answer_is_lost_gets_everything_once() {
    let away = || StoreError::Away("test");
    let lost = || StoreError::Unreachable("no answer".into());
    let failed = || StoreError::Failed("LOADING".into());
    let errors = vec![(false, away()), (true, lost()), (false, failed()), (true, failed()), (true, lost()), (false, lost())];
    let documents = Faulty::new(errors);
    let history = history(documents.clone(), policy::History::default());
    teller(&history, "a", NOON).settled(&used(7), None);
    let flushing = history.flush(PATIENCE);
    teller(&history, "b", NOON).settled(&used(9), None);
    assert!(flushing.await, "it is in the store in the end");
    assert!(history.flush(PATIENCE).await);
    assert_eq!((costs(&history, "a").await, costs(&history, "b").await), (7, 9));
    assert!(documents.errors.lock().is_empty());
    assert_eq!(history.metrics.history_dropped.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_always_refuses_costs_that_part_and_is_counted() {
    let documents = Faulty::new(vec![(false, StoreError::Failed("OOM".into())); 8]);
    let history = history(documents, policy::History::default());
    teller(&history, "a", NOON).settled(&used(7), None);
    assert!(!history.flush(PATIENCE).await);
    // The customer's day and hours, everybody's, and the model's.
    assert_eq!(history.metrics.history_dropped.get(), 5);
    teller(&history, "a", NOON).settled(&used(3), None);
    assert!(history.flush(PATIENCE).await);
    assert_eq!(costs(&history, "a").await, 3);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_where_days_are_zero() {
    let history = history(Faulty::new(vec![]), policy::History { days: 0, ..policy::History::default() });
    teller(&history, "a", NOON).settled(&used(7), None);
    assert!(history.flush(PATIENCE).await);
    assert_eq!(costs(&history, "a").await, 0);
}

#[test]
fn customers_beyond_the_bound_count_for_everybody_only() {
    let gather = Gather::default();
    let mut many = 0;
    for n in 0..MOST_CELLS {
        let counted = gather.customer(&CustomerId::from_trusted(&format!("c{n}")), 1, |cell| cell.add(Count::Cost, 1));
        assert_ne!(counted, Counted::Beyond, "{n}");
        many += usize::from(counted == Counted::Theirs { many: true });
    }
    assert_eq!(many, 1, "one order to flush, at {MANY_CELLS}");
    let one_more = CustomerId::from_trusted("one more");
    assert_eq!(gather.customer(&one_more, 1, |cell| cell.add(Count::Cost, 1)), Counted::Beyond);
    let known = CustomerId::from_trusted("c0");
    assert_eq!(gather.customer(&known, 1, |cell| cell.add(Count::Cost, 1)), Counted::Theirs { many: false });
    let rows = additions(gather.take(), policy::History::default());
    let cost = |kind| {
        let of_kind = rows.iter().filter(|row| row.key.kind == kind);
        of_kind.flat_map(|row| &row.sums).filter(|(name, _)| name == "cost").map(|(_, n)| n).sum::<u64>()
    };
    let all = MOST_CELLS as u64 + 2;
    assert_eq!((cost(Kind::CustomerDay), cost(Kind::TotalDay)), (all - 1, all));
    assert!(gather.take().is_empty());
    assert_eq!(gather.customer(&one_more, 1, |_| ()), Counted::Theirs { many: false }, "there is room again");
}

#[test]
fn models_beyond_the_bound_and_names_that_look_alike_share_a_row() {
    let gather = Gather::default();
    let model = |served: &str| Model { upstream: "up".into(), asked: "m".into(), served: served.into() };
    for n in 0..1_500 {
        gather.model(model(&format!("m-{n}")), 1, |sums| sums[0] += 1);
    }
    gather.model(model("tab\tin it"), 2, |sums| sums[0] += 1);
    gather.model(model("tab\nin it"), 2, |sums| sums[0] += 1);
    let rows = additions(gather.take(), policy::History::default());
    let requests = |id: String| {
        let row = rows.iter().find(|row| row.key.id == id).unwrap_or_else(|| panic!("{id}"));
        row.sums.iter().map(|(_, n)| n).sum::<u64>()
    };
    assert_eq!((rows.len(), requests(format!("up\t{OTHER}\t{OTHER}"))), (1_002, 500));
    assert_eq!(requests("up\tm\ttab?in?it".to_owned()), 2, "the next day has room again");
}

#[test]
fn a_cause_is_named_by_its_limit_or_its_code() {
    assert_eq!(Cause::Limit("customer", "spend_day").name(), "customer.spend_day");
    assert_eq!(Cause::Code("overloaded").name(), "overloaded");
}
