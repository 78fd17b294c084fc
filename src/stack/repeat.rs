//! Layer 6: requests that are sent twice (`Idempotency-Key`), and requests that are answered later (`Prefer: respond-async`).
//!
//! Stands after `customer_rate` and `inspect` and before everything that claims or calls. So a repeat costs no message, no money and no
//! call; whoever was just seen empty is refused before it; and a body that is wrong is refused at once, also when the answer could come
//! later. Routes that cost nothing (models, `count_tokens`) have no keys.
//!
//! A request with a key is run without its client once the provider was asked (see [`mod@keyed`]): the key says that the client will come
//! back for the reply. While the store is away such requests are 503, since nobody can say whether they ran before.

mod body;
mod keyed;

use super::aside::over;
use super::call::{Call, Rejected, Reply};
use super::gateway::Gateway;
use super::jobs;
use super::serve::Serve;
use crate::repeats::key::{self, Meant, Owner};
use crate::reply::Rejection;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use keyed::Keyed;
use std::sync::Arc;
use tower::Layer;

/// Makes repeats safe for whatever it wraps.
#[derive(Clone, Debug)]
pub struct RepeatLayer(pub Arc<Gateway>);

impl<S> Layer<S> for RepeatLayer {
    type Service = Repeat<S>;
    fn layer(&self, inner: S) -> Repeat<S> {
        Repeat { inner, gateway: self.0.clone() }
    }
}

/// See [`RepeatLayer`].
#[derive(Clone, Debug)]
pub struct Repeat<S> {
    inner: S,
    gateway: Arc<Gateway>,
}

impl<S: Serve<Box<Call>, Error = Box<Rejected>> + Clone> Serve<Box<Call>> for Repeat<S> {
    type Error = Box<Rejected>;

    async fn serve(&self, call: Box<Call>) -> Result<Reply, Self::Error> {
        if call.who.api.is_free() {
            return self.inner.serve(call).await;
        }
        let later = jobs::asked_for(&call.who);
        let keyed = keyed(&call, later, &self.gateway).await?;
        if keyed.is_none() && !later {
            return self.inner.serve(call).await;
        }
        let gateway = self.gateway.clone();
        let run: BoxFuture<'static, _> = if later {
            Box::pin(jobs::take_in(call, gateway.clone()))
        } else {
            let inner = self.inner.clone(); // it may go on without its client, and then by itself
            Box::pin(async move { inner.serve(call).await })
        };
        match keyed {
            Some(keyed) => Box::pin(keyed.run(run, gateway)).await,
            None => run.await,
        }
    }
}

/// The key of a call, and what it stands for.
async fn keyed(call: &Call, later: bool, gateway: &Gateway) -> Result<Option<Keyed>, Rejection> {
    let who = &call.who;
    let wrong = |problem: &'static str| Rejection::InvalidHeader { name: "Idempotency-Key", problem: problem.into() };
    let Some(key) = key::read(&who.head.headers).map_err(wrong)? else { return Ok(None) };
    let account = who.credential.account();
    let owner = Owner { app: &who.app.name, account: account.as_deref(), customer: who.customer.id.as_str() };
    let place = key::place(&owner, key);
    let shared = who.clone();
    let fingerprint = move |body: &Bytes| {
        let target = shared.head.uri.path_and_query().map_or("", |target| target.as_str());
        let user = shared.customer.user.as_ref().map(|(user, _)| user.as_str());
        key::fingerprint(&Meant { target, user, later, body })
    };
    Ok(Some(Keyed {
        place,
        fingerprint: over(&call.body, &gateway.large_bodies, fingerprint).await.ok_or(Rejection::Internal)?,
        record: who.record.clone(),
        keep: who.policy.repeats.keep,
        max_reply: who.policy.repeats.max_reply,
        // Half a job taken in would be taken in again by the repeat.
        goes_on: later,
    }))
}
