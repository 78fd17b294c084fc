//! Layer 5: what is asked. Reads the body within bounds, recognises model, pool and price, counts the prompt, settles the output cap.

use super::aside::{self, aside, over};
use super::body;
use super::call::{Call, Identified, Payload, Rejected, Reply, Target, Who};
use super::gateway::Gateway;
use super::identify::widened;
use super::output::bound_output;
use super::serve::Serve;
use crate::config::policy::{ForwardId, Unpriced};
use crate::domain::NanoUsd;
use crate::estimate::{InputCount, Piece};
use crate::pricing::{Asked, CacheWrites, Worst};
use crate::reply::Rejection;
use crate::wire::Api;
use crate::wire::edit::Edits;
use crate::wire::request::{self, BodyError, Request, Segment};
use bytes::Bytes;
use std::sync::Arc;
use tower::Layer;

/// Inspects for whatever it wraps.
#[derive(Clone, Debug)]
pub struct InspectLayer(pub Arc<Gateway>);

impl<S> Layer<S> for InspectLayer {
    type Service = Inspect<S>;
    fn layer(&self, inner: S) -> Inspect<S> {
        Inspect { inner, gateway: self.0.clone() }
    }
}

/// See [`InspectLayer`].
#[derive(Clone, Debug)]
pub struct Inspect<S> {
    inner: S,
    gateway: Arc<Gateway>,
}

impl<S: Serve<Box<Call>, Error = Box<Rejected>>> Serve<Identified> for Inspect<S> {
    type Error = Box<Rejected>;

    async fn serve(&self, request: Identified) -> Result<Reply, Self::Error> {
        let call = inspect(request, &self.gateway).await?;
        self.inner.serve(call).await
    }
}

async fn inspect(request: Identified, gateway: &Arc<Gateway>) -> Result<Box<Call>, Rejection> {
    let Identified { who, claims, payload } = request;
    let policy = who.policy.clone();
    if !who.api.has_body() {
        let target = target_of(&who, "")?;
        return Ok(Box::new(Call { claims, ..call(who, target) }));
    }
    let body = match payload {
        Payload::Read(bytes) => bytes,
        Payload::Incoming(incoming) => body::read(incoming, &who.head.headers, &policy.server).await?,
    };
    let (asks, shared) = (who.clone(), gateway.clone());
    let read = over(&body, &gateway.large_bodies, move |body| read(&asks, body, &shared)).await.ok_or(Rejection::Internal)??;
    let mut call = prepare(who, body, read, gateway).await?;
    call.claims = claims;
    call.who.record.note(|facts| {
        facts.model = Some(call.target.model.clone());
        facts.model_is_known = policy.prices.lists(&call.target.model);
        facts.stream = call.streams();
        facts.estimated_input = call.input.best;
        facts.output_cap = call.output.cap;
    });
    Ok(call)
}

/// What a body says, as far as all of it has to be gone over for that.
pub struct Read {
    /// What it asks for.
    pub request: Request,
    /// Its prompt, counted, where that is known by now.
    pub counted: Option<InputCount>,
}

/// Reads a body, and sees whether it comes again and again.
fn read(who: &Who, body: &Bytes, gateway: &Gateway) -> Result<Read, Rejection> {
    let request = request::parse(who.api, body).map_err(|error| bad_body(&error))?;
    if who.api.is_free() {
        return Ok(Read { request, counted: None });
    }
    // Once a request: not when it comes by again because its plan has changed, nor when a job runs that was counted when it was taken in.
    if who.known.is_some() && who.record.read(|facts| facts.job.is_none()) {
        gateway.alerts.prompt(&who.policy.alerts, &who.customer.id, &who.app.name, &request.model, body, who.at);
    }
    // A large one is being gone over aside: whether its prompt is known is found out at once. Others are counted once it is clear that
    // they may pass.
    let large = body.len() > aside::QUICK;
    let pieces = large.then(|| pieces(&request.segments, body));
    let counted = pieces.and_then(|pieces| gateway.estimator.count_if_known(&request.model, who.api, &pieces));
    Ok(Read { request, counted })
}

/// The call that a body asks for: its target, its prompt counted, its output bounded, its cost bounded, and what is to be changed in it.
/// A fallback goes the same way, with a body that asks for it.
pub async fn prepare(mut who: Arc<Who>, body: Bytes, read: Read, gateway: &Arc<Gateway>) -> Result<Box<Call>, Rejection> {
    let Read { request, counted } = read;
    let policy = who.policy.clone();
    let pool = policy.pool_of(&request.model).map(AsRef::as_ref);
    if !who.app.may_use(&request.model, pool)
        && let Some(opened) = widened(who.key.as_ref(), &policy, who.at, gateway).await?
    {
        Arc::make_mut(&mut who).app = opened.app;
    }
    if !who.app.may_use(&request.model, pool) {
        return Err(Rejection::ModelNotAllowed { model: request.model.into() });
    }
    let target = target_of(&who, &request.model).inspect_err(|rejection| {
        if matches!(rejection, Rejection::ModelNotPriced { .. }) {
            gateway.alerts.unpriced(&request.model, &who.app.name);
        }
    })?;
    check_features(&request, &target, &who)?;

    let mut call = Box::new(Call { body, ..call(who, target) });
    call.input = match counted {
        Some(count) => count,
        None if call.who.api.is_free() => InputCount::default(),
        None => count(&call, &request, gateway).await?,
    };
    let hidden = hidden_context(&request, &call.input, policy.unbounded.stored_context_tokens)?;
    call.input.best = call.input.best.saturating_add(hidden);
    call.input.upper = call.input.upper.saturating_add(hidden);

    call.output = bound_output(&call.who, &call.target, &request);
    check_thinking(&request, call.output.cap)?;
    let likely = gateway.expected.output(&call.target.model, &call.who.customer.plan.name, call.output.cap);
    call.output.expected = likely.saturating_mul(call.output.choices);
    if call.who.api.generates() && request.output_cap != Some(call.output.cap) {
        call.edits.output_cap = Some(call.output.cap);
    }
    let counts_usage = matches!(call.who.api, Api::Chat | Api::Completions) && request.stream;
    call.edits.include_usage =
        counts_usage && request.include_usage != Some(true) && gateway.client.may_include_usage(&call.target.upstream);
    call.edits.user_id = forwarded_id(&call.who);
    call.worst = worst_of(&call, &request);
    call.request = Some(Arc::new(request));
    Ok(call)
}

fn bad_body(error: &BodyError) -> Rejection {
    let param = error.param().map(|param| param.to_owned().into());
    Rejection::Body { code: error.code(), param, message: error.to_string().into() }
}

/// A call that asks for nothing yet.
fn call(who: Arc<Who>, target: Target) -> Call {
    Call {
        who,
        claims: Vec::new(),
        body: Bytes::new(),
        request: None,
        edits: Edits::default(),
        target: Arc::new(target),
        input: InputCount::default(),
        output: super::call::Output::default(),
        worst: None,
        reservation: None,
        account: None,
        level: 0,
        earlier: None,
    }
}

/// The upstream, pool and price of a model. A free route costs nothing, whatever the model.
fn target_of(who: &Who, model: &str) -> Result<Target, Rejection> {
    let policy = &who.policy;
    let dialect = who.api.dialect();
    let pool = policy.pool_of(model);
    let upstream = policy.upstream_of(model, dialect).ok_or(Rejection::NoUpstream { dialect })?;
    let price = if who.api.is_free() { None } else { policy.prices.get(model) };
    if price.is_none() && !who.api.is_free() && policy.unpriced == Unpriced::Refuse {
        return Err(Rejection::ModelNotPriced { model: model.into() });
    }
    // A free route spends none of the provider's token limits, and has request limits of its own there.
    let pool = if who.api.is_free() { None } else { pool.cloned() };
    let ceiling = pool.as_ref().map(|pool| match who.credential.account() {
        Some(account) => format!("{}/{account}", pool.name).into(),
        None => pool.name.clone(),
    });
    Ok(Target { model: model.into(), upstream: upstream.clone(), pool, ceiling, price })
}

/// Refuses what cannot be settled or bounded.
fn check_features(request: &Request, target: &Target, who: &Who) -> Result<(), Rejection> {
    let features = &request.features;
    if features.background {
        return Err(Rejection::BackgroundNotSupported);
    }
    let unbounded = &who.policy.unbounded;
    if let Some(tool) = features.server_tools.first()
        && unbounded.server_tools.is_none()
        && target.price.is_some()
    {
        return Err(Rejection::UnboundedFeature { param: format!("tools: {}", tool.as_str()).into() });
    }
    let Some(price) = &target.price else { return Ok(()) };
    // Fast mode and a bound region cost a multiple as a service tier does; without a price for it nobody knows which.
    let dearer = [&request.service_tier, &features.speed, &features.inference_geo];
    match dearer.into_iter().flatten().find(|tier| !price.has_tier(tier)) {
        Some(tier) => Err(Rejection::ServiceTierNotPriced { tier: tier.as_str().into() }),
        None => Ok(()),
    }
}

/// What is assumed for context that only the provider has: stored conversations, and files or documents named by id or address. Any of
/// them may be as long as the model's context, so without a configured amount the request is refused.
fn hidden_context(request: &Request, input: &InputCount, assumed: Option<u64>) -> Result<u64, Rejection> {
    let stored = request.features.stored_context;
    let hidden = u64::from(input.unseen) + u64::from(stored);
    match assumed {
        _ if hidden == 0 => Ok(0),
        Some(tokens) => Ok(tokens.saturating_mul(hidden)),
        None if stored => Err(Rejection::UnboundedFeature { param: "previous_response_id, conversation or prompt".into() }),
        None => Err(Rejection::UnboundedFeature { param: "file_id, file_url or another reference to stored content".into() }),
    }
}

/// The most the call can cost, apart from what settlement alone can know.
pub fn worst_of(call: &Call, request: &Request) -> Option<Worst> {
    let price = call.target.price.as_ref()?;
    let features = &request.features;
    let mentions = request.mentions;
    let cache_writes = match call.who.api {
        Api::Messages if mentions.cache_control => CacheWrites::Long,
        Api::Messages | Api::Embeddings | Api::Completions => CacheWrites::No,
        _ if mentions.cache_retention => CacheWrites::Long,
        _ => CacheWrites::Short,
    };
    let mut worst = price.worst(&Asked {
        input: call.input.upper,
        tier: request.service_tier.as_deref(),
        cache_writes,
        audio_input: mentions.input_audio,
        audio_output: features.audio_output,
        choices: call.output.choices,
        web_searches: 0,
    });
    // With interleaved thinking the budget may exceed the output cap; it is held in full.
    let thinks_beyond = features.thinking_budget.unwrap_or(0).saturating_sub(call.output.cap);
    worst.fixed_pico += worst.per_output_token_pico * u128::from(thinks_beyond);
    if !features.server_tools.is_empty() {
        let held = call.who.policy.unbounded.server_tools.map_or(0, NanoUsd::get);
        worst.fixed_pico += u128::from(held) * 1_000;
    }
    Some(worst)
}

/// A thinking budget must stay under the output cap; where lowering the cap would break that, the provider's error would puzzle.
fn check_thinking(request: &Request, cap: u64) -> Result<(), Rejection> {
    match request.features.thinking_budget {
        Some(budget) if request.output_cap.is_some_and(|asked| asked > budget) && budget >= cap => Err(Rejection::Body {
            code: "thinking_budget_too_large",
            param: Some("thinking.budget_tokens".into()),
            message: format!("thinking.budget_tokens is {budget}, but this plan's output cap is {cap} tokens; lower the budget.")
                .into(),
        }),
        _ => Ok(()),
    }
}

/// Counts the prompt, here when it is quick, on a blocking thread when it is long.
async fn count(call: &Call, request: &Request, gateway: &Arc<Gateway>) -> Result<InputCount, Rejection> {
    let api = call.who.api;
    let quick = gateway.estimator.count_if_quick(&request.model, api, &pieces(&request.segments, &call.body));
    if let Some(count) = quick {
        return Ok(count);
    }
    let _place = gateway.long_counts.acquire().await.map_err(|_| Rejection::Internal)?;
    let (estimator, body, model) = (gateway.estimator.clone(), call.body.clone(), request.model.clone());
    let segments = request.segments.clone();
    let counted = tokio::task::spawn_blocking(move || aside(|| estimator.count(&model, api, &pieces(&segments, &body))));
    let counted = counted.await.ok().flatten().ok_or(Rejection::Internal)?;
    counted.map_err(|error| Rejection::Body { code: "invalid_json", param: None, message: format!("{error}.").into() })
}

fn pieces<'a>(segments: &[Segment], body: &'a Bytes) -> Vec<Piece<'a>> {
    segments.iter().map(|segment| Piece { kind: segment.kind, json: &body[segment.range.clone()] }).collect()
}

/// What the provider learns of the customer's id.
fn forwarded_id(who: &Who) -> Option<String> {
    match &who.policy.identity.forward {
        ForwardId::No => None,
        ForwardId::AsIs => Some(who.customer.id.as_str().to_owned()),
        ForwardId::Hashed { secret } => {
            let key = blake3::derive_key("tollgate customer id for the provider", secret.expose().as_bytes());
            Some(blake3::keyed_hash(&key, who.customer.id.as_str().as_bytes()).to_hex().to_string())
        }
    }
}
