//! The store's outages, as this gateway sees them. Nobody can be asked who told it already: each gateway tells of its own.

use crate::domain::Timestamp;
use crate::store::outage::Status;

/// An outage is over when the store has been back for so long, microseconds: one that flutters is one outage.
const SETTLED: u64 = 10_000_000;

/// What was seen of the store before.
#[derive(Debug, Default)]
pub(super) struct Away {
    outage: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    since: Timestamp,
    /// How the counters stood when it began.
    before: Status,
    back: Option<Timestamp>,
}

/// What happened to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It is away; how the guard stands, if there is one.
    Began(Status),
    /// It is back.
    Ended {
        /// Since when it was away.
        since: Timestamp,
        /// Since when it has been back.
        back: Timestamp,
        /// Requests admitted without it.
        alone: u64,
        /// Requests refused for it.
        refused: u64,
        /// Settlements that still wait.
        waiting: usize,
    },
}

impl Away {
    /// Compares with what was before.
    pub(super) fn see(&mut self, away: bool, status: Status, now: Timestamp) -> Option<Event> {
        match &mut self.outage {
            None if away => {
                self.outage = Some(Outage { since: now, before: status, back: None });
                Some(Event::Began(status))
            }
            None => None,
            Some(outage) if away => {
                outage.back = None;
                None
            }
            Some(outage) => {
                let back = *outage.back.get_or_insert(now);
                if now.since(back) < SETTLED {
                    return None;
                }
                let event = Event::Ended {
                    since: outage.since,
                    back,
                    alone: status.alone.saturating_sub(outage.before.alone),
                    refused: status.refused_alone.saturating_sub(outage.before.refused_alone),
                    waiting: status.waiting,
                };
                self.outage = None;
                Some(event)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_once_and_ends_when_the_store_stays_back() {
        let at = Timestamp::from_secs;
        let counts = |alone, refused_alone| Status { alone, refused_alone, waiting: 7, ..Status::default() };
        let mut away = Away::default();
        assert_eq!(away.see(false, counts(3, 0), at(0)), None);
        assert_eq!(away.see(true, counts(4, 0), at(1)), Some(Event::Began(counts(4, 0))));
        assert_eq!(away.see(true, counts(5, 1), at(2)), None);
        assert_eq!(away.see(false, counts(9, 2), at(3)), None);
        assert_eq!(away.see(true, counts(9, 2), at(12)), None, "it flutters");
        assert_eq!(away.see(false, counts(9, 2), at(20)), None);
        assert_eq!(away.see(false, counts(9, 3), at(29)), None);
        let ended = Event::Ended { since: at(1), back: at(20), alone: 5, refused: 3, waiting: 7 };
        assert_eq!(away.see(false, counts(9, 3), at(30)), Some(ended));
        assert_eq!(away.see(false, counts(9, 3), at(31)), None);
        assert_eq!(away.see(true, counts(9, 3), at(32)), Some(Event::Began(counts(9, 3))));
    }
}
