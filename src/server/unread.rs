//! Request bodies that nobody read.
//!
//! A refusal often needs no body. But what is still on its way then leaves hyper no choice but to close the connection, and a socket
//! that is closed with bytes unread is reset: the client, still sending, never sees the refusal. The SDKs take that for a fault of the
//! network and try again what they were to leave alone. So the rest of a body is thrown away before the answer goes out, within bounds.

use bytes::Bytes;
use http::Request;
use http::header::EXPECT;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long the rest of a body may take. Who sends slower than that risks a reset.
const PATIENCE: Duration = Duration::from_secs(1);

/// A body that comes back when it is dropped before its end.
#[derive(Debug)]
pub(super) struct Lent {
    body: Option<Incoming>,
    home: Option<oneshot::Sender<Incoming>>,
}

/// What becomes of a body that was lent.
#[derive(Debug)]
pub(super) struct Rest {
    body: oneshot::Receiver<Incoming>,
    /// The client sends the body only when it is asked to, so there is nothing to throw away, and asking would be wrong.
    waits_for_leave: bool,
}

/// Lends the body of a request to whoever answers it.
pub(super) fn lend(request: Request<Incoming>) -> (Request<Lent>, Rest) {
    let (home, body) = oneshot::channel();
    let rest = Rest { body, waits_for_leave: request.headers().contains_key(EXPECT) };
    (request.map(|body| Lent { body: Some(body), home: Some(home) }), rest)
}

impl Rest {
    /// Reads and forgets what was left, at most this many bytes. Says whether the connection can be used again.
    pub(super) async fn discard(mut self, most: usize) -> bool {
        let Ok(mut body) = self.body.try_recv() else { return true };
        if self.waits_for_leave || body.size_hint().lower() > most as u64 {
            return false;
        }
        let discard = async {
            let mut left = most;
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                let length = frame.data_ref().map_or(0, Bytes::len);
                match left.checked_sub(length) {
                    Some(less) => left = less,
                    None => return false,
                }
            }
            true
        };
        timeout(PATIENCE, discard).await.unwrap_or(false)
    }
}

impl Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(body), Some(home)) = (self.body.take(), self.home.take())
            && !body.is_end_stream()
        {
            let _ = home.send(body); // whoever lent it may be gone with its connection
        }
    }
}
