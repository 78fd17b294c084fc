//! A reply body that plays steps and tells the log how far it came.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{
    log::{End, Ticket},
    script::Step,
    socket::Line,
};

/// How long hyper gets to write out what came before a break.
const FLUSH: Duration = Duration::from_millis(5);

pub(super) struct StepBody {
    steps: VecDeque<Step>,
    /// The length promised in `content-length`, where the reply is a whole one.
    promised: Option<u64>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Whether hyper had its chance to write out what came before a break.
    flushed: bool,
    ticket: Ticket,
    line: Line,
}

impl StepBody {
    pub(super) fn new(steps: Vec<Step>, promised: Option<u64>, mut ticket: Ticket, line: Line) -> Self {
        if steps.is_empty() {
            ticket.end(End::Complete);
        }
        Self { steps: steps.into(), promised, waiting: None, flushed: false, ticket, line }
    }
}

impl Body for StepBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(cx));
                self.waiting = None;
            }
            if matches!(self.steps.front(), Some(Step::Close | Step::Reset)) && !self.flushed {
                // hyper writes its buffer out only while a body has nothing to say; in HTTP/2 another task does it, and a
                // reset overtakes what it has not written.
                self.flushed = true;
                self.waiting = Some(Box::pin(tokio::time::sleep(FLUSH)));
                continue;
            }
            match self.steps.pop_front() {
                None => {
                    self.ticket.end(End::Complete);
                    return Poll::Ready(None);
                }
                Some(Step::Send { bytes, tokens }) => {
                    if tokens > 0 {
                        self.ticket.delivered(tokens);
                    }
                    if self.steps.is_empty() {
                        // A reply with a known length is not polled again once the last byte is out.
                        self.ticket.end(End::Complete);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Step::Wait(time)) => self.waiting = Some(Box::pin(tokio::time::sleep(time))),
                Some(Step::Until(gate)) => self.waiting = Some(Box::pin(async move { gate.passed().await })),
                Some(Step::Silence) => self.waiting = Some(Box::pin(std::future::pending())),
                Some(Step::Close) => {
                    self.ticket.end(End::Broken);
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
                }
                Some(Step::Reset) => {
                    self.ticket.end(End::Broken);
                    self.line.reset();
                    self.waiting = Some(Box::pin(std::future::pending()));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty() && self.waiting.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.promised.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Plays a raw script onto the connection, then ends it.
pub(super) async fn play_raw(steps: Vec<Step>, line: &Line, ticket: &mut Ticket) {
    let mut end = End::Complete;
    for step in steps {
        match step {
            Step::Send { bytes, tokens } => {
                if line.write(&bytes).await.is_err() {
                    end = End::ClientLeft;
                    break;
                }
                if tokens > 0 {
                    ticket.delivered(tokens);
                }
            }
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Until(gate) => gate.passed().await,
            Step::Silence => std::future::pending().await,
            Step::Close => {
                end = End::Broken;
                break;
            }
            Step::Reset => {
                ticket.end(End::Broken);
                line.reset();
                return;
            }
        }
    }
    ticket.end(end);
    line.hang_up();
}
