//! Calling providers: the HTTP client, the headers that pass, and the reply body that meters itself.

pub mod body;
pub mod breakers;
pub mod client;
pub mod headers;
mod http;
mod http1;
mod orphans;
mod peek;
mod pool;
mod tasks;

pub use body::{Bounds, Broke, End, MeteredBody, OnEnd, Uncommitted};
pub use breakers::Breakers;
pub use client::{Client, ClientError, NoReply, Outgoing, ProviderReply};
pub use orphans::{Adopted, Orphans};
pub use peek::peek;
pub use tasks::Tasks;
