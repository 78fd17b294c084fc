//! The part of an account that is about attempts which failed: what they were charged, and what is left when all of them did.

use super::{Account, Used};
use crate::stack::failed::ProviderFault;
use crate::store::reservation::Actuals;
use crate::upstream::End;

impl Account {
    /// An attempt has failed, and another one may follow. `end`: what its reply said before that, where there was one.
    pub fn attempt_failed(&mut self, fault: ProviderFault, end: Option<&End>) {
        self.leave = None;
        self.attempting = false;
        self.record.end(self.step, Some(fault.as_str()));
        self.last_fault = Some(fault);
        let used = end.map(|end| self.used_by_failed(end)).unwrap_or_default();
        if let Some(end) = end {
            self.charged_last = used;
            self.estimated |= end.summary.partial_bytes > 0;
        }
        let seen = fault.reached();
        // A provider that refuses for a rate has not taken the prompt; one that fails may well have.
        let input = if seen && !matches!(fault, ProviderFault::RateLimited { .. }) { self.input.best } else { 0 };
        if let Some(reservation) = &mut self.reservation {
            let input_uncached = used.input_uncached.max(input);
            reservation.attempt_ended(&Actuals { attempted: seen, input: used.input.max(input), input_uncached, ..used });
        }
    }

    /// What the provider charges for an attempt that failed: what it stated, and the part of a whole reply that it sent.
    fn used_by_failed(&self, end: &End) -> Actuals {
        let summary = &end.summary;
        let mut usage = summary.usage.clone().unwrap_or_default();
        if !summary.input_known && summary.partial_bytes > 0 {
            usage.uncached_input = self.input.best;
        }
        if !summary.output_known {
            self.estimate_output(&mut usage, end);
        }
        self.actuals(&usage)
    }

    /// What the last failed attempt did.
    #[must_use]
    pub const fn last_fault(&self) -> Option<ProviderFault> {
        self.last_fault
    }

    /// All attempts failed: tokens and dollars go back, but for what the provider charged. The request stays spent if the provider has
    /// seen it; else everything is given back.
    pub fn failed(mut self: Box<Self>) {
        self.settle_failed();
    }

    /// The reply of the last attempt is passed on after all, and books what it used itself.
    pub fn resumed(&mut self) {
        self.charged_last = Actuals::default();
        self.attempting = true;
    }

    pub(super) fn settle_failed(&mut self) {
        if self.reached {
            self.record.note(|facts| facts.usage_estimated = self.estimated);
            self.settle(&Actuals { attempted: true, ..Actuals::default() });
        } else {
            self.reservation = None; // never attempted, so dropping it gives everything back
        }
    }

    /// Takes out the reservation with what was used of it, for a swap. Whatever comes of that, the reservation is settled to it; this
    /// account has nothing left to settle then.
    #[must_use]
    pub fn take_used(&mut self) -> Option<Used> {
        let mut actuals = self.charged;
        actuals.add(&self.charged_last);
        actuals.attempted = self.reached;
        let mut reservation = self.reservation.take()?;
        reservation.ended(&actuals);
        self.record.note(|facts| facts.cost = facts.cost.saturating_add(actuals.cost));
        Some(Used { reservation, actuals })
    }
}
