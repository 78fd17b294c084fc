//! The limits themselves: pure functions over small states, time passed in.
//!
//! A request makes [`Claim`]s; [`decide::admit`] answers all of them or none; [`decide::settle`] replaces what was claimed by what was
//! used. Both stores follow these functions to the number: the embedded one calls them, the Lua scripts mirror them, and one
//! conformance suite compares the two.

pub mod admission;
pub mod bucket;
pub mod budget;
pub mod claim;
pub mod decide;
pub mod gauge;
pub mod refusal;
pub mod window;

pub use admission::{Admission, Decision, Line, Outcome, Settlement, Verdict};
pub use bucket::{Bucket, BucketError, BucketState};
pub use budget::BudgetState;
pub use claim::{Claim, Elastic, LimitName, Measure, Rule, Scope, ScopeKey};
pub use gauge::Gauge;
pub use refusal::{Refusal, Remedy};
pub use window::WindowState;
