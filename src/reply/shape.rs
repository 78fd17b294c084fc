//! From cause to status, code and advice: one flat list.

use super::rejection::{Forbidden, Rejection, Unauthenticated, UpstreamFault};
use crate::limit::{LimitName, Measure, Refusal, Remedy, Scope};
use crate::wire::Dialect;
use http::StatusCode;

/// When a customer with too many requests in flight should come back, microseconds: one of them may have ended by then.
const CONCURRENT_RETRY: u64 = 1_000_000;
/// When to come back while the store is away, microseconds: it may be back by then.
const OUTAGE_RETRY: u64 = 1_000_000;
/// When to come back for a reply that is still being made, microseconds.
const REPEAT_RETRY: u64 = 1_000_000;
/// When to come back with another asynchronous request, microseconds: one may have ended by then.
const JOBS_RETRY: u64 = 10_000_000;

/// A rejection in terms of HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape<'a> {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    /// OpenAI's `type`, where the status does not say it.
    pub(super) kind: Option<&'static str>,
    pub(super) param: Option<&'a str>,
    pub(super) retry: Retry,
}

/// What a client should do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// Whatever it does by default.
    Unsaid,
    /// The same again after this many microseconds.
    After(u64),
    /// Nothing before this many microseconds have passed: too long for anybody to wait on the line.
    NotBefore(u64),
    /// Nothing: the same request will not pass.
    Never,
}

impl Shape<'_> {
    /// `type` of the error body.
    pub(super) fn kind(&self, dialect: Dialect) -> &'static str {
        match (dialect, self.status.as_u16()) {
            (Dialect::Anthropic, 401) => "authentication_error",
            (Dialect::Anthropic, 402) => "billing_error",
            (Dialect::Anthropic, 403) => "permission_error",
            (Dialect::Anthropic, 404) => "not_found_error",
            (Dialect::Anthropic, 413) => "request_too_large",
            (Dialect::Anthropic, 429) => "rate_limit_error",
            (Dialect::Anthropic, 503) => "overloaded_error",
            (Dialect::Anthropic, 408 | 504) => "timeout_error",
            (Dialect::Anthropic, 500..) => "api_error",
            (Dialect::OpenAi, 401) => "authentication_error",
            (Dialect::OpenAi, 402) => "insufficient_quota",
            (Dialect::OpenAi, 403) => "request_forbidden",
            (Dialect::OpenAi, 429) => self.kind.unwrap_or("rate_limit_error"),
            (Dialect::OpenAi, 503) => "service_unavailable_error",
            (Dialect::OpenAi, 500..) => "server_error",
            _ => "invalid_request_error",
        }
    }
}

impl Rejection {
    pub(super) fn shape(&self) -> Shape<'_> {
        let shape = |status, code| Shape { status, code, kind: None, param: None, retry: Retry::Unsaid };
        let at = |param, shape| Shape { param: Some(param), ..shape };
        let never = |shape| Shape { retry: Retry::Never, ..shape };
        let after = |micros, shape| Shape { retry: Retry::After(micros), ..shape };
        match self {
            Self::Limit(refusal) | Self::Suspended(refusal) => of_limit(refusal),
            Self::OutputFloor { refusal, .. } => {
                let shape = of_limit(refusal);
                // The request shrinks with its output, so a fresh period helps even if the wanted length is beyond the whole cap.
                match refusal.remedy {
                    Remedy::NextPeriod(us) if refusal.max > 0 => Shape { retry: Retry::NotBefore(us), ..shape },
                    _ => shape,
                }
            }
            Self::Concurrent { .. } => Shape {
                kind: Some("concurrent_requests"),
                ..after(CONCURRENT_RETRY, shape(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"))
            },
            Self::Overloaded { retry_in } => after(*retry_in, shape(StatusCode::SERVICE_UNAVAILABLE, "overloaded")),
            Self::BackgroundPaused { retry_in } => after(*retry_in, shape(StatusCode::SERVICE_UNAVAILABLE, "background_paused")),
            Self::LimitsUnavailable => after(OUTAGE_RETRY, shape(StatusCode::SERVICE_UNAVAILABLE, "limits_unavailable")),
            Self::TooManyNewCustomers { retry_in, .. } => {
                let shape = shape(StatusCode::TOO_MANY_REQUESTS, "too_many_new_customers");
                Shape { retry: Retry::NotBefore(*retry_in), ..shape }
            }
            Self::InvalidCustomerId(_) | Self::ConflictingCustomerIds => shape(StatusCode::BAD_REQUEST, "invalid_customer_id"),
            Self::MissingCustomerId => shape(StatusCode::BAD_REQUEST, "missing_customer_id"),
            Self::InvalidHeader { .. } => shape(StatusCode::BAD_REQUEST, "invalid_header"),
            Self::Unauthenticated(why) => shape(
                StatusCode::UNAUTHORIZED,
                match why {
                    Unauthenticated::Missing | Unauthenticated::Unknown => "invalid_api_key",
                    Unauthenticated::Expired | Unauthenticated::Replaced => "api_key_expired",
                    Unauthenticated::Revoked => "api_key_revoked",
                },
            ),
            Self::Forbidden(what) => shape(
                StatusCode::FORBIDDEN,
                match what {
                    Forbidden::Plan => "plan_not_allowed",
                    Forbidden::Customer => "customer_not_allowed",
                    Forbidden::UnknownCustomer => "unknown_customer",
                    Forbidden::Network => "network_not_trusted",
                    Forbidden::Route => "route_not_allowed",
                },
            ),
            Self::Body { code, param, .. } => Shape { param: param.as_deref(), ..shape(StatusCode::BAD_REQUEST, code) },
            Self::BodyTooLarge { .. } => shape(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
            Self::BodyTimeout => shape(StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::UnsupportedEncoding => shape(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_content_encoding"),
            Self::UnsupportedMediaType => shape(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
            Self::NotFound { .. } => shape(StatusCode::NOT_FOUND, "route_not_found"),
            Self::NoUpstream { .. } => shape(StatusCode::NOT_FOUND, "upstream_not_configured"),
            Self::TicketNotFound => shape(StatusCode::NOT_FOUND, "ticket_not_found"),
            Self::TriageUnavailable => after(OUTAGE_RETRY, shape(StatusCode::SERVICE_UNAVAILABLE, "triage_unavailable")),
            Self::MethodNotAllowed { .. } => shape(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::ModelNotPriced { .. } => at("model", shape(StatusCode::BAD_REQUEST, "model_not_priced")),
            Self::ModelNotAllowed { .. } => at("model", shape(StatusCode::FORBIDDEN, "model_not_allowed")),
            Self::ServiceTierNotPriced { .. } => at("service_tier", shape(StatusCode::BAD_REQUEST, "service_tier_not_priced")),
            Self::BackgroundNotSupported => at("background", shape(StatusCode::BAD_REQUEST, "background_not_supported")),
            Self::UnboundedFeature { param } => at(param, shape(StatusCode::BAD_REQUEST, "unbounded_feature")),
            Self::IdempotencyInProgress => after(REPEAT_RETRY, shape(StatusCode::CONFLICT, "idempotency_in_progress")),
            Self::IdempotencyKeyReused => never(shape(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused")),
            Self::ReplyNotKept { .. } => never(shape(StatusCode::GONE, "reply_not_kept")),
            Self::JobNotFound => shape(StatusCode::NOT_FOUND, "job_not_found"),
            Self::JobExpired => never(shape(StatusCode::GONE, "job_expired")),
            Self::TooManyJobs { .. } => {
                Shape { kind: Some("requests"), ..after(JOBS_RETRY, shape(StatusCode::TOO_MANY_REQUESTS, "too_many_jobs")) }
            }
            Self::Upstream(UpstreamFault::Connect) => shape(StatusCode::BAD_GATEWAY, "upstream_unreachable"),
            Self::Upstream(UpstreamFault::Broken) => shape(StatusCode::BAD_GATEWAY, "upstream_broken"),
            Self::Upstream(UpstreamFault::Timeout) => shape(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
            Self::Internal => shape(StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        }
    }
}

/// Whether everybody's room ran out rather than somebody's own: nothing the customer did, and not theirs to see in numbers.
pub(super) const fn is_crowded(refusal: &Refusal) -> bool {
    matches!(refusal.scope, Scope::Pool | Scope::Gateway) && matches!(refusal.remedy, Remedy::Wait(_))
}

/// See [`Refusal::is_oversize`].
pub(super) const fn is_oversize(refusal: &Refusal) -> bool {
    refusal.is_oversize()
}

fn of_limit(refusal: &Refusal) -> Shape<'static> {
    let shape = |status, code, kind, retry| Shape { status, code, kind: Some(kind), param: None, retry };
    let dimension = match refusal.measure {
        Measure::Message | Measure::Request => "requests",
        Measure::Tokens | Measure::Input | Measure::Output | Measure::Reserved => "tokens",
        Measure::Money => "rate_limit_error",
    };
    if is_oversize(refusal) {
        return shape(StatusCode::PAYLOAD_TOO_LARGE, "request_exceeds_limit", "invalid_request_error", Retry::Never);
    }
    match refusal.remedy {
        Remedy::Wait(us) if is_crowded(refusal) => {
            shape(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "service_unavailable_error", Retry::After(us))
        }
        Remedy::Wait(us) => shape(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", dimension, Retry::After(us)),
        Remedy::Never => shape(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", dimension, Retry::Never),
        Remedy::InFlight(us) => shape(StatusCode::TOO_MANY_REQUESTS, "budget_in_flight", "rate_limit_error", Retry::After(us)),
        Remedy::NextPeriod(us) => {
            // What is dearer than the whole cap is no better off in the next period.
            let retry = if refusal.asked > refusal.max || refusal.max == 0 { Retry::Never } else { Retry::NotBefore(us) };
            if matches!(refusal.limit, LimitName::Spend(_)) {
                shape(StatusCode::PAYMENT_REQUIRED, "spend_cap_exceeded", "insufficient_quota", retry)
            } else {
                shape(StatusCode::TOO_MANY_REQUESTS, "insufficient_quota", "insufficient_quota", retry)
            }
        }
    }
}
