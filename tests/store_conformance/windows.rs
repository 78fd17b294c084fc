//! Sliding windows.

use crate::fixture::*;
use tollgate::limit::{Claim, LimitName, Outcome, Rule};

fn window(limit: u64, amount: u64) -> Claim {
    Claim { rule: Rule::Window { limit, max_wait: 0 }, ..per_minute(LimitName::Rpm, 1, amount) }
}

pub async fn no_minute_sees_more_than_the_limit(store: Fixture) {
    let mut admitted = Vec::new();
    for at in (0..300 * SECOND).step_by(537_000) {
        if store.outcome(at, window(10, 1)).await == Outcome::Fits {
            admitted.push(at);
        }
    }
    for (i, start) in admitted.iter().enumerate() {
        let within = admitted[i..].iter().take_while(|at| **at - start < MINUTE).count();
        assert!(within <= 10, "{within} from {start}");
    }
    assert!(admitted.len() >= 40, "five minutes of ten: {}", admitted.len());
}

pub async fn waiters_stand_in_line_and_the_wait_is_exact(store: Fixture) {
    assert_eq!(store.outcome(0, window(10, 6)).await, Outcome::Fits);
    assert_eq!(store.outcome(5 * SECOND, window(10, 4)).await, Outcome::Fits);
    assert_eq!(store.outcome(5_500_000, window(10, 1)).await, Outcome::Refused(55_500_000), "61 s after the first");
    assert_eq!(store.outcome(5_500_000, window(10, 11)).await, Outcome::Never);
    let starts = [
        store.outcome(5_500_000, waiting(window(10, 6), 2 * MINUTE)).await,
        store.outcome(5_500_000, waiting(window(10, 1), 2 * MINUTE)).await,
        store.outcome(5_500_000, waiting(window(10, 9), 2 * MINUTE)).await,
        store.outcome(6 * SECOND, window(10, 1)).await,
    ];
    let right =
        [Outcome::Starts(55_500_000), Outcome::Starts(60_500_000), Outcome::Starts(116_500_000), Outcome::Refused(121 * SECOND)];
    assert_eq!(starts, right, "each after those before it");
}

pub async fn a_refund_counts_only_inside_the_window(store: Fixture) {
    let asked = store.ask(0, vec![window(10, 10)]).await;
    assert_eq!(asked.decision.verdicts[0].booked, NOON.secs());
    store.settle(30 * SECOND, &asked, &[4]).await;
    assert_eq!(store.remaining(30 * SECOND, &window(10, 0)).await, 6);
    let late = store.ask(40 * SECOND, vec![window(10, 6)]).await;
    store.settle(102 * SECOND, &late, &[0]).await;
    assert_eq!(store.remaining(102 * SECOND, &window(10, 0)).await, 10, "gone by itself, and not given back twice");
    let over = store.ask(110 * SECOND, vec![window(10, 1)]).await;
    store.settle(120 * SECOND, &over, &[8]).await;
    assert_eq!(store.remaining(120 * SECOND, &window(10, 0)).await, 2, "an overrun counts when it is known");
    assert_eq!(store.remaining(171 * SECOND, &window(10, 0)).await, 3);
}

pub async fn a_refund_larger_than_its_slot_frees_no_more_than_that(store: Fixture) {
    let first = store.ask(0, vec![window(10, 3)]).await;
    let other = store.ask(SECOND, vec![window(10, 5)]).await;
    let too_much = Asked { admission: store.admission(vec![window(10, 9)]), decision: first.decision };
    store.settle(SECOND, &too_much, &[0]).await;
    assert_eq!(store.remaining(SECOND, &window(10, 0)).await, 5, "the 5 of the next second stay");
    store.settle(SECOND, &other, &[5]).await;
    assert_eq!(store.remaining(SECOND, &window(10, 0)).await, 5);
}

pub async fn a_limit_that_changes_its_kind_starts_anew(store: Fixture) {
    let bucket = |amount| per_minute(LimitName::Rpm, 5, amount);
    assert_eq!(store.outcome(0, bucket(5)).await, Outcome::Fits);
    assert_eq!(store.outcome(0, window(5, 4)).await, Outcome::Fits);
    assert_eq!(store.remaining(0, &window(5, 0)).await, 1);
    assert_eq!(store.remaining(0, &bucket(0)).await, 5);
}

pub async fn a_clock_set_back_locks_nobody_out_and_forgets_nothing(store: Fixture) {
    assert_eq!(store.outcome(2 * HOUR, window(10, 7)).await, Outcome::Fits);
    assert_eq!(store.outcome(2 * HOUR - 400_000, window(10, 4)).await, Outcome::Refused(61_400_000), "a lag moves nothing");
    assert_eq!(store.outcome(0, window(10, 4)).await, Outcome::Refused(61 * SECOND), "two hours back, a minute to wait");
    assert_eq!(store.outcome(0, window(10, 3)).await, Outcome::Fits);
    assert_eq!(store.outcome(60 * SECOND, window(10, 1)).await, Outcome::Refused(SECOND));
    assert_eq!(store.outcome(61 * SECOND, window(10, 10)).await, Outcome::Fits);
}
