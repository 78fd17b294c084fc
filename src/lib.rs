//! Tollgate.

pub mod cli;
pub mod config;
pub mod domain;
pub mod limit;
pub mod pricing;
pub mod store;
pub mod wire;
