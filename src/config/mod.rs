//! Configuration: the file as written, checked, and compiled into the policy that the stack reads.
//!
//! ```text
//! text --node--> tree <--env-- TOLLGATE_* variables
//!                  |  read: unknown keys, wrong types        (read, value, choice, secret)
//!                  v
//!            file::File: as written, every key optional
//!                  |  compile: defaults, names, exact numbers (compile, prices)
//!                  v
//!               Policy: what the stack reads
//! ```
//!
//! What is said at run time goes the same way, over the plans as they were written: see [`book`].
//!
//! Every step collects its problems and goes on, so an operator sees all of them at once. A new setting is one line in `file`, one
//! field in [`policy`] and one place in `compile`.

pub mod book;
pub(crate) mod choice;
mod compile;
pub mod env;
mod file;
mod lookup;
pub(crate) mod node;
pub mod policy;
mod prices;
pub(crate) mod problem;
pub(crate) mod read;
mod secret;
pub mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod value;

pub use compile::Loaded;
pub(crate) use compile::embedded;
pub(crate) use compile::tls::date;
pub use env::Env;
pub use policy::Policy;
pub use problem::{Finding, Place, Problem, Source, Warning};
pub use value::matches;

/// The hash under which a gateway key is configured (`hash = "blake3:<hex>"`) and looked up.
///
/// Gateway keys are long and random, so a fast hash is enough: there is no dictionary to try.
#[must_use]
pub fn hash_key(key: &str) -> [u8; 32] {
    *blake3::hash(key.as_bytes()).as_bytes()
}
