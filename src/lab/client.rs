//! What a client does about a refusal: whether and when it asks again.

use super::random::Random;
use super::scenario::{Behaviour, Client};

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// `Retry-After`, microseconds.
    pub retry_after: Option<u64>,
    /// `x-should-retry: false`.
    pub final_: bool,
}

/// The first wait of the SDKs' own backoff, and the longest, microseconds.
const FIRST: u64 = 500_000;
const LONGEST: u64 = 8_000_000;
/// The longest `Retry-After` that the SDKs keep to, microseconds.
const KEPT_TO: u64 = 60_000_000;

impl Client {
    /// Microseconds after which it asks again; `None` = it gives up. `attempts` were made, `asked_for` microseconds ago the first.
    pub fn again(&self, told: Told, attempts: u64, asked_for: u64, draw: &mut Random) -> Option<u64> {
        if attempts > self.retries {
            return None;
        }
        let wait = match self.kind {
            Behaviour::Once => return None,
            Behaviour::AtOnce => 0,
            Behaviour::Sdk | Behaviour::Patient if told.final_ => return None,
            Behaviour::Patient => told.retry_after?,
            Behaviour::Sdk => told.retry_after.filter(|wait| *wait <= KEPT_TO).unwrap_or_else(|| {
                let doubled = FIRST << attempts.saturating_sub(1).min(10);
                let wait = doubled.min(LONGEST);
                wait - draw.below(wait / 4 + 1)
            }),
        };
        let wait = wait.max(self.pause);
        self.gives_up.is_none_or(|most| asked_for.saturating_add(wait) <= most).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_comes_back_as_it_does_in_life() {
        let client = |kind, retries| Client { kind, retries, pause: 100_000, gives_up: Some(70_000_000) };
        let told = |retry_after| Told { retry_after, final_: false };
        let draw = &mut Random::new(1, 1);
        for (kind, retries, told, attempts, right) in [
            (Behaviour::AtOnce, 3, told(Some(9_000_000)), 1, Some(100_000)),
            (Behaviour::AtOnce, 3, told(None), 3, Some(100_000)),
            (Behaviour::AtOnce, 3, told(None), 4, None),
            (Behaviour::AtOnce, 3, Told { retry_after: None, final_: true }, 1, Some(100_000)),
            (Behaviour::Sdk, 2, told(Some(9_000_000)), 1, Some(9_000_000)),
            (Behaviour::Sdk, 2, Told { retry_after: Some(1), final_: true }, 1, None),
            (Behaviour::Patient, 99, told(Some(9_000_000)), 50, Some(9_000_000)),
            (Behaviour::Patient, 99, told(Some(71_000_000)), 1, None),
            (Behaviour::Patient, 99, told(None), 1, None),
            (Behaviour::Once, 0, told(Some(1)), 1, None),
        ] {
            assert_eq!(client(kind, retries).again(told, attempts, 0, draw), right, "{kind:?} {told:?} after {attempts}");
        }
        let own = client(Behaviour::Sdk, 9).again(told(Some(61_000_000)), 2, 0, draw).expect("again");
        assert!((750_000..=1_000_000).contains(&own), "its own second wait: {own}");
    }
}
