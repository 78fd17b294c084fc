//! Provider pools: which have been busy for minutes, and whose level has changed.

use crate::domain::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;

/// A change of level that is older than this is no news: it is found by a gateway that starts.
const STALE: u64 = 600_000_000;

/// How a ceiling stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Whose: the pool's, or in passthrough mode the pool's and a credential's.
    pub owner: Arc<str>,
    /// The level by the gauge.
    pub level: u8,
    /// The level before its last change.
    pub before: u8,
    /// When it last changed, the same on every gateway; zero = not that anybody knew.
    pub changed: Timestamp,
    /// Use of the ceiling in the trailing minute, thousandths.
    pub used: u64,
}

/// A level that an operator set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The pool.
    pub pool: String,
    /// The level.
    pub level: u8,
    /// Until when.
    pub until: Timestamp,
    /// Who set it.
    pub by: String,
}

/// What happened to a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It has been busy since then.
    Busy { gauge: Gauge, since: Timestamp },
    /// Its level has changed.
    Level(Gauge),
    /// An operator set it.
    Pinned(Pin),
    /// The gauge decides again.
    Unpinned { pin: Pin, early: bool },
}

/// What was seen of the pools before.
#[derive(Debug, Default)]
pub(super) struct Pools {
    busy: HashMap<Arc<str>, Timestamp>,
    changed: HashMap<Arc<str>, Timestamp>,
    pins: HashMap<String, Pin>,
}

impl Pools {
    /// Compares with what was before. `Busy` is given again and again while it lasts.
    pub(super) fn see(&mut self, gauges: &[Gauge], pins: Vec<Pin>, percent: u8, lasts: u64, now: Timestamp) -> Vec<Event> {
        let mut events = Vec::new();
        let threshold = u64::from(percent) * 10;
        self.busy.retain(|owner, _| gauges.iter().any(|gauge| gauge.owner == *owner && gauge.used >= threshold));
        self.changed.retain(|owner, _| gauges.iter().any(|gauge| gauge.owner == *owner));
        for gauge in gauges {
            if gauge.used >= threshold {
                let since = *self.busy.entry(gauge.owner.clone()).or_insert(now);
                if now.since(since) >= lasts {
                    events.push(Event::Busy { gauge: gauge.clone(), since });
                }
            }
            let known = self.changed.insert(gauge.owner.clone(), gauge.changed);
            let news = gauge.changed.micros() > 0 && known != Some(gauge.changed) && gauge.level != gauge.before;
            if news && now.since(gauge.changed) < STALE {
                events.push(Event::Level(gauge.clone()));
            }
        }
        let pins: HashMap<String, Pin> =
            pins.into_iter().filter(|pin| now < pin.until).map(|pin| (pin.pool.clone(), pin)).collect();
        let set = pins.values().filter(|pin| self.pins.get(&pin.pool) != Some(*pin));
        events.extend(set.cloned().map(Event::Pinned));
        for (pool, pin) in self.pins.drain().filter(|(pool, _)| !pins.contains_key(pool)) {
            debug_assert_eq!(pool, pin.pool);
            let early = now < pin.until;
            events.push(Event::Unpinned { pin, early });
        }
        self.pins = pins;
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(START + secs)
    }

    fn gauge(used: u64, level: u8, before: u8, changed: u64) -> Gauge {
        let changed = if changed == 0 { Timestamp(0) } else { at(changed) };
        Gauge { owner: "mini".into(), level, before, changed, used }
    }

    fn see(pools: &mut Pools, gauge: &Gauge, secs: u64) -> Vec<Event> {
        pools.see(std::slice::from_ref(gauge), Vec::new(), 80, 300_000_000, at(secs))
    }

    #[test]
    fn a_pool_is_busy_after_five_minutes_without_a_pause() {
        let mut pools = Pools::default();
        let busy = |used, since| vec![Event::Busy { gauge: gauge(used, 0, 0, 0), since: at(since) }];
        assert_eq!(see(&mut pools, &gauge(800, 0, 0, 0), 0), []);
        assert_eq!(see(&mut pools, &gauge(990, 0, 0, 0), 299), []);
        assert_eq!(see(&mut pools, &gauge(810, 0, 0, 0), 300), busy(810, 0));
        assert_eq!(see(&mut pools, &gauge(799, 0, 0, 0), 301), [], "a pause");
        assert_eq!(see(&mut pools, &gauge(800, 0, 0, 0), 302), []);
        assert_eq!(see(&mut pools, &gauge(800, 0, 0, 0), 601), []);
        assert_eq!(see(&mut pools, &gauge(800, 0, 0, 0), 602), busy(800, 302));
        assert_eq!(pools.see(&[], Vec::new(), 80, 1, at(603)), [], "a pool that nobody uses");
        assert_eq!(see(&mut pools, &gauge(800, 0, 0, 0), 900), [], "begins again");
    }

    #[test]
    fn a_level_is_told_when_it_changes_and_not_when_a_gateway_starts_later() {
        let mut pools = Pools::default();
        assert_eq!(see(&mut pools, &gauge(0, 0, 0, 0), 0), []);
        assert_eq!(see(&mut pools, &gauge(0, 2, 0, 5), 6), [Event::Level(gauge(0, 2, 0, 5))]);
        assert_eq!(see(&mut pools, &gauge(0, 2, 0, 5), 7), []);
        assert_eq!(see(&mut pools, &gauge(0, 1, 2, 700), 700), [Event::Level(gauge(0, 1, 2, 700))]);
        let mut started = Pools::default();
        assert_eq!(see(&mut started, &gauge(0, 1, 2, 700), 1_300), [], "ten minutes later");
    }

    #[test]
    fn pins_are_told_when_they_begin_and_end() {
        let mut pools = Pools::default();
        let pin = Pin { pool: "mini".into(), level: 2, until: at(60), by: "ada".into() };
        let mut see = |pins: &[&Pin], secs| pools.see(&[], pins.iter().copied().cloned().collect(), 80, 1, at(secs));
        assert_eq!(see(&[&pin], 0), [Event::Pinned(pin.clone())]);
        assert_eq!(see(&[&pin], 1), []);
        assert_eq!(see(&[&pin], 60), [Event::Unpinned { pin: pin.clone(), early: false }], "its time is over");
        let other = Pin { until: at(90), ..pin.clone() };
        assert_eq!(see(&[&other], 61), [Event::Pinned(other.clone())]);
        assert_eq!(see(&[], 62), [Event::Unpinned { pin: other, early: true }]);
    }
}
