use super::*;
use crate::degrade::Degraded;
use crate::domain::{CustomerId, NanoUsd, RequestId, Timestamp};
use crate::store::documents::memory::MemoryDocuments;
use crate::store::documents::{Document, Listed, Page, Write, Written};
use crate::telemetry::record::Record;
use crate::telemetry::{Ending, SystemClock};
use crate::wire::{Api, Usage};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const NOON: Timestamp = Timestamp::from_secs(1_796_040_000);
const DAY: Duration = Duration::from_secs(86_400);

/// A store that answers with these errors first, and counts its calls.
struct Faulty {
    inner: MemoryDocuments,
    errors: Mutex<Vec<StoreError>>,
    calls: AtomicUsize,
    written: AtomicUsize,
}

impl Faulty {
    fn new(errors: Vec<StoreError>) -> Arc<Self> {
        let inner = MemoryDocuments::new(Arc::new(SystemClock));
        Arc::new(Self { inner, errors: Mutex::new(errors), calls: AtomicUsize::new(0), written: AtomicUsize::new(0) })
    }
}

impl Documents for Faulty {
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        self.inner.get(collection, id, now)
    }

    fn put<'a>(&'a self, write: &'a Write, now: Option<Timestamp>) -> BoxFuture<'a, Result<Written, StoreError>> {
        self.inner.put(write, now)
    }

    fn put_all<'a>(&'a self, writes: &'a [Write], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        // Which customers were seen is written by itself, and kept for longer.
        if writes.iter().all(|write| write.collection == Collection::Customers) {
            return self.inner.put_all(writes, now);
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        if let Some(error) = self.errors.lock().pop() {
            return std::future::ready(Err(error)).boxed();
        }
        assert!(writes.iter().all(|write| write.keep == Some(DAY)), "as long as the policy says");
        self.written.fetch_add(writes.len(), Ordering::SeqCst);
        self.inner.put_all(writes, now)
    }

    fn list<'a>(
        &'a self,
        collection: Collection,
        page: &'a Page,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Listed>, StoreError>> {
        self.inner.list(collection, page, now)
    }
}

fn records(documents: &Arc<Faulty>) -> (Arc<Records>, Arc<Metrics>) {
    let metrics = Arc::<Metrics>::default();
    (Arc::new(Records::start(documents.clone(), metrics.clone())), metrics)
}

/// The record of a request with this number.
fn record(records: &Arc<Records>, metrics: &Arc<Metrics>, n: u128) -> Record {
    Record::new(RequestId::new(n), Api::Chat, metrics.clone()).kept(records.clone(), NOON, DAY)
}

#[tokio::test]
async fn a_record_is_found_by_our_id_and_by_the_providers_with_everything_that_was_known() {
    let (records, metrics) = records(&Faulty::new(vec![]));
    let record = record(&records, &metrics, 255);
    record.note(|facts| {
        facts.customer = Some(CustomerId::from_trusted("acme"));
        facts.model = Some("m-big".into());
        facts.served_model = Some("m-small".to_owned());
        facts.pool_level = Some(2);
        facts.degraded = vec![Degraded::Short];
        facts.ticket = Some("tkt_1".into());
        facts.usage = Some(Usage { uncached_input: 7, cache_read: 3, output: 5, ..Usage::default() });
        facts.cost = NanoUsd::new(8_999_999_999_999_999);
        facts.status = 200;
        facts.provider_request_id = Some("req_{odd} id".to_owned());
        facts.attempts = 2;
        facts.refused_by = Some(("customer", "rpm"));
        facts.waited = Duration::from_micros(1_500);
        facts.ending = Ending::UpstreamBroke;
    });
    drop(record);
    assert!(records.drain(Duration::from_secs(10)).await);
    let id = RequestId::new(255).to_string();
    let found = records.find(&id).await.expect("the store answers").expect("kept");
    let right = Entry {
        request_id: id,
        provider_request_id: Some("req_{odd} id".into()),
        time: "2026-11-30T12:00:00.000000Z".into(),
        api: "chat".into(),
        customer: Some("acme".into()),
        priority: "live".into(),
        model: Some("m-big".into()),
        served_model: Some("m-small".into()),
        pool_level: Some(2),
        degraded: Some("short".into()),
        degraded_cause: Some("level".into()),
        ticket: Some("tkt_1".into()),
        status: 200,
        refused_scope: Some("customer".into()),
        refused_limit: Some("rpm".into()),
        attempts: 2,
        input_tokens: Some(10),
        cached_tokens: Some(3),
        output_tokens: Some(5),
        cost_nano_usd: 8_999_999_999_999_999,
        waited_us: 1_500,
        duration_us: found.duration_us,
        ending: "upstream_broke".into(),
        ..Entry::default()
    };
    assert_eq!(found, right);
    assert_eq!(records.find("req_{odd} id").await, Ok(Some(found)));
    for nothing in ["", "req_", "tg_00", &"x".repeat(513)] {
        assert_eq!(records.find(nothing).await, Ok(None), "{nothing:?}");
    }
}

#[tokio::test]
async fn an_id_or_a_name_of_the_providers_may_be_of_any_length() {
    let documents = Faulty::new(vec![]);
    let (records, metrics) = records(&documents);
    let record = record(&records, &metrics, 1);
    record.note(|facts| {
        facts.provider_request_id = Some("é".repeat(300));
        facts.served_model = Some("é".repeat(300));
    });
    drop(record);
    assert!(records.drain(Duration::from_secs(10)).await);
    let found = records.find(&RequestId::new(1).to_string()).await.expect("the store answers").expect("kept");
    assert_eq!(found.served_model, Some("é".repeat(256)), "cut where a letter ends");
    assert_eq!(found.status, 499, "nobody answered");
    assert_eq!(documents.written.load(Ordering::SeqCst), 1, "not named by an id that no store takes");
}

#[tokio::test(start_paused = true)]
async fn records_wait_for_a_store_that_is_away_and_are_written_many_at_once() {
    let silence = StoreError::Unreachable("no reply".into());
    let documents = Faulty::new(vec![silence.clone(), StoreError::Away("away"), silence]);
    let (records, metrics) = records(&documents);
    for n in 0..1_200 {
        drop(record(&records, &metrics, n));
    }
    assert!(records.drain(Duration::from_secs(60)).await);
    assert_eq!(documents.written.load(Ordering::SeqCst), 1_200);
    assert_eq!(documents.calls.load(Ordering::SeqCst), 3 + 3, "three that failed, and three batches");
    assert_eq!(metrics.records_dropped.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_again_and_again_costs_these_records_and_not_the_next() {
    let documents = Faulty::new(vec![StoreError::Failed("OOM".into()); 3]);
    let (records, metrics) = records(&documents);
    drop(record(&records, &metrics, 1));
    assert!(records.drain(Duration::from_secs(60)).await);
    assert_eq!(metrics.records_dropped.get(), 1);
    drop(record(&records, &metrics, 2));
    assert!(records.drain(Duration::from_secs(60)).await);
    assert_eq!((metrics.records_dropped.get(), documents.written.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_the_queue_is_dropped_and_counted() {
    let documents = Faulty::new(vec![StoreError::Away("away"); 1_000]);
    let (records, metrics) = records(&documents);
    drop(record(&records, &metrics, 0));
    while documents.calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await; // until the first batch is on its way
    }
    for n in 1..=WAITING as u128 + 5 {
        drop(record(&records, &metrics, n));
    }
    assert_eq!(metrics.records_dropped.get(), 5);
    assert!(!records.drain(Duration::from_secs(1)).await, "and the end does not wait for ever");
}
