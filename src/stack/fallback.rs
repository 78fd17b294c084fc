//! The call for a model's fallback: the same request, asking for another model, maybe with another system prompt, and counted, bounded and
//! priced for that one from the start.
//!
//! Whatever stands in the way of it is no error: the chain goes on to its next step, and in the end the client hears what stopped the
//! request in the first place, not what was wrong with a model it never asked for.

use super::aside::over;
use super::call::{Call, Credential};
use super::gateway::Gateway;
use super::give_up;
use super::inspect::{Read, prepare};
use crate::config::policy::Fallback;
use crate::degrade::personal::{self, Found};
use crate::reply::Rejection;
use crate::wire::edit::Edits;
use crate::wire::request;
use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use std::sync::Arc;

/// Says that a request holds no personal data.
const PERSONAL_DATA: HeaderName = HeaderName::from_static("x-personal-data");
/// Bodies beyond this are scanned off the async threads.
const QUICK_SCAN: usize = 64 << 10;

/// Why a fallback cannot answer.
#[derive(Debug)]
pub enum Barred {
    /// It would be refused as a request of its own: the key may not use it, it lacks a price for what is asked, and the like.
    Refused(Rejection),
    /// The prompt, or the thinking it asks for, is longer than the model takes.
    TooLong,
    /// It is served by another upstream, and that is not switched on.
    OtherProvider,
    /// It is served by another upstream, which must not see the caller's key.
    CallersKey,
    /// It is served by another upstream, and the request is not marked as free of personal data.
    NotMarked,
    /// It is served by another upstream, and goes on with content that only its own has.
    Stored,
    /// It is served by another upstream, and the scan found something in spite of the mark.
    PersonalData(Found),
}

impl Barred {
    /// A word for the log.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Refused(rejection) => rejection.cause(),
            Self::TooLong => "too_long",
            Self::OtherProvider => "other_provider",
            Self::CallersKey => "callers_key",
            Self::NotMarked => "not_marked",
            Self::Stored => "stored_context",
            Self::PersonalData(found) => found.as_str(),
        }
    }
}

/// The fallback of the call's model, where the request's class lets it answer. Only text can be answered by another model: the vectors of
/// two models have nothing to do with each other.
pub fn permitted(call: &Call) -> Option<Arc<Fallback>> {
    let policy = &call.who.policy;
    let class = call.who.class.as_deref().and_then(|class| policy.classes.get(class));
    if !class.is_some_and(|class| class.fallback) || !call.who.api.generates() {
        return None;
    }
    policy.models.get(&call.target.model)?.fallback.clone()
}

/// Makes the call.
///
/// # Errors
/// [`Barred`], saying why not.
pub async fn call_of(call: &Call, fallback: &Fallback, gateway: &Arc<Gateway>) -> Result<Box<Call>, Barred> {
    let Some(asked) = &call.request else { return Err(Barred::Refused(Rejection::Internal)) };
    let edits = Edits { model: Some(fallback.model.as_ref().into()), system: fallback.system.clone(), ..Edits::default() };
    let (asked, api) = (asked.clone(), call.who.api);
    let edited = over(&call.body, &gateway.large_bodies, move |body| {
        let body = asked.apply(body, &edits);
        request::parse(api, &body).map(|request| (body, request))
    });
    // Of our own making, so it parses; were it not to, that would be a fault of ours and no reason to bother the client.
    let Some(Ok((body, request))) = edited.await else { return Err(Barred::Refused(Rejection::Internal)) };
    // Without claims of the layers above: the message is spent.
    let read = Read { request, counted: None };
    let mut cheaper = prepare(call.who.clone(), body, read, gateway).await.map_err(Barred::Refused)?;
    fit(&mut cheaper)?;
    // Its pool may be another one, with a level of its own.
    give_up::apply(&mut cheaper, gateway).map_err(|rejected| Barred::Refused(rejected.rejection))?;
    if cheaper.target.upstream.name != call.target.upstream.name {
        may_leave(call, &cheaper, fallback).await?;
    }
    Ok(cheaper)
}

/// Makes the request fit a model that may take less than the one that was asked for. What else it cannot take (a reasoning effort, tools,
/// images), it says itself, with an error that never reaches the client.
fn fit(call: &mut Call) -> Result<(), Barred> {
    let price = call.target.price.as_ref();
    if price.and_then(|price| price.max_input_tokens).is_some_and(|most| call.input.best > most) {
        return Err(Barred::TooLong);
    }
    let configured = call.who.policy.models.get(&call.target.model).and_then(|model| model.max_output_tokens);
    let Some(most) = configured.or_else(|| price.and_then(|price| price.max_output_tokens)) else { return Ok(()) };
    if most >= call.output.cap {
        return Ok(());
    }
    if call.request.as_ref().and_then(|request| request.features.thinking_budget).is_some_and(|budget| budget >= most) {
        return Err(Barred::TooLong);
    }
    let output = &mut call.output;
    output.cap = most;
    output.floor = output.floor.min(most);
    output.expected = output.expected.min(most.saturating_mul(output.choices));
    call.edits.output_cap = Some(most);
    Ok(())
}

/// Whether the request may go to another upstream than its own.
async fn may_leave(call: &Call, cheaper: &Call, fallback: &Fallback) -> Result<(), Barred> {
    if !fallback.other_provider {
        return Err(Barred::OtherProvider);
    }
    if matches!(call.who.credential, Credential::Callers(..)) {
        return Err(Barred::CallersKey);
    }
    if !is_marked(&call.who.head.headers) {
        return Err(Barred::NotMarked);
    }
    let stored = call.request.as_ref().is_some_and(|request| request.features.stored_context);
    if stored || call.input.unseen > 0 {
        return Err(Barred::Stored);
    }
    match scan(&cheaper.body).await {
        None => Ok(()),
        Some(found) => Err(Barred::PersonalData(found)),
    }
}

/// Whether a request says that it holds no personal data: once, and nothing else beside it.
fn is_marked(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(PERSONAL_DATA).iter();
    let marked = values.next().is_some_and(|value| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"none"));
    marked && values.next().is_none()
}

async fn scan(body: &Bytes) -> Option<Found> {
    if body.len() <= QUICK_SCAN {
        return personal::scan(body);
    }
    let body = body.clone();
    tokio::task::spawn_blocking(move || personal::scan(&body)).await.unwrap_or(Some(Found::Unreadable))
}
