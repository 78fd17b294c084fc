//! What every layer of the stack is, and every service that it wraps: something that serves the requests of one stage.
//!
//! tower's [`Layer`](tower::Layer) puts the stack together. Its `Service` would make every request clone all that lies below each layer, and
//! put the future of each on the heap, since such a future must live by itself. Here a request borrows the stack, of which it keeps one
//! share, and the futures of its layers are one.

use super::call::Reply;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Serves requests of one stage. It is always ready: waiting happens inside a request, where it is bounded and the client can leave.
pub trait Serve<R>: Send + Sync + 'static {
    /// What ends a request without a reply.
    type Error: Send + 'static;

    /// Serves one request. Dropping the future gives up what the request holds.
    fn serve(&self, request: R) -> impl Future<Output = Result<Reply, Self::Error>> + Send;
}

/// Layers put together. Clones share them.
pub struct Shared<R, E>(Arc<dyn Whole<R, E>>);

impl<R: Send + 'static, E: Send + 'static> Shared<R, E> {
    /// Of these layers.
    #[must_use]
    pub fn new(layers: impl Serve<R, Error = E>) -> Self {
        Self(Arc::new(layers))
    }

    /// Serves one request.
    ///
    /// # Errors
    /// What ends the request without a reply.
    pub async fn serve(&self, request: R) -> Result<Reply, E> {
        self.0.clone().whole(request).await
    }
}

impl<R, E> Clone for Shared<R, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R, E> std::fmt::Debug for Shared<R, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// [`Serve`], as an object.
trait Whole<R, E>: Send + Sync {
    fn whole(self: Arc<Self>, request: R) -> BoxFuture<'static, Result<Reply, E>>;
}

impl<R: Send + 'static, E, S: Serve<R, Error = E>> Whole<R, E> for S {
    fn whole(self: Arc<Self>, request: R) -> BoxFuture<'static, Result<Reply, E>> {
        Box::pin(async move { self.serve(request).await })
    }
}
