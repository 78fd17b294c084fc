//! What the provider saw, and what it would bill.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::wire::Usage;

/// Bodies the log holds at most, in bytes; beyond it the oldest requests are forgotten.
const KEEP_BYTES: usize = 256 << 20;

/// Models that are summed up one by one; names come from requests, so there must be an end to them.
const KEEP_MODELS: usize = 1_000;

/// One request and how it went.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When its head arrived.
    pub at: Instant,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The headers as they came.
    pub headers: HeaderMap,
    /// The body as it came.
    pub body: Bytes,
    /// The `model` it asked for; empty when it named none.
    pub model: String,
    /// The status answered; 0 while there is none, and for raw scripts.
    pub status: u16,
    /// How the exchange ended.
    pub end: End,
    /// The usage the reply states, or would have stated had it got that far.
    pub usage: Option<Usage>,
    /// Output tokens handed to the connection so far. A whole reply counts when it is sent.
    pub delivered: u64,
}

impl Seen {
    /// A header as text; empty when absent or not text.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Whether the client hung up before it had the whole reply.
    #[must_use]
    pub fn client_left(&self) -> bool {
        self.end == End::ClientLeft
    }
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is still going on.
    Open,
    /// The whole reply was handed to the connection.
    Complete,
    /// The client hung up first.
    ClientLeft,
    /// The provider broke off, on request.
    Broken,
}

/// What one model was used for, over all requests that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that used tokens.
    pub requests: u64,
    /// Their usage. Of a stream that broke or lost its client only the delivered output is in here.
    pub usage: Usage,
}

#[derive(Debug)]
pub(super) struct Log {
    inner: Mutex<Inner>,
    changes: watch::Sender<u64>,
    keep: usize,
}

#[derive(Debug, Default)]
struct Inner {
    entries: VecDeque<Seen>,
    /// The number of the oldest entry kept.
    first: u64,
    bytes: usize,
    totals: BTreeMap<String, Totals>,
}

impl Log {
    pub(super) fn new(keep: usize) -> Self {
        Self { inner: Mutex::default(), changes: watch::channel(0).0, keep: keep.max(1) }
    }

    pub(super) fn entries(&self) -> Vec<Seen> {
        self.inner.lock().entries.iter().cloned().collect()
    }

    pub(super) fn arrived(&self) -> u64 {
        let inner = self.inner.lock();
        inner.first + inner.entries.len() as u64
    }

    pub(super) fn totals(&self) -> BTreeMap<String, Totals> {
        self.inner.lock().totals.clone()
    }

    pub(super) async fn wait_until(&self, mut enough: impl FnMut(&[Seen]) -> bool) -> Vec<Seen> {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let entries = self.entries();
            if enough(&entries) {
                return entries;
            }
            changes.changed().await.expect("the sender lives in self");
        }
    }

    /// Enters a request whose head has arrived.
    pub(super) fn open(self: &Arc<Self>, method: Method, path: String, headers: HeaderMap) -> Ticket {
        let seen = Seen {
            at: Instant::now(),
            method,
            path,
            headers,
            body: Bytes::new(),
            model: String::new(),
            status: 0,
            end: End::Open,
            usage: None,
            delivered: 0,
        };
        let mut inner = self.inner.lock();
        inner.entries.push_back(seen);
        let number = inner.first + inner.entries.len() as u64 - 1;
        while inner.entries.len() > self.keep || (inner.bytes > KEEP_BYTES && inner.entries.len() > 1) {
            if let Some(forgotten) = inner.entries.pop_front() {
                inner.bytes -= forgotten.body.len();
            }
            inner.first += 1;
        }
        drop(inner);
        self.changed();
        Ticket { log: Arc::clone(self), number, spent: Spent::default(), open: true }
    }

    fn update(&self, number: u64, change: impl FnOnce(&mut Seen)) {
        let mut inner = self.inner.lock();
        let Some(at) = number.checked_sub(inner.first) else { return };
        let Some(entry) = inner.entries.get_mut(at as usize) else { return };
        let before = entry.body.len();
        change(entry);
        let after = entry.body.len();
        inner.bytes = inner.bytes + after - before;
        drop(inner);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|version| *version = version.wrapping_add(1));
    }
}

/// What a request has used, kept beside the entry because the entry may be forgotten before the request ends.
#[derive(Debug, Default)]
struct Spent {
    model: String,
    usage: Option<Usage>,
    delivered: u64,
}

/// The duty to say how an exchange ended. Dropped early, it says that the client left: hyper drops a handler or a body only
/// then.
#[derive(Debug)]
pub(super) struct Ticket {
    log: Arc<Log>,
    number: u64,
    spent: Spent,
    open: bool,
}

impl Ticket {
    pub(super) fn body(&mut self, body: &Bytes, model: &str) {
        model.clone_into(&mut self.spent.model);
        self.log.update(self.number, |seen| {
            seen.body = body.clone();
            model.clone_into(&mut seen.model);
        });
    }

    pub(super) fn status(&self, status: u16) {
        self.log.update(self.number, |seen| seen.status = status);
    }

    pub(super) fn usage(&mut self, usage: &Usage) {
        self.spent.usage = Some(usage.clone());
        self.log.update(self.number, |seen| seen.usage = Some(usage.clone()));
    }

    pub(super) fn delivered(&mut self, tokens: u64) {
        self.spent.delivered += tokens;
        let delivered = self.spent.delivered;
        self.log.update(self.number, |seen| seen.delivered = delivered);
    }

    pub(super) fn end(&mut self, end: End) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        if let Some(mut usage) = self.spent.usage.take() {
            if end != End::Complete {
                usage.output = self.spent.delivered.min(usage.output);
            }
            let mut inner = self.log.inner.lock();
            let full = inner.totals.len() >= KEEP_MODELS && !inner.totals.contains_key(&self.spent.model);
            let model = if full { "other" } else { self.spent.model.as_str() };
            add(inner.totals.entry(model.to_owned()).or_default(), &usage);
        }
        self.log.update(self.number, |seen| seen.end = end);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(End::ClientLeft);
    }
}

fn add(totals: &mut Totals, usage: &Usage) {
    let Usage {
        uncached_input,
        cache_read,
        cache_write,
        cache_write_long,
        audio_input,
        output,
        audio_output,
        reasoning,
        web_searches,
        service_tier: _,
    } = usage;
    totals.requests += 1;
    let sum = &mut totals.usage;
    sum.uncached_input += uncached_input;
    sum.cache_read += cache_read;
    sum.cache_write += cache_write;
    sum.cache_write_long += cache_write_long;
    sum.audio_input += audio_input;
    sum.output += output;
    sum.audio_output += audio_output;
    sum.reasoning += reasoning;
    sum.web_searches += web_searches;
}
