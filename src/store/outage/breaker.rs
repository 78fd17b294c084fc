//! Whether the store is asked at all: after a few failures in a row it is not, until a probe succeeds.

use super::super::StoreError;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Whose fault an error of the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It said nothing: whether it did what it was asked is not known.
    Silent,
    /// It said that it cannot decide, for anybody, and did nothing.
    Refusing,
    /// This one request failed; others may not.
    Request,
}

/// How the texts of errors begin that a Redis in this state gives to every write: as the server spells it, or as the client does.
const REFUSING: [&str; 19] = [
    "LOADING",
    "BusyLoading",
    "READONLY",
    "ReadOnly",
    "MASTERDOWN",
    "MasterDown",
    "CLUSTERDOWN",
    "ClusterDown",
    "TRYAGAIN",
    "TryAgain",
    "NOPERM",
    "NoPerm",
    "OOM",
    "NOAUTH",
    "WRONGPASS",
    "BUSY",
    "MISCONF",
    "NOREPLICAS",
    "the scripts are flushed",
];

impl Fault {
    /// Classifies an error.
    #[must_use]
    pub fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Unreachable(_) => Self::Silent,
            StoreError::Failed(text) => {
                let text = text.trim_start_matches('"');
                if REFUSING.iter().any(|word| text.starts_with(word)) { Self::Refusing } else { Self::Request }
            }
            StoreError::Away(_) => Self::Refusing,
        }
    }
}

/// Opens after a number of failures in a row.
#[derive(Debug)]
pub struct Breaker {
    most: u32,
    failures: AtomicU32,
    open: AtomicBool,
}

impl Breaker {
    /// A closed one that opens at the `most`th failure in a row.
    pub const fn new(most: u32) -> Self {
        Self { most, failures: AtomicU32::new(0), open: AtomicBool::new(false) }
    }

    /// Whether the store is not to be asked.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// A call succeeded. One that began before the breaker opened does not close it: only a probe does.
    pub fn succeeded(&self) {
        // Read first: on the normal path nothing is written to a line that all cores share.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// A call failed.
    pub fn failed(&self) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= self.most {
            self.open.store(true, Ordering::Relaxed);
        }
    }

    /// A probe succeeded.
    pub fn close(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.open.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_one_request_is_told_apart_from_one_of_the_store() {
        let failed = |text: &str| Fault::of(&StoreError::Failed(text.into()));
        for text in [
            "BusyLoading: Redis is loading the dataset in memory",
            "ReadOnly: You can't write against a read only replica.",
            "\"OOM\": command not allowed when used memory > 'maxmemory'.",
            "\"NOAUTH\": Authentication required.",
            "\"WRONGPASS\": invalid username-password pair",
            "\"BUSY\": Redis is busy running a script.",
            "\"MISCONF\": Redis is configured to save RDB snapshots",
            "ClusterDown: Hash slot not served",
            "NoPerm: this user has no permissions",
            "the scripts are flushed as fast as they are loaded",
        ] {
            assert_eq!(failed(text), Fault::Refusing, "{text}");
        }
        for text in [
            "\"WRONGTYPE\": Operation against a key",
            "ResponseError: user_script:7: attempt",
            "admit answered nil",
            "a script gave",
        ] {
            assert_eq!(failed(text), Fault::Request, "{text}");
        }
        assert_eq!(Fault::of(&StoreError::Unreachable("no reply within 50ms".into())), Fault::Silent);
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_only_a_probe_closes_it() {
        let breaker = Breaker::new(3);
        for _ in 0..2 {
            breaker.failed();
            breaker.failed();
            breaker.succeeded();
        }
        assert!(!breaker.is_open(), "never three in a row");
        for _ in 0..3 {
            breaker.failed();
        }
        breaker.succeeded();
        assert!(breaker.is_open(), "a late success is no probe");
        breaker.close();
        assert!(!breaker.is_open());
        breaker.failed();
        assert!(!breaker.is_open(), "it counts from nothing again");
    }
}
