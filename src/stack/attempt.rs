//! What a further attempt costs: the provider's ceiling once more, in the way the provider counts. The customer's own limits were claimed
//! once, for the request.

use super::account::Account;
use super::call::Call;
use super::gateway::Gateway;
use super::{admit, token_rate};
use crate::limit::{Admission, Rule};
use crate::reply::Rejection;
use crate::telemetry::otlp::Kind;
use std::time::Duration;

/// Claims the ceiling for a further attempt, adds it to the reservation and waits for its turn. Gives how long that took, which is within
/// `left`; `None` when there is no room by then, or nobody who could say.
///
/// Should the client leave while the store decides, the ceiling may stay claimed for an attempt that is never made: at most one minute's
/// refill late, never early.
pub async fn claim_attempt(call: &Call, account: &mut Account, gateway: &Gateway, left: Duration) -> Option<Duration> {
    let mut claims = Vec::new();
    token_rate::ceiling(&mut claims, call);
    let mut waited = Duration::ZERO;
    let Some(reservation) = account.reservation() else { return Some(waited) };
    // Asked for in two steps by whoever must first wait for its own share: the ceiling itself is claimed only when that is over.
    while !claims.is_empty() {
        let most = u64::try_from(left.saturating_sub(waited).as_micros()).unwrap_or(u64::MAX);
        for claim in &mut claims {
            if let Rule::Bucket { max_wait, .. } | Rule::Window { max_wait, .. } = &mut claim.rule {
                *max_wait = (*max_wait).min(most);
            }
        }
        let admission = Admission {
            reservation: reservation.id(),
            customer: call.who.customer.scope.clone(),
            claims,
            elastic: None,
            lease: u64::try_from(gateway.lease.as_micros()).unwrap_or(u64::MAX),
        };
        let step = call.who.record.begin(|| Kind::Admission);
        let decided = admit::decide(gateway, &admission).await;
        call.who.record.end(step, decided.as_ref().err().map(Rejection::cause));
        let decision = decided.ok().filter(|decision| decision.admitted)?;
        reservation.extend(&admission.claims, None, &decision);
        let start_in = Duration::from_micros(decision.start_in);
        waited += start_in;
        call.who.record.note(|facts| facts.waited += start_in);
        if !start_in.is_zero() {
            let step = call.who.record.begin(|| Kind::Wait("ceiling"));
            gateway.pauses.pause(start_in).await;
            call.who.record.end(step, None);
        }
        claims = admission.claims;
        claims.retain(|claim| decision.deferred() && claim.is_ceiling());
    }
    Some(waited)
}
