//! What is forgotten, and when. The time is passed in.

use crate::fixture::{Fixture, SECOND, both, expecting, first, kept, removal, saying};
use std::time::Duration;
use tollgate::store::documents::{Expected, Write, Written};

pub async fn a_document_ends_at_its_instant(store: Fixture) {
    for write in both("a") {
        store.done(&kept(&write, 60)).await;
        assert_eq!(store.value(60 * SECOND - 1, &write).await, Some("a".into()));
        assert_eq!(store.value(60 * SECOND, &write).await, None);
        let write = Write { keep: Some(Duration::from_micros(1_500)), ..write };
        store.done(&write).await;
        assert_eq!(store.value(1_500, &write).await, None, "to the microsecond");
        store.done(&kept(&write, 0)).await;
        assert_eq!(store.value(0, &write).await, None, "at once");
    }
}

pub async fn what_has_ended_counts_as_nothing(store: Fixture) {
    for write in both("a") {
        let version = store.done(&kept(&write, 60)).await;
        let later = 60 * SECOND;
        let next = saying(&expecting(&write, Expected::Version(version)), "b");
        assert_eq!(store.put(later, &next).await, Written::Found(None));
        assert!(
            matches!(store.put(later, &saying(&expecting(&write, Expected::Nothing), "c")).await, Written::Done(v) if v > version)
        );
        assert_eq!(store.value(later, &write).await, Some("c".into()));
        store.done(&removal(&write)).await;
    }
}

pub async fn a_write_sets_the_end_anew(store: Fixture) {
    for write in both("a") {
        let long = 1_000 * SECOND;
        store.done(&kept(&write, 60)).await;
        store.done(&write).await;
        assert_eq!(store.value(long, &write).await, Some("a".into()), "never");
        store.done(&kept(&write, 60)).await;
        assert_eq!(store.value(long, &write).await, None, "sooner");
        store.put(30 * SECOND, &kept(&write, 60)).await;
        assert_eq!(store.value(89 * SECOND, &write).await, Some("a".into()), "from the later write");
        assert_eq!(store.value(90 * SECOND, &write).await, None);
    }
    assert!(store.list(90 * SECOND, &first(10)).await.is_empty());
}

pub async fn a_long_time_is_for_ever(store: Fixture) {
    for write in both("a") {
        for keep in [Duration::MAX, Duration::from_secs(400 * 365 * 86_400)] {
            let write = Write { keep: Some(keep), ..write.clone() };
            store.done(&write).await;
            assert_eq!(store.value(100 * 365 * 86_400 * SECOND, &write).await, Some("a".into()), "{keep:?}");
        }
    }
}
