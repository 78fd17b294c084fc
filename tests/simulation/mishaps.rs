//! What goes wrong in a run, and what comes late or twice.

use crate::events::{charged, customer_key, ids, unused, used_of};
use crate::limits::{Ask, SECOND, Size};
use crate::oracle::period_start;
use crate::world::{Checked, Ending, LEASE, Phase, REPLAY, World};
use tollgate::domain::Timestamp;
use tollgate::limit::{Line, Settlement};

/// Holds swept in one call.
const SWEPT_AT_ONCE: usize = 16;

impl World {
    /// Some gateway sends settlements that the store has long had.
    pub fn repeats(&mut self) -> Checked {
        let now = self.now;
        self.delivered.retain(|ending| ending.first.is_some_and(|first| first + REPLAY > now));
        if self.delivered.is_empty() {
            return Ok(());
        }
        let some = (0..self.rng.usize(1..4)).map(|_| self.rng.usize(0..self.delivered.len())).collect::<Vec<_>>();
        let batch: Vec<_> = some.into_iter().map(|which| self.delivered[which].clone()).collect();
        self.count("settled again");
        self.note(|| format!("settled again: {:?}", ids(&batch)));
        self.deliver(batch)
    }

    /// A settlement of what the store never admitted, as after an outage.
    pub fn settles_unknown(&mut self) -> Checked {
        // In the first second of a day a lagging store does not know the day yet that the gateway books in.
        if self.jitter && self.now % (86_400 * SECOND) < SECOND {
            return Ok(());
        }
        let (customer, size) = (self.rng.usize(0..self.plan_of.len()), Size::random(&mut self.rng));
        let mut held = self.shared.asks(customer, &self.plans[self.plan_of[customer]], &size);
        // Rates know nothing of holds: only what is booked differs.
        held.retain(Ask::is_budget);
        held.iter_mut().for_each(|ask| ask.made = Some(self.now / SECOND));
        let used = self.rng.u64(0..=1_000);
        let line = |ask: &Ask| {
            let booked = period_start(ask.key.1.period().expect("a budget"), self.now / SECOND);
            Line { claim: ask.claim(Timestamp(self.now)), actual: used_of(ask, used, false), booked }
        };
        let lines = held.iter().map(line).collect();
        let settlement = Settlement { reservation: self.new_id(), customer: customer_key(customer), lines };
        let ending = Ending { settlement, held, arrived: Vec::new(), first: None };
        self.count("settled without a hold");
        self.note(|| format!("settled without a hold: {}", ending.settlement.reservation));
        self.excuse(&ending);
        self.deliver(vec![ending])
    }

    pub fn overrides(&mut self) {
        let (customer, plan) = (self.rng.usize(0..self.plan_of.len()), self.rng.usize(0..self.plans.len()));
        self.plan_of[customer] = plan;
        self.count("plan changed");
        let limits = format!("{:?}", self.plans[plan]);
        self.note(|| format!("c{customer} has plan {plan} now: {limits}"));
    }

    /// A further attempt claims the ceiling once more, under the same reservation.
    pub fn retries(&mut self) -> Checked {
        let running = (0..self.flights.len()).filter(|i| self.flights[*i].phase == Phase::Runs).collect::<Vec<_>>();
        let Some(which) = self.rng.choice(running) else { return Ok(()) };
        let mut flight = self.flights.swap_remove(which);
        let ceiling: Vec<_> = flight.ceiling.iter().map(|ask| ask.at_once()).collect();
        let decision = self.admit(flight.id, &flight.customer, &ceiling, None)?;
        let id = flight.id;
        self.note(|| format!("{id} tries again: {}", decision.admitted));
        if decision.admitted {
            self.count("further attempt");
            self.takes(&mut flight, &ceiling, None, &decision)?;
        }
        self.flights.push(flight);
        self.starts(self.flights.len() - 1)
    }

    pub fn crashes(&mut self) {
        let gateway = self.rng.usize(0..self.queues.len());
        self.count("gateway crashed");
        self.note(|| format!("gateway {gateway} dies"));
        for which in (0..self.flights.len()).rev().filter(|i| self.flights[*i].gateway == gateway).collect::<Vec<_>>() {
            self.orphan(which);
        }
        // Its queue dies with it; what the store has not heard of is still held there.
        for ending in std::mem::take(&mut self.queues[gateway]) {
            self.orphans.push((self.now + LEASE, charged(ending)));
        }
    }

    /// A gateway stands still for longer than a lease, and then goes on as if nothing had happened.
    pub fn freezes(&mut self) {
        let gateway = self.rng.usize(0..self.queues.len());
        self.count("gateway frozen");
        self.note(|| format!("gateway {gateway} freezes"));
        for which in (0..self.flights.len()).rev().filter(|i| self.flights[*i].gateway == gateway).collect::<Vec<_>>() {
            let used = self.rng.u64(0..=1_000);
            let ending =
                self.ends(which, |ask, attempted| if attempted { used_of(ask, used, false) } else { unused(ask, false) });
            self.orphans.push((self.now + LEASE, charged(ending.clone())));
            self.late.push(ending);
        }
    }

    /// A gateway that was frozen settles: perhaps what was swept meanwhile.
    pub fn speaks_late(&mut self) -> Checked {
        let now = self.now;
        self.late.retain(|ending| ending.first.is_none_or(|first| first + REPLAY > now));
        if self.late.is_empty() {
            return Ok(());
        }
        let ending = self.late.swap_remove(self.rng.usize(0..self.late.len()));
        self.count(if ending.first.is_some() { "settled after the sweep" } else { "settled late, before the sweep" });
        self.note(|| format!("settled late: {}", ending.settlement.reservation));
        self.deliver(vec![ending])
    }

    /// Holds whose lease has ended are booked as lost, the whole hold. The store has no sweeper of its own yet; when it does, this calls
    /// it and books in the oracle what it reports.
    pub fn sweeps(&mut self) -> Checked {
        let now = self.now;
        // What was settled meanwhile is no hold any more.
        let held = std::mem::take(&mut self.orphans).into_iter().filter(|(_, ending)| !self.has_ended(ending));
        let (mut over, rest): (Vec<_>, Vec<_>) = held.partition(|(lease, _)| *lease < now);
        self.orphans = rest;
        self.orphans.extend(over.drain(over.len().min(SWEPT_AT_ONCE)..));
        if over.is_empty() {
            return Ok(());
        }
        let batch: Vec<_> = over.into_iter().map(|(_, ending)| ending).collect();
        let swept = ids(&batch);
        for ending in self.late.iter_mut().filter(|ending| swept.contains(&ending.settlement.reservation)) {
            ending.first.get_or_insert(now);
        }
        self.count("swept");
        self.note(|| format!("swept: {swept:?}"));
        self.deliver(batch)
    }

    pub fn orphan(&mut self, which: usize) {
        let ending = self.ends(which, |ask, _| ask.amount);
        self.orphans.push((self.now + LEASE, ending));
    }
}
