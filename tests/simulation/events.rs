//! What happens in a run, chosen by its seed.

use crate::limits::{Ask, HOUR, MINUTE, SECOND, Scarce, Size};
use crate::oracle::period_start;
use crate::world::{Checked, Ending, Flight, LEASE, Phase, REPLAY, World};
use tollgate::limit::{Decision, Measure, Outcome, Scope, ScopeKey};

/// How far ahead of a period's end or start a jump lands.
const NEAR: u64 = 3 * SECOND;

impl World {
    /// One thing happens, and everything that must hold is checked.
    pub fn step(&mut self) -> Checked {
        match self.rng.u8(0..100) {
            0..31 => self.request()?,
            31..34 => self.replaces()?,
            34..38 => (0..6).try_for_each(|_| self.request())?,
            38..56 => self.passes_time()?,
            56..70 => self.finishes(),
            70..80 => self.flushes()?,
            80..84 => self.cancels(),
            84..87 => self.repeats()?,
            87..90 => self.speaks_late()?,
            90..92 => self.settles_unknown()?,
            92..95 => self.overrides(),
            95..97 => self.retries()?,
            97 => self.crashes(),
            98 => self.freezes(),
            _ => self.sweeps()?,
        }
        self.check()
    }

    /// Everybody comes to an end: nothing may be held then.
    pub fn end(&mut self) -> Checked {
        while let Some(which) = self.flights.len().checked_sub(1) {
            let gateway = self.flights[which].gateway;
            let ending = self.ends(which, unused);
            self.queues[gateway].push(ending);
        }
        for gateway in 0..self.queues.len() {
            self.drops_what_is_too_old(gateway);
            let batch = std::mem::take(&mut self.queues[gateway]);
            self.deliver(batch)?;
        }
        self.goes_on(LEASE + SECOND)?;
        while !self.orphans.is_empty() {
            self.sweeps()?;
        }
        self.check()?;
        self.check_books()
    }

    fn request(&mut self) -> Checked {
        let (customer, size) = (self.rng.usize(0..self.plan_of.len()), Size::random(&mut self.rng));
        let gateway = self.rng.usize(0..self.queues.len());
        let asks = self.shared.asks(customer, &self.plans[self.plan_of[customer]], &size);
        let (id, key) = (self.new_id(), customer_key(customer));
        let decision = self.admit(id, &key, &asks, size.shrinks)?;
        self.note(|| {
            let outcomes: Vec<_> = decision.verdicts.iter().map(|v| v.outcome).collect();
            let Size { tokens, dollars, .. } = size;
            format!("gateway {gateway} asks {id} for c{customer}: {tokens} tokens, {dollars} nano-dollars: {outcomes:?}")
        });
        self.counts(&decision);
        if !decision.admitted {
            return Ok(());
        }
        let ceiling = asks.iter().filter(|ask| ask.is_ceiling()).cloned().collect();
        let phase = Phase::Waits { start: decision.at.micros() + decision.start_in, deferred: decision.deferred() };
        let (held, lines, arrived) = Default::default();
        let mut flight = Flight { id, gateway, customer: key, held, lines, ceiling, phase, arrived };
        self.takes(&mut flight, &asks, size.shrinks, &decision)?;
        self.flights.push(flight);
        let which = self.flights.len() - 1;
        if self.rng.u8(0..25) == 0 {
            self.count("admission's reply lost");
            self.note(|| format!("the reply about {id} is lost"));
            self.orphan(which);
        } else if self.rng.u8(0..20) == 0 {
            self.count("never attempted");
            let ending = self.ends(which, unused);
            self.queues[gateway].push(ending);
        } else {
            self.begins_if_due(which)?;
        }
        Ok(())
    }

    pub fn counts(&mut self, decision: &Decision) {
        for verdict in &decision.verdicts {
            self.count(match verdict.outcome {
                Outcome::Fits => "fits",
                Outcome::Starts(_) => "starts later",
                Outcome::Refused(_) => "refused by a rate",
                Outcome::InFlight => "refused by what is in flight",
                Outcome::Exhausted => "refused by what is spent",
                Outcome::Never => "larger than the limit",
                Outcome::Deferred => "ceiling deferred",
            });
        }
        if decision.admitted {
            self.count(if decision.granted.is_some() { "output cap lowered" } else { "admitted as asked" });
        }
    }

    /// Starts a call that has waited long enough, claiming the ceiling first where that was put off.
    pub fn begins_if_due(&mut self, which: usize) -> Checked {
        let Phase::Waits { start, deferred } = self.flights[which].phase else { return Ok(()) };
        if start > self.now {
            return Ok(());
        }
        let (id, gateway) = (self.flights[which].id, self.flights[which].gateway);
        if !deferred {
            self.note(|| format!("{id} starts"));
            return self.starts(which);
        }
        let (key, ceiling) = (self.flights[which].customer.clone(), self.flights[which].ceiling.clone());
        let decision = self.admit(id, &key, &ceiling, None)?;
        self.note(|| format!("{id} claims the ceiling at its start: {:?}", decision.verdicts));
        if !decision.admitted {
            self.count("no ceiling at the start");
            let ending = self.ends(which, unused);
            self.queues[gateway].push(ending);
            return Ok(());
        }
        let mut flight = self.flights.swap_remove(which);
        flight.phase = Phase::Waits { start: decision.at.micros() + decision.start_in, deferred: false };
        self.takes(&mut flight, &ceiling, None, &decision)?;
        self.flights.push(flight);
        self.begins_if_due(self.flights.len() - 1)
    }

    fn passes_time(&mut self) -> Checked {
        let to_midnight = 86_400 * SECOND - self.now % (86_400 * SECOND);
        // Rates are a matter of seconds, budgets of days.
        let longest = if self.scarce == Scarce::Rates { 14 } else { 16 };
        let by = match self.rng.u8(0..longest) {
            0..4 => self.rng.u64(0..SECOND / 10),
            4..9 => self.rng.u64(0..5 * SECOND),
            9..13 => self.rng.u64(0..90 * SECOND),
            13 => self.rng.u64(0..20 * MINUTE),
            14 => self.rng.u64(0..7 * HOUR),
            _ => to_midnight.saturating_sub(NEAR) + self.rng.u64(0..2 * NEAR),
        };
        self.goes_on(by)
    }

    /// Time goes on; whatever waits for a start on the way gets it.
    fn goes_on(&mut self, by: u64) -> Checked {
        let to = self.now + by;
        loop {
            let start = |flight: &Flight| if let Phase::Waits { start, .. } = flight.phase { Some(start) } else { None };
            let next = (0..self.flights.len()).filter_map(|i| Some((start(&self.flights[i])?, i))).min();
            let Some((start, which)) = next.filter(|(start, _)| *start <= to) else { break };
            self.now = self.now.max(start);
            if self.rng.u8(0..50) == 0 {
                // It waits for a slot, say, and is late.
                self.count("late at its start");
                let until = self.now + self.rng.u64(1..3 * SECOND);
                self.oversleeps();
                if let Phase::Waits { start, .. } = &mut self.flights[which].phase {
                    *start = until;
                }
            } else {
                self.begins_if_due(which)?;
            }
        }
        if period_start(tollgate::domain::Period::Month, to / SECOND) > self.now / SECOND {
            self.count("a month ended");
        }
        if to / (86_400 * SECOND) > self.now / (86_400 * SECOND) {
            self.count("a day ended");
        }
        self.now = to;
        self.note(|| format!("{by} microseconds have passed"));
        self.sweeps()
    }

    fn finishes(&mut self) {
        let running = (0..self.flights.len()).filter(|i| self.flights[*i].phase == Phase::Runs).collect::<Vec<_>>();
        let Some(which) = self.rng.choice(running) else { return };
        let (id, gateway) = (self.flights[which].id, self.flights[which].gateway);
        let (used, over) = (self.rng.u64(0..=1_000), self.rng.u8(0..6) == 0);
        let ending = self.ends(which, |ask, _| used_of(ask, used, over));
        self.count(if over { "finished over its estimate" } else { "finished" });
        self.note(|| format!("{id} ends, {used} thousandths used{}", if over { ", tokens over the estimate" } else { "" }));
        self.queues[gateway].push(ending);
    }

    /// A gateway sends what has ended; the reply may get lost, and then it sends all of it again later.
    fn flushes(&mut self) -> Checked {
        let gateway = self.rng.usize(0..self.queues.len());
        self.drops_what_is_too_old(gateway);
        let now = self.now;
        let most = self.rng.usize(1..9).min(self.queues[gateway].len());
        let mut batch: Vec<Ending> = self.queues[gateway].drain(..most).collect();
        if let Some(ending) = batch.first().filter(|_| self.rng.u8(0..8) == 0).cloned() {
            self.count("twice in one batch");
            batch.push(ending);
        }
        self.note(|| format!("gateway {gateway} settles {:?}", ids(&batch)));
        if batch.iter().any(|ending| ending.first.is_some()) {
            self.count("settled again after a lost reply");
        }
        self.deliver(batch.clone())?;
        if self.rng.u8(0..8) == 0 && !batch.is_empty() {
            self.note(|| "the reply is lost".into());
            batch.iter_mut().for_each(|ending| ending.first = ending.first.or(Some(now)));
            self.queues[gateway].extend(batch);
        }
        Ok(())
    }

    /// A store remembers for an hour what ended; nobody repeats a settlement later than that.
    fn drops_what_is_too_old(&mut self, gateway: usize) {
        let now = self.now;
        self.queues[gateway].retain(|ending| ending.first.is_none_or(|first| first + REPLAY > now));
    }

    /// A caller leaves before its start.
    fn cancels(&mut self) {
        let waiting = (0..self.flights.len()).filter(|i| self.flights[*i].phase != Phase::Runs).collect::<Vec<_>>();
        let Some(which) = self.rng.choice(waiting) else { return };
        let (id, gateway) = (self.flights[which].id, self.flights[which].gateway);
        self.count("left while waiting");
        self.note(|| format!("the caller of {id} leaves"));
        let ending = self.ends(which, unused);
        self.queues[gateway].push(ending);
    }
}

pub fn customer_key(customer: usize) -> ScopeKey {
    ScopeKey { scope: Scope::Customer, owner: format!("c{customer}").into() }
}

pub fn ids(batch: &[Ending]) -> Vec<tollgate::domain::ReservationId> {
    batch.iter().map(|ending| ending.settlement.reservation).collect()
}

pub fn charged(mut ending: Ending) -> Ending {
    ending.settlement.lines.iter_mut().for_each(|line| line.actual = line.claim.amount);
    ending
}

/// Of a request that is given up.
pub const fn unused(ask: &Ask, attempted: bool) -> u64 {
    match ask.measure {
        Measure::Message => ask.amount,
        Measure::Request | Measure::Reserved if attempted => ask.amount,
        _ => 0,
    }
}

/// Of a request that used so many thousandths of its tokens and dollars; where a bucket may go into debt, perhaps more.
pub fn used_of(ask: &Ask, used: u64, over: bool) -> u64 {
    match ask.measure {
        Measure::Message | Measure::Request | Measure::Reserved => ask.amount,
        Measure::Tokens if over && ask.may_be_overrun() => ask.amount + ask.amount * used / 100,
        _ => ask.amount * used / 1_000,
    }
}
