//! The admin API: customers, overrides, plans, the audit trail, health and the document that describes them, on both stores and on two
//! gateways of one Redis.

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/bed.rs"]
mod bed;
#[path = "admin/changes.rs"]
mod changes;
#[path = "admin/customers.rs"]
mod customers;
#[path = "admin/document.rs"]
mod document;
#[path = "admin/health.rs"]
mod health;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "support/mortal_redis.rs"]
mod mortal_redis;
#[path = "admin/plans.rs"]
mod plans;
#[path = "admin/rig.rs"]
mod rig;
#[path = "admin/suspended.rs"]
mod suspended;
