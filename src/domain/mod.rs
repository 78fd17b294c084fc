//! The words of the product: money, time, identities, periods. Pure: no clock, no I/O, no async.

pub mod id;
pub mod money;
pub mod period;
pub mod time;

pub use id::{AppId, CustomerId, Priority, RequestId, ReservationId, UserId};
pub use money::{NanoUsd, Rate};
pub use period::{Boundaries, Period, Zone};
pub use time::{Clock, Timestamp};
