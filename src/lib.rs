//! Tollgate.

pub mod config;
pub mod demo;
pub mod domain;
pub mod limit;
pub mod pricing;
pub mod store;
pub mod wire;
