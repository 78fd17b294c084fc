//! Layer 3: whose request it is. Customer, user, plan, priority and class, from headers or (where configured) the body.

use super::Gateway;
use super::aside::over;
use super::body;
use super::call::{Authenticated, Customer, Grounds, HeldKey, Identified, Payload, Rejected, Reply, Who};
use super::newcomers;
use super::serve::Serve;
use crate::config::policy::{App, BodySource, Plan};
use crate::config::{Policy, matches};
use crate::directory::View;
use crate::domain::{CustomerId, Priority, Timestamp, UserId};
use crate::reply::{Forbidden, Rejection};
use crate::store::{Known, StoreError};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;
use std::sync::Arc;
use tower::Layer;

const CUSTOMER: HeaderName = HeaderName::from_static("x-customer-id");
const USER: HeaderName = HeaderName::from_static("x-user-id");
const PLAN: HeaderName = HeaderName::from_static("x-customer-plan");
const PRIORITY: HeaderName = HeaderName::from_static("x-priority");
const CLASS: HeaderName = HeaderName::from_static("x-request-class");

/// The longest class name that is kept.
const MAX_CLASS: usize = 64;

/// Identifies whatever it wraps.
#[derive(Clone, Debug)]
pub struct IdentifyLayer(pub Arc<Gateway>);

impl<S> Layer<S> for IdentifyLayer {
    type Service = Identify<S>;
    fn layer(&self, inner: S) -> Identify<S> {
        Identify { inner, gateway: self.0.clone() }
    }
}

/// See [`IdentifyLayer`].
#[derive(Clone, Debug)]
pub struct Identify<S> {
    inner: S,
    gateway: Arc<Gateway>,
}

impl<S: Serve<Identified, Error = Box<Rejected>>> Serve<Authenticated> for Identify<S> {
    type Error = Box<Rejected>;

    async fn serve(&self, request: Authenticated) -> Result<Reply, Self::Error> {
        let identified = identify(request, &self.gateway).await?;
        let who = identified.who.clone();
        let rejected = match self.inner.serve(identified).await {
            Ok(reply) => return Ok(reply),
            Err(rejected) => rejected,
        };
        match who.known.as_ref().and_then(|grounds| grounds.stale.get()) {
            // Once: should they have changed again, the request came before that.
            Some((in_force, body)) => Box::pin(self.once_more(&who, *in_force, body)).await,
            None => Err(rejected),
        }
    }
}

impl<S: Serve<Identified, Error = Box<Rejected>>> Identify<S> {
    async fn once_more(&self, who: &Who, in_force: Known, body: &Bytes) -> Result<Reply, Box<Rejected>> {
        let who = again(who, in_force, &self.gateway).await?;
        self.inner.serve(Identified { who, claims: Vec::new(), payload: Payload::Read(body.clone()) }).await
    }
}

/// The same request by the plans and overrides that are in force.
async fn again(before: &Who, in_force: Known, gateway: &Gateway) -> Result<Arc<Who>, Rejection> {
    let mut who = before.clone();
    gateway.directory.refresh(who.customer.id.as_str(), in_force).await.map_err(|error| away(&error))?;
    let view = gateway.directory.view(&who.policy).await.map_err(|error| away(&error))?;
    let anonymous = who.customer.id.as_str().contains(' ');
    if let Some(key) = &who.key {
        who.app = view.ring.find(&key.hash, who.at).map_err(Rejection::Unauthenticated)?.app;
        permits(&who.app, who.head.uri.path(), (!anonymous).then_some(&who.customer.id))?;
        who.priority = priority_of(&who.head.headers, &who.app)?;
    }
    who.customer.plan = match &who.policy.identity.anonymous {
        Some(plan) if anonymous => view.current(plan).clone(),
        _ => plan_of(&who.customer.id, &view, gateway, &who.app, &who.head.headers).await?.0,
    };
    who.record.note(|facts| facts.plan = Some(who.customer.plan.clone()));
    who.known = None;
    Ok(Arc::new(who))
}

pub(super) fn away(error: &StoreError) -> Rejection {
    if !matches!(error, StoreError::Away(_)) {
        tracing::warn!(%error, "the store did not say what was set at run time");
    }
    Rejection::LimitsUnavailable
}

/// Whether an app may call this path for this customer.
fn permits(app: &App, path: &str, customer: Option<&CustomerId>) -> Result<(), Rejection> {
    let within = |patterns: &[Box<str>], text: &str| patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, text));
    if !within(&app.routes, path) {
        return Err(Rejection::Forbidden(Forbidden::Route));
    }
    match customer {
        Some(id) if !within(&app.customers, id.as_str()) => Err(Rejection::Forbidden(Forbidden::Customer)),
        _ => Ok(()),
    }
}

/// What the key of a request opens by now: before it is refused for what it may not do, since that may have been changed elsewhere.
/// `None` where it may do what it did.
pub(super) async fn widened(
    key: Option<&HeldKey>,
    policy: &Arc<Policy>,
    at: Timestamp,
    gateway: &Gateway,
) -> Result<Option<Opened>, Rejection> {
    let Some(key) = key else { return Ok(None) };
    gateway.directory.catch_up().await.map_err(|error| away(&error))?;
    let view = gateway.directory.view(policy).await.map_err(|error| away(&error))?;
    if view.number == key.number {
        return Ok(None);
    }
    let app = view.ring.find(&key.hash, at).map_err(Rejection::Unauthenticated)?.app;
    Ok(Some(Opened { app, view }))
}

/// What a key opens, and by what that is known.
pub(super) struct Opened {
    pub(super) app: Arc<App>,
    view: Arc<View>,
}

async fn identify(request: Authenticated, gateway: &Gateway) -> Result<Identified, Rejection> {
    let Authenticated { arrived, mut app, credential, mut key } = request;
    let policy = &arrived.policy;
    let headers = &arrived.head.headers;
    let user = single(headers, &USER)?
        .map(|value| {
            UserId::parse(value.as_bytes(), policy.identity.allow_emails)
                .map_err(|error| Rejection::InvalidHeader { name: "X-User-Id", problem: error.to_string().into() })
        })
        .transpose()?;

    let mut payload = Payload::Incoming(arrived.body);
    let mut named = match single(headers, &CUSTOMER)? {
        Some(value) if !value.as_bytes().trim_ascii().is_empty() => Some(parse_id(value.as_bytes(), policy)?),
        _ => None,
    };
    if named.is_none() && arrived.api.has_body() && !policy.identity.body_sources.is_empty() {
        let Payload::Incoming(incoming) = payload else { unreachable!("set above") };
        let bytes = body::read(incoming, headers, &policy.server).await?;
        let shared = policy.clone();
        let found = over(&bytes, &gateway.large_bodies, move |bytes| id_in_body(bytes, &shared)).await;
        named = found.ok_or(Rejection::Internal)??;
        payload = Payload::Read(bytes);
    }

    let mut view = gateway.directory.view(policy).await.map_err(|error| away(&error))?;
    if let Some(key) = key.as_mut().filter(|key| key.number != view.number) {
        // Changed since the key was looked up, by a request beside this one.
        app = view.ring.find(&key.hash, arrived.at).map_err(Rejection::Unauthenticated)?.app;
        key.number = view.number;
    }
    let mut planned = plan_for(named.as_ref(), &view, gateway, &app, &arrived.head).await;
    if let Err(Rejection::Forbidden(_)) = &planned
        && let Some(opened) = widened(key.as_ref(), policy, arrived.at, gateway).await?
    {
        (app, view) = (opened.app, opened.view);
        planned = plan_for(named.as_ref(), &view, gateway, &app, &arrived.head).await;
    }
    let planned = planned?;
    let mut known = Known { customer: 0, plans: view.number };
    let customer = match named.zip(planned) {
        Some((id, (plan, number))) => {
            known.customer = number;
            Customer::new(id, plan, user)
        }
        None => {
            let plan = policy.identity.anonymous.as_ref().ok_or(Rejection::MissingCustomerId)?;
            let plan = view.current(plan).clone();
            // One bucket for each key, or for each address where no key tells callers apart. A space cannot stand in an id that a
            // client sent, so no customer can name itself into somebody's anonymous bucket.
            let id = match &credential {
                super::call::Credential::Configured => format!("anonymous key {}", app.name),
                super::call::Credential::Callers(..) => format!("anonymous ip {}", arrived.peer.to_canonical()),
            };
            Customer::new(CustomerId::from_trusted(&id), plan, user)
        }
    };
    let priority = priority_of(headers, &app)?;
    let class = single(headers, &CLASS)?.and_then(|value| value.to_str().ok()).filter(|class| class.len() <= MAX_CLASS);

    arrived.record.note(|facts| {
        facts.customer = Some(customer.id.clone());
        facts.user = customer.user.as_ref().map(|(user, _)| user.clone());
        facts.plan = Some(customer.plan.clone());
        facts.priority = priority;
        facts.class = class.map(Into::into);
    });
    let class = class.map(Into::into);
    // Anonymous buckets have a space in their id, and there are no more of them than keys and addresses.
    if let Some(cap) = newcomers::cap(&app, &policy.identity)
        && known.customer == 0
        && !customer.id.as_str().contains(' ')
        && view.customer(customer.id.as_str()).is_none()
    {
        gateway.newcomers.admit(&app.name, &customer.id, cap).await?;
    }
    let who = Who {
        api: arrived.api,
        head: arrived.head,
        policy: arrived.policy,
        record: arrived.record,
        at: arrived.at,
        app,
        credential,
        key,
        customer,
        priority,
        class,
        known: Some(Arc::new(Grounds { known, ..Grounds::default() })),
    };
    Ok(Identified { who: Arc::new(who), claims: Vec::new(), payload })
}

/// The plan of a customer that is named, if the app may act for it, and the number under which it was said.
async fn plan_for(
    named: Option<&CustomerId>,
    view: &Arc<View>,
    gateway: &Gateway,
    app: &App,
    head: &Parts,
) -> Result<Option<(Arc<Plan>, u64)>, Rejection> {
    permits(app, head.uri.path(), named)?;
    match named {
        Some(id) => plan_of(id, view, gateway, app, &head.headers).await.map(Some),
        None => Ok(None),
    }
}

/// The one value of a header. The same value twice passes; two different ones are refused, since a proxy before us and the provider
/// behind us may each believe another.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Rejection> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.any(|other| Some(other.as_bytes().trim_ascii()) != first.map(|first| first.as_bytes().trim_ascii())) {
        let name = match name.as_str() {
            "x-user-id" => "X-User-Id",
            "x-customer-plan" => "X-Customer-Plan",
            "x-priority" => "X-Priority",
            "x-request-class" => "X-Request-Class",
            _ => return Err(Rejection::ConflictingCustomerIds),
        };
        return Err(Rejection::InvalidHeader { name, problem: "is given twice, with different values".into() });
    }
    Ok(first)
}

fn parse_id(bytes: &[u8], policy: &Policy) -> Result<CustomerId, Rejection> {
    CustomerId::parse(bytes, policy.identity.allow_emails).map_err(Rejection::InvalidCustomerId)
}

/// The id from the first configured body field that has one. A body that does not parse is left for `inspect` to refuse.
fn id_in_body(body: &Bytes, policy: &Policy) -> Result<Option<CustomerId>, Rejection> {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct Ids<'a> {
        #[serde(borrow)]
        metadata: Option<Metadata<'a>>,
        #[serde(borrow)]
        safety_identifier: Option<Text<'a>>,
        #[serde(borrow)]
        user: Option<Text<'a>>,
    }
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Metadata<'a> {
        Object {
            #[serde(borrow)]
            user_id: Option<Text<'a>>,
        },
        Other(serde::de::IgnoredAny),
    }
    /// A string, or whatever else somebody put there.
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Text<'a> {
        Text(#[serde(borrow)] Cow<'a, str>),
        Other(serde::de::IgnoredAny),
    }
    let Ok(ids) = serde_json::from_slice::<Ids<'_>>(body) else { return Ok(None) };
    for source in &policy.identity.body_sources {
        let found = match source {
            BodySource::MetadataUserId => {
                if let Some(Metadata::Object { user_id }) = &ids.metadata {
                    user_id.as_ref()
                } else {
                    None
                }
            }
            BodySource::SafetyIdentifier => ids.safety_identifier.as_ref(),
            BodySource::User => ids.user.as_ref(),
        };
        if let Some(Text::Text(text)) = found.filter(|found| !matches!(found, Text::Text(text) if text.trim().is_empty())) {
            return parse_id(text.as_bytes(), policy).map(Some);
        }
    }
    Ok(None)
}

/// The plan: what was said of this customer at run time, else its configuration, else the header of a key that may set it, else the
/// default. And the number under which it was said.
async fn plan_of(
    id: &CustomerId,
    view: &Arc<View>,
    gateway: &Gateway,
    app: &App,
    headers: &HeaderMap,
) -> Result<(Arc<Plan>, u64), Rejection> {
    let (id, identity, now) = (id.as_str(), &view.policy.identity, gateway.clock.now());
    let said = gateway.directory.said(id).await;
    let number = said.as_ref().map_or(0, |said| said.number);
    let assigned = said.as_ref().and_then(|said| said.assigns(now)).is_some_and(|plan| view.plan(plan).is_some());
    let mut otherwise = None;
    if !assigned && view.customer(id).is_none() {
        if let Some(value) = single(headers, &PLAN)? {
            let name = value.to_str().unwrap_or_default();
            let allowed = app.plans.iter().any(|plan| **plan == *name);
            otherwise = Some(view.plan(name).filter(|_| allowed).ok_or(Rejection::Forbidden(Forbidden::Plan))?);
        } else if !identity.unknown_customers && said.is_none() {
            return Err(Rejection::Forbidden(Forbidden::UnknownCustomer));
        }
    }
    let by_config = || view.customer(id).or(otherwise).unwrap_or_else(|| view.current(&identity.default_plan)).clone();
    let name = otherwise.map(|plan| &*plan.name);
    let plan = said.and_then(|said| said.plan(view, id, name, now)).unwrap_or_else(by_config);
    Ok((plan, number))
}

/// The asked priority, never above the app's own.
fn priority_of(headers: &HeaderMap, app: &App) -> Result<Priority, Rejection> {
    let Some(value) = single(headers, &PRIORITY)? else { return Ok(app.priority) };
    let asked = value
        .to_str()
        .ok()
        .and_then(Priority::parse)
        .ok_or(Rejection::InvalidHeader { name: "X-Priority", problem: "is one of live, internal, background".into() })?;
    Ok(asked.max(app.priority))
}
