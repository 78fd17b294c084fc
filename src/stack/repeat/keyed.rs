//! One request with an idempotency key: refused, replayed, or run and remembered.
//!
//! The marker is taken before anything is claimed, so of any number of equal requests on any number of gateways one runs. A task of its
//! own renews it and ends it: with the reply where that is final, without a trace where the same request may still succeed. A client that
//! leaves after the provider was asked leaves the request running, so that it finds the reply when it asks again; one that leaves while
//! it still waits in a line gives up its place, and the key is free.

use super::body::Recording;
use crate::repeats::kept::{Entry, Kept, What};
use crate::repeats::marker::{self, Marker, Taken};
use crate::repeats::outcome::is_final;
use crate::reply::{self, Rejection};
use crate::stack::Gateway;
use crate::stack::call::{Rejected, Reply};
use crate::store::StoreError;
use crate::telemetry::Record;
use crate::telemetry::metrics::RepeatLabels;
use crate::upstream::Tasks;
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, StatusCode};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long the end of an answer waits for the store to have it. After that a repeat may be told for a moment that it still runs.
const STORING: Duration = Duration::from_secs(1);

/// A request with an idempotency key.
pub struct Keyed {
    /// Where its reply is kept.
    pub place: String,
    /// Which request it is.
    pub fingerprint: String,
    /// Its record.
    pub record: Arc<Record>,
    /// How long its reply is kept.
    pub keep: Duration,
    /// The longest reply that is kept.
    pub max_reply: usize,
    /// Whether it goes on without its client in any case.
    pub goes_on: bool,
}

/// The last word on a key: what is kept in its place, and for how long; `None` = nothing.
type Last = Option<(Bytes, Duration)>;

impl Keyed {
    /// Runs `run` unless it ran before, or runs now.
    pub async fn run(
        self,
        run: BoxFuture<'static, Result<Reply, Box<Rejected>>>,
        gateway: Arc<Gateway>,
    ) -> Result<Reply, Box<Rejected>> {
        let count = |outcome| {
            self.record.note(|facts| facts.repeat = Some(outcome));
            gateway.metrics.repeats.get_or_create(&RepeatLabels { outcome }).inc();
        };
        let value = Entry { fingerprint: self.fingerprint.clone(), what: What::Running }.encode();
        let marker = match take(&gateway, self.place.clone(), value).await {
            Ok(Taken::Ours(marker)) => marker,
            Ok(Taken::Found(found)) => {
                let (outcome, answer) = self.again(Entry::decode(&found.value));
                count(outcome);
                return answer.map_err(Into::into);
            }
            Err(error) => {
                tracing::warn!(%error, "the store did not say whether a request with a key ran before");
                count("unavailable");
                return Err(Rejection::LimitsUnavailable.into());
            }
        };
        count("first");
        let promise = Promise::make(marker, &self, &gateway.tasks);
        let (record, tasks, goes_on) = (self.record.clone(), gateway.tasks.clone(), self.goes_on);
        let finishing = Box::pin(finish(run, promise, self.record, gateway.tasks.clone()));
        Outlive { future: Some(finishing), record, tasks, goes_on }.await
    }

    /// What is answered to a key that was seen before.
    fn again(&self, found: Option<Entry>) -> (&'static str, Result<Reply, Rejection>) {
        let Some(Entry { fingerprint, what }) = found else {
            // Written by another version of this program; it will know, or the time of the entry ends.
            return ("unavailable", Err(Rejection::LimitsUnavailable));
        };
        if fingerprint != self.fingerprint {
            return ("reused", Err(Rejection::IdempotencyKeyReused));
        }
        match what {
            What::Running => ("in_progress", Err(Rejection::IdempotencyInProgress)),
            What::TooLong(max) => ("not_kept", Err(Rejection::ReplyNotKept { max })),
            What::Replied(Kept { status, headers, made_by, body }) => {
                ("replayed", Ok(reply::replay(status, headers, Body::from(body), HeaderValue::try_from(made_by).ok())))
            }
        }
    }
}

/// Takes the marker. A client that leaves while the store is asked does not leave a marker behind: a task waits for the answer.
async fn take(gateway: &Gateway, place: String, value: Bytes) -> Result<Taken, StoreError> {
    let (tell, told) = oneshot::channel();
    let documents = gateway.documents.clone();
    gateway.tasks.spawn(async move {
        if let Err(Ok(Taken::Ours(marker))) = tell.send(marker::take(&documents, place, value).await) {
            marker.end(None).await;
        }
    });
    told.await.unwrap_or_else(|_| Err(StoreError::Failed("the gateway is stopping".to_owned())))
}

/// Waits for the answer and sees to it that it is remembered, or not.
async fn finish(
    run: BoxFuture<'static, Result<Reply, Box<Rejected>>>,
    promise: Promise,
    record: Arc<Record>,
    tasks: Tasks,
) -> Result<Reply, Box<Rejected>> {
    match run.await {
        Ok(reply) if is_final(reply.status(), reply.headers()) => {
            let (head, body) = reply.into_parts();
            let recording = Recording::new(body, (head.status, &head.headers), promise, record, tasks);
            Ok(Reply::from_parts(head, Body::new(recording)))
        }
        answer => {
            // Told before the client is, so that its next try finds the key free.
            promise.forget().await;
            answer
        }
    }
}

/// The duty to end a marker. Dropped, it forgets the key.
pub struct Promise {
    fingerprint: String,
    made_by: String,
    keep: Duration,
    /// The longest reply that is kept.
    pub max_reply: usize,
    tell: oneshot::Sender<Last>,
    ended: oneshot::Receiver<()>,
}

impl Promise {
    fn make(mut marker: Marker, keyed: &Keyed, tasks: &Tasks) -> Self {
        let (tell, mut told) = oneshot::channel::<Last>();
        let (end, ended) = oneshot::channel();
        tasks.spawn(async move {
            let last = tokio::select! {
                biased;
                last = &mut told => last,
                // The store was away for longer than the lease. What the request comes to is kept if nobody took the key since.
                () = marker.until_lost() => told.await,
            };
            marker.end(last.unwrap_or_default()).await;
            let _ = end.send(());
        });
        Self {
            fingerprint: keyed.fingerprint.clone(),
            made_by: keyed.record.id.to_string(),
            keep: keyed.keep,
            max_reply: keyed.max_reply,
            tell,
            ended,
        }
    }

    /// The key is free again, once this is through.
    async fn forget(self) {
        drop(self.tell);
        let _ = timeout(STORING, self.ended).await;
    }

    /// The reply was too long.
    pub fn too_long(self) -> impl Future<Output = ()> + Send + 'static {
        let what = What::TooLong(self.max_reply as u64);
        self.keep(what)
    }

    /// This is the reply.
    pub fn replied(self, status: StatusCode, headers: HeaderMap, body: Bytes) -> impl Future<Output = ()> + Send + 'static {
        let made_by = self.made_by.clone();
        self.keep(What::Replied(Kept { status, headers, made_by, body }))
    }

    /// Hands it to the task at once; the future says when the store has it, or that it takes too long to wait for.
    fn keep(self, what: What) -> impl Future<Output = ()> + Send + 'static {
        let entry = Entry { fingerprint: self.fingerprint, what };
        // Without a task the process is ending, and the marker ends with its lease.
        let _ = self.tell.send(Some((entry.encode(), self.keep)));
        let ended = self.ended;
        async move { drop(timeout(STORING, ended).await) }
    }
}

/// A request that goes on without its client once the provider was asked.
struct Outlive {
    future: Option<BoxFuture<'static, Result<Reply, Box<Rejected>>>>,
    record: Arc<Record>,
    tasks: Tasks,
    goes_on: bool,
}

impl Future for Outlive {
    type Output = Result<Reply, Box<Rejected>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Taken out while it is polled, so that one that panics is not taken over.
        let Some(mut future) = self.future.take() else { unreachable!("polled after it was finished") };
        let poll = future.as_mut().poll(cx);
        if poll.is_pending() {
            self.future = Some(future);
        }
        poll
    }
}

impl Drop for Outlive {
    fn drop(&mut self) {
        if let Some(future) = self.future.take()
            && (self.goes_on || self.record.read(|facts| facts.attempts > 0))
        {
            // Dropping the reply makes its body read itself to the end.
            self.tasks.spawn(async move { drop(future.await) });
        }
    }
}
