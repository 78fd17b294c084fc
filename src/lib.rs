//! Tollgate.

pub mod config;
pub mod domain;
pub mod limit;
pub mod pricing;
pub mod reply;
pub mod store;
pub mod wire;
