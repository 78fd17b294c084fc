//! The desk of one gateway: takes hand-offs, which are written behind the reply.
//!
//! What agents do at it is in `work`, how a hand-off is written in `writing`, how tickets age and are counted in `counting`.

use super::counting::Count;
use super::hook::{Hook, Wired};
use super::id::Ids;
use super::shelf::{Entry, Shelf, conversation_key};
use super::ticket::{Ticket, after};
use super::{NewTicket, TicketId, TicketRef, view};
use crate::config::policy;
use crate::domain::{Clock, CustomerId, Timestamp};
use crate::store::documents::Documents;
use crate::telemetry::Metrics;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// How long a hand-off may look for the open ticket of its conversation.
pub const LOOK: Duration = Duration::from_millis(50);
/// Hand-offs whose tickets are not written yet, at most. Each holds no more than `conversation_max`, `request_max` and a few KB.
pub const QUEUE: usize = 1_024;
/// Hand-offs that are written at once.
const WRITERS: usize = 8;

/// The desk of one gateway.
pub struct Desk {
    pub(super) inner: Arc<Inner>,
    writing: TaskTracker,
    places: Arc<Semaphore>,
    /// Cuts the writing when the time of a drain is over.
    cut: CancellationToken,
    /// Ends the task that counts when the desk is gone.
    _counting: DropGuard,
}

/// What the desk's tasks share.
pub(super) struct Inner {
    pub(super) shelf: Shelf,
    pub(super) ids: Ids,
    pub(super) writers: Semaphore,
    /// Hand-offs that are not written yet, at most [`QUEUE`].
    pending: Mutex<HashMap<TicketId, Pending>>,
    pub(super) count: Mutex<Count>,
    /// Held by whoever counts, so that only one does.
    pub(super) counting: tokio::sync::Mutex<()>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) hook: Hook,
}

/// A hand-off that is not written yet.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) customer: CustomerId,
    pub(super) app: Arc<str>,
    conversation: Option<String>,
    pub(super) at: Timestamp,
}

/// Settings of which nothing can fail any more.
pub struct Prepared {
    settings: policy::Triage,
    hook: Option<Arc<Wired>>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

impl Desk {
    /// A desk over these documents. Must be called inside a tokio runtime: it starts the task that lets tickets age.
    ///
    /// # Errors
    /// When the webhook's HTTP client cannot be built.
    pub fn start(
        documents: Arc<dyn Documents>,
        settings: &policy::Triage,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, reqwest::Error> {
        let hook = Hook::new(clock.clone(), metrics.clone());
        hook.put(hook.prepare(settings.webhook.as_ref())?);
        let inner = Arc::new(Inner {
            shelf: Shelf::new(documents, clock, settings.clone()),
            ids: Ids::new(),
            writers: Semaphore::new(WRITERS),
            pending: Mutex::default(),
            count: Mutex::default(),
            counting: tokio::sync::Mutex::default(),
            metrics,
            hook,
        });
        let stop = CancellationToken::new();
        let counting = super::counting::run(Arc::downgrade(&inner));
        let stopped = stop.clone();
        tokio::spawn(async move { stopped.run_until_cancelled(counting).await });
        Ok(Self {
            inner,
            writing: TaskTracker::new(),
            places: Arc::new(Semaphore::new(QUEUE)),
            cut: CancellationToken::new(),
            _counting: stop.drop_guard(),
        })
    }

    /// Makes ready for other settings, which [`Desk::put`] then puts in force.
    ///
    /// # Errors
    /// When the webhook's HTTP client cannot be built; nothing is changed then.
    pub fn prepare(&self, settings: &policy::Triage) -> Result<Prepared, reqwest::Error> {
        Ok(Prepared { hook: self.inner.hook.prepare(settings.webhook.as_ref())?, settings: settings.clone() })
    }

    /// From now on these settings hold; tickets that are open keep the deadlines they have.
    pub fn put(&self, prepared: Prepared) {
        self.inner.shelf.set(prepared.settings);
        self.inner.hook.put(prepared.hook);
    }

    /// Whether the text of conversations is kept, so that it is worth making.
    #[must_use]
    pub fn keeps_text(&self) -> bool {
        self.inner.shelf.settings().conversation
    }

    /// The most bytes of a conversation that are kept.
    #[must_use]
    pub fn most_text(&self) -> usize {
        self.inner.shelf.settings().conversation_max
    }

    /// Whether a request with a body of so many bytes is kept.
    #[must_use]
    pub fn keeps_request(&self, length: usize) -> bool {
        let settings = self.inner.shelf.settings();
        settings.requests && length <= settings.request_max
    }

    /// Hands a request to a person. Never fails: the ticket is written behind the reply, and what goes wrong there is logged and counted.
    ///
    /// Waits at most [`LOOK`], and only for a request of a conversation, which may have an open ticket already: then that one's id is
    /// given. Without an answer in time the id is a new one, which leads to the conversation's ticket once that is known.
    pub async fn hand_off(&self, mut new: NewTicket) -> TicketRef {
        if !self.keeps_text() {
            new.text = None;
        }
        if !self.inner.shelf.settings().requests {
            new.again = None;
        }
        let conversation = conversation_key(&new);
        let known = match &conversation {
            Some(conversation) => self.known(&new.customer, conversation).await,
            None => None,
        };
        let id = known.unwrap_or_else(|| self.inner.ids.next());
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.inner.metrics.triage.dropped("queue_full");
            tracing::error!(ticket = %id, request_id = %new.request, "a hand-off has no ticket: too many wait to be written");
            return id.into();
        };
        if known.is_none() {
            let pending =
                Pending { customer: new.customer.clone(), app: new.app.clone(), conversation, at: self.inner.shelf.now() };
            self.inner.pending.lock().insert(id, pending);
        }
        let (inner, cut) = (Arc::clone(&self.inner), self.cut.clone());
        self.writing.spawn(async move {
            let request = new.request;
            if cut.run_until_cancelled(inner.write(id, known.is_some(), new)).await.is_none() {
                inner.metrics.triage.dropped("shutdown");
                tracing::error!(ticket = %id, request_id = %request, "a hand-off has no ticket: the gateway ended first");
            }
            inner.pending.lock().remove(&id);
            drop(place);
        });
        id.into()
    }

    /// The open ticket of a conversation, as far as that can be known at once.
    async fn known(&self, customer: &CustomerId, conversation: &str) -> Option<TicketId> {
        let here = |(id, pending): (&TicketId, &Pending)| {
            (pending.conversation.as_deref() == Some(conversation) && pending.customer == *customer).then_some(*id)
        };
        if let Some(id) = self.inner.pending.lock().iter().find_map(here) {
            return Some(id);
        }
        let open = timeout(LOOK, self.inner.shelf.open_of(customer)).await.ok()?.ok()?;
        // One whose time is over may not be struck from the list yet; should it still be worked on, the new id will lead to it.
        let (now, keep) = (self.inner.shelf.now(), self.inner.shelf.settings().keep);
        let same = |entry: &Entry| entry.conversation.as_deref() == Some(conversation) && now < after(entry.at, keep);
        open.into_iter().find(same).map(|entry| entry.id)
    }

    /// Hand-offs that are not written yet.
    #[must_use]
    pub fn unwritten(&self) -> usize {
        self.writing.len()
    }

    /// Waits until every hand-off is written and every webhook delivered or given up, at most `patience`. Gives how many tickets were
    /// not written in that time.
    pub async fn drain(&self, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        self.writing.close();
        let _ = timeout(patience, self.writing.wait()).await;
        let left = self.writing.len();
        self.cut.cancel();
        self.writing.wait().await;
        self.inner.hook.drain(deadline.saturating_duration_since(Instant::now())).await;
        left
    }
}

impl Inner {
    /// A hand-off of this process that is not written yet.
    pub(super) fn pending(&self, id: TicketId) -> Option<Pending> {
        self.pending.lock().get(&id).cloned()
    }

    /// Logs, counts and tells whom it concerns that something happened to a ticket.
    pub(super) fn happened(&self, event: &'static str, ticket: &Ticket, who: Option<&str>) {
        self.metrics.triage.event(event);
        tracing::info!(
            target: "triage",
            event,
            ticket = %ticket.id,
            agent = who,
            customer = &*ticket.customer,
            queue = &*ticket.queue,
            "a ticket changed"
        );
        if matches!(event, "opened" | "answered") {
            self.tell(event, ticket);
        }
    }

    /// Posts the news to the webhook, if there is one.
    pub(super) fn tell(&self, event: &'static str, ticket: &Ticket) {
        // The same news have the same id, however often they are told.
        self.hook.send(|| format!("{}.{event}", ticket.id), || view::news(event, ticket, self.shelf.now()));
    }
}
