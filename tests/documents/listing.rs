//! Listings: order, pages, bounds.

use crate::fixture::{Fixture, SECOND, expecting, first, kept, removal, saying, ticket};
use bytes::Bytes;
use tollgate::store::documents::{Collection, Expected, Listed, MAX_PAGE, Page, Write, Written};

pub async fn documents_come_by_rank_and_then_by_id(store: Fixture) {
    // A rank of more than 53 bits must not be rounded, nor a number sort as text.
    let ranks =
        [(u64::MAX, "z"), (10, "b"), (9, "c"), (10, "a"), (0, "d"), (10, "a\0"), (1 << 53, "f"), ((1 << 53) + 1, "e"), (10, "")];
    for (rank, id) in ranks {
        store.done(&ticket(id, rank)).await;
    }
    assert_eq!(store.ids(0, &first(100)).await, ["d", "c", "", "a", "a\0", "b", "f", "e", "z"]);
    let listed = store.list(0, &first(2)).await;
    let document = store.get(0, &ticket("d", 0)).await.expect("there");
    assert_eq!(listed[0], Listed { id: "d".into(), rank: 0, document });
    assert_eq!(listed[1].rank, 9);
}

pub async fn pages_go_on_where_the_last_one_ended(store: Fixture) {
    let mut right = Vec::new();
    for n in 0..150_u64 {
        store.done(&ticket(&format!("{n:03}"), n / 20)).await;
        right.push(format!("{n:03}"));
    }
    for limit in [1, 7, 64, 149, 150, 151] {
        let (mut page, mut ids) = (first(limit), Vec::new());
        loop {
            let listed = store.list(0, &page).await;
            assert!(listed.len() <= limit);
            let Some(last) = listed.last() else { break };
            page.after = Some((last.rank, last.id.clone()));
            ids.extend(listed.into_iter().map(|one| one.id));
        }
        assert_eq!(ids, right, "by {limit}");
    }
    let gone = Page { after: Some((3, "070x".into())), up_to: Some(4), limit: 100 };
    assert_eq!(store.ids(0, &gone).await, right[71..100], "after a place where nothing stands");
}

pub async fn a_listing_ends_at_a_rank(store: Fixture) {
    for (id, rank) in [("a", 0), ("b", 1), ("c", 1), ("d", 2), ("e", u64::MAX)] {
        store.done(&ticket(id, rank)).await;
    }
    for (up_to, right) in [(0, "a"), (1, "abc"), (2, "abcd"), (3, "abcd"), (u64::MAX, "abcde")] {
        let page = Page { up_to: Some(up_to), ..first(10) };
        assert_eq!(store.ids(0, &page).await.concat(), right, "up to {up_to}");
    }
    let none = Page { after: Some((1, "c".into())), up_to: Some(1), limit: 10 };
    assert!(store.ids(0, &none).await.is_empty());
}

pub async fn a_document_stands_in_one_place(store: Fixture) {
    store.done(&ticket("a", 5)).await;
    store.done(&ticket("b", 6)).await;
    let version = store.done(&ticket("a", 7)).await;
    assert_eq!(store.ids(0, &first(10)).await, ["b", "a"]);
    let late = ticket("a", 1);
    let refused = store.put(0, &expecting(&late, Expected::Nothing)).await;
    assert!(matches!(refused, Written::Found(Some(found)) if found.version == version));
    assert_eq!(store.ids(0, &first(10)).await, ["b", "a"], "a refused write moves nothing");
    store.put(0, &saying(&ticket("a", 7), "new")).await;
    let listed = store.list(0, &first(10)).await;
    assert_eq!((listed.len(), &*listed[1].document.value), (2, b"new".as_slice()));
}

pub async fn what_ended_or_was_removed_is_not_listed(store: Fixture) {
    // More ended ones than a store looks at in one step, before the only one that lives.
    for n in 0..150 {
        store.done(&kept(&ticket(&format!("{n:03}"), 0), 60)).await;
    }
    store.done(&ticket("lives", 1)).await;
    store.done(&ticket("removed", 0)).await;
    store.done(&removal(&ticket("removed", 99))).await;
    assert_eq!(store.ids(60 * SECOND - 1, &first(1_000)).await.len(), 151);
    assert_eq!(store.ids(60 * SECOND, &first(1_000)).await, ["lives"]);
    assert_eq!(store.ids(60 * SECOND, &first(1)).await, ["lives"]);
}

pub async fn a_page_has_its_bounds(store: Fixture) {
    let writes: Vec<Write> = (0..=MAX_PAGE).map(|n| ticket(&n.to_string(), 0)).collect();
    store.documents.put_all(&writes, None).await.expect("the store answers");
    assert_eq!(store.list(0, &first(usize::MAX)).await.len(), MAX_PAGE);
    assert!(store.list(0, &first(0)).await.is_empty());
    let other = store.documents.list(Collection::Jobs, &first(10), None).await.expect("the store answers");
    assert_eq!(other, []);
}

pub async fn large_documents_are_listed_too(store: Fixture) {
    let large = Bytes::from(vec![7; 600_000]);
    for id in ["a", "b", "c", "d", "e"] {
        store.done(&Write { value: Some(large.clone()), ..ticket(id, 1) }).await;
    }
    let listed = store.list(0, &first(4)).await;
    assert_eq!(listed.iter().map(|one| &*one.id).collect::<String>(), "abcd");
    assert!(listed.iter().all(|one| one.document.value == large));
}
