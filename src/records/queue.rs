//! Writing records: many in one call, repeated while the store is away.

use super::customers::Notes;
use crate::store::StoreError;
use crate::store::documents::{Collection, Documents, Expected, MAX_ID, Write};
use crate::telemetry::Metrics;
use crate::telemetry::record::Ended;
use crate::telemetry::spelled::instant;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Records in one call.
const BATCH: usize = 512;
/// How long records gather before they are written: waking up for each of them would cost more than writing it. Nobody looks a request
/// up that fast.
const GATHER: Duration = Duration::from_millis(10);
/// Between the first failure and the next attempt; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often a batch is tried that the store answers with an error of its own.
const MOST_ATTEMPTS: u32 = 3;

/// What the writing task is told.
pub enum Told {
    /// A request has ended.
    Ended(Box<Ended>),
    /// Say when everything before is written.
    Flush(oneshot::Sender<()>),
}

/// Writes what it is told until nobody can tell anything any more.
pub async fn run(documents: Arc<dyn Documents>, mut queue: mpsc::Receiver<Told>, metrics: Arc<Metrics>) {
    let mut notes = Notes::start(documents.clone());
    let mut told = Vec::with_capacity(BATCH);
    while queue.recv_many(&mut told, BATCH).await > 0 {
        let (mut writes, mut records, mut flushes) = (Vec::new(), 0, Vec::new());
        for told in told.drain(..) {
            match told {
                Told::Ended(ended) => {
                    records += 1;
                    notes.note(&ended);
                    add(&mut writes, *ended);
                }
                Told::Flush(ack) => flushes.push(ack),
            }
        }
        if !writes.is_empty() && !write(&*documents, &writes, &queue).await {
            metrics.records_dropped.inc_by(records);
        }
        let pressed = !flushes.is_empty();
        for ack in flushes {
            notes.flush(ack).await;
        }
        if !pressed && !queue.is_closed() {
            tokio::time::sleep(GATHER).await;
        }
    }
}

/// What one record takes: itself, and its name at the provider's.
fn add(writes: &mut Vec<Write>, ended: Ended) {
    let (id, value) = (ended.id.to_string(), format!("{{\"time\":\"{}\",{}}}", instant(ended.at), ended.members));
    let document = |collection, id, value| Write {
        collection,
        id,
        expected: Expected::Anything,
        value: Some(value),
        keep: Some(ended.keep),
        rank: 0,
    };
    let named = ended.facts.provider_request_id.filter(|id| !id.is_empty() && id.len() <= MAX_ID);
    if let Some(named) = named {
        writes.push(document(Collection::ProviderRequests, named, id.clone().into()));
    }
    writes.push(document(Collection::Requests, id, Bytes::from(value)));
}

/// Whether these are written. While the store is away it is asked again, unless nobody waits for anything any more.
async fn write(documents: &dyn Documents, writes: &[Write], queue: &mpsc::Receiver<Told>) -> bool {
    let (mut pause, mut attempts) = (FIRST_PAUSE, 0);
    loop {
        match documents.put_all(writes, None).await {
            Ok(()) => return true,
            Err(error @ StoreError::Failed(_)) => {
                attempts += 1;
                if attempts == MOST_ATTEMPTS {
                    tracing::warn!(%error, "records of requests are dropped");
                    return false;
                }
            }
            Err(StoreError::Unreachable(_) | StoreError::Away(_)) if queue.is_closed() => return false,
            Err(StoreError::Unreachable(_) | StoreError::Away(_)) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
