//! The reply body: passes the provider's bytes on as they come, meters a copy, and reports its end exactly once.
//!
//! Nothing is read ahead: a slow client slows the provider, not our memory. A body that is dropped early either cancels the provider
//! (streams) or is read to its end by a task of its own (everything else, since nothing but the end tells what it cost).

use crate::wire::Api;
use crate::wire::error::{ErrorBody, render_event};
use crate::wire::meter::{Meter, Summary};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tokio_util::task::TaskTracker;

/// How long a connection may stay open after its stream has said that it is over: the provider's, and the client's after an error event.
const LINGER: Duration = Duration::from_millis(500);

/// How a reply ended, with all that it said.
#[derive(Debug)]
pub struct End {
    /// What the meter saw.
    pub summary: Summary,
    /// What broke it off, if anything did.
    pub broke: Option<Broke>,
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
}

/// How the body of one reply is treated.
#[derive(Debug)]
pub struct Treatment {
    /// The route, whose form an error event takes.
    pub api: Api,
    /// Whether the reply is a stream of events.
    pub events: bool,
    /// Whether the meter leaves something out, so that the length is not the provider's.
    pub alters: bool,
    /// How long the provider may fall silent.
    pub idle: Duration,
    /// Who reads on when the client leaves; `None` = nobody, the provider is cancelled.
    pub drain: Option<TaskTracker>,
    /// Our id of the request, for error events.
    pub request_id: String,
}

/// A provider's reply body on its way to the client.
pub struct MeteredBody<F: FnOnce(End) + Send + 'static>(Option<Box<Inner<F>>>);

struct Inner<F: FnOnce(End)> {
    upstream: reqwest::Body,
    meter: Meter,
    treatment: Treatment,
    out: VecDeque<Bytes>,
    idle: Pin<Box<Sleep>>,
    /// Whether `idle` runs: only while we wait for the provider, not while a slow client lets us wait.
    waiting: bool,
    phase: Phase,
    on_end: Option<F>,
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

impl<F: FnOnce(End) + Send + 'static> MeteredBody<F> {
    /// Wraps a reply body. `on_end` is called exactly once: at the end, at a failure, or when the client leaves.
    pub fn new(upstream: reqwest::Body, meter: Meter, treatment: Treatment, on_end: F) -> Self {
        let idle = Box::pin(tokio::time::sleep(treatment.idle));
        let inner = Inner {
            upstream,
            meter,
            treatment,
            out: VecDeque::new(),
            idle,
            waiting: false,
            phase: Phase::Flowing,
            on_end: Some(on_end),
        };
        Self(Some(Box::new(inner)))
    }
}

impl<F: FnOnce(End) + Send + 'static> Body for MeteredBody<F> {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match &mut self.0 {
            Some(inner) => inner.poll(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|inner| inner.phase == Phase::Ended && inner.out.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Some(inner) if !inner.treatment.alters && inner.phase == Phase::Flowing && inner.out.is_empty() => {
                inner.upstream.size_hint()
            }
            _ => SizeHint::default(),
        }
    }
}

impl<F: FnOnce(End)> Inner<F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        loop {
            if let Some(bytes) = self.out.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match self.phase {
                Phase::Ended => return Poll::Ready(None),
                Phase::Broken => {
                    // A server throws away what it has not yet written when the body fails, so the error event gets a moment to leave.
                    if self.treatment.events {
                        ready!(self.idle.as_mut().poll(cx));
                    }
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
        match Pin::new(&mut self.upstream).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.waiting = false;
                if let (Ok(data), Phase::Flowing) = (frame.into_data(), self.phase) {
                    self.meter.feed(data, &mut self.out);
                    if self.meter.is_over() {
                        self.phase = Phase::Over;
                        self.end(None);
                    } else if self.upstream.is_end_stream() {
                        // A server that knows the length of its answer does not ask again after the last byte.
                        self.finish();
                    }
                }
            }
            Poll::Ready(None) => self.finish(),
            Poll::Ready(Some(Err(_))) => self.fail(Broke::Upstream),
            Poll::Pending => {
                if !self.waiting {
                    let patience = if self.phase == Phase::Over { LINGER } else { self.treatment.idle };
                    self.idle.as_mut().reset(Instant::now() + patience);
                    self.waiting = true;
                }
                ready!(self.idle.as_mut().poll(cx));
                self.fail(Broke::Silence);
            }
        }
        Poll::Ready(())
    }

    fn finish(&mut self) {
        self.meter.finish(&mut self.out);
        self.end(None);
        self.phase = Phase::Ended;
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
            self.idle.as_mut().reset(Instant::now() + LINGER);
        }
        self.phase = Phase::Broken;
    }

    fn end(&mut self, broke: Option<Broke>) {
        if let Some(on_end) = self.on_end.take() {
            on_end(End { summary: self.meter.summary(), broke });
        }
    }
}

impl<F: FnOnce(End) + Send + 'static> Drop for MeteredBody<F> {
    fn drop(&mut self) {
        let Some(mut inner) = self.0.take() else { return };
        if inner.on_end.is_none() {
            return;
        }
        match inner.treatment.drain.take() {
            Some(tasks) => {
                // Its own end reports what it cost.
                tasks.spawn(async move { while let Some(Ok(_)) = std::future::poll_fn(|cx| inner.poll(cx)).await {} });
            }
            None => {
                inner.meter.cut(&mut inner.out);
                inner.end(Some(Broke::ClientGone));
            }
        }
    }
}

impl<F: FnOnce(End) + Send + 'static> std::fmt::Debug for MeteredBody<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MeteredBody").finish_non_exhaustive()
    }
}

/// The API's own error event, after a blank line that ends whatever event was cut.
fn error_event(treatment: &Treatment, broke: Broke) -> Bytes {
    let message = match broke {
        Broke::Silence => "The provider stopped sending; the answer is incomplete.",
        Broke::Upstream | Broke::ClientGone => "The provider's connection broke; the answer is incomplete.",
    };
    let body = ErrorBody {
        status: 502,
        kind: "server_error",
        code: Some("upstream_broke"),
        param: None,
        message,
        request_id: &treatment.request_id,
        extra: serde_json::Map::new(),
    };
    let mut bytes = b"\n\n".to_vec();
    bytes.extend_from_slice(&render_event(treatment.api, &body, 0));
    bytes.into()
}
