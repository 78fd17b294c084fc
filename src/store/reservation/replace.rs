//! Other claims in the place of a reservation: another model, that is, after attempts that failed.
//!
//! One call to the store ends the old reservation and begins the new one, or leaves everything as it was. The duty to settle goes along:
//! whatever happens, exactly one of the two is settled by whoever holds the reservation, and the other one was ended by the store.

use super::{Actuals, Reservation};
use crate::limit::{Admission, Decision, Settlement};
use crate::store::{Ledger, StoreError};
use crate::upstream::Tasks;
use futures_util::future::BoxFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What became of a wish for other claims.
#[derive(Debug)]
pub struct Replaced {
    /// The new reservation, not attempted yet, if the claims were admitted; else the old one. That settles, dropped as it is, to what was
    /// said to be used; a further attempt may be made with it just as well.
    pub reservation: Reservation,
    /// What was asked.
    pub admission: Admission,
    /// What the store said. After an error the old reservation goes on; should the store have replaced it all the same, its settlement
    /// books nothing more, and the new hold ends with its lease.
    pub decision: Result<Decision, StoreError>,
}

impl Reservation {
    /// Asks the store to end this reservation at what its attempts have `used` so far (their cost too, if any) and to admit other claims
    /// in its place, as if it had ended before. The claims are those of the whole request but for the message, which is spent already.
    ///
    /// A caller that goes away meanwhile does not call the question back: one of `tasks` waits for the answer and settles what then
    /// stands, the old reservation to what was used and a new one to nothing.
    pub fn replaced(
        mut self,
        used: &Actuals,
        admission: Admission,
        ledger: &Arc<dyn Ledger>,
        tasks: &Tasks,
    ) -> impl Future<Output = Replaced> + Send + use<> {
        let used = self.so_far(used);
        self.used = Some(used);
        let asking = Box::pin(ask(self, used, admission, Arc::clone(ledger)));
        Question { asking: Some(asking), tasks: tasks.clone() }
    }

    /// Its settlement to these actuals, while it goes on.
    fn ended_at(&self, used: &Actuals) -> Settlement {
        let mut settlement = self.settlement.clone();
        for line in &mut settlement.lines {
            line.actual = used.of(&line.claim);
        }
        settlement.lines.extend(self.earlier.iter().cloned());
        settlement
    }
}

async fn ask(mut reservation: Reservation, used: Actuals, admission: Admission, ledger: Arc<dyn Ledger>) -> Replaced {
    let old = reservation.ended_at(&used);
    let decision = ledger.replace(&old, &admission, None).await;
    if let Ok(decision) = &decision
        && decision.admitted
        && let Some(place) = reservation.place.take()
    {
        reservation.bear_witness(&used);
        // The place goes on, so there is one settlement, and from here on the renewals are those of the new hold.
        let (id, customer) = (admission.reservation, admission.customer.clone());
        reservation = Reservation::new(id, customer, &admission.claims, admission.elastic.as_ref(), decision, place);
    }
    Replaced { reservation, admission, decision }
}

/// A question to the store that is answered whether or not anybody still waits.
struct Question {
    asking: Option<BoxFuture<'static, Replaced>>,
    tasks: Tasks,
}

impl Future for Question {
    type Output = Replaced;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Replaced> {
        let Some(asking) = &mut self.asking else { return Poll::Pending };
        let answer = std::task::ready!(asking.as_mut().poll(cx));
        self.asking = None;
        Poll::Ready(answer)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if let Some(asking) = self.asking.take() {
            self.tasks.spawn(async move { drop(asking.await) });
        }
    }
}

#[cfg(test)]
mod tests;
