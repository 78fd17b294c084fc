//! Everything the gateway answers in place of the provider.

use super::message::message;
use super::shape::Retry;
use crate::domain::id::IdError;
use crate::limit::Refusal;
use crate::wire::Dialect;
use std::borrow::Cow;

/// Why a request gets an answer of ours instead of the provider's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A limit said no.
    Limit(Refusal),
    /// An operator has suspended the customer: its cap of zero dollars said no, also to what costs nothing.
    Suspended(Refusal),
    /// A dollar cap affords only an answer too short to be of use.
    OutputFloor {
        /// What the cap said, at the output cap that was asked for.
        refusal: Refusal,
        /// The smallest output cap worth having.
        floor: u64,
        /// The largest output cap that the cap affords; zero when it affords none.
        affordable: u64,
    },
    /// The customer has too many requests in flight in this process.
    Concurrent {
        /// The plan's `max_in_flight`.
        limit: u32,
        /// How many there are.
        in_flight: u32,
    },
    /// No slot, no place in the queue, or waited too long.
    Overloaded {
        /// When to come back, microseconds.
        retry_in: u64,
    },
    /// Background work waits while a pool's level is above zero.
    BackgroundPaused {
        /// When to come back, microseconds.
        retry_in: u64,
    },
    /// The store cannot decide and the gateway's own share for such times is used up.
    LimitsUnavailable,
    /// The customer's id is not one.
    InvalidCustomerId(IdError),
    /// The application named too many customers for the first time in this hour.
    TooManyNewCustomers {
        /// How many it may.
        limit: u64,
        /// Until the next hour, microseconds.
        retry_in: u64,
    },
    /// Two different customer ids in one request.
    ConflictingCustomerIds,
    /// No customer id where one is needed.
    MissingCustomerId,
    /// A header of ours with a value that means nothing.
    InvalidHeader {
        /// Which.
        name: &'static str,
        /// What is right instead, as the rest of a sentence that begins with the name.
        problem: Cow<'static, str>,
    },
    /// Who calls is not known.
    Unauthenticated(Unauthenticated),
    /// Who calls may not do this.
    Forbidden(Forbidden),
    /// The body is not what the API takes: a 400.
    Body {
        /// `code` of the error.
        code: &'static str,
        /// The field at fault.
        param: Option<Cow<'static, str>>,
        /// A sentence for the developer; bounded, and without what the body said.
        message: Cow<'static, str>,
    },
    /// The body is larger than `max_body`.
    BodyTooLarge {
        /// The largest allowed, decoded, in bytes.
        max: u64,
    },
    /// The body did not arrive in time.
    BodyTimeout,
    /// A `Content-Encoding` that is not understood.
    UnsupportedEncoding,
    /// A `Content-Type` that is not JSON.
    UnsupportedMediaType,
    /// No such route.
    NotFound {
        /// The path asked for.
        path: Box<str>,
    },
    /// No upstream speaks the format of the route, or the model's pool has one that speaks another.
    NoUpstream {
        /// The format.
        dialect: Dialect,
    },
    /// The route exists for other methods.
    MethodNotAllowed {
        /// The methods it takes, as the `Allow` header lists them.
        allow: &'static str,
    },
    /// No such ticket of this customer and app.
    TicketNotFound,
    /// The store does not say how a ticket stands.
    TriageUnavailable,
    /// The model has no price.
    ModelNotPriced {
        /// The model asked for.
        model: Box<str>,
    },
    /// The app may not use the model.
    ModelNotAllowed {
        /// The model asked for.
        model: Box<str>,
    },
    /// The service tier has no price.
    ServiceTierNotPriced {
        /// The tier asked for.
        tier: Box<str>,
    },
    /// `background: true`.
    BackgroundNotSupported,
    /// A feature whose cost cannot be bounded.
    UnboundedFeature {
        /// The field that asks for it.
        param: Cow<'static, str>,
    },
    /// The first request with this idempotency key still runs.
    IdempotencyInProgress,
    /// The idempotency key was used for another request.
    IdempotencyKeyReused,
    /// The reply was too long to be kept.
    ReplyNotKept {
        /// The longest that is kept, in bytes.
        max: u64,
    },
    /// No such asynchronous request, or somebody else's.
    JobNotFound,
    /// It found no room in its time.
    JobExpired,
    /// The customer has too many asynchronous requests that wait or run.
    TooManyJobs {
        /// How many are allowed.
        limit: u64,
    },
    /// The provider gave no answer.
    Upstream(UpstreamFault),
    /// A fault of ours.
    Internal,
}

/// Why a caller is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unauthenticated {
    /// No key.
    Missing,
    /// A key that is not one of ours.
    Unknown,
    /// A key whose time is over.
    Expired,
    /// A secret in whose place another came, and whose time is over.
    Replaced,
    /// A key that was taken back.
    Revoked,
}

/// What a caller may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// Name this plan.
    Plan,
    /// Act for this customer.
    Customer,
    /// Be a customer that is not configured.
    UnknownCustomer,
    /// Call from this network.
    Network,
    /// Call this route.
    Route,
}

/// How the provider failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamFault {
    /// It could not be reached.
    Connect,
    /// It did not answer in time.
    Timeout,
    /// It broke off, or its answer is no HTTP.
    Broken,
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&message(self))
    }
}

impl std::error::Error for Rejection {}

impl Rejection {
    /// The cause as a word: `code` of the error body, and the label in metrics and logs. There are only a few dozen.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        self.shape().code
    }

    /// Microseconds after which the same request may pass; `None` when waiting is no cure, or nobody knows how long.
    #[must_use]
    pub fn returns_in(&self) -> Option<u64> {
        match self.shape().retry {
            Retry::After(micros) | Retry::NotBefore(micros) => Some(micros),
            Retry::Unsaid | Retry::Never => None,
        }
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> http::StatusCode {
        self.shape().status
    }
}
