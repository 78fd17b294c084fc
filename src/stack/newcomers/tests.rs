//! Which store calls are made, and what happens without a store.

use super::*;
use crate::store::documents::memory::MemoryDocuments;
use crate::store::documents::{Listed, Page};
use crate::store::embedded::EmbeddedLedger;
use crate::telemetry::SystemClock;
use futures_util::future::BoxFuture;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Documents that may be away, and how often they were asked.
struct Shaky {
    inner: MemoryDocuments,
    away: AtomicBool,
    calls: AtomicUsize,
}

impl Shaky {
    fn asked(&self) -> Result<(), StoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.away.load(Ordering::SeqCst) { Err(StoreError::Away("a test")) } else { Ok(()) }
    }
}

impl Documents for Shaky {
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        Box::pin(async move {
            self.asked()?;
            self.inner.get(collection, id, now).await
        })
    }

    fn put<'a>(&'a self, write: &'a Write, now: Option<Timestamp>) -> BoxFuture<'a, Result<Written, StoreError>> {
        Box::pin(async move {
            self.asked()?;
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
        self.inner.list(collection, page, now)
    }
}

/// A clock that stands in the middle of an hour.
struct Noon(Mutex<Timestamp>);

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

const NOON: u64 = 1_800_000 * HOUR + 1_800;

struct Scene {
    documents: Arc<Shaky>,
    clock: Arc<Noon>,
    newcomers: Arc<Newcomers>,
}

fn scene() -> Scene {
    let inner = MemoryDocuments::new(Arc::new(SystemClock));
    let documents = Arc::new(Shaky { inner, away: AtomicBool::new(false), calls: AtomicUsize::new(0) });
    let clock = Arc::new(Noon(Mutex::new(Timestamp::from_secs(NOON))));
    let ledger = Arc::new(EmbeddedLedger::in_memory(clock.clone()));
    let newcomers = Arc::new(Newcomers::new(documents.clone(), ledger, clock.clone(), Arc::default()));
    Scene { documents, clock, newcomers }
}

impl Scene {
    async fn ask(&self, app: &str, id: &str, cap: u64) -> Result<(), Rejection> {
        self.newcomers.admit(&app.into(), &CustomerId::from_trusted(id), cap).await
    }

    fn calls(&self) -> usize {
        self.documents.calls.swap(0, Ordering::SeqCst)
    }

    fn counted(&self, result: &'static str) -> u64 {
        self.newcomers.metrics.newcomers.get_or_create(&ResultLabels { result }).get()
    }
}

#[tokio::test]
async fn whoever_was_named_before_costs_no_store_call_and_passes_without_a_store() {
    let scene = scene();
    assert_eq!(scene.ask("shop", "a", 1).await, Ok(()));
    assert_eq!(scene.calls(), 4, "seen? said? count, saw");
    assert_eq!(scene.ask("shop", "a", 1).await, Ok(()));
    assert_eq!(scene.calls(), 0);
    let refused = Err(Rejection::TooManyNewCustomers { limit: 1, retry_in: 1_800 * 1_000_000 });
    assert_eq!(scene.ask("shop", "b", 1).await, refused);
    assert_eq!(scene.calls(), 2, "seen? said? The count is at hand");
    scene.documents.away.store(true, Ordering::SeqCst);
    assert_eq!(scene.ask("shop", "a", 1).await, Ok(()), "the outage rules decide");
    assert_eq!(scene.calls(), 0);
    assert_eq!(scene.ask("shop", "b", 1).await, Err(Rejection::LimitsUnavailable), "not a 429: nobody knows");
    let counts = ["admitted", "refused", "unavailable"].map(|result| scene.counted(result));
    assert_eq!(counts, [1, 1, 1]);
}

#[tokio::test]
async fn a_full_hour_is_looked_at_again_and_ends_with_the_hour() {
    let scene = scene();
    assert_eq!(scene.ask("shop", "a", 1).await, Ok(()));
    assert_eq!(scene.ask("other", "b", 1).await, Ok(()), "each application for itself");
    assert!(scene.ask("shop", "c", 1).await.is_err());
    // Another gateway gives its place back.
    let id = format!("shop:{}", NOON / HOUR);
    let there = scene.documents.get(Collection::NewCustomers, &id, None).await.expect("there").expect("counted");
    assert_eq!(there.value, "1");
    let expected = Expected::Version(there.version);
    let value = Some(Bytes::from_static(b"0"));
    let write = Write { collection: Collection::NewCustomers, id, expected, value, keep: Some(COUNTED), rank: 0 };
    assert!(matches!(scene.documents.put(&write, None).await, Ok(Written::Done(_))));
    assert!(scene.ask("shop", "c", 1).await.is_err(), "within the second");
    *scene.clock.0.lock() = Timestamp::from_secs(NOON + 1);
    assert_eq!(scene.ask("shop", "c", 1).await, Ok(()));
    assert!(scene.ask("shop", "d", 1).await.is_err());
    assert_eq!(scene.ask("shop", "d", 2).await, Ok(()), "a cap that was raised holds at once");
    *scene.clock.0.lock() = Timestamp::from_secs((NOON / HOUR + 1) * HOUR - 1);
    assert_eq!(scene.ask("shop", "e", 1).await, Err(Rejection::TooManyNewCustomers { limit: 1, retry_in: 1_000_000 }));
    *scene.clock.0.lock() = Timestamp::from_secs((NOON / HOUR + 1) * HOUR);
    assert_eq!(scene.ask("shop", "e", 1).await, Ok(()));
}

#[tokio::test]
async fn a_place_is_given_back_when_another_gateway_was_first() {
    let one = scene();
    let ledger = Arc::new(EmbeddedLedger::in_memory(one.clock.clone()));
    let two = Arc::new(Newcomers::new(one.documents.clone(), ledger, one.clock.clone(), Arc::default()));
    let newcomer = || Newcomer { app: "shop".into(), id: CustomerId::from_trusted("a"), digest: Digest::of("a"), cap: 2 };
    // Both have looked and found nothing; now each takes a place.
    for newcomers in [&one.newcomers, &two] {
        let turn = newcomers.turn(&"shop".into()).lock_owned().await;
        assert_eq!(newcomers.let_in(turn, &newcomer()).await, Ok(()));
    }
    assert_eq!(one.ask("shop", "b", 2).await, Ok(()), "the second place is free");
    assert!(one.ask("shop", "c", 2).await.is_err());
    assert_eq!(two.metrics.newcomers.get_or_create(&ResultLabels { result: "admitted" }).get(), 0, "it was no newcomer there");
}

#[tokio::test]
async fn a_thousand_at_once_in_one_process_fill_exactly_the_cap() {
    let scene = Arc::new(scene());
    let asking = (0..1_000).map(|n| {
        let scene = scene.clone();
        // Each of them twice: one and the same customer takes one place.
        tokio::spawn(async move { scene.ask("shop", &format!("c-{}", n / 2), 30).await.is_ok() })
    });
    let admitted = futures_util::future::join_all(asking).await.into_iter().filter(|asked| matches!(asked, Ok(true))).count();
    assert_eq!((admitted, scene.counted("admitted")), (60, 30));
    assert_eq!(scene.newcomers.remembered.lock().len(), 30, "who is refused takes no memory");
}

#[tokio::test]
async fn whom_the_books_know_is_not_new() {
    let scene = scene();
    // Seen long ago: written anew, so that it is not forgotten while it comes.
    let seen = |seconds: u64| Write {
        collection: Collection::SeenCustomers,
        id: "old".into(),
        expected: Expected::Anything,
        value: Some(Bytes::from(seconds.to_string())),
        keep: None,
        rank: 0,
    };
    let age = SEEN.as_secs() / 2;
    scene.documents.inner.put(&seen(NOON - age - 1), None).await.expect("written");
    assert_eq!(scene.ask("shop", "old", 0).await, Ok(()));
    let found = scene.documents.inner.get(Collection::SeenCustomers, "old", None).await.expect("read").expect("there");
    assert_eq!(found.value, NOON.to_string());
    let said = Write { collection: Collection::Overrides, id: "vip".into(), ..seen(0) };
    scene.documents.inner.put(&said, None).await.expect("written");
    assert_eq!(scene.ask("shop", "vip", 0).await, Ok(()), "something was said of it at another gateway");
    assert!(scene.ask("shop", "new", 0).await.is_err());
}

#[test]
fn names_of_any_length_have_counts_of_their_own() {
    let hour = Hour { number: 7, ..Hour::default() };
    let (long, longer) = ("a".repeat(600), "a".repeat(601));
    assert_eq!(count_id(&hour, "shop"), "shop:7");
    assert!(count_id(&hour, &long).len() <= MAX_ID);
    assert_ne!(count_id(&hour, &long), count_id(&hour, &longer));
}
