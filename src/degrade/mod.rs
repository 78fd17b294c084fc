//! What is given up when there is not enough for everybody: decisions only, on numbers and instants that are passed in.
//!
//! [`level`] says how much is given up; the stack and the lab act on it with the same code.

pub mod level;
