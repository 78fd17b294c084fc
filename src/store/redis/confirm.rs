//! Confirmations of provisional holds (see [`super::split`]), off the path of the requests: those that come together go together.

use super::call;
use super::reply;
use super::servers::Servers;
use super::slots::Group;
use crate::domain::Timestamp;
use crate::store::{Renewal, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Confirmations that wait at most; whoever comes then confirms by itself, on the path of its request.
const MOST: usize = 10_000;
/// Confirmations in one call.
const BATCH: usize = 128;
/// The pause after confirmations that failed.
const PAUSE: Duration = Duration::from_millis(50);

/// Holds that wait to be confirmed. Cheap to clone; clones share them.
#[derive(Clone)]
pub(super) struct Confirms {
    /// How long they stand without.
    pub(super) provisional: Duration,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Confirm>,
    /// Whether a task sends them.
    running: bool,
}

struct Confirm {
    renewal: Renewal,
    now: Option<Timestamp>,
    admitted: Instant,
}

impl Queue {
    /// Adds one, and says whether a task is to be started for it; gives it back where there is no room.
    fn push(&mut self, confirm: Confirm) -> Result<bool, Confirm> {
        if self.waiting.len() >= MOST {
            return Err(confirm);
        }
        self.waiting.push(confirm);
        Ok(!std::mem::replace(&mut self.running, true))
    }

    /// The next ones; none, and no task any more, where there is nothing to do.
    fn take(&mut self) -> Vec<Confirm> {
        let most = self.waiting.len().min(BATCH);
        self.running = most > 0;
        self.waiting.drain(..most).collect()
    }
}

impl Confirms {
    pub(super) fn new(provisional: Duration) -> Self {
        Self { provisional, queue: Arc::default() }
    }

    /// Has a hold confirmed. Waits only when there is no room to wait elsewhere.
    pub(super) async fn confirm(&self, servers: &Servers, renewal: Renewal, now: Option<Timestamp>) {
        let confirm = Confirm { renewal, now, admitted: Instant::now() };
        let pushed = self.queue.lock().push(confirm);
        let start = match pushed {
            Ok(first) => first,
            Err(confirm) => {
                if let Err(error) = send(servers, &[confirm]).await {
                    given_up(1, &error);
                }
                return;
            }
        };
        if start {
            let (confirms, servers) = (self.clone(), servers.clone());
            // Ends by itself. Nothing waits for it at shutdown: requests in flight are settled then, which needs no confirmation.
            tokio::spawn(async move { confirms.run(&servers).await });
        }
    }

    async fn run(&self, servers: &Servers) {
        loop {
            let batch = self.queue.lock().take();
            if batch.is_empty() {
                return;
            }
            let Err(error) = send(servers, &batch).await else { continue };
            let before = batch.len();
            let mut again: Vec<_> = batch.into_iter().filter(|confirm| confirm.admitted.elapsed() < self.provisional).collect();
            if again.len() < before {
                given_up(before - again.len(), &error);
            }
            if !again.is_empty() {
                // Behind the others: the node of these may be away, that of the others not.
                self.queue.lock().waiting.append(&mut again);
                sleep(PAUSE).await;
            }
        }
    }
}

/// A hold that is not there any more was settled, which is just as well.
async fn send(servers: &Servers, batch: &[Confirm]) -> Result<(), StoreError> {
    let command = |confirm: &Confirm| {
        let Confirm { renewal, now, admitted: _ } = confirm;
        let slot = Group::Customer.slot(&renewal.customer.owner);
        (slot, call::renew(servers.scripts().renew(), Group::Customer, renewal, *now))
    };
    for reply in servers.all(batch.iter().map(command).collect()).await? {
        reply::renewed(&reply)?;
    }
    Ok(())
}

fn given_up(holds: usize, error: &StoreError) {
    tracing::warn!(%error, holds, "holds could not be confirmed; they are given back, and booked when their requests end");
}
