//! Another model in the place of one that failed: its claims replace what the first one holds, in one step.

use crate::books::used;
use crate::events::{unused, used_of};
use crate::limits::Size;
use crate::world::{Checked, Ending, Flight, Phase, World};
use futures_util::FutureExt;
use tollgate::limit::Measure;

impl World {
    /// A request in flight asks for another model, of another price. Or a gateway that was told so long ago asks again.
    pub fn replaces(&mut self) -> Checked {
        if self.rng.u8(0..8) == 0 && !self.delivered.is_empty() {
            let old = self.delivered[self.rng.usize(0..self.delivered.len())].clone();
            // Of what ended too long ago the store knows nothing any more.
            if old.first.is_some_and(|first| first + crate::world::REPLAY > self.now) {
                self.count("replaced after its end");
                return self.replace(old, 0).map(drop);
            }
        }
        let Some(which) = self.rng.choice(0..self.flights.len()) else { return Ok(()) };
        let gateway = self.flights[which].gateway;
        let (customer, phase) = (self.flights[which].customer.clone(), self.flights[which].phase);
        let (ceiling, part) = (self.flights[which].ceiling.clone(), self.rng.u64(0..=200));
        let old = self.ends(which, |ask, attempted| if attempted { used_of(ask, part, false) } else { unused(ask, false) });
        if self.replace(old.clone(), gateway)? {
            if self.rng.u8(0..6) == 0 {
                // Its gateway did not hear the answer, and settles the old one: that books nothing any more.
                self.count("replacement's reply lost");
                self.orphan(self.flights.len() - 1);
                self.queues[gateway].push(Ending { first: Some(self.now), ..old });
                return Ok(());
            }
            return self.begins_if_due(self.flights.len() - 1);
        }
        // It stands as it was.
        let Ending { settlement, held, arrived, .. } = old;
        let (id, lines) = (settlement.reservation, settlement.lines);
        self.flights.push(Flight { id, gateway, customer, held, lines, ceiling, phase, arrived });
        Ok(())
    }

    /// Whether a new flight, the last one, is in the place of the old.
    fn replace(&mut self, old: Ending, gateway: usize) -> Checked<bool> {
        let customer = old.settlement.customer.clone();
        let number = usize::from(&*customer.owner == "c1");
        let size = Size::random(&mut self.rng);
        let mut asks = self.shared.asks(number, &self.plans[self.plan_of[number]], &size);
        asks.retain(|ask| ask.measure != Measure::Message); // it has spent one
        let (id, replaced) = (self.new_id(), old.settlement.reservation);
        let admission = self.admission(id, &customer, &asks, size.shrinks);
        let now = self.reading();
        let answer = self.ledger.replace(&old.settlement, &admission, None).now_or_never().expect("in memory");
        let decision = answer.map_err(|e| e.to_string())?;
        let expected = self.oracle.replace(now, (replaced, &used(&old)), id, &asks, size.shrinks);
        self.note(|| format!("{id} asks for the place of {replaced}: {} as {:?}", decision.admitted, expected.outcomes));
        self.compare(&asks, &decision, &expected)?;
        self.counts(&decision);
        if !decision.admitted {
            self.count("not replaced");
            return Ok(false);
        }
        self.count("replaced");
        self.has_delivered(old);
        let ceiling = asks.iter().filter(|ask| ask.is_ceiling()).cloned().collect();
        let phase = Phase::Waits { start: decision.at.micros() + decision.start_in, deferred: decision.deferred() };
        let (held, lines, arrived) = Default::default();
        let mut flight = Flight { id, gateway, customer, held, lines, ceiling, phase, arrived };
        self.takes(&mut flight, &asks, size.shrinks, &decision)?;
        self.flights.push(flight);
        Ok(true)
    }
}
