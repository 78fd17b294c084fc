//! A call that failed at its provider before anything of an answer was committed to the client: what is left to decide with.
//!
//! It still owns everything: the open account with its reservation, the provider's own reply, and the call itself. So `retry` may try again,
//! the degrade layer may swap the reservation for another model's, and whoever finds nothing better passes the provider's own error on.

use super::account::{Account, Closing, Used};
use super::attempt::claim_attempt;
use super::call::{Call, Rejected, Reply};
use super::gateway::Gateway;
use crate::reply::{self, Rejection, UpstreamFault};
use crate::upstream::MeteredBody;
use axum::body::Body;
use http::StatusCode;
use http::response::Parts;
use std::time::Duration;

/// When to come back if nobody said so, microseconds.
const RETRY_IN: u64 = 2_000_000;

/// What went wrong at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderFault {
    /// It has a limit of its own, and we ran into it.
    RateLimited {
        /// When it said to come back.
        retry_after: Option<Duration>,
    },
    /// It answered with an error that is its own: this status, or that of the error it sent under a status of success.
    Server(StatusCode),
    /// It did not answer, or not go on, in time.
    Timeout,
    /// It could not be reached: it has not seen the call.
    Connect,
    /// It broke off.
    Broken,
    /// It says that it did not process the call.
    Unprocessed,
    /// It was not asked, since nearly every call before failed.
    BreakerOpen {
        /// When it will be asked again.
        retry_in: Duration,
    },
}

impl ProviderFault {
    /// Whether the provider had to do with the call at all, and may count it.
    #[must_use]
    pub const fn reached(self) -> bool {
        !matches!(self, Self::Connect | Self::Unprocessed | Self::BreakerOpen { .. })
    }

    /// The label in metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited { .. } => "rate_limited",
            Self::Server(_) => "server_error",
            Self::Timeout => "timeout",
            Self::Connect => "connect",
            Self::Broken => "broken",
            Self::Unprocessed => "unprocessed",
            Self::BreakerOpen { .. } => "breaker_open",
        }
    }

    /// What is said of it where the provider said nothing that could be passed on.
    fn rejection(self) -> Rejection {
        let micros = |wait: Duration| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX).max(1);
        match self {
            Self::RateLimited { retry_after } => Rejection::Overloaded { retry_in: retry_after.map_or(RETRY_IN, micros) },
            Self::BreakerOpen { retry_in } => Rejection::Overloaded { retry_in: micros(retry_in) },
            Self::Timeout => Rejection::Upstream(UpstreamFault::Timeout),
            Self::Connect | Self::Unprocessed => Rejection::Upstream(UpstreamFault::Connect),
            Self::Broken | Self::Server(_) => Rejection::Upstream(UpstreamFault::Broken),
        }
    }
}

/// See the module. Dropping it settles it as failed: the account sees to that.
pub struct Failed {
    /// The call, without its reservation, ready to be tried again.
    pub call: Box<Call>,
    /// What went wrong.
    pub fault: ProviderFault,
    /// Whether trying the same again may help: neither the provider nor the nature of the error says no.
    pub may_retry: bool,
    /// When the provider said to come back, where the fault itself does not tell.
    pub stated_wait: Option<Duration>,
    /// Whether the client's SDK is told not to try again by itself: its attempts and ours would multiply.
    pub advise_against_retry: bool,
    account: Box<Account>,
    /// The provider's own reply, held back.
    reply: Option<Box<TheirReply>>,
    /// Whether it was not even made, and the account still stands as after the attempt before.
    not_made: bool,
}

/// What the provider sent: held back, so that it can still be passed on, or forgotten.
pub struct TheirReply {
    head: Parts,
    body: MeteredBody<Closing>,
}

impl std::fmt::Debug for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failed").field("fault", &self.fault).field("may_retry", &self.may_retry).finish_non_exhaustive()
    }
}

impl Failed {
    /// A call that failed without a reply.
    #[must_use]
    pub fn new(call: Box<Call>, account: Box<Account>, fault: ProviderFault, may_retry: bool) -> Self {
        Self { call, fault, may_retry, stated_wait: None, advise_against_retry: false, account, reply: None, not_made: false }
    }

    /// An attempt that was not even made: no slot, or a provider that is left alone.
    #[must_use]
    pub fn not_made(call: Box<Call>, account: Box<Account>, fault: ProviderFault) -> Self {
        Self { not_made: true, ..Self::new(call, account, fault, false) }
    }

    /// The same with the provider's own reply, its headers fit for the client.
    #[must_use]
    pub fn with_reply(mut self, head: Parts, body: MeteredBody<Closing>) -> Self {
        self.reply = Some(Box::new(TheirReply { head, body }));
        self
    }

    /// Takes over what the provider said to the attempt before, where this one was not made.
    pub fn inherit(&mut self, earlier: Option<Box<TheirReply>>) {
        if self.not_made {
            self.reply = earlier;
        }
    }

    /// Claims the provider's ceiling for another attempt and waits for its turn; see [`claim_attempt`].
    pub async fn claim(&mut self, gateway: &Gateway, left: Duration) -> Option<Duration> {
        claim_attempt(&self.call, &mut self.account, gateway, left).await
    }

    /// The call with its account, for another attempt, and what the provider said to this one.
    #[must_use]
    pub fn again(self) -> (Box<Call>, Option<Box<TheirReply>>) {
        let Self { mut call, account, reply, .. } = self;
        call.account = Some(account);
        (call, reply)
    }

    /// What a swap of the reservation needs: the reservation, with what was used of it so far. The provider's reply stays, should nothing
    /// better be found.
    #[must_use]
    pub fn take_used(&mut self) -> Option<Used> {
        self.account.take_used()
    }

    /// Settles it, and gives the provider's own error: its status, body and `Retry-After` as they came, marked as the provider's.
    ///
    /// # Errors
    /// A refusal of ours where the provider said nothing.
    pub fn pass_on(self) -> Result<Reply, Box<Rejected>> {
        let mut account = self.account;
        let Some(mut reply) = self.reply else {
            account.failed();
            let rejection = self.fault.rejection();
            let retried = self.advise_against_retry && matches!(rejection, Rejection::Upstream(_));
            return Err(Box::new(Rejected { retried, ..*Box::<Rejected>::from(rejection) }));
        };
        if self.advise_against_retry {
            reply::forbid_retry(&mut reply.head.headers);
        }
        account.resumed();
        reply.body.resume(Closing { account, status: reply.head.status });
        Ok(http::Response::from_parts(reply.head, Body::new(reply.body)))
    }
}

impl Rejected {
    /// A provider's failure that nobody found anything better for, as an answer: the provider's own where there is one.
    ///
    /// # Errors
    /// Itself, where the call did not fail at its provider, or the provider said nothing.
    pub fn pass_on(mut self: Box<Self>) -> Result<Reply, Box<Self>> {
        let Some(failed) = self.failed.take() else { return Err(self) };
        let dialect = failed.call.who.api.dialect();
        let cap = failed.call.edits.output_cap;
        match failed.pass_on() {
            Ok(mut reply) => {
                if let Some(standing) = &self.standing {
                    reply::answer_headers(reply.headers_mut(), standing, dialect, cap);
                }
                Ok(reply)
            }
            Err(rejected) => Err(Box::new(Self { standing: self.standing.take(), ..*rejected })),
        }
    }
}

impl From<Failed> for Box<Rejected> {
    fn from(failed: Failed) -> Self {
        let mut rejected = Self::from(failed.fault.rejection());
        rejected.failed = Some(Box::new(failed));
        rejected
    }
}
