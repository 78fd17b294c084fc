//! The reply body of a request with a key: passes the bytes on as they come and keeps a copy, up to the longest that is kept.
//!
//! Its end waits for the store to have the copy, so whoever has the whole answer gets the same one again. Dropped early it reads on in a
//! task, with the slot and the reservation that its inner body holds, unless it is too long to be kept anyway.

use super::keyed::Promise;
use crate::reply::outlives;
use crate::telemetry::{Ending, Record};
use crate::upstream::Tasks;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use http_body::{Body as HttpBody, Frame};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// See the module.
pub struct Recording(Option<Box<Inner>>);

struct Inner {
    body: Body,
    status: StatusCode,
    headers: HeaderMap,
    copy: BytesMut,
    too_long: bool,
    /// Until the reply has ended.
    promise: Option<Promise>,
    /// Then, until the store has it.
    storing: Option<BoxFuture<'static, ()>>,
    record: Arc<Record>,
    tasks: Tasks,
    /// The client has left.
    alone: bool,
}

impl Recording {
    /// Records a body whose reply has this head.
    pub fn new(
        body: Body,
        (status, headers): (StatusCode, &HeaderMap),
        promise: Promise,
        record: Arc<Record>,
        tasks: Tasks,
    ) -> Self {
        let headers = headers.iter().filter(|(name, _)| outlives(name)).map(|(n, v)| (n.clone(), v.clone())).collect();
        let (promise, copy) = (Some(promise), BytesMut::new());
        Self(Some(Box::new(Inner {
            body,
            status,
            headers,
            copy,
            too_long: false,
            promise,
            storing: None,
            record,
            tasks,
            alone: false,
        })))
    }
}

impl Inner {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.promise.is_some() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.take(data);
                    }
                    return Poll::Ready(Some(Ok(frame)));
                }
                Some(Err(error)) => {
                    self.promise = None; // broken: the key is free
                    return Poll::Ready(Some(Err(error)));
                }
                None => self.end(),
            }
        }
        if let Some(storing) = &mut self.storing {
            ready!(storing.as_mut().poll(cx));
            self.storing = None;
        }
        Poll::Ready(None)
    }

    fn take(&mut self, data: &Bytes) {
        let max = self.promise.as_ref().map_or(0, |promise| promise.max_reply);
        if self.too_long || self.copy.len() + data.len() > max {
            self.too_long = true;
            self.copy = BytesMut::new();
        } else {
            self.copy.extend_from_slice(data);
        }
    }

    /// The reply has ended in good order. One that carries an error, or was cut by the provider, is not the answer to be given again.
    fn end(&mut self) {
        let Some(promise) = self.promise.take() else { return };
        self.body = Body::empty(); // gives back the slot; only the store is waited for
        let failed = self.record.read(|facts| facts.ending != Ending::Complete || facts.cause == Some("upstream_failed"));
        if failed {
            return;
        }
        self.storing = Some(if self.too_long {
            Box::pin(promise.too_long())
        } else {
            let body = std::mem::take(&mut self.copy).freeze();
            Box::pin(promise.replied(self.status, std::mem::take(&mut self.headers), body))
        });
    }
}

impl HttpBody for Recording {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.0 {
            Some(inner) => inner.poll(cx),
            None => Poll::Ready(None),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let Some(mut inner) = self.0.take() else { return };
        if inner.too_long
            && let Some(promise) = inner.promise.take()
        {
            // It went to a client and is charged, so the key stays used. The task that holds the marker sees to it.
            drop(promise.too_long());
        }
        if inner.promise.is_none() || std::mem::replace(&mut inner.alone, true) {
            return;
        }
        let tasks = inner.tasks.clone();
        let mut rest = Self(Some(inner));
        tasks.spawn(async move {
            while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut rest).poll_frame(cx)).await {
                if rest.0.as_ref().is_none_or(|inner| inner.too_long) {
                    break;
                }
            }
        });
    }
}
