//! What is read, and what a write may expect.

use crate::fixture::{Fixture, NOON, both, expecting, kept, removal, reply, saying, ticket};
use bytes::Bytes;
use std::collections::BTreeSet;
use tollgate::store::StoreError;
use tollgate::store::documents::{Collection, Document, Expected, MAX_ID, Write, Written};

pub async fn a_document_is_read_as_it_was_written_last(store: Fixture) {
    for write in both("a") {
        assert_eq!(store.get(0, &write).await, None);
        let one = store.done(&saying(&write, "one")).await;
        assert_eq!(store.get(0, &write).await, Some(Document { version: one, value: "one".into() }));
        let two = store.done(&saying(&write, "two")).await;
        assert!(one > 0 && two > 0 && one != two, "{one} {two}");
        let read = store.peer.get(write.collection, &write.id, None).await;
        assert_eq!(read, Ok(Some(Document { version: two, value: "two".into() })), "through the other gateway");
        assert_eq!(store.put(0, &removal(&write)).await, Written::Done(0));
        assert_eq!(store.get(0, &write).await, None);
        assert_eq!(store.put(0, &removal(&write)).await, Written::Done(0), "a removal of nothing");
    }
}

pub async fn a_write_that_expects_something_else_changes_nothing(store: Fixture) {
    for write in both("a") {
        let gone = store.done(&write).await;
        store.done(&removal(&write)).await;
        for expected in [Expected::Version(gone), Expected::Version(u64::MAX >> 12)] {
            for write in [expecting(&write, expected), removal(&expecting(&write, expected))] {
                assert_eq!(store.put(0, &write).await, Written::Found(None), "{expected:?} of nothing");
            }
        }
        let version = store.done(&expecting(&write, Expected::Nothing)).await;
        let there = Document { version, value: "a".into() };
        for expected in [Expected::Nothing, Expected::Version(gone), Expected::Version(version + 1)] {
            for write in [saying(&expecting(&write, expected), "b"), removal(&expecting(&write, expected))] {
                assert_eq!(store.put(0, &write).await, Written::Found(Some(there.clone())), "{expected:?}");
            }
        }
        assert_eq!(store.get(0, &write).await, Some(there));
        let next = store.done(&saying(&expecting(&write, Expected::Version(version)), "b")).await;
        assert_eq!(store.get(0, &write).await, Some(Document { version: next, value: "b".into() }));
        assert_eq!(store.put(0, &removal(&expecting(&write, Expected::Version(next)))).await, Written::Done(0));
        assert_eq!(store.get(0, &write).await, None);
    }
}

pub async fn a_version_is_not_given_again_after_a_removal(store: Fixture) {
    for write in both("a") {
        let mut versions = BTreeSet::new();
        for n in 1..=20 {
            versions.insert(store.done(&write).await);
            store.done(&removal(&write)).await;
            assert_eq!(versions.len(), n);
        }
    }
}

pub async fn ids_are_any_text_up_to_512_bytes(store: Fixture) {
    let longest = ["x".repeat(MAX_ID), "{".repeat(MAX_ID), "\0".repeat(MAX_ID), "ü".repeat(MAX_ID / 2)];
    let short = ["", "\0", "a\0b", "a b\r\n", "{", "}", "{}", "}{", "a{b}c", "%7b", "%", "*", "-", "a", "A", "ä", "\u{7f}", "0"];
    let ids: Vec<&str> = short.into_iter().chain(longest.iter().map(String::as_str)).collect();
    for id in &ids {
        for write in both(id) {
            store.done(&expecting(&write, Expected::Nothing)).await;
        }
    }
    for id in &ids {
        for write in both(id) {
            assert_eq!(store.value(0, &write).await, Some(Bytes::copy_from_slice(id.as_bytes())), "{id:?}");
        }
    }
    let mut sorted: Vec<String> = ids.iter().map(ToString::to_string).collect();
    sorted.sort();
    assert_eq!(store.ids(0, &crate::fixture::first(100)).await, sorted);
    let long = reply(&"x".repeat(MAX_ID + 1));
    for refused in
        [store.documents.put(&long, None).await.map(drop), store.documents.put_all(&[reply("written"), long.clone()], None).await]
    {
        assert!(matches!(&refused, Err(StoreError::Failed(text)) if text.contains("513")), "{refused:?}");
    }
    assert_eq!(store.get(0, &long).await, None);
}

pub async fn values_are_any_bytes_up_to_a_megabyte(store: Fixture) {
    let noise: Vec<u8> = (0..1 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for value in [Vec::new(), vec![0], (0..=255).collect(), noise] {
        for write in both("a") {
            let write = Write { value: Some(value.clone().into()), ..write };
            let version = store.done(&write).await;
            assert!(store.get(0, &write).await == Some(Document { version, value: value.clone().into() }), "{}", value.len());
        }
    }
}

pub async fn collections_are_apart(store: Fixture) {
    let of = |collection: Collection| Write { collection, ..saying(&ticket("a", 1), collection.as_str()) };
    for collection in Collection::ALL {
        store.done(&expecting(&of(collection), Expected::Nothing)).await;
    }
    for collection in Collection::ALL {
        assert_eq!(store.value(0, &of(collection)).await, Some(collection.as_str().into()));
        let listed = store.documents.list(collection, &crate::fixture::first(10), None).await.expect("it answers");
        assert_eq!(listed.len(), usize::from(collection.is_listed()), "{collection:?}");
    }
}

pub async fn many_are_written_in_one_call_and_the_last_one_stands(store: Fixture) {
    let mut writes: Vec<Write> = (0..300).map(|n| reply(&n.to_string())).collect();
    writes.push(saying(&writes[7], "again"));
    writes.push(kept(&ticket("t", 3), 60));
    writes.push(removal(&writes[8]));
    // Two that do not fit one round trip together.
    let large = Bytes::from(vec![b'x'; 700_000]);
    writes.extend(["l1", "l2"].map(|id| Write { value: Some(large.clone()), ..reply(id) }));
    store.documents.put_all(&writes, Some(NOON)).await.expect("the store answers");
    for (n, write) in writes.iter().enumerate().take(300) {
        let right = match n {
            7 => Some("again".into()),
            8 => None,
            n => Some(n.to_string().into()),
        };
        assert_eq!(store.value(0, write).await, right);
    }
    assert_eq!(store.ids(0, &crate::fixture::first(10)).await, ["t"]);
    for id in ["l1", "l2"] {
        assert_eq!(store.value(0, &reply(id)).await.map(|value| value.len()), Some(700_000));
    }
    store.documents.put_all(&[], None).await.expect("nothing to do");
}
