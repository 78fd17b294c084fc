//! What the gateway itself says to a client: refusals, and how the customer's limits stand.
//!
//! This is the only place that turns a cause into HTTP. Layers hand up a [`Rejection`]; [`reject`] gives it the status, the error
//! format of the route and the headers that make the official SDKs do the right thing: wait exactly as long as it takes where
//! waiting helps, and not retry at all where it does not. [`rate_headers`] puts the customer's own limits on every answer, in the
//! IETF's and in the route's vendor spelling; the provider's account-level numbers never pass ([`is_account_number`]).

mod degraded;
mod handoff;
mod headers;
pub mod job;
mod limit;
mod message;
mod names;
mod rejection;
mod replay;
mod response;
mod shape;
mod standing;
mod text;

pub use degraded::mark_answer;
pub use handoff::{HANDOFF_MODEL, Handoff, hand_off};
pub use headers::{is_account_number, rate_headers};
pub use names::{
    DEGRADED, LEVEL, MODEL, NOTICE, ORIGINAL_REQUEST_ID, OUTPUT_CAP, REFUSED_BY, REPLAYED, REQUEST_ID, TICKET, TICKET_URL,
};
pub use rejection::{Forbidden, Rejection, Unauthenticated, UpstreamFault};
pub use replay::{outlives, replay};
pub use response::{Context, advise_against_retry, answer_headers, forbid_retry, mark_provider, reject};
pub use standing::Standing;
pub use text::rfc3339;
