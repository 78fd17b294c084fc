//! Tollgate.

pub mod config;
pub mod domain;
pub mod estimate;
pub mod limit;
pub mod pricing;
pub mod store;
pub mod wire;
