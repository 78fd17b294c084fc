//! What a further attempt costs: the provider's ceiling once more, in the way the provider counts. The customer's own limits were claimed
//! once, for the request.

use super::account::Account;
use super::call::Call;
use super::gateway::Gateway;
use super::{admit, token_rate};
use crate::limit::{Admission, Rule};
use std::time::Duration;

/// Claims the ceiling for a further attempt and adds it to the reservation. Gives how long the attempt has to wait for its turn, which is
/// within `left`; `None` when there is no room by then, or nobody who could say.
///
/// Should the client leave while the store decides, the ceiling may stay claimed for an attempt that is never made: at most one minute's
/// refill late, never early.
pub async fn claim_attempt(call: &Call, account: &mut Account, gateway: &Gateway, left: Duration) -> Option<Duration> {
    let mut claims = Vec::new();
    token_rate::ceiling(&mut claims, call);
    let Some(reservation) = account.reservation() else { return Some(Duration::ZERO) };
    if claims.is_empty() {
        return Some(Duration::ZERO);
    }
    let left = u64::try_from(left.as_micros()).unwrap_or(u64::MAX);
    for claim in &mut claims {
        if let Rule::Bucket { max_wait, .. } | Rule::Window { max_wait, .. } = &mut claim.rule {
            *max_wait = (*max_wait).min(left);
        }
    }
    let admission = Admission {
        reservation: reservation.id(),
        customer: call.who.customer.scope.clone(),
        claims,
        elastic: None,
        lease: u64::try_from(gateway.lease.as_micros()).unwrap_or(u64::MAX),
    };
    let mut decision = admit::decide(gateway, &admission).await.ok()?;
    if !decision.admitted {
        return None;
    }
    let mut start_in = decision.start_in;
    reservation.extend(&admission.claims, None, &decision);
    if decision.deferred() {
        // Who must wait for its share claims the ceiling itself only when its turn has come; here all is asked for at once, so the
        // second question follows at the start time.
        gateway.pauses.pause(Duration::from_micros(start_in)).await;
        let later = admission.claims.into_iter().filter(crate::limit::Claim::is_ceiling).collect();
        let second = Admission { claims: later, ..admission };
        decision = admit::decide(gateway, &second).await.ok()?;
        if !decision.admitted {
            return None;
        }
        start_in = decision.start_in;
        reservation.extend(&second.claims, None, &decision);
    }
    Some(Duration::from_micros(start_in))
}
