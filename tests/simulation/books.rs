//! How reservations end in a run, and what the books must say after every step.

use crate::limits::{Ask, Key, MONTH, SECOND};
use crate::oracle::State;
use crate::world::{Checked, Ending, Flight, World, limit_of};
use futures_util::FutureExt;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use tollgate::limit::{Line, Settlement};

impl World {
    /// Ends a flight: what each line used.
    pub fn ends(&mut self, which: usize, actual: impl Fn(&Ask, bool) -> u64) -> Ending {
        let Flight { id, customer, held, mut lines, arrived, .. } = self.flights.swap_remove(which);
        for (line, ask) in lines.iter_mut().zip(&held) {
            line.actual = actual(ask, !arrived.is_empty());
        }
        Ending { settlement: Settlement { reservation: id, customer, lines }, held, arrived, first: None }
    }

    /// The store gets a batch of endings.
    pub fn deliver(&mut self, batch: Vec<Ending>) -> Checked {
        let now = self.reading();
        let settlements: Vec<_> = batch.iter().map(|ending| ending.settlement.clone()).collect();
        self.ledger.settle(&settlements, None).now_or_never().expect("in memory").map_err(|e| e.to_string())?;
        for ending in batch {
            self.oracle.settle(now, ending.settlement.reservation, &used(&ending));
            self.has_delivered(ending);
        }
        Ok(())
    }

    /// The store has been told an ending: what the others see of it, who count it once.
    pub fn has_delivered(&mut self, mut ending: Ending) {
        let reservation = ending.settlement.reservation;
        if let Entry::Vacant(fate) = self.fates.entry(reservation) {
            let known = used(&ending);
            let booked = known.iter().filter(|(ask, ..)| ask.is_budget());
            fate.insert(booked.map(|(ask, start, n)| (ask.key.clone(), *start, *n)).collect());
            for (n, (ask, _, actual)) in known.iter().enumerate() {
                for (_, id, amount, _) in self.minutes.get_mut(&ask.key).into_iter().flatten() {
                    *amount = if *id == reservation { (*amount).min(*actual) } else { *amount };
                }
                if ask.is_ceiling() {
                    let (mirror, refund) = (&mut self.ceiling[limit_of(ask)], ask.amount - actual);
                    match ending.arrived.iter().find(|(sent, _)| *sent == n) {
                        // The provider gives back when we do.
                        Some((_, at)) if refund > 0 => mirror.refunds(self.now, *at, refund),
                        Some(_) => {}
                        None => mirror.gives_up(ask.amount, refund),
                    }
                }
            }
        }
        ending.first.get_or_insert(self.now);
        self.delivered.push(ending);
    }

    pub fn has_ended(&self, ending: &Ending) -> bool {
        self.fates.contains_key(&ending.settlement.reservation)
    }

    /// A settlement of something the store never admitted: it may pass the cap by that much.
    pub fn excuse(&mut self, ending: &Ending) {
        for (ask, line) in ending.held.iter().zip(&ending.settlement.lines).filter(|(ask, _)| ask.is_budget()) {
            self.allowed.entry((ask.key.clone(), line.booked)).or_default().1 += line.actual;
        }
    }

    /// After every step: balances as they should be, and never more spent and held than a cap allows.
    pub fn check(&self) -> Checked {
        for (key, state) in &self.oracle.states {
            let State::Budget([(start, spent, held), _]) = state else { continue };
            let found = self.stored(key)?;
            let Some((period, stored_spent, stored_held)) = found else {
                // Idle owners are forgotten once their period is long over.
                let long = if key.1 == MONTH { 32 } else { 2 };
                if *held > 0 || (*spent > 0 && self.now / SECOND < start + long * 86_400) {
                    return Err(format!("{key:?} was forgotten with {spent} spent and {held} held"));
                }
                continue;
            };
            if (period, u128::from(stored_spent), u128::from(stored_held)) != (*start, *spent, *held) {
                return Err(format!(
                    "{key:?} stands at {stored_spent} spent and {stored_held} held in period {period}; right: {spent}, {held}, {start}"
                ));
            }
            let (cap, beyond) = self.allowed.get(&(key.clone(), period)).copied().unwrap_or_default();
            if stored_spent + stored_held > cap + beyond {
                return Err(format!("{key:?}: {stored_spent} spent and {stored_held} held, of {cap} and {beyond} never held"));
            }
        }
        Ok(())
    }

    fn stored(&self, (scope, limit): &Key) -> Checked<Option<(u64, u64, u64)>> {
        let balances = self.ledger.read(scope).now_or_never().expect("in memory").map_err(|e| e.to_string())?;
        Ok(balances.iter().find(|b| b.limit == *limit).map(|b| (b.period, b.spent, b.held)))
    }

    /// At the end: nothing held, and every balance is the sum of what its reservations were booked at, each once.
    pub fn check_books(&self) -> Checked {
        let mut sums: HashMap<(&Key, u64), u64> = HashMap::new();
        for (key, start, amount) in self.fates.values().flatten() {
            *sums.entry((key, *start)).or_default() += amount;
        }
        for key in self.oracle.states.keys().filter(|key| key.1.period().is_some()) {
            let Some((period, spent, held)) = self.stored(key)? else { continue };
            if held > 0 {
                return Err(format!("{key:?} still holds {held} at the end"));
            }
            let right = sums.get(&(key, period)).copied().unwrap_or(0);
            if spent != right {
                return Err(format!("{key:?}: {spent} spent, but its reservations were booked at {right}"));
            }
        }
        Ok(())
    }
}

/// What each line held, where it was booked, and what was used.
pub fn used(ending: &Ending) -> Vec<(Ask, u64, u64)> {
    let of = |(ask, line): (&Ask, &Line)| (ask.clone(), line.booked, line.actual);
    ending.held.iter().zip(&ending.settlement.lines).map(of).collect()
}
