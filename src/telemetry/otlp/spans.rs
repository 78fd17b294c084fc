//! The spans of a request that has ended: one for itself, one for each step.
//!
//! The request's own span is that of a server, with what the gateway decided. A call of a provider is a GenAI client span, and the one that
//! answered carries the token counts: once, so that a sum over all spans is right. Nothing that a customer or a model wrote is in any of
//! them; the customer's id only where that is switched on.

use super::context::Context;
use super::names::{self, Attributes};
use super::steps::{Kind, Step, Trace};
use crate::degrade::Degraded;
use crate::domain::{CustomerId, RequestId, Timestamp};
use crate::telemetry::record::{Ending, Facts};
use crate::wire::Api;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use std::time::Duration;

/// The flags of a span: sampled, and whether it is known that its parent is elsewhere, and it is.
const SAMPLED: u32 = 0x01;
const KNOWN: u32 = 0x100;
const REMOTE: u32 = 0x200;

/// A request that has ended.
#[derive(Debug)]
pub struct Request<'a> {
    /// Our id.
    pub id: RequestId,
    /// The route.
    pub api: Api,
    /// How long it took.
    pub took: Duration,
    /// What is known of it.
    pub facts: &'a Facts,
    /// What it spent its time on.
    pub steps: &'a [Step],
}

/// Its spans, its own first.
#[must_use]
pub fn spans(trace: &Trace, request: &Request<'_>, customer_ids: bool) -> Vec<Span> {
    let answering = answering(request);
    let mut spans = Vec::with_capacity(1 + request.steps.len());
    spans.push(own(trace, request, customer_ids));
    for (index, step) in request.steps.iter().enumerate() {
        let mut span = blank(trace.context, trace.at, step.began, step.ended.unwrap_or(request.took));
        span.span_id = trace.context.inner(index).to_be_bytes().to_vec();
        span.parent_span_id = trace.context.span.to_be_bytes().to_vec();
        span.flags = SAMPLED | KNOWN;
        let mut attributes = Attributes::default();
        match &step.kind {
            Kind::Admission => {
                span.name = "admit".to_owned();
                span.kind = SpanKind::Internal.into();
                attributes.maybe("error.type", step.fault);
                span.status = status(step.fault.is_some());
            }
            Kind::Wait(reason) => {
                span.name = "wait".to_owned();
                span.kind = SpanKind::Internal.into();
                attributes.text("tollgate.wait.reason", reason);
            }
            Kind::Attempt { model, upstream, .. } => {
                span.name = named(request.api, Some(model));
                span.kind = SpanKind::Client.into();
                attributes.maybe("gen_ai.operation.name", names::operation(request.api));
                attributes.text("gen_ai.provider.name", names::provider(upstream));
                if !model.is_empty() {
                    attributes.text("gen_ai.request.model", model);
                }
                attributes.text("tollgate.upstream", &upstream.name);
                if let Some((host, port)) = names::server(upstream) {
                    attributes.text("server.address", &host);
                    attributes.number("server.port", u64::from(port));
                }
                if let Some(status) = step.status {
                    attributes.number("http.response.status_code", u64::from(status));
                }
                let error = error_of(step);
                attributes.maybe("error.type", error.as_deref());
                attributes.maybe("tollgate.fault", step.fault);
                span.status = status(error.is_some());
                if answering == Some(index) {
                    answered(&mut attributes, request.facts);
                }
            }
        }
        span.attributes = attributes.0;
        spans.push(span);
    }
    spans
}

/// The attempt whose usage is that of the request: the last, where there is any usage.
fn answering(request: &Request<'_>) -> Option<usize> {
    request.facts.usage.as_ref()?;
    request.steps.iter().rposition(|step| matches!(step.kind, Kind::Attempt { .. }))
}

/// What is wrong with an attempt: the provider's status where it said one that is an error, or what happened to the call.
#[must_use]
pub fn error_of(step: &Step) -> Option<String> {
    let status = step.status.filter(|status| *status >= 400).map(|status| status.to_string());
    status.or_else(|| step.fault.map(str::to_owned))
}

fn own(trace: &Trace, request: &Request<'_>, customer_ids: bool) -> Span {
    let Request { id, api, took, facts, steps } = *request;
    let context = trace.context;
    let mut span = blank(context, trace.at, Duration::ZERO, took);
    span.span_id = context.span.to_be_bytes().to_vec();
    span.flags = SAMPLED | KNOWN;
    if let Some(parent) = context.parent {
        span.parent_span_id = parent.to_be_bytes().to_vec();
        span.flags |= REMOTE;
    }
    span.name = named(api, facts.model.as_deref());
    span.kind = SpanKind::Server.into();
    let failed = facts.status >= 500 || facts.ending == Ending::UpstreamBroke;
    span.status = status(failed);
    let mut a = Attributes::default();
    if let Some(operation) = names::operation(api) {
        a.text("gen_ai.operation.name", operation);
        let asked = steps.iter().rev().find_map(|step| match &step.kind {
            Kind::Attempt { upstream, .. } => Some(names::provider(upstream)),
            _ => None,
        });
        a.text("gen_ai.provider.name", asked.unwrap_or(names::spoken(api.dialect())));
    }
    if let Some(model) = facts.model.as_deref().filter(|model| !model.is_empty()) {
        a.text("gen_ai.request.model", model);
        if api.generates() {
            a.number("gen_ai.request.max_tokens", facts.output_cap);
            a.flag("gen_ai.request.stream", facts.stream);
        }
    }
    a.maybe("gen_ai.response.model", facts.served_model.as_deref());
    a.number("http.response.status_code", u64::from(facts.status));
    if failed {
        a.text("error.type", &facts.cause.map_or_else(|| facts.status.to_string(), str::to_owned));
    }
    a.text("tollgate.request_id", &id.to_string());
    a.text("tollgate.api", api.as_str());
    a.maybe("tollgate.app", facts.app.as_deref());
    a.maybe("tollgate.plan", facts.plan.as_ref().map(|plan| &*plan.name));
    if customer_ids {
        a.maybe("tollgate.customer", facts.customer.as_ref().map(CustomerId::as_str));
    }
    a.text("tollgate.priority", facts.priority.as_str());
    a.maybe("tollgate.cause", facts.cause);
    if let Some((scope, limit)) = facts.refused_by {
        a.text("tollgate.refusal.scope", scope);
        a.text("tollgate.refusal.limit", limit);
    }
    if let Some(level) = facts.pool_level {
        a.number("tollgate.level", u64::from(level));
    }
    a.words("tollgate.degraded", facts.degraded.iter().copied().map(Degraded::kind));
    a.words("tollgate.degraded.cause", facts.degraded.iter().copied().map(Degraded::cause));
    a.maybe("tollgate.fallback_model", facts.fallback_model.as_deref());
    a.maybe("tollgate.repeat", facts.repeat);
    a.number("tollgate.attempts", u64::from(facts.attempts));
    a.seconds("tollgate.waited", facts.waited);
    a.number("tollgate.cost_nano_usd", facts.cost.get());
    a.text("tollgate.ending", facts.ending.as_str());
    span.attributes = a.0;
    span
}

/// What the provider's answer says.
fn answered(a: &mut Attributes, facts: &Facts) {
    a.maybe("gen_ai.response.model", facts.served_model.as_deref());
    let Some(usage) = &facts.usage else { return };
    a.number("gen_ai.usage.input_tokens", usage.input());
    a.number("gen_ai.usage.output_tokens", usage.total_output());
    if usage.cache_read > 0 {
        a.number("gen_ai.usage.cache_read.input_tokens", usage.cache_read);
    }
    let written = usage.cache_write.saturating_add(usage.cache_write_long);
    if written > 0 {
        a.number("gen_ai.usage.cache_creation.input_tokens", written);
    }
    if usage.reasoning > 0 {
        a.number("gen_ai.usage.reasoning.output_tokens", usage.reasoning);
    }
    if facts.usage_estimated {
        a.flag("tollgate.usage_estimated", true);
    }
}

/// `chat gpt-4o`.
fn named(api: Api, model: Option<&str>) -> String {
    let operation = names::operation(api).unwrap_or(api.as_str());
    match model.filter(|model| !model.is_empty()) {
        Some(model) => format!("{operation} {}", model.chars().take(128).collect::<String>()),
        None => operation.to_owned(),
    }
}

fn status(failed: bool) -> Option<Status> {
    failed.then(|| Status { code: StatusCode::Error.into(), ..Status::default() })
}

fn blank(context: Context, at: Timestamp, began: Duration, ended: Duration) -> Span {
    let nanos =
        |since: Duration| at.micros().saturating_mul(1_000).saturating_add(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    Span {
        trace_id: context.trace.to_be_bytes().to_vec(),
        start_time_unix_nano: nanos(began),
        end_time_unix_nano: nanos(ended.max(began)),
        ..Span::default()
    }
}
