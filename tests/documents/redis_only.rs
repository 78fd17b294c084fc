//! What only Redis can get wrong: its keys, its scripts, and that it may be away.

use crate::fixture::{Fixture, NOON, SECOND, both, connect, first, kept, removal, reply, saying, ticket};
use crate::mortal_redis::MortalRedis;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate::store::StoreError;
use tollgate::store::documents::{Collection, Documents, Expected, Write, Written};
use tollgate::store::redis::RedisDocuments;

/// A server, and a store on it.
fn store() -> (MortalRedis, Fixture) {
    let server = MortalRedis::awake();
    let documents = connect(&server);
    (server, Fixture::over(documents, Box::new(())))
}

fn keys(server: &MortalRedis) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).expect("it answers");
    keys.sort();
    keys
}

#[tokio::test]
async fn keys_are_versioned_tagged_and_gone_with_what_they_held() {
    let (server, store) = store();
    for write in both("a") {
        store.done(&kept(&write, 60)).await;
    }
    let right = ["tg1:{d:reply:a}", "tg1:{d:ticket}:docs", "tg1:{d:ticket}:ends", "tg1:{d:ticket}:order"];
    assert_eq!(keys(&server), right);
    let lives: i64 = redis::cmd("PTTL").arg(right[0]).query(&mut server.connection()).expect("it answers");
    assert!((50_000..=60_000).contains(&lives), "the server itself forgets it: {lives} ms");
    for write in both("a") {
        store.done(&removal(&write)).await;
    }
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_kept_of_requests_is_written_without_a_script_and_read_as_ever() {
    let (server, store) = store();
    let requests = [(Collection::Requests, "req_{1}"), (Collection::ProviderRequests, "resp_1")];
    let write = |(collection, id): (Collection, &str)| Write { collection, ..kept(&reply(id), 60) };
    let mut writes = requests.map(write).to_vec();
    // Others go with them, and one that is for ever.
    writes.extend([reply("a"), reply("b"), Write { keep: None, ..write((Collection::Requests, "req_2")) }]);
    let calls = || {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).expect("it answers");
        let of = |name: &str| stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:"))).map(str::to_owned);
        let count = |line: String| line.split(['=', ',']).nth(1).and_then(|calls| calls.parse::<u64>().ok());
        ["evalsha", "getrange"].map(|name| of(name).and_then(count).unwrap_or(0))
    };
    store.documents.put_all(&writes, None).await.expect("it answers"); // loads the scripts
    let before = calls();
    store.documents.put_all(&writes[..2], None).await.expect("it answers");
    assert_eq!(calls(), before, "no script");
    store.documents.put_all(&writes, None).await.expect("it answers");
    assert_eq!(calls()[0], before[0] + 1, "one for the replies and what is for ever");
    for write in &writes {
        let found = store.documents.get(write.collection, &write.id, None).await.expect("it answers").expect("it is there");
        assert_eq!(Some(found.value), write.value, "{}", write.id);
    }
    for (key, lives) in [("tg1:{d:request:req_%7b1%7d}", 50_000..=60_000), ("tg1:{d:request:req_2}", -1..=-1)] {
        let left: i64 = redis::cmd("PTTL").arg(key).query(&mut server.connection()).expect("it answers");
        assert!(lives.contains(&left), "{key}: {left} ms");
    }
    // What was written so can still be replaced and removed by whoever looks first.
    let found = store.documents.get(Collection::Requests, "req_{1}", None).await.expect("it answers").expect("it is there");
    let removal = Write { expected: Expected::Version(found.version), value: None, ..writes[0].clone() };
    assert_eq!(store.documents.put(&removal, None).await, Ok(Written::Done(0)));
    assert_eq!(store.documents.get(Collection::Requests, "req_{1}", None).await, Ok(None));
}

#[tokio::test]
async fn what_ended_leaves_a_listed_collection_with_later_calls() {
    let (server, store) = store();
    let writes: Vec<Write> = (0..20).map(|n| kept(&ticket(&n.to_string(), 0), 60)).collect();
    store.documents.put_all(&writes, Some(NOON)).await.expect("it answers");
    store.put(60 * SECOND, &ticket("lives", 0)).await;
    let left = |shelf: &str| {
        let (count, key) = (if shelf == "docs" { "HLEN" } else { "ZCARD" }, format!("tg1:{{d:ticket}}:{shelf}"));
        redis::cmd(count).arg(key).query::<u64>(&mut server.connection()).expect("it answers")
    };
    assert_eq!((left("docs"), left("order"), left("ends")), (5, 5, 4), "sixteen at a time");
    store.list(60 * SECOND, &first(1)).await;
    assert_eq!((left("docs"), left("order"), left("ends")), (1, 1, 0));
}

#[tokio::test]
async fn flushed_scripts_are_loaded_again() {
    let (server, store) = store();
    for write in both("a") {
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).expect("it answers");
        let version = store.done(&write).await;
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).expect("it answers");
        assert_eq!(store.get(0, &write).await.map(|found| found.version), Some(version));
    }
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).expect("it answers");
    assert_eq!(store.ids(0, &first(10)).await, ["a"]);
}

#[tokio::test]
async fn after_everything_was_flushed_old_versions_do_not_come_back() {
    let (server, store) = store();
    for write in both("a") {
        let before = store.done(&write).await;
        redis::cmd("FLUSHALL").exec(&mut server.connection()).expect("it answers");
        assert_eq!(store.get(0, &write).await, None);
        let late = Write { expected: Expected::Version(before), ..saying(&write, "late") };
        assert_eq!(store.put(0, &late).await, Written::Found(None));
        let after = store.done(&write).await;
        assert!(after > before, "{after} after {before}");
        assert!(matches!(store.put(0, &late).await, Written::Found(Some(found)) if found.version == after));
    }
}

/// Asks until it is answered; the time is bounded by the test's own deadline.
async fn answered(documents: &RedisDocuments) {
    let patience = Instant::now() + Duration::from_secs(20);
    while let Err(error) = documents.get(Collection::Replies, "a", None).await {
        assert!(Instant::now() < patience, "{error}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_frozen_server_costs_a_few_deadlines_and_then_nothing_until_it_thaws() {
    let server = MortalRedis::awake();
    let documents = Arc::new(RedisDocuments::connect(&[&server.url()], Duration::from_millis(50)).expect("well-formed"));
    answered(&documents).await;
    server.freeze();
    let begun = Instant::now();
    let mut refused = 0;
    while refused < 1_000 {
        match documents.put(&reply("a"), None).await {
            Err(StoreError::Away(_)) => refused += 1,
            Err(StoreError::Unreachable(_)) => {}
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{refused} were refused at once");
    }
    server.thaw();
    answered(&documents).await;
    assert!(matches!(documents.put(&reply("a"), None).await, Ok(Written::Done(_))));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_and_its_return_needs_no_help() {
    let mut server = MortalRedis::awake();
    let documents = connect(&server);
    answered(&documents).await;
    server.kill();
    let error = documents.put(&reply("a"), None).await.expect_err("nobody listens");
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    server.wake();
    answered(&documents).await;
}
