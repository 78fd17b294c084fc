//! Which customers there are, and which of their requests were lately not served as asked.
//!
//! Off the path, like the records themselves, and by the task that writes those: of a customer a line is written when it is seen for the
//! first time in a day, and what was refused to it is added to the list of its latest refusals, at most some times a second however many
//! there are. What does not fit the queue is not noted; the request's own record still tells of it.

use super::notable::Notable;
use crate::domain::Timestamp;
use crate::store::StoreError;
use crate::store::documents::{Collection, Documents, Expected, Page, Write, Written};
use crate::telemetry::record::Ended;
use bytes::Bytes;
use foldhash::{HashMap, HashSet};
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Requests that are remembered with a customer.
pub const REMEMBERED: usize = 30;
/// A customer that was not seen for so long is forgotten, unless something is set for it.
const KEEP: Duration = Duration::from_secs(90 * 86_400);
/// Seconds in which a customer is noted once.
const DAY: u64 = 86_400;
/// Customers of which it is remembered that they are noted; then it begins anew.
const NOTED: usize = 200_000;
/// Notes that wait to be written.
const WAITING: usize = 4_096;
/// Between two writes.
const PAUSE: Duration = Duration::from_millis(200);
/// Customers written at once.
const AT_ONCE: usize = 8;
/// How often a list is tried again because another gateway was faster.
const TRIES: usize = 8;

/// What is known of a customer that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// When it was last noted, Unix seconds; it may have been seen up to a day later.
    pub at: u64,
    /// By which plan its request was decided then.
    #[serde(default)]
    pub plan: Option<Box<str>>,
}

/// What the writing task is told.
enum Told {
    /// A customer was seen.
    Seen(Box<str>, Seen),
    /// A request of a customer was not served as asked, kept so long.
    Noted(Box<str>, Box<Notable>, Duration),
    /// Say when everything before is written.
    Flush(oneshot::Sender<()>),
}

/// The side that notes: of one task.
pub(super) struct Notes {
    queue: mpsc::Sender<Told>,
    noted: HashSet<u64>,
    day: u64,
    hasher: RandomState,
}

impl Notes {
    /// Starts the task that writes. It ends when the notes are gone and everything is written.
    pub(super) fn start(documents: Arc<dyn Documents>) -> Self {
        let (queue, told) = mpsc::channel(WAITING);
        tokio::spawn(run(documents, told));
        Self { queue, noted: HashSet::default(), day: 0, hasher: RandomState::new() }
    }

    /// A request has ended.
    pub(super) fn note(&mut self, ended: &Ended) {
        // An id with a space is one that we gave ourselves: an anonymous key or address.
        let Some(id) = ended.facts.customer.as_ref().map(|id| id.as_str()).filter(|id| !id.contains(' ')) else { return };
        let day = ended.at.secs() / DAY;
        if day > self.day || self.noted.len() >= NOTED {
            self.noted.clear();
            self.day = self.day.max(day);
        }
        let hash = self.hasher.hash_one(id);
        if !self.noted.contains(&hash) {
            let plan = ended.facts.plan.as_ref().map(|plan| (*plan.name).into());
            if self.queue.try_send(Told::Seen(id.into(), Seen { at: ended.at.secs(), plan })).is_ok() {
                self.noted.insert(hash);
            }
        }
        // Nearly all were served as asked, of which nothing is noted.
        let facts = &ended.facts;
        if (facts.status >= 400 || !facts.degraded.is_empty())
            && let Some(notable) = Notable::of(ended)
        {
            let _ = self.queue.try_send(Told::Noted(id.into(), Box::new(notable), ended.keep)); // see the module
        }
    }

    /// Tells `ack` when everything noted so far is written.
    pub(super) async fn flush(&self, ack: oneshot::Sender<()>) {
        let _ = self.queue.send(Told::Flush(ack)).await; // dropped, it tells that nothing is written
    }
}

/// What waits to be written.
#[derive(Default)]
struct Waiting {
    seen: HashMap<Box<str>, Seen>,
    noted: HashMap<Box<str>, (VecDeque<Notable>, Duration)>,
    flushes: Vec<oneshot::Sender<()>>,
}

impl Waiting {
    fn add(&mut self, told: Told) {
        match told {
            Told::Seen(id, seen) => drop(self.seen.insert(id, seen)),
            Told::Noted(id, notable, keep) => {
                let (list, kept) = self.noted.entry(id).or_default();
                list.push_front(*notable);
                list.truncate(REMEMBERED);
                *kept = keep;
            }
            Told::Flush(ack) => self.flushes.push(ack),
        }
    }

    async fn write(&mut self, documents: &dyn Documents) {
        let seen: Vec<_> =
            self.seen.drain().filter_map(|(id, seen)| Some(customer(&id, serde_json::to_vec(&seen).ok()?))).collect();
        if !seen.is_empty()
            && let Err(error) = documents.put_all(&seen, None).await
        {
            tracing::debug!(%error, "which customers were seen could not be noted");
        }
        let lists = stream::iter(self.noted.drain()).map(|(id, (list, keep))| async move {
            if let Err(error) = add(documents, &id, list, keep).await {
                tracing::debug!(%error, "what was refused to a customer could not be noted");
            }
        });
        lists.buffer_unordered(AT_ONCE).collect::<()>().await;
        for ack in self.flushes.drain(..) {
            let _ = ack.send(()); // whoever asked may have lost patience
        }
    }
}

async fn run(documents: Arc<dyn Documents>, mut queue: mpsc::Receiver<Told>) {
    let mut waiting = Waiting::default();
    while let Some(told) = queue.recv().await {
        waiting.add(told);
        // Whatever comes in the meantime is written with it, once a customer.
        let pause = tokio::time::sleep(PAUSE);
        tokio::pin!(pause);
        while waiting.flushes.is_empty() {
            tokio::select! {
                biased;
                told = queue.recv() => match told {
                    Some(told) => waiting.add(told),
                    None => break,
                },
                () = &mut pause => break,
            }
        }
        waiting.write(&*documents).await;
    }
}

fn customer(id: &str, value: Vec<u8>) -> Write {
    Write {
        collection: Collection::Customers,
        id: id.to_owned(),
        expected: Expected::Anything,
        value: Some(value.into()),
        keep: Some(KEEP),
        rank: 0,
    }
}

/// Puts these in front of what is remembered with a customer.
async fn add(documents: &dyn Documents, id: &str, latest: VecDeque<Notable>, keep: Duration) -> Result<(), StoreError> {
    let mut found = documents.get(Collection::Refusals, id, None).await?;
    for _ in 0..TRIES {
        let mut list = latest.clone();
        list.extend(found.as_ref().map(|found| read(&found.value)).unwrap_or_default());
        // Another gateway may have noted later ones already.
        list.make_contiguous().sort_by(|a, b| b.time.cmp(&a.time));
        list.truncate(REMEMBERED);
        let value = serde_json::to_vec(&list).map_err(|error| StoreError::Failed(format!("refusals: {error}")))?;
        let write = Write {
            collection: Collection::Refusals,
            id: id.to_owned(),
            expected: found.as_ref().map_or(Expected::Nothing, |found| Expected::Version(found.version)),
            value: Some(Bytes::from(value)),
            keep: Some(keep),
            rank: 0,
        };
        match documents.put(&write, None).await? {
            Written::Done(_) => return Ok(()),
            Written::Found(other) => found = other,
        }
    }
    Ok(())
}

/// What does not read is as good as nothing: it is of another version, and soon overwritten.
fn read(value: &[u8]) -> Vec<Notable> {
    serde_json::from_slice(value).unwrap_or_default()
}

/// The latest requests of a customer that were not served as asked, the latest first.
pub(super) async fn refusals(documents: &dyn Documents, id: &str) -> Result<Vec<Notable>, StoreError> {
    Ok(documents.get(Collection::Refusals, id, None).await?.map(|found| read(&found.value)).unwrap_or_default())
}

/// When a customer was seen.
pub(super) async fn seen(documents: &dyn Documents, id: &str) -> Result<Option<Seen>, StoreError> {
    let found = documents.get(Collection::Customers, id, None).await?;
    Ok(found.map(|found| serde_json::from_slice(&found.value).unwrap_or_default()))
}

/// Customers that were seen, by id, after this one.
pub(super) async fn list(documents: &dyn Documents, after: &str, limit: usize) -> Result<Vec<(String, Seen)>, StoreError> {
    let page = Page { after: Some((0, after.to_owned())), up_to: None, limit };
    let listed = documents.list(Collection::Customers, &page, None).await?;
    Ok(listed.into_iter().map(|one| (one.id, serde_json::from_slice(&one.document.value).unwrap_or_default())).collect())
}

impl Seen {
    /// When, as an instant.
    #[must_use]
    pub const fn when(&self) -> Timestamp {
        Timestamp::from_secs(self.at)
    }
}
