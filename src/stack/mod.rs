//! The stack: one tower layer a file, outermost first.
//!
//! ```text
//!  http::Request
//!    1 observe         request id, record, panic barrier; rejections become answers
//!    2 authenticate    gateway key -> app, or the caller's own provider key
//!    3 identify        -> Identified: customer, user, plan, priority, class
//!    4 customer_rate   claims the message bucket; refuses who was just seen empty
//!    5 inspect         -> Call: body read, model and price known, prompt counted, output bounded
//!    6 repeat          replays what a key was answered before; takes in what is answered later
//!    7 degrade         on a refusal walks the plan's chain: waits, asks the fallback model, hands off
//!    8 token_rate      claims RPM, TPM and the provider ceiling
//!    9 spend           claims dollars and quotas
//!   10 admit           commits all claims in one store call; waits for the start time
//!   11 retry           tries again what failed before anything was delivered
//!   12 concurrency     a slot, held to the end of the reply body
//!   13 forward         calls the provider; the reply body settles the call
//! ```
//!
//! Limits only *claim*; `admit` decides. A layer that ends a request gives a [`call::Rejected`]; only `observe` turns it into HTTP.
//! Every service here is always ready: waiting happens inside a request, where it is bounded and the client can leave.

mod account;
mod admit;
mod answer;
mod aside;
mod attempt;
mod authenticate;
mod body;
pub mod call;
mod concurrency;
pub(crate) mod customer_rate;
mod degrade;
mod empty;
pub(crate) mod expected;
mod failed;
mod fallback;
mod forward;
pub mod gateway;
pub(crate) mod give_up;
mod handoff;
mod identify;
mod inspect;
pub mod jobs;
pub mod levels;
mod newcomers;
mod observe;
pub(crate) mod output;
pub mod pauses;
mod poll;
mod repeat;
pub mod resubmit;
mod retry;
pub mod router;
mod serve;
pub mod shadow;
mod slots;
mod spend;
pub(crate) mod token_rate;

pub use gateway::Gateway;

use call::{Arrived, Call, Rejected};
use serve::{Serve, Shared};
use std::sync::Arc;
use tower::ServiceBuilder;

/// The whole stack as one service.
pub type Stack = Shared<Box<Arrived>, std::convert::Infallible>;

/// Builds the stack of a gateway.
#[must_use]
pub fn build(gateway: &Arc<Gateway>) -> Stack {
    let layers = ServiceBuilder::new()
        .layer(observe::ObserveLayer)
        .layer(authenticate::AuthenticateLayer(gateway.clone()))
        .layer(identify::IdentifyLayer(gateway.clone()))
        .layer(customer_rate::CustomerRateLayer(gateway.clone()))
        .layer(inspect::InspectLayer(gateway.clone()))
        .layer(repeat::RepeatLayer(gateway.clone()));
    Shared::new(layers.service(below_repeat(gateway)))
}

/// The layers a job runs through: those of any request, by the configuration of the moment, but for the two that know the connection and
/// the one that took it in.
#[must_use]
fn run_stack(gateway: &Arc<Gateway>) -> jobs::RunStack {
    let layers = ServiceBuilder::new()
        .layer(identify::IdentifyLayer(gateway.clone()))
        .layer(customer_rate::CustomerRateLayer(gateway.clone()))
        .layer(inspect::InspectLayer(gateway.clone()));
    Shared::new(layers.service(below_repeat(gateway)))
}

/// The stack of the routes that look at jobs: known callers, and no limits.
fn desk_stack(gateway: &Arc<Gateway>) -> Stack {
    let layers = ServiceBuilder::new()
        .layer(observe::ObserveLayer)
        .layer(authenticate::AuthenticateLayer(gateway.clone()))
        .layer(identify::IdentifyLayer(gateway.clone()));
    Shared::new(layers.service(jobs::Desk(gateway.clone())))
}

/// Layers 7 to 13.
fn below_repeat(gateway: &Arc<Gateway>) -> impl Serve<Box<Call>, Error = Box<Rejected>> + Clone + use<> {
    ServiceBuilder::new()
        .layer(degrade::DegradeLayer(gateway.clone()))
        .layer(token_rate::TokenRateLayer)
        .layer(spend::SpendLayer(gateway.clone()))
        .layer(admit::AdmitLayer(gateway.clone()))
        .layer(retry::RetryLayer(gateway.clone()))
        .layer(concurrency::ConcurrencyLayer(gateway.clone()))
        .service(forward::Forward::new(gateway.clone()))
}

/// The way of a look at a ticket: known who asks, and nothing counted.
#[must_use]
pub fn build_status(gateway: &Arc<Gateway>) -> Stack {
    let layers = ServiceBuilder::new()
        .layer(observe::ObserveLayer)
        .layer(authenticate::AuthenticateLayer(gateway.clone()))
        .layer(identify::IdentifyLayer(gateway.clone()));
    Shared::new(layers.service(poll::Status::new(gateway.clone())))
}
