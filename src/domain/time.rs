//! Time as a number that is passed in.

/// Microseconds since the Unix epoch, by the wall clock of whoever decides (a gateway, or the Redis server).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// From whole seconds since the Unix epoch.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000)
    }

    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The instant `micros` later.
    #[must_use]
    pub const fn plus(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Microseconds from `earlier` to here, zero when it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Where the time comes from. Production has one implementation, tests another.
pub trait Clock: Send + Sync + 'static {
    /// The current instant.
    fn now(&self) -> Timestamp;
}
