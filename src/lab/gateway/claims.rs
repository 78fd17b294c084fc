//! What a request asks of the limits: as the layers of the stack claim it, from the same functions.

use crate::config::policy::{Limits, Policy, Pool};
use crate::domain::{Boundaries, Period, Priority, Timestamp, Zone};
use crate::limit::{Claim, Elastic, LimitName, Measure, Rule, ScopeKey};
use crate::pricing::{Asked, CacheWrites};
use crate::stack::customer_rate::claim;
use crate::stack::token_rate::{Demand, claim_ceiling, tokens};
use std::collections::HashMap;
use std::sync::Arc;

/// The calendar periods around now, worked out once for each.
#[derive(Debug, Default)]
pub struct Calendar(HashMap<Period, Boundaries>);

impl Calendar {
    fn boundaries(&mut self, zone: &Zone, period: Period, now: Timestamp) -> Boundaries {
        let known = self.0.get(&period).filter(|known| (known.0[1]..known.0[2]).contains(&now.secs()));
        known.copied().unwrap_or_else(|| {
            let boundaries = zone.boundaries(period, now);
            self.0.insert(period, boundaries);
            boundaries
        })
    }
}

/// A request before it is decided.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// Whose limits it has to fit, the customer's first.
    pub scopes: Vec<(ScopeKey, &'a Limits)>,
    /// The model.
    pub model: Arc<str>,
    /// Its priority.
    pub priority: Priority,
    /// Its size.
    pub demand: Demand,
    /// The smallest output cap worth having.
    pub floor: u64,
    /// Whether it spends a message: once per request, not again for a fallback.
    pub message: bool,
    /// The level of its pool.
    pub level: u8,
}

impl Ask<'_> {
    /// All its claims, and how the dollar claims may shrink.
    pub fn claims(
        &self,
        policy: &Policy,
        pool: Option<&Pool>,
        calendar: &mut Calendar,
        now: Timestamp,
    ) -> (Vec<Claim>, Option<Elastic>) {
        let mut claims: Vec<Claim> = Vec::with_capacity(8);
        for (scope, limits) in &self.scopes {
            claims.extend(limits.messages.iter().filter(|_| self.message).map(|limit| claim(scope, limit, 1)));
            claims.extend(limits.rates.iter().map(|limit| {
                let request = limit.measure == Measure::Request;
                claim(scope, limit, if request { 1 } else { tokens(limit, self.demand.input, self.demand.expected) })
            }));
        }
        if let Some(pool) = pool {
            claim_ceiling(&mut claims, pool, &pool.name, self.priority, self.level, self.demand);
        }
        let elastic = self.spend(policy, calendar, now, &mut claims);
        (claims, elastic)
    }

    fn spend(&self, policy: &Policy, calendar: &mut Calendar, now: Timestamp, claims: &mut Vec<Claim>) -> Option<Elastic> {
        let mut rule = |cap, period| Rule::Budget { cap, boundaries: calendar.boundaries(&policy.zone, period, now) };
        let Demand { input, cap: output_cap, .. } = self.demand;
        let asked = Asked { cache_writes: CacheWrites::No, audio_input: false, audio_output: false, ..Asked::new(input, None) };
        let worst = policy.prices.get(&self.model).map(|price| price.worst(&asked));
        for (scope, limits) in &self.scopes {
            for (limit, cap) in &limits.quotas {
                let Some(period) = limit.period() else { continue };
                let (measure, amount) = match limit {
                    LimitName::RequestQuota(_) => (Measure::Request, 1),
                    _ => (Measure::Tokens, input.saturating_add(output_cap).min((*cap).max(input))),
                };
                claims.push(Claim { scope: scope.clone(), limit: *limit, rule: rule(*cap, period), measure, amount });
            }
            for (period, cap) in limits.spend.iter().filter(|_| worst.is_some()) {
                let amount = worst.map_or(0, |worst| worst.at(output_cap).get());
                let (limit, rule) = (LimitName::Spend(*period), rule(cap.get(), *period));
                claims.push(Claim { scope: scope.clone(), limit, rule, measure: Measure::Money, amount });
            }
        }
        worst?.elastic(output_cap, self.floor)
    }
}
