//! What is given up when there is not enough for everybody: decisions only, on numbers and instants that are passed in.
//!
//! [`level`] says how much is given up, [`retry`] whether to try again and when, [`breaker`] whether to try at all, [`chain`] what is tried
//! instead of an error; the stack and the lab act on it with the same code.

pub mod breaker;
pub mod chain;
pub mod level;
pub mod retry;
