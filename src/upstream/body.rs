//! The reply body: passes the provider's bytes on as they come, meters a copy, and reports its end exactly once.
//!
//! Nothing is read ahead beyond the first content: a slow client slows the provider, not our memory. A body that is dropped early either
//! cancels the provider (streams) or is read to its end by a task of its own (everything else, since nothing but the end tells what it
//! cost). Which of the two a reply is shows in the reply, not in the request.
//!
//! A body begins *held back* ([`MeteredBody::hold`]): until [`MeteredBody::commit`] says that there is something worth delivering, it can
//! still be given up for another attempt, and then its owner gets back what it would have settled.

use super::Orphans;
use crate::domain::RequestId;
use crate::wire::Api;
use crate::wire::error::{ErrorBody, render_event};
use crate::wire::meter::{Meter, Summary};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

mod commit;

pub use commit::{Bounds, Uncommitted};

/// How long the provider may keep its connection open after the stream has said that it is over.
const LINGER: Duration = Duration::from_millis(500);

/// How long what came before a break has to leave: a server throws away what it has not written when a body breaks.
const BEFORE_BREAK: Duration = Duration::from_millis(100);

/// How a reply ended, with all that it said.
#[derive(Debug, Clone)]
pub struct End {
    /// What the meter saw.
    pub summary: Summary,
    /// What broke it off, if anything did.
    pub broke: Option<Broke>,
    /// The client had left before the end; what was still read was read for the books.
    pub client_left: bool,
}

/// What broke a reply off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broke {
    /// The client left.
    ClientGone,
    /// The provider's connection broke.
    Upstream,
    /// The provider fell silent.
    Silence,
    /// The provider ended its stream in good order, but not with a stream's end.
    Unfinished,
}

/// How the body of one reply is treated.
#[derive(Debug)]
pub struct Treatment {
    /// The route, whose form an error event takes.
    pub api: Api,
    /// Whether the reply calls itself a stream of events.
    pub events: bool,
    /// Whether a stream has to say that it is over: one that just stops is half an answer.
    pub must_end: bool,
    /// Whether the meter leaves something out, so that the length is not the provider's.
    pub alters: bool,
    /// How long the provider may fall silent.
    pub idle: Duration,
    /// Who reads on when the client leaves.
    pub orphans: Orphans,
    /// Whose reply it is, for the bound on how many of one customer's are read on.
    pub customer: Arc<str>,
    /// Whether streams are read on, too; else the provider is cancelled.
    pub drains_streams: bool,
    /// Our id of the request, for error events.
    pub request_id: RequestId,
}

/// Who is told how a reply ended; exactly once, or dropped unasked.
pub trait OnEnd: Send + 'static {
    /// A piece of a stream has passed; this is on the path of every piece.
    fn passing(&self, _: &Meter) {}

    /// The reply has ended.
    fn ended(self, end: End);
}

impl<F: FnOnce(End) + Send + 'static> OnEnd for F {
    fn ended(self, end: End) {
        self(end);
    }
}

/// A provider's reply body on its way to the client.
pub struct MeteredBody<O: OnEnd>(Option<Box<Inner<O>>>);

struct Inner<O> {
    upstream: reqwest::Body,
    /// Bytes still to come, where the provider told the length.
    left: Option<u64>,
    meter: Meter,
    treatment: Treatment,
    out: VecDeque<Bytes>,
    idle: Pin<Box<Sleep>>,
    /// Since when `idle` runs: only while we wait for the provider, not while a slow client lets us wait.
    waiting: Option<Instant>,
    phase: Phase,
    /// Until when the reply is held back at most; `None` once it is committed.
    held_until: Option<Instant>,
    /// Bytes of `out` while it is held back.
    held: usize,
    /// How it ended, while it was held back.
    ended: Option<End>,
    /// The client has left, and a task reads on.
    client_left: bool,
    on_end: Option<O>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Flowing,
    /// The stream has said that it is over; only the socket is still open.
    Over,
    Ended,
    /// Ended badly; the client has yet to see the break.
    Broken,
}

impl<O: OnEnd> MeteredBody<O> {
    /// Wraps a reply body. `on_end` is told exactly once: at the end, at a failure, or when the client leaves.
    pub fn new(upstream: reqwest::Body, meter: Meter, treatment: Treatment, on_end: O) -> Self {
        Self::hold(upstream, meter, treatment, on_end).released()
    }
}

impl<O: OnEnd> Body for MeteredBody<O> {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let Some(inner) = &mut self.0 else { return Poll::Ready(None) };
        match std::panic::catch_unwind(AssertUnwindSafe(|| inner.poll(cx))) {
            Ok(poll) => poll,
            Err(panic) => {
                // Whatever panicked is not asked again when this is dropped; `on_end` is, by its own drop.
                self.0 = None;
                std::panic::resume_unwind(panic)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|inner| inner.phase == Phase::Ended && inner.out.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Some(inner) => inner.left_in_all().map_or_else(SizeHint::default, SizeHint::with_exact),
            None => SizeHint::with_exact(0),
        }
    }
}

impl<O: OnEnd> Inner<O> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        loop {
            if let Some(bytes) = self.out.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match self.phase {
                Phase::Ended => return Poll::Ready(None),
                Phase::Broken => {
                    ready!(self.idle.as_mut().poll(cx));
                    self.phase = Phase::Ended;
                    // An error, not an end: the connection is cut, so nobody takes this for a whole answer.
                    return Poll::Ready(Some(Err(std::io::Error::other("the provider broke off its reply"))));
                }
                Phase::Flowing | Phase::Over => ready!(self.advance(cx)),
            }
        }
    }

    /// One step: something of the provider's, or its silence.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.phase == Phase::Over && self.idle.as_mut().poll(cx).is_ready() {
            self.phase = Phase::Ended;
            return Poll::Ready(());
        }
        match Pin::new(&mut self.upstream).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    self.take(data);
                }
            }
            Poll::Ready(None) => self.finish(),
            Poll::Ready(Some(Err(_))) => self.fail(Broke::Upstream),
            Poll::Pending if self.phase == Phase::Over => return Poll::Pending,
            Poll::Pending => {
                if self.waiting.is_none() {
                    let now = Instant::now();
                    self.waiting = Some(now);
                    let silent = now + self.treatment.idle;
                    self.idle.as_mut().reset(self.held_until.map_or(silent, |held| held.min(silent)));
                }
                ready!(self.idle.as_mut().poll(cx));
                if !self.is_due() {
                    self.fail(Broke::Silence);
                }
            }
        }
        Poll::Ready(())
    }

    fn take(&mut self, data: Bytes) {
        self.waiting = None;
        self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
        if self.phase == Phase::Over {
            self.out.push_back(data); // nothing that counts, but the provider's all the same: the rest of a line end
            return;
        }
        self.meter.feed(data, &mut self.out);
        if let Some(on_end) = self.on_end.as_ref().filter(|_| self.meter.is_stream()) {
            on_end.passing(&self.meter);
        }
        if self.meter.is_over() {
            self.phase = Phase::Over;
            self.idle.as_mut().reset(Instant::now() + LINGER);
            self.end(None);
        } else if self.left == Some(0) || self.upstream.is_end_stream() {
            // Whoever sends a reply of known length does not ask again after the last byte.
            self.finish();
        }
    }

    fn finish(&mut self) {
        if self.phase == Phase::Flowing {
            self.meter.finish(&mut self.out);
            if self.treatment.must_end && self.streams() && !self.says_its_end() {
                return self.fail(Broke::Unfinished);
            }
        }
        self.end(None);
        self.phase = Phase::Ended;
    }

    /// Whether the reply is a stream of events, as far as one can tell by now.
    fn streams(&self) -> bool {
        self.meter.is_stream() || (self.treatment.events && !self.meter.has_content())
    }

    /// A terminal event, an error, or the usage, which comes last: a stream that has said one of these has said it all.
    fn says_its_end(&self) -> bool {
        let summary = self.meter.summary();
        summary.complete || summary.output_known || summary.error.is_some()
    }

    fn fail(&mut self, broke: Broke) {
        if self.phase == Phase::Over {
            self.phase = Phase::Ended;
            return;
        }
        self.meter.cut(&mut self.out);
        self.end(Some(broke));
        if self.treatment.events {
            self.out.push_back(error_event(&self.treatment, broke));
        }
        self.idle.as_mut().reset(Instant::now() + BEFORE_BREAK);
        self.phase = Phase::Broken;
    }

    fn end(&mut self, broke: Option<Broke>) {
        if self.on_end.is_none() || self.ended.is_some() {
            return;
        }
        let end = End { summary: self.meter.summary(), broke, client_left: self.client_left };
        if self.held_until.is_some() {
            self.ended = Some(end);
        } else if let Some(on_end) = self.on_end.take() {
            on_end.ended(end);
        }
    }
}

impl<O: OnEnd> Drop for MeteredBody<O> {
    fn drop(&mut self) {
        let Some(mut inner) = self.0.take() else { return };
        inner.release();
        if inner.on_end.is_none() {
            return;
        }
        let reads_on = !inner.streams() || inner.treatment.drains_streams;
        if reads_on && !std::mem::replace(&mut inner.client_left, true) {
            let (orphans, customer) = (inner.treatment.orphans.clone(), inner.treatment.customer.clone());
            let mut rest = Self(Some(inner));
            // Its own end reports what it cost; dropped before that, or not adopted, it reports what is known.
            orphans.adopt(&customer, |place| async move {
                let _place = place;
                while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut rest).poll_frame(cx)).await {}
            });
        } else {
            inner.client_left = true;
            inner.meter.cut(&mut inner.out);
            inner.end(Some(Broke::ClientGone));
        }
    }
}

impl<O: OnEnd> std::fmt::Debug for MeteredBody<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MeteredBody").finish_non_exhaustive()
    }
}

/// The API's own error event, after a blank line that ends whatever event was cut.
fn error_event(treatment: &Treatment, broke: Broke) -> Bytes {
    let message = match broke {
        Broke::Silence => "The provider stopped sending; the answer is incomplete.",
        Broke::Unfinished => "The provider ended its stream early; the answer is incomplete.",
        Broke::Upstream | Broke::ClientGone => "The provider's connection broke; the answer is incomplete.",
    };
    let body = ErrorBody {
        status: 502,
        kind: "server_error",
        code: Some("upstream_broke"),
        param: None,
        message,
        request_id: &treatment.request_id.to_string(),
        extra: serde_json::Map::new(),
    };
    let mut bytes = b"\n\n".to_vec();
    bytes.extend_from_slice(&render_event(treatment.api, &body, 0));
    bytes.into()
}

#[cfg(test)]
mod tests;
