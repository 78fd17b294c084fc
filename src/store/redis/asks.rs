//! Admissions of many requests in one call, on one server.
//!
//! A script is done with sixteen requests in a third of the time of sixteen calls: what all share (the app's limits, the gateway's, the
//! ceiling) is read, unpacked and written once, and where all of them fit a limit is changed once, by their sum ([`super::sums`]). So whoever asks while calls are under way waits for one of them to end and goes with all
//! who wait by then; whoever comes while nobody asks goes at once and alone. Each is decided as if the ones before it had been
//! decided in calls of their own.
//!
//! Who leaves before the call is made is left out of it. Who leaves later has been decided all the same, as with a call of their own.

use super::PER_SCRIPT;
use super::call::{self, Ask};
use super::floor::Floors;
use super::link::DEADLINES;
use super::reply::{self, Answer};
use super::servers::Servers;
use super::slots::Group;
use super::stands;
use crate::domain::Timestamp;
use crate::limit::Admission;
use crate::store::{Asked, Known, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Calls under way at once: while the server works on one, the next is on its way.
const UNDER_WAY: usize = 2;

/// Those who ask. Cheap to clone; clones share them.
#[derive(Clone)]
pub(super) struct Asks(Arc<Inner>);

struct Inner {
    servers: Servers,
    floors: Arc<Floors>,
    patience: Duration,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    queue: Vec<Waiter>,
    under_way: usize,
}

impl Waiting {
    /// Who goes next: of those who still wait the first ones, as many as go by one time. (Only tests give one.)
    fn next(&mut self) -> Vec<Waiter> {
        self.queue.retain(|waiter| !waiter.answer.is_closed());
        let Some(Waiter { now, .. }) = self.queue.first() else { return Vec::new() };
        let together = self.queue.iter().take(PER_SCRIPT).take_while(|waiter| waiter.now == *now).count();
        self.queue.drain(..together).collect()
    }
}

struct Waiter {
    admission: Admission,
    known: Option<Known>,
    now: Option<Timestamp>,
    answer: oneshot::Sender<Result<Asked, StoreError>>,
}

impl Asks {
    /// Nobody asks yet.
    pub(super) fn new(servers: &Servers, floors: &Arc<Floors>, deadline: Duration) -> Self {
        // For the call that is waited for, and for the one it goes with.
        let patience = deadline * (2 * DEADLINES);
        Self(Arc::new(Inner { servers: servers.clone(), floors: floors.clone(), patience, waiting: Mutex::default() }))
    }

    /// Asks.
    pub(super) async fn ask(
        &self,
        admission: &Admission,
        known: Option<Known>,
        now: Option<Timestamp>,
    ) -> Result<Asked, StoreError> {
        let waiter = {
            let mut waiting = self.0.waiting.lock();
            if waiting.under_way < UNDER_WAY && waiting.queue.is_empty() {
                waiting.under_way += 1;
                None
            } else {
                let (answer, asked) = oneshot::channel();
                waiting.queue.push(Waiter { admission: admission.clone(), known, now, answer });
                Some(asked)
            }
        };
        match waiter {
            None => {
                let _turn = Turn(self);
                self.alone(admission, known, now).await
            }
            Some(asked) => match timeout(self.0.patience, asked).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(StoreError::Failed(String::from("the call that this admission was part of was given up"))),
                Err(_) => Err(StoreError::Unreachable(format!("no reply within {:?}", self.0.patience))),
            },
        }
    }

    async fn alone(&self, admission: &Admission, known: Option<Known>, now: Option<Timestamp>) -> Result<Asked, StoreError> {
        let ask = Ask { known, ..Ask::all(admission, Group::Whole) };
        alone(&self.0.servers, &self.0.floors, &ask, now).await
    }

    /// Asks for those who wait, until nobody does.
    async fn drive(&self) {
        let _turn = Turn(self);
        loop {
            let waiters = self.0.waiting.lock().next();
            let Some(Waiter { now, .. }) = waiters.first() else { return };
            let asks: Vec<_> =
                waiters.iter().map(|waiter| Ask { known: waiter.known, ..Ask::all(&waiter.admission, Group::Whole) }).collect();
            let answers = together(&self.0.servers, &self.0.floors, &asks, *now).await;
            match answers {
                Ok(answers) => {
                    for (waiter, answer) in waiters.into_iter().zip(answers) {
                        let _ = waiter.answer.send(Ok(answer)); // who has left has been decided all the same
                    }
                }
                Err(error) => waiters.into_iter().for_each(|waiter| {
                    let _ = waiter.answer.send(Err(error.clone()));
                }),
            }
        }
    }
}

/// A call under way. However it ends, those who wait are asked for next.
struct Turn<'a>(&'a Asks);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.0.waiting.lock();
        // Without a runtime, at its end, nobody waits any more.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if !waiting.queue.is_empty() => {
                drop(waiting);
                let asks = self.0.clone();
                // Ends by itself; requests wait for it, so a graceful end does.
                runtime.spawn(async move { asks.drive().await });
            }
            _ => waiting.under_way -= 1,
        }
    }
}

/// One call for one.
pub(super) async fn alone(
    servers: &Servers,
    floors: &Floors,
    ask: &Ask<'_>,
    now: Option<Timestamp>,
) -> Result<Asked, StoreError> {
    let mut answers = together(servers, floors, std::slice::from_ref(ask), now).await?;
    answers.pop().ok_or_else(|| StoreError::Failed(String::from("no reply to an admission")))
}

/// One call for several of one group whose keys lie in one slot.
async fn together(
    servers: &Servers,
    floors: &Floors,
    asks: &[Ask<'_>],
    now: Option<Timestamp>,
) -> Result<Vec<Asked>, StoreError> {
    let slot = asks[0].group.slot(&asks[0].admission.customer.owner);
    let (command, told) = call::admit(servers.scripts().admit(), asks, floors, now);
    let reply = servers.one(slot, command).await?;
    let answers = match stands::decided(&reply, &told, asks)? {
        Some(decided) => decided.into_iter().map(Answer::Decided).collect(),
        None => reply::answers(&reply, asks.iter().map(Ask::claims))?,
    };
    Ok(asks.iter().zip(answers).map(|(ask, answer)| asked(floors, ask, answer)).collect())
}

fn asked(floors: &Floors, ask: &Ask<'_>, answer: Answer) -> Asked {
    match answer {
        Answer::Stale(in_force) => Asked::Stale(in_force),
        Answer::Decided(decided) => {
            floors.decided(ask.claims(), &decided);
            Asked::Decided(decided.decision)
        }
    }
}
