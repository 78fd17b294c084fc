//! The three stages of a request: arrived, identified, and a call that is parsed and counted.

use super::account::{Account, Used};
use super::failed::Failed;
use crate::config::Policy;
use crate::config::policy::{App, Plan, Pool, Upstream};
use crate::domain::{CustomerId, Priority, Timestamp, UserId};
use crate::estimate::InputCount;
use crate::limit::{Claim, Scope, ScopeKey};
use crate::pricing::{Price, Worst};
use crate::reply::{Rejection, Standing};
use crate::store::Known;
use crate::store::reservation::Reservation;
use crate::telemetry::Record;
use crate::wire::Api;
use crate::wire::edit::Edits;
use crate::wire::request::Request;
use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// The answer of every layer.
pub type Reply = http::Response<Body>;

/// A request on a known route, not yet known whose.
#[derive(Debug)]
pub struct Arrived {
    /// What the route speaks.
    pub api: Api,
    /// Method, path, headers.
    pub head: Parts,
    /// The body, unread.
    pub body: Body,
    /// Where the connection comes from.
    pub peer: IpAddr,
    /// When it arrived.
    pub at: Timestamp,
    /// The configuration it is served by, to its end.
    pub policy: Arc<Policy>,
    /// What is known of it so far, for log and metrics.
    pub record: Arc<Record>,
}

/// A request whose application is known.
#[derive(Debug)]
pub struct Authenticated {
    /// The request.
    pub arrived: Box<Arrived>,
    /// Who calls.
    pub app: Arc<App>,
    /// What the provider will be shown.
    pub credential: Credential,
    /// The key it showed, where that was made at run time.
    pub key: Option<HeldKey>,
}

/// A key made at run time, and when it was looked up.
#[derive(Clone, Copy, Debug)]
pub struct HeldKey {
    /// Its hash.
    pub hash: blake3::Hash,
    /// The number of what it was looked up in.
    pub number: u64,
}

/// The credential that goes to the provider.
#[derive(Clone)]
pub enum Credential {
    /// The caller's own (passthrough mode), in the header it came in.
    Callers(HeaderName, HeaderValue),
    /// The upstream's configured key.
    Configured,
}

impl Credential {
    /// A short hash of the caller's own credential: the account whose ceiling is shared. `None` for the configured one.
    #[must_use]
    pub fn account(&self) -> Option<String> {
        match self {
            Self::Callers(_, value) => Some(blake3::hash(value.as_bytes()).to_hex()[..16].to_owned()),
            Self::Configured => None,
        }
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(***)")
    }
}

/// The body, read early when the customer's id stands in it.
#[derive(Debug)]
pub enum Payload {
    /// Not read yet.
    Incoming(Body),
    /// Read and decoded.
    Read(Bytes),
}

/// A request whose customer is known.
#[derive(Debug)]
pub struct Identified {
    /// Whose it is.
    pub who: Arc<Who>,
    /// What has been claimed so far; decided together by `admit`.
    pub claims: Vec<Claim>,
    /// The body.
    pub payload: Payload,
}

/// Whose request it is.
#[derive(Debug, Clone)]
pub struct Who {
    /// What the route speaks.
    pub api: Api,
    /// Method, path, headers.
    pub head: Parts,
    /// The configuration it is served by.
    pub policy: Arc<Policy>,
    /// What is known of it so far.
    pub record: Arc<Record>,
    /// When it arrived.
    pub at: Timestamp,
    /// Who calls.
    pub app: Arc<App>,
    /// What the provider will be shown.
    pub credential: Credential,
    /// The key it showed, where that was made at run time.
    pub key: Option<HeldKey>,
    /// Who is metered.
    pub customer: Customer,
    /// Who goes quiet first.
    pub priority: Priority,
    /// What kind of question it is, if the app said so.
    pub class: Option<Box<str>>,
    /// By which plans and overrides it is decided; `None` once it was tried again because they had changed.
    pub known: Option<Arc<Grounds>>,
}

/// By what a request is decided, and what `admit` found of it: how it hands a request back to `identify`.
#[derive(Debug, Default)]
pub struct Grounds {
    /// What the plan was made from.
    pub known: Known,
    /// What is in force instead, and the body; set by `admit`, which then claimed nothing.
    pub stale: OnceLock<(Known, Bytes)>,
}

/// The customer of a request, and the person inside it.
#[derive(Debug, Clone)]
pub struct Customer {
    /// The exact id.
    pub id: CustomerId,
    /// The plan, with the customer's overrides applied.
    pub plan: Arc<Plan>,
    /// Where the customer's limits are kept.
    pub scope: ScopeKey,
    /// The user, and where the user's limits are kept.
    pub user: Option<(UserId, ScopeKey)>,
}

impl Customer {
    /// The customer with its scopes.
    #[must_use]
    pub fn new(id: CustomerId, plan: Arc<Plan>, user: Option<UserId>) -> Self {
        let scope = ScopeKey { scope: Scope::Customer, owner: id.key().as_ref().into() };
        let user = user.map(|user| {
            let owner = format!("{}/{}", scope.owner, user.key());
            (user, ScopeKey { scope: Scope::User, owner: owner.into() })
        });
        Self { id, plan, scope, user }
    }
}

/// A request that is parsed and counted: everything the limits and the provider need. It goes from layer to layer in a box: each would have
/// room for one of its own otherwise, in a future that is copied and made anew for every request.
#[derive(Debug)]
pub struct Call {
    /// Whose it is.
    pub who: Arc<Who>,
    /// What has been claimed so far; decided together by `admit`.
    pub claims: Vec<Claim>,
    /// The body as it came.
    pub body: Bytes,
    /// What the body asks for; `None` for routes without a body.
    pub request: Option<Arc<Request>>,
    /// What changes before the body goes on.
    pub edits: Edits,
    /// Where it goes.
    pub target: Arc<Target>,
    /// The prompt, counted.
    pub input: InputCount,
    /// The output, bounded.
    pub output: Output,
    /// The most it can cost; `None` = nothing.
    pub worst: Option<Worst>,
    /// The admitted claims and the duty to settle them; set by `admit`.
    pub reservation: Option<Reservation>,
    /// The account of a call that was attempted before, reservation included; set by `retry` from the second attempt on.
    pub account: Option<Box<Account>>,
    /// How much is being given up in its pool, 0 to 3.
    pub level: u8,
    /// What an earlier try of the same request leaves to this one; set by `degrade`.
    pub earlier: Option<Box<Earlier>>,
}

/// What a try that failed leaves to the next one of the same request.
#[derive(Debug, Default)]
pub struct Earlier {
    /// A reservation that the admission of the next try is to replace, in one step.
    pub replaces: Option<Used>,
    /// Whether the request is counted already: a provider has seen it, so it is not claimed again as a request of the customer's.
    pub counted: bool,
    /// How the customer's limits stood: those that are not claimed again keep their numbers.
    pub standing: Option<Standing>,
}

/// Where a call goes and what it costs there.
#[derive(Debug, Clone)]
pub struct Target {
    /// The model; empty for routes without one.
    pub model: Arc<str>,
    /// The provider.
    pub upstream: Arc<Upstream>,
    /// The account limit it shares, if any.
    pub pool: Option<Arc<Pool>>,
    /// Where the pool's ceiling is kept. In passthrough mode every credential is an account of its own.
    pub ceiling: Option<Arc<str>>,
    /// Its price at admission, which holds for the whole request; `None` = it costs nothing.
    pub price: Option<Arc<Price>>,
}

/// The bound of a call's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Output {
    /// Tokens per choice at most.
    pub cap: u64,
    /// The smallest cap worth having.
    pub floor: u64,
    /// Choices the model makes, each up to the cap.
    pub choices: u64,
    /// What is likely used, all choices together.
    pub expected: u64,
}

impl Call {
    /// Whether the reply is asked for as a stream.
    #[must_use]
    pub fn streams(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.stream)
    }

    /// The same call once more, for a try with another model: nothing of the body is copied, and what was admitted stays with this one.
    #[must_use]
    pub fn fork(&self) -> Box<Self> {
        Box::new(Self {
            who: self.who.clone(),
            claims: Vec::new(),
            body: self.body.clone(),
            request: self.request.clone(),
            edits: self.edits.clone(),
            target: self.target.clone(),
            input: self.input,
            output: self.output,
            worst: self.worst,
            reservation: None,
            account: None,
            level: self.level,
            earlier: None,
        })
    }
}

/// A request that ends here, with what the customer's limits said so far.
#[derive(Debug)]
pub struct Rejected {
    /// Why.
    pub rejection: Rejection,
    /// How the customer's limits stand, where they were asked.
    pub standing: Option<Standing>,
    /// The call itself, where it reached `forward` and may still be tried again or elsewhere.
    pub failed: Option<Box<Failed>>,
    /// Whether the gateway has tried again already, so that the client's SDK had better not.
    pub retried: bool,
    /// Whether a message bucket refused it, be that the refusal reported or not: then no chain acts, or it would answer a flood.
    pub flood: bool,
}

impl From<Rejection> for Box<Rejected> {
    fn from(rejection: Rejection) -> Self {
        Self::new(Rejected { rejection, standing: None, failed: None, retried: false, flood: false })
    }
}
