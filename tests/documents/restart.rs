//! What is there after a restart of the process or of the server.

use crate::fixture::{Fixture, NOON, SECOND, Stands, both, connect, expecting, first, kept, saying, ticket};
use crate::mortal_redis::MortalRedis;
use std::path::Path;
use std::sync::Arc;
use tollgate::domain::{Clock, Timestamp};
use tollgate::store::StoreError;
use tollgate::store::Stores;
use tollgate::store::documents::embedded::EmbeddedDocuments;
use tollgate::store::documents::{Expected, Written};
use tollgate::store::embedded::{LostHold, audit};

fn open(directory: &Path) -> Result<EmbeddedDocuments, StoreError> {
    EmbeddedDocuments::open(directory, Arc::new(Stands))
}

#[tokio::test]
async fn an_embedded_store_opens_with_everything_it_was_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Fixture::over(Arc::new(open(directory.path()).expect("fresh")), Box::new(()));
    let mut versions = Vec::new();
    for write in both("a") {
        versions.push(store.done(&kept(&write, 60)).await);
    }
    store.done(&ticket("b", 1)).await;
    assert!(matches!(open(directory.path()), Err(StoreError::Failed(text)) if text.contains("in use by another process")));
    drop(store);
    let store = Fixture::over(Arc::new(open(directory.path()).expect("it opens")), Box::new(()));
    assert_eq!(store.ids(0, &first(10)).await, ["b", "a"]);
    for (write, version) in both("a").iter().zip(versions) {
        assert_eq!(store.get(0, write).await.map(|found| found.version), Some(version));
        assert_eq!(store.value(60 * SECOND, write).await, None, "the end is kept too");
        let next = saying(&expecting(write, Expected::Version(version)), "next");
        assert!(matches!(store.put(0, &next).await, Written::Done(next) if next > version));
    }
}

#[tokio::test]
async fn what_ended_while_no_process_ran_is_removed_by_the_next() {
    struct Later;
    impl Clock for Later {
        fn now(&self) -> Timestamp {
            NOON.plus(60 * SECOND)
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let store = Fixture::over(Arc::new(open(directory.path()).expect("fresh")), Box::new(()));
    for write in both("a") {
        store.done(&kept(&write, 60)).await;
    }
    drop(store);
    // Its first look comes with its end at the latest.
    drop(EmbeddedDocuments::open(directory.path(), Arc::new(Later)).expect("it opens"));
    let store = Fixture::over(Arc::new(open(directory.path()).expect("it opens")), Box::new(()));
    for write in both("a") {
        assert_eq!(store.get(0, &write).await, None, "asked as of before its end: it is not there at all");
    }
}

#[tokio::test]
async fn a_file_in_place_of_the_directory_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    std::fs::write(&path, b"x").expect("writable");
    let error = open(&path).expect_err("it is a file").to_string();
    assert!(error.contains(path.to_str().expect("text")), "{error}");
}

#[tokio::test]
async fn the_ledger_and_its_audit_do_not_mind_the_documents_beside_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let stores = Stores::embedded(directory.path(), Arc::new(Stands), LostHold::Charge).expect("fresh");
    stores.documents.put(&ticket("a", 1), None).await.expect("written");
    stores.ledger.ping().await.expect("it works");
    drop(stores);
    let found = audit(directory.path(), NOON).expect("it reads");
    assert_eq!((found.entries, found.differences), (0, vec![]));
    let stores = Stores::embedded(directory.path(), Arc::new(Stands), LostHold::Charge).expect("both open again");
    assert!(stores.documents.get(ticket("a", 1).collection, "a", None).await.expect("it answers").is_some());
}

#[tokio::test]
async fn a_killed_redis_that_comes_back_with_its_data_has_them_all() {
    let mut server = MortalRedis::awake();
    let store = Fixture::over(connect(&server), Box::new(()));
    let mut versions = Vec::new();
    for write in both("a") {
        versions.push(store.done(&kept(&write, 3_600)).await);
    }
    server.kill();
    server.wake();
    for (write, version) in both("a").iter().zip(versions) {
        let found = loop {
            // The first call may still meet the broken connection.
            match store.documents.get(write.collection, &write.id, Some(NOON)).await {
                Ok(found) => break found,
                Err(error) => assert!(!matches!(error, StoreError::Failed(_)), "{error}"),
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(found.map(|found| found.version), Some(version));
    }
    assert_eq!(store.ids(0, &first(10)).await, ["a"]);
}
