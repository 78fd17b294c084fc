//! Before the commit: a reply that is held back until it has something to deliver, and may still be given up.
//!
//! What commits an answer is its first content (text, reasoning, a tool call), a comment, or a bound in time or bytes. Of a reply that is
//! no stream only its end tells whether it is an answer, so it is held back to its end, as far as the bounds allow.

use super::{Broke, End, Inner, MeteredBody, OnEnd, Phase, Treatment};
use crate::wire::meter::Meter;
use bytes::Bytes;
use http_body::Body;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;

/// How long, and how much, a reply is held back at most before it is delivered whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long.
    pub time: Duration,
    /// Bytes.
    pub bytes: usize,
}

impl Bounds {
    /// Long enough for a provider that fails at once to say so, short enough that nobody takes the silence for a hang.
    pub const SHIPPED: Self = Self { time: Duration::from_secs(1), bytes: 16 * 1024 };
}

/// A reply that failed before anything of it was worth delivering.
pub struct Uncommitted<O: OnEnd> {
    /// The reply, still held back. Dropped, the provider's call is cancelled; delivered after all by [`MeteredBody::resume`].
    pub body: MeteredBody<O>,
    /// How it failed.
    pub end: End,
    /// Who would have been told.
    pub owner: O,
}

impl<O: OnEnd> MeteredBody<O> {
    /// Wraps a reply body that is held back: nobody is told of its end until it is committed, released or resumed.
    pub fn hold(upstream: reqwest::Body, meter: Meter, treatment: Treatment, on_end: O) -> Self {
        let now = Instant::now();
        let mut inner = Inner {
            left: upstream.size_hint().exact(),
            upstream,
            meter,
            idle: Box::pin(tokio::time::sleep_until(now + treatment.idle)),
            treatment,
            out: VecDeque::new(),
            waiting: None,
            phase: Phase::Flowing,
            held_until: Some(now),
            held: 0,
            ended: None,
            client_left: false,
            on_end: Some(on_end),
        };
        if inner.upstream.is_end_stream() || inner.left == Some(0) {
            inner.finish(); // nobody asks for a body that is empty
        }
        Self(Some(Box::new(inner)))
    }

    /// Reads on until the reply is worth delivering.
    ///
    /// # Errors
    /// [`Uncommitted`] when it fails before that: broken off, silent for too long, or an error where an answer should be.
    pub async fn commit(mut self, bounds: Bounds) -> Result<Self, Uncommitted<O>> {
        if let Some(inner) = &mut self.0 {
            inner.held_until = Some(Instant::now() + bounds.time);
            poll_fn(|cx| inner.poll_commit(cx, bounds.bytes)).await;
        }
        match self.withdraw() {
            Ok(failed) => Err(failed),
            Err(body) => Ok(body.released()),
        }
    }

    /// Takes the reply back if it has failed and delivered nothing, else gives it as it is.
    fn withdraw(mut self) -> Result<Uncommitted<O>, Self> {
        let Some(inner) = &mut self.0 else { return Err(self) };
        // Nearly always: content, and no failure. Nothing to read up then.
        if inner.has_delivered() || !(inner.meter.has_failed() || inner.ended.as_ref().is_some_and(End::is_failure)) {
            return Err(self);
        }
        let end = match &inner.ended {
            Some(end) => end.clone(),
            None => End { summary: inner.meter.summary(), broke: None, client_left: false },
        };
        match inner.on_end.take() {
            Some(owner) => Ok(Uncommitted { body: self, end, owner }),
            None => Err(self),
        }
    }

    /// Gives up a reply that is held back, whatever came of it so far: its owner, and the rest to be resumed or dropped.
    #[must_use]
    pub fn give_up(mut self) -> (Self, Option<O>) {
        let owner = self.0.as_mut().and_then(|inner| inner.on_end.take());
        (self, owner)
    }

    /// Delivers a reply after all that was given up: its owner is told of its end, now if it has ended.
    pub fn resume(&mut self, owner: O) {
        if let Some(inner) = &mut self.0 {
            inner.on_end = Some(owner);
            inner.release();
        }
    }

    /// The reply is delivered: whatever happens to it from now on is final.
    #[must_use]
    pub fn released(mut self) -> Self {
        if let Some(inner) = &mut self.0 {
            inner.release();
        }
        self
    }

    /// Does something with whoever will be told of the end, if that is still to come.
    pub fn owner(&mut self, act: impl FnOnce(&mut O)) {
        if let Some(owner) = self.0.as_mut().and_then(|inner| inner.on_end.as_mut()) {
            act(owner);
        }
    }
}

impl End {
    /// Whether the provider failed: it broke off, or said that it had.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        matches!(self.broke, Some(Broke::Upstream | Broke::Silence | Broke::Unfinished)) || self.summary.error.is_some()
    }
}

impl<O: OnEnd> Inner<O> {
    pub(super) fn release(&mut self) {
        self.held_until = None;
        if let (Some(waiting), Phase::Flowing) = (self.waiting, self.phase) {
            self.idle.as_mut().reset(waiting + self.treatment.idle);
        }
        if let Some(end) = self.ended.take()
            && let Some(on_end) = self.on_end.take()
        {
            on_end.ended(end);
        }
    }

    /// Ready once it is known what becomes of the reply.
    fn poll_commit(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<()> {
        // An error event ends no stream by itself; nothing worth waiting for comes after it.
        while self.ended.is_none() && !self.has_delivered() && !self.meter.has_failed() && self.held <= most && !self.is_due() {
            let before = self.out.len();
            ready!(self.advance(cx));
            self.held += self.out.range(before..).map(Bytes::len).sum::<usize>();
        }
        Poll::Ready(())
    }

    /// Whether something was read that nobody may take back from the client. Of a reply that is no stream, nothing.
    fn has_delivered(&self) -> bool {
        self.meter.is_stream() && self.meter.has_content()
    }

    /// Whether the time is up for which it is held back.
    pub(super) fn is_due(&self) -> bool {
        self.held_until.is_some_and(|held| held <= Instant::now())
    }

    /// The bytes still to be delivered, where they are known.
    pub(super) fn left_in_all(&self) -> Option<u64> {
        // An error event may be added to a stream, so its length is never the provider's; nor is that of one that was altered.
        if self.treatment.alters || self.treatment.events {
            return None;
        }
        let held = self.out.iter().map(|piece| piece.len() as u64).sum::<u64>();
        match self.phase {
            Phase::Flowing => self.left.map(|left| held.saturating_add(left)),
            Phase::Ended => Some(held),
            Phase::Over | Phase::Broken => None,
        }
    }
}
