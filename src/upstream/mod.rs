//! Calling providers: the HTTP client, the headers that pass, and the reply body that meters itself.

pub mod body;
pub mod client;
pub mod headers;
mod peek;
mod tasks;

pub use body::{Broke, End, MeteredBody};
pub use client::{Client, ClientError, NoReply, Outgoing, ProviderReply};
pub use peek::peek;
pub use tasks::Tasks;
