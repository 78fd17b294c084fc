//! Stands where layer 7 belongs: a provider's failure that was not cured by trying again goes on to the client as it is.

use super::call::{Call, Rejected, Reply};
use futures_util::FutureExt;
use futures_util::future::Map;
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// Passes failures on for whatever it wraps.
#[derive(Clone, Copy, Debug)]
pub struct PassOnLayer;

impl<S> Layer<S> for PassOnLayer {
    type Service = PassOn<S>;
    fn layer(&self, inner: S) -> PassOn<S> {
        PassOn { inner }
    }
}

/// See [`PassOnLayer`].
#[derive(Clone, Debug)]
pub struct PassOn<S> {
    inner: S,
}

type Outcome = Result<Reply, Box<Rejected>>;

impl<S> Service<Call> for PassOn<S>
where
    S: Service<Call, Response = Reply, Error = Box<Rejected>>,
{
    type Response = Reply;
    type Error = Box<Rejected>;
    type Future = Map<S::Future, fn(Outcome) -> Outcome>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        self.inner.call(call).map(|outcome| outcome.or_else(Rejected::pass_on))
    }
}
