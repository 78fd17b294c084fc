//! What is given up when there is not enough for everybody: decisions only, on numbers and instants that are passed in.
//!
//! [`level`] says how much is given up, [`chain`] what is tried instead of an error; the stack and the lab act on both with the same code.

pub mod chain;
pub mod level;
