//! Waiting on purpose, and chance: passed in, so that tests neither wait nor guess.

use crate::degrade::retry::DICE;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::time::Duration;

/// How a gateway waits between attempts, and how it throws dice.
pub trait Pauses: Send + Sync + 'static {
    /// Waits.
    fn pause(&self, wait: Duration) -> BoxFuture<'_, ()>;

    /// A random number below [`DICE`].
    fn dice(&self) -> u32;
}

/// The real ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealPauses;

impl Pauses for RealPauses {
    fn pause(&self, wait: Duration) -> BoxFuture<'_, ()> {
        if wait.is_zero() { std::future::ready(()).boxed() } else { tokio::time::sleep(wait).boxed() }
    }

    fn dice(&self) -> u32 {
        fastrand::u32(..DICE)
    }
}
