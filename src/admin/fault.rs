//! What the admin listener says when it does not do as asked: a status, a code, a sentence, and who is in the way.

use super::json;
use crate::config::problem::Finding;
use crate::domain::Timestamp;
use crate::reply::rfc3339;
use crate::store::StoreError;
use crate::triage::{Conflict, Standing, Trouble};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde::Serialize;
use utoipa::ToSchema;

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No token, or another.
    Unauthorized,
    /// The request names a host that this listener, which asks for no token, is not.
    HostNotAllowed,
    /// A browser sent it for a page of another origin.
    OriginNotAllowed,
    /// No such route.
    RouteNotFound,
    /// The route exists for other methods.
    MethodNotAllowed,
    /// The body is not announced as JSON.
    UnsupportedMediaType,
    /// The body is too large.
    RequestTooLarge,
    /// The body did not arrive in time.
    RequestTimeout,
    /// A body or query that makes no sense; a sentence says what is right.
    InvalidRequest(String),
    /// Nothing is kept of such a request.
    RequestNotFound,
    /// No such plan.
    PlanNotFound,
    /// Overrides of these customers name the plan that would be gone.
    PlanInUse {
        /// The first of them, by id.
        customers: Vec<String>,
        /// Whether there are more.
        more: bool,
    },
    /// Somebody else changed it meanwhile.
    Changed {
        /// The version that stands; `None` = nothing is set.
        version: Option<u64>,
    },
    /// No such key, or one of the configuration.
    KeyNotFound,
    /// The key cannot be made or changed so; a sentence says why.
    KeyRefused(String),
    /// A fault of ours.
    Internal,
    /// No such pool.
    PoolNotFound,
    /// No such ticket.
    TicketNotFound,
    /// Somebody else works on it.
    TicketClaimed {
        /// Who.
        agent: Box<str>,
        /// Until when.
        until: Timestamp,
    },
    /// Its request is not kept, so it cannot be asked again.
    RequestNotKept,
    /// Its request is being asked again at this moment.
    TicketResubmitting,
    /// It has ended.
    TicketEnded {
        /// How.
        standing: Standing,
        /// Who ended it; `None` = its time was over.
        agent: Option<Box<str>>,
    },
    /// The store does not answer.
    StoreUnavailable,
}

impl Fault {
    /// The status and the code.
    #[must_use]
    pub const fn shape(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::HostNotAllowed => (StatusCode::FORBIDDEN, "host_not_allowed"),
            Self::OriginNotAllowed => (StatusCode::FORBIDDEN, "origin_not_allowed"),
            Self::RouteNotFound => (StatusCode::NOT_FOUND, "route_not_found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
            Self::RequestTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
            Self::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::InvalidRequest(_) => (StatusCode::BAD_REQUEST, "invalid_request"),
            Self::RequestNotFound => (StatusCode::NOT_FOUND, "request_not_found"),
            Self::PlanNotFound => (StatusCode::NOT_FOUND, "plan_not_found"),
            Self::PlanInUse { .. } => (StatusCode::CONFLICT, "plan_in_use"),
            Self::Changed { .. } => (StatusCode::CONFLICT, "changed_meanwhile"),
            Self::KeyNotFound => (StatusCode::NOT_FOUND, "key_not_found"),
            Self::KeyRefused(_) => (StatusCode::CONFLICT, "key_refused"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
            Self::PoolNotFound => (StatusCode::NOT_FOUND, "pool_not_found"),
            Self::TicketNotFound => (StatusCode::NOT_FOUND, "ticket_not_found"),
            Self::TicketClaimed { .. } => (StatusCode::CONFLICT, "ticket_claimed"),
            Self::RequestNotKept => (StatusCode::CONFLICT, "request_not_kept"),
            Self::TicketResubmitting => (StatusCode::CONFLICT, "ticket_resubmitting"),
            Self::TicketEnded { .. } => (StatusCode::CONFLICT, "ticket_ended"),
            Self::StoreUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
        }
    }

    /// The sentence.
    pub(crate) fn message(&self) -> String {
        let fixed = match self {
            Self::Unauthorized => "Send the admin token as \"Authorization: Bearer TOKEN\".",
            Self::HostNotAllowed => "Without a token this listener answers to localhost and loopback addresses only.",
            Self::OriginNotAllowed => "Requests that a browser sends for another page are not taken.",
            Self::RouteNotFound => "There is no such route.",
            Self::MethodNotAllowed => "The route does not take this method; see the header allow.",
            Self::UnsupportedMediaType => "The Content-Type must be application/json.",
            Self::RequestTooLarge => "The body is too large.",
            Self::RequestTimeout => "The body did not arrive in time.",
            Self::RequestNotFound => "Nothing is kept of such a request, or not any more.",
            Self::PlanNotFound => "There is no such plan, neither configured nor set.",
            Self::Changed { .. } => "Somebody else changed it meanwhile; look again, and send the version that stands.",
            Self::KeyNotFound => "There is no such key made at run time; keys of the configuration are changed there.",
            Self::Internal => "The gateway failed on this request; see the log.",
            Self::PoolNotFound => "There is no such pool in the configuration.",
            Self::TicketNotFound => "There is no such ticket, or not any more.",
            Self::RequestNotKept => "The request of this ticket is not kept; [triage] requests and request_max say which are.",
            Self::TicketResubmitting => {
                "The request of this ticket is being asked again; what comes of it will stand on the ticket."
            }
            Self::StoreUnavailable => {
                "The store does not answer; see the log. Whether anything changed is not known; the same again does no harm."
            }
            Self::InvalidRequest(message) | Self::KeyRefused(message) => return message.clone(),
            Self::PlanInUse { customers, more } => {
                return format!(
                    "There would be no such plan any more, and overrides name it: of {}{}. Give them another plan first, or send force=true: \
                     they then have the plan they would have without, and what else their overrides say holds.",
                    customers.join(", "),
                    if *more { " and more" } else { "" }
                );
            }
            Self::TicketClaimed { agent, until } => return format!("{agent} has claimed the ticket until {}.", rfc3339(*until)),
            Self::TicketEnded { standing, agent: Some(agent) } => {
                return format!("The ticket is {} already, by {agent}.", standing.as_str());
            }
            Self::TicketEnded { standing, agent: None } => return format!("The ticket is {} already.", standing.as_str()),
        };
        fixed.to_owned()
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let (status, code) = self.shape();
        let mut error = Told { code: code.to_owned(), message: self.message(), ..Told::default() };
        match &self {
            Self::TicketClaimed { agent, until } => {
                error.held_by = Some(agent.to_string());
                error.until = Some(rfc3339(*until));
            }
            Self::PlanInUse { customers, .. } => error.customers = Some(customers.clone()),
            Self::Changed { version } => error.version = Some(*version),
            Self::TicketEnded { standing, agent } => {
                error.status = Some(standing.as_str().to_owned());
                error.ended_by = Some(agent.as_deref().map(str::to_owned));
            }
            _ => {}
        }
        let mut response = json(status, &Problem { error });
        match self {
            Self::Unauthorized => drop(response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            Self::StoreUnavailable => drop(response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"))),
            _ => {}
        }
        response
    }
}

impl From<Trouble> for Fault {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::NotFound => Self::TicketNotFound,
            Trouble::Conflict(Conflict::Held { agent, until }) => Self::TicketClaimed { agent, until },
            Trouble::Conflict(Conflict::Ended { standing, agent }) => Self::TicketEnded { standing, agent },
            Trouble::NoRequest => Self::RequestNotKept,
            Trouble::BeingResubmitted => Self::TicketResubmitting,
            Trouble::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "the store does not answer an operator");
        Self::StoreUnavailable
    }
}

/// A finding in what an operator sent, by the setting it is about: that it would stand in the store, and where, is of no use to whoever asked.
pub(super) fn words(finding: &Finding) -> String {
    let Finding { place, reason, advice } = finding;
    let key = match setting(&place.key) {
        "" => &place.key,
        key => key,
    };
    let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
    if key.is_empty() { format!("{reason}{advice}") } else { format!("{key}: {reason}{advice}") }
}

/// What stands behind `customers.ID` or `plans.NAME`; the whole key elsewhere.
fn setting(key: &str) -> &str {
    let Some((_, named)) = key.split_once('.').filter(|(table, _)| matches!(*table, "customers" | "plans" | "keys")) else {
        return key;
    };
    let end = match named.strip_prefix('"') {
        // A name in quotes, in which a quote is escaped.
        Some(quoted) => {
            let mut escaped = false;
            let end = quoted.find(|c: char| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(named.len(), |end| end + 2)
        }
        None => named.find('.').unwrap_or(named.len()),
    };
    named[end..].trim_start_matches('.')
}

/// Why something was not done, as it is told.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// What is wrong.
    pub error: Told,
}

/// What is wrong.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Told {
    /// A word for programs, see docs/errors.md.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// Who has claimed the ticket (`ticket_claimed`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    /// Until when, RFC 3339 (`ticket_claimed`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How the ticket stands (`ticket_ended`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Who ended the ticket (`ticket_ended`); null: its time was over.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<Option<String>>,
    /// The version that stands (`changed_meanwhile`); null: nothing is set.
    #[schema(value_type = Option<u64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Option<u64>>,
    /// The first ten customers whose overrides name the plan (`plan_in_use`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customers: Option<Vec<String>>,
}
