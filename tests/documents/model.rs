//! Random sequences against the reference: every store answers each step as it does.

use crate::fixture::{Fixture, NOON, SECOND, embedded, memory, redis};
use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::time::Duration;
use tollgate::domain::Timestamp;
use tollgate::store::documents::{Collection, Document, Expected, Listed, Page, Write, Written};

const KINDS: [Collection; 3] = [Collection::Tickets, Collection::Jobs, Collection::Replies];

/// What a write expects: a version is named by the number of the write that made it, since stores number differently.
#[derive(Clone, Debug)]
enum Expects {
    Anything,
    Nothing,
    /// The version of the n-th last write.
    Earlier(usize),
}

#[derive(Clone, Debug)]
enum Step {
    Put { kind: usize, id: u8, expects: Expects, value: Option<u8>, keep: Option<u64>, rank: u64 },
    Get { kind: usize, id: u8 },
    List { kind: usize, after: Option<(u64, u8)>, up_to: Option<u64>, limit: usize },
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = 0..KINDS.len();
    let expects =
        prop_oneof![3 => Just(Expects::Anything), 2 => Just(Expects::Nothing), 4 => (0_usize..3).prop_map(Expects::Earlier)];
    let value = proptest::option::weighted(0.8, any::<u8>());
    let put = (kind.clone(), 0_u8..4, expects, value, proptest::option::of(0_u64..4), 0_u64..3)
        .prop_map(|(kind, id, expects, value, keep, rank)| Step::Put { kind, id, expects, value, keep, rank });
    let get = (kind.clone(), 0_u8..4).prop_map(|(kind, id)| Step::Get { kind, id });
    let list = (kind, proptest::option::of((0_u64..3, 0_u8..4)), proptest::option::of(0_u64..3), 0_usize..5)
        .prop_map(|(kind, after, up_to, limit)| Step::List { kind, after, up_to, limit });
    let step = prop_oneof![6 => put, 3 => get, 2 => list, 2 => (0_u64..3).prop_map(Step::Wait)];
    proptest::collection::vec(step, 1..60)
}

/// A store, and the versions its writes got, in order.
struct Side {
    store: Fixture,
    versions: Vec<u64>,
}

impl Side {
    fn new(store: Fixture) -> Self {
        Self { store, versions: Vec::new() }
    }

    /// Versions by which write they came from.
    fn seen(&self, document: &Document) -> (Option<usize>, Bytes) {
        (self.versions.iter().rposition(|version| *version == document.version), document.value.clone())
    }

    /// Takes a step, and gives what it showed in words that all stores share.
    async fn take(&mut self, step: &Step, now: Timestamp) -> String {
        match step {
            Step::Wait(_) => String::new(),
            Step::Get { kind, id } => {
                let found = self.store.documents.get(KINDS[*kind], &id.to_string(), Some(now)).await.expect("it answers");
                format!("{:?}", found.map(|found| self.seen(&found)))
            }
            Step::List { kind, after, up_to, limit } => {
                let after = after.map(|(rank, id)| (rank, id.to_string()));
                let page = Page { after, up_to: *up_to, limit: *limit };
                let listed = self.store.documents.list(KINDS[*kind], &page, Some(now)).await.expect("it answers");
                let line = |Listed { id, rank, document }: &Listed| (id.clone(), *rank, self.seen(document));
                format!("{:?}", listed.iter().map(line).collect::<Vec<_>>())
            }
            Step::Put { kind, id, expects, value, keep, rank } => {
                let expected = match expects {
                    Expects::Anything => Expected::Anything,
                    Expects::Nothing => Expected::Nothing,
                    Expects::Earlier(n) => {
                        let earlier = self.versions.len().checked_sub(n + 1);
                        Expected::Version(earlier.map_or(1 << 52, |at| self.versions[at]))
                    }
                };
                let write = Write {
                    collection: KINDS[*kind],
                    id: id.to_string(),
                    expected,
                    value: value.map(|byte| Bytes::from(vec![byte])),
                    keep: keep.map(Duration::from_secs),
                    rank: *rank,
                };
                match self.store.documents.put(&write, Some(now)).await.expect("it answers") {
                    Written::Found(found) => format!("found {:?}", found.map(|found| self.seen(&found))),
                    Written::Done(0) => "removed".into(),
                    Written::Done(version) => {
                        self.versions.push(version);
                        "written".into()
                    }
                }
            }
        }
    }
}

/// Runs random sequences on stores that `fresh` makes.
fn agrees<F: Future<Output = Fixture>>(cases: u32, fresh: impl Fn() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let result = TestRunner::new(config).run(&steps(), |steps| {
        runtime.block_on(async {
            let (mut right, mut store) = (Side::new(memory().await), Side::new(fresh().await));
            let mut now = NOON;
            for (n, step) in steps.iter().enumerate() {
                if let Step::Wait(seconds) = step {
                    now = now.plus(seconds * SECOND);
                }
                let (right, found) = (right.take(step, now).await, store.take(step, now).await);
                prop_assert_eq!(right, found, "step {}: {:?}", n, step);
            }
            Ok(())
        })
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_embedded_store_answers_as_the_reference_does() {
    agrees(48, embedded);
}

#[test]
fn the_redis_store_answers_as_the_reference_does() {
    agrees(24, redis);
}
