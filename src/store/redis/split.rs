//! Admissions in a cluster: two calls, since no script may touch the books of a customer and those that all share.
//!
//! ```text
//!            customer's group                     shared group (app, share, pool, gateway)
//!   1  admit: claims taken, PROVISIONAL hold
//!   2                                             admit: claims taken, hold
//!   3  the answer leaves; behind it renew: the hold is CONFIRMED
//!   4  settle, with a tombstone                   settle, with a tombstone of its own
//! ```
//!
//! What claims from one group only is one call and one ordinary hold. Otherwise the holds of one reservation go through these states,
//! and whoever dies leaves one of them behind:
//!
//! - **Provisional** in the first group, nothing yet in the second. The lease is a few seconds. A gateway that dies here has sent
//!   nothing to a provider, so the sweeper gives the hold back whatever `lost_hold` says.
//! - **Provisional and held**: the second call has passed, the confirmation is on its way. It is repeated until it arrives or the
//!   provisional lease is over. A gateway that dies here may have sent the request a moment ago: the second group charges its hold
//!   when its lease is over, the first gives it back. That is the one gap in the customer's books, as long as a confirmation takes.
//! - **Held in both**: as on one server, twice: renewed, settled and booked for lost in each group by itself.
//!
//! Refused in the first group, nothing is taken (but the message), and the second one is only looked at, so that the refusal names the
//! right cause. Refused in the second, the first is given back before the answer leaves (but the message). A smaller output cap granted
//! there lowers the first group's hold, also before the answer leaves: the settlement must not find more. Waits add up to the longest of
//! both. Should the second call fail, it may have passed: the first group is given back behind the error, and the caller settles or
//! abandons the reservation as it would on one server; the first group then has no hold to give back and books what was used.
//!
//! A settlement goes to both groups, whatever it mentions: each ends what it holds of the reservation, and remembers that it has. Rates
//! are refunded in both only where the group with the budgets knew the hold; so where one group has no budgets it is settled second,
//! after what the first one said. (Where both have some, each judges for itself: each knows whether it charged.)
//!
//! Where this differs from one server: a replacement of what claims from one group only ends it there; the other group, where such a
//! reservation holds nothing, is not told. What takes the place of a reservation ([`replace`]) must fit beside it where both groups are
//! concerned, since neither group can undo the end of the old one should the other refuse; then the old one is settled. And a
//! customer whose own requests in flight leave no room for the wanted output cap is refused (and told to come back shortly) even if a
//! nearly spent budget of the second group would have cut the cap down to what fits.

use super::RedisLedger;
use super::call::{Ask, Mode, lower};
use super::link::DEADLINES;
use super::reply;
use super::slots::Group;
use crate::domain::Timestamp;
use crate::limit::{Admission, Claim, Decision, Measure, Outcome, Settlement, Verdict};
use crate::store::{Renewal, StoreError};
use std::time::Duration;

/// How long a hold stands that is not confirmed, unless calls may take so long that it must be more.
const PROVISIONAL: Duration = Duration::from_secs(5);
/// Calls, each waited for as long as they are, in a provisional lease: the second call, a lowering, and confirmations.
const CALLS: u32 = 8;

/// How long a hold stands that is not confirmed.
pub(super) fn provisional(deadline: Duration) -> Duration {
    PROVISIONAL.max(deadline.saturating_mul(CALLS * DEADLINES))
}

/// Decides an admission in a cluster.
pub(super) async fn admit(ledger: &RedisLedger, admission: &Admission, now: Option<Timestamp>) -> Result<Decision, StoreError> {
    let mut groups = Group::CLUSTER.iter().filter(|group| admission.claims.iter().any(|c| group.keeps(c.scope.scope)));
    match (groups.next(), groups.next()) {
        (Some(_), Some(_)) => Two { ledger, admission, now }.admit().await,
        (group, _) => ledger.decide(&Ask::all(admission, *group.unwrap_or(&Group::Customer)), now).await,
    }
}

/// Puts an admission in the place of a reservation in a cluster; see the module for what is different there.
pub(super) async fn replace(
    ledger: &RedisLedger,
    old: &Settlement,
    admission: &Admission,
    now: Option<Timestamp>,
) -> Result<Decision, StoreError> {
    let scopes = || old.lines.iter().map(|line| &line.claim).chain(&admission.claims).map(|claim| claim.scope.scope);
    let mut groups = Group::CLUSTER.iter().filter(|group| scopes().any(|scope| group.keeps(scope)));
    match (groups.next(), groups.next()) {
        (Some(_), Some(_)) => {
            let decision = admit(ledger, admission, now).await?;
            if decision.admitted {
                ledger.settle_all(std::slice::from_ref(old), now).await?;
            }
            Ok(decision)
        }
        (group, _) => ledger.exchange(old, &Ask::all(admission, *group.unwrap_or(&Group::Customer)), now).await,
    }
}

/// An admission that claims from both groups.
struct Two<'a> {
    ledger: &'a RedisLedger,
    admission: &'a Admission,
    now: Option<Timestamp>,
}

impl Two<'_> {
    async fn admit(&self) -> Result<Decision, StoreError> {
        let Self { ledger, admission, now } = *self;
        let lease = admission.lease.min(u64::try_from(ledger.confirms.provisional.as_micros()).unwrap_or(u64::MAX));
        let ask = Ask { mode: Mode::Provisional, lease, ..Ask::all(admission, Group::Customer) };
        let mut first = ledger.decide(&ask, now).await?;
        // Also of a refused one: it is what puts off the ceiling, and so what the second group says of it.
        let waits =
            first.verdicts.iter().map(|v| if let Outcome::Starts(wait) = v.outcome { wait } else { 0 }).max().unwrap_or(0);
        let ask = Ask { waits, ..Ask::all(admission, Group::Shared) };
        if !first.admitted {
            let second = ledger.decide(&Ask { mode: Mode::Refused, ..ask }, now).await?;
            return Ok(self.both(first, second));
        }
        let second = match ledger.decide(&Ask { granted: first.granted, ..ask }, now).await {
            Ok(second) => second,
            Err(error) => {
                self.give_back_later(&first);
                return Err(error);
            }
        };
        if !second.admitted {
            self.lower(&mut first, |claim| if claim.measure == Measure::Message { claim.amount } else { 0 }).await?;
            return Ok(self.both(first, second));
        }
        if let Some(cost) = admission.cost_of(second.granted) {
            self.lower(&mut first, |claim| if claim.measure == Measure::Money { cost } else { claim.amount }).await?;
        }
        if self.claims(Group::Customer).any(Claim::is_budget) {
            let Admission { reservation, customer, lease, .. } = admission;
            let renewal = Renewal { reservation: *reservation, customer: customer.clone(), lease: *lease, metered: 0 };
            ledger.confirms.confirm(&ledger.servers, renewal, now).await;
        }
        Ok(self.both(first, second))
    }

    fn claims(&self, group: Group) -> impl Iterator<Item = &Claim> {
        self.admission.claims.iter().filter(move |claim| group.keeps(claim.scope.scope))
    }

    /// What of the first group's claims is to be taken back, down to what `keeps` gives.
    fn taken_back(&self, first: &Decision, keeps: impl Fn(&Claim) -> u64) -> Settlement {
        let Admission { reservation, customer, claims, elastic, .. } = self.admission;
        let claims: Vec<_> = claims.iter().filter(|claim| Group::Customer.keeps(claim.scope.scope)).cloned().collect();
        let mut lines = crate::limit::Line::taken(&claims, elastic.as_ref(), first);
        lines.iter_mut().for_each(|line| line.actual = keeps(&line.claim).min(line.claim.amount));
        Settlement { reservation: *reservation, customer: customer.clone(), lines }
    }

    /// Takes claims of the first group back, and has its verdicts say how that then stands.
    async fn lower(&self, first: &mut Decision, keeps: impl Fn(&Claim) -> u64) -> Result<(), StoreError> {
        let back = self.taken_back(first, keeps);
        let Self { ledger: RedisLedger { servers, floors, .. }, now, .. } = self;
        let command = lower(servers.scripts().lower(), Group::Customer, &back, floors, *now);
        let reply = servers.one(Group::Customer.slot(&back.customer.owner), command).await?;
        for (verdict, stands) in first.verdicts.iter_mut().zip(reply::lowered(&reply, back.lines.len())?) {
            let [used, held, remaining, reset_in] = stands;
            *verdict = Verdict { used, held, remaining, reset_in, ..*verdict };
        }
        Ok(())
    }

    /// The second call failed. Not waited for, and tried once: the hold is provisional, and rates come back by themselves.
    fn give_back_later(&self, first: &Decision) {
        let back = self.taken_back(first, |claim| if claim.measure == Measure::Message { claim.amount } else { 0 });
        let (RedisLedger { servers, floors, .. }, now) = (self.ledger.clone(), self.now);
        tokio::spawn(async move {
            let command = lower(servers.scripts().lower(), Group::Customer, &back, &floors, now);
            if let Err(error) = servers.one(Group::Customer.slot(&back.customer.owner), command).await {
                tracing::debug!(%error, "half an admission could not be given back; it ends with its lease");
            }
        });
    }

    /// One decision of the two, its verdicts in the order of the claims.
    fn both(&self, first: Decision, second: Decision) -> Decision {
        let admitted = first.admitted && second.admitted;
        let (mut customers, mut shared) = (first.verdicts.into_iter(), second.verdicts.into_iter());
        let mut verdict = |claim: &Claim| {
            let mut verdicts = if Group::Customer.keeps(claim.scope.scope) { &mut customers } else { &mut shared };
            Iterator::next(&mut verdicts).expect("a verdict per claim was read")
        };
        let verdicts = self.admission.claims.iter().map(&mut verdict).collect();
        Decision {
            at: first.at.max(second.at),
            admitted,
            start_in: if admitted { first.start_in.max(second.start_in) } else { 0 },
            granted: second.granted.or(first.granted).filter(|_| admitted),
            verdicts,
        }
    }
}
