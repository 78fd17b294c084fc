//! `kill -9` at any moment: every acknowledged write is there afterwards, and no place in a listing without its document.
//!
//! The test starts itself as a child process, which reports every write once it is acknowledged, and kills it.

use crate::fixture::{Stands, first};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tollgate::store::documents::embedded::EmbeddedDocuments;
use tollgate::store::documents::{Collection, Documents, Expected, Write, Written};

/// Set for the child: the directory of its store.
const DIRECTORY: &str = "TOLLGATE_TEST_DOCUMENTS_DIRECTORY";
/// Writers at work at once in the child.
const WRITERS: u64 = 4;

/// The child: each writer steps its ticket through ranks, and leaves a reply behind at each step.
#[test]
fn child_process_writes_until_it_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let documents = Arc::new(EmbeddedDocuments::open(directory, Arc::new(Stands)).expect("it opens"));
        let work = (0..WRITERS).map(|which| {
            let documents = Arc::clone(&documents);
            tokio::spawn(async move {
                let mut expected = Expected::Nothing;
                for n in 0_u64.. {
                    let value = Some(n.to_string().into());
                    let id = which.to_string();
                    let ticket = Write { collection: Collection::Tickets, id, expected, value, keep: None, rank: n };
                    let Written::Done(version) = documents.put(&ticket, None).await.expect("it writes") else {
                        panic!("nobody else writes this one");
                    };
                    expected = Expected::Version(version);
                    let (collection, id) = (Collection::Replies, format!("{which}/{n}"));
                    let reply = Write { collection, id, expected: Expected::Anything, ..ticket };
                    documents.put_all(&[reply], None).await.expect("it writes");
                    // One write, so that the kill cannot cut a line in two.
                    std::io::stdout().write_all(format!("step {which} {n}\n").as_bytes()).expect("the parent listens");
                    std::io::stdout().flush().expect("the parent listens");
                }
            })
        });
        futures_util::future::join_all(work).await;
    });
}

/// The last step each writer reported.
fn run_and_kill(directory: &Path, after: usize) -> BTreeMap<u64, u64> {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "killed::child_process_writes_until_it_is_killed", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut steps = BTreeMap::new();
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut seen = 0;
    for line in output.lines() {
        let line = line.expect("text");
        // The test harness writes its own lines, the first of them without an end.
        let Some((_, step)) = line.split_once("step ") else { continue };
        let (which, n) = step.split_once(' ').expect("a writer and a step");
        steps.insert(which.parse().expect("a number"), n.parse().expect("a number"));
        seen += 1;
        if seen == after {
            child.kill().expect("SIGKILL");
        }
    }
    let status = child.wait().expect("it ended");
    assert!(!status.success() && seen >= after, "killed at work, not ended by itself: {status}");
    steps
}

#[tokio::test]
async fn kill_9_loses_no_acknowledged_write() {
    for _ in 0..4 {
        let directory = tempfile::tempdir().expect("a directory");
        let after = fastrand::usize(1..2_000);
        let steps = run_and_kill(directory.path(), after);
        let documents = EmbeddedDocuments::open(directory.path(), Arc::new(Stands)).expect("it opens");
        let listed = documents.list(Collection::Tickets, &first(100), None).await.expect("it reads");
        assert!(listed.len() >= steps.len() && listed.len() <= usize::try_from(WRITERS).expect("few"), "one place each");
        for one in &listed {
            assert_eq!(one.document.value, one.rank.to_string(), "the place is that of the value");
        }
        for (which, n) in &steps {
            let ticket = listed.iter().find(|one| one.id == which.to_string()).expect("listed");
            assert!((*n..=n + 1).contains(&ticket.rank), "killed after {after}: {which} was at {n}, is at {}", ticket.rank);
            for n in [0, n / 2, *n] {
                let id = format!("{which}/{n}");
                let reply = documents.get(Collection::Replies, &id, None).await.expect("it reads");
                assert_eq!(reply.expect("acknowledged").value, n.to_string(), "{id}");
            }
        }
    }
}
