//! The system clock: the only place that reads it.

use crate::domain::{Clock, Timestamp};
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}
