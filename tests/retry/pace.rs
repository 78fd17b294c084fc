//! Rigs whose waits between attempts a test holds in its hand.

use crate::rig::{Rig, config};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tollgate::demo::provider::Gate;
use tollgate::domain::{Clock, Timestamp};
use tollgate::stack::pauses::Pauses;
use tollgate::telemetry::SystemClock;

/// The waits of a gateway: recorded, and over at once unless a gate is put before them.
#[derive(Clone, Default)]
pub struct Waits(Arc<Shared>);

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Duration>>,
    begun: Notify,
    gate: Mutex<Option<Gate>>,
    dice: AtomicU32,
}

impl Waits {
    /// The waits since the last call, in milliseconds.
    pub fn take(&self) -> Vec<u64> {
        let seen = std::mem::take(&mut *self.0.seen.lock());
        seen.into_iter().map(|wait| u64::try_from(wait.as_millis()).expect("short")).collect()
    }

    /// From now on all waits last until this gate opens.
    pub fn hold(&self) -> Gate {
        let gate = Gate::new();
        *self.0.gate.lock() = Some(gate.clone());
        gate
    }

    /// Until so many have begun since the last [`Waits::take`].
    pub async fn begun(&self, count: usize) {
        let enough = async {
            while self.0.seen.lock().len() < count {
                self.0.begun.notified().await;
            }
        };
        tokio::time::timeout(crate::rig::SOON, enough).await.expect("a wait between attempts");
    }

    /// What the dice show from now on, in millionths.
    pub fn dice(&self, dice: u32) {
        self.0.dice.store(dice, Ordering::SeqCst);
    }
}

impl Pauses for Waits {
    fn pause(&self, wait: Duration) -> BoxFuture<'_, ()> {
        if wait.is_zero() {
            return std::future::ready(()).boxed();
        }
        self.0.seen.lock().push(wait);
        self.0.begun.notify_one();
        let gate = self.0.gate.lock().clone();
        async move {
            if let Some(gate) = gate {
                gate.passed().await;
            }
        }
        .boxed()
    }

    fn dice(&self) -> u32 {
        self.0.dice.load(Ordering::SeqCst)
    }
}

/// A clock that stands still unless a test moves it.
#[derive(Clone)]
pub struct Hand(Arc<AtomicU64>);

impl Hand {
    pub fn pass(&self, wait: Duration) {
        self.0.fetch_add(u64::try_from(wait.as_micros()).expect("short"), Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A rig with the shipped retries (no breaker), these settings of both upstreams and these lines behind it all, and its waits.
pub async fn paced(upstream: &str, retry: &str, more: &str) -> (Rig, Waits) {
    let (rig, waits, _) = clocked(upstream, &format!("breaker = {{ failures = 0 }}\n{retry}"), more).await;
    (rig, waits)
}

/// As [`paced`], with all of `[retry]` and the gateway's clock.
pub async fn clocked(upstream: &str, retry: &str, more: &str) -> (Rig, Waits, Hand) {
    let waits = Waits::default();
    let hand = Hand(Arc::new(AtomicU64::new(SystemClock.now().micros())));
    let text = config(upstream, more).replace("max = 0\nbreaker = { failures = 0 }\n", &format!("{retry}\n"));
    let rig = Rig::paced(&text, Arc::new(hand.clone()), Box::new(waits.clone())).await;
    (rig, waits, hand)
}
