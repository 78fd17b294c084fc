//! Dollar claims that shrink with the output cap.

use crate::fixture::*;
use tollgate::domain::{Period, Zone};
use tollgate::limit::{Claim, Elastic, Outcome};

/// 2,500 nano-dollars of input, 10,000 a token of output (pico-dollars here).
fn elastic(wanted: u64, floor: u64) -> Elastic {
    Elastic::new(2_500_500, 10_000_000, wanted, floor).expect("exact")
}

async fn ask(store: &Fixture, elastic: Elastic, caps: &[(Period, u64)]) -> Asked {
    let claim = |(period, cap): &(Period, u64)| -> Claim {
        budget(*period, Zone::default().boundaries(*period, NOON), *cap, elastic.cost(elastic.wanted).get())
    };
    let mut admission = store.admission(caps.iter().map(claim).collect());
    admission.elastic = Some(elastic);
    store.ask_this(0, admission).await
}

pub async fn the_largest_cap_that_fits_is_granted(store: Fixture) {
    let cap = 1_002_501; // 100 tokens of output to the nano-dollar
    let asked = ask(&store, elastic(1_000, 16), &[(Period::Day, cap)]).await;
    assert_eq!((asked.decision.admitted, asked.decision.granted), (true, Some(100)));
    let verdict = asked.decision.verdicts[0];
    assert_eq!((verdict.outcome, verdict.held, verdict.remaining), (Outcome::Fits, cap, 0));
    let fits = ask(&store, elastic(50, 16), &[(Period::Week, cap)]).await;
    assert_eq!((fits.decision.admitted, fits.decision.granted), (true, None), "what fits is not touched");
}

pub async fn below_the_floor_is_refused(store: Fixture) {
    let asked = ask(&store, elastic(1_000, 101), &[(Period::Day, 1_002_501)]).await;
    assert_eq!((asked.decision.admitted, asked.decision.granted), (false, None));
    assert_eq!((asked.decision.verdicts[0].outcome, asked.decision.verdicts[0].held), (Outcome::Exhausted, 0));
    let no_input = ask(&store, elastic(1_000, 0), &[(Period::Day, 2_499)]).await;
    assert_eq!(no_input.decision.verdicts[0].outcome, Outcome::Exhausted, "not even the input fits");
}

pub async fn requests_in_flight_are_not_the_end(store: Fixture) {
    let cap = 1_002_501;
    let first = store.ask(0, vec![dollars(cap, 900_000)]).await;
    let asked = ask(&store, elastic(1_000, 50), &[(Period::Day, cap)]).await;
    assert_eq!(asked.decision.verdicts[0].outcome, Outcome::InFlight, "once the first is settled the floor may fit");
    assert!(!asked.decision.admitted);
    store.settle(0, &first, &[400_000]).await;
    let asked = ask(&store, elastic(1_000, 50), &[(Period::Day, cap)]).await;
    assert_eq!((asked.decision.admitted, asked.decision.granted), (true, Some(60)));
}

pub async fn the_tightest_of_several_caps_decides(store: Fixture) {
    let caps = [(Period::Day, 2_002_501), (Period::Week, 1_002_501), (Period::Month, DOLLAR)];
    let asked = ask(&store, elastic(1_000, 16), &caps).await;
    assert_eq!((asked.decision.admitted, asked.decision.granted), (true, Some(100)));
    let held: Vec<_> = asked.decision.verdicts.iter().map(|v| v.held).collect();
    assert_eq!(held, [1_002_501; 3], "the same amount of each");
    let one_below_the_floor = [(Period::Day, 2_002_501 + 1_002_501), (Period::Week, 1_002_501 + 100)];
    let asked = ask(&store, elastic(1_000, 16), &one_below_the_floor).await;
    assert!(!asked.decision.admitted);
    let outcomes: Vec<_> = asked.decision.verdicts.iter().map(|v| v.outcome).collect();
    assert_eq!(outcomes, [Outcome::Fits, Outcome::InFlight], "the day affords a shorter answer and is not the cause");
}

pub async fn a_grant_that_others_in_flight_leave_no_room_for_waits(store: Fixture) {
    let week = |amount| budget(Period::Week, Zone::default().boundaries(Period::Week, NOON), 11_000_000, amount);
    let first = store.ask(0, vec![week(10_000_000)]).await;
    // The day affords 100 tokens of output; the week would afford all 1,000 but for what is in flight, which leaves not even 100.
    let caps = [(Period::Day, 1_002_501), (Period::Week, 11_000_000)];
    let asked = ask(&store, elastic(1_000, 16), &caps).await;
    let outcomes: Vec<_> = asked.decision.verdicts.iter().map(|v| v.outcome).collect();
    assert_eq!((asked.decision.admitted, outcomes), (false, vec![Outcome::Fits, Outcome::InFlight]));
    store.settle(0, &first, &[0]).await;
    let asked = ask(&store, elastic(1_000, 16), &caps).await;
    assert_eq!((asked.decision.admitted, asked.decision.granted), (true, Some(100)));
}

pub async fn a_reservation_settles_what_was_granted(store: Fixture) {
    let asked = ask(&store, elastic(1_000, 16), &[(Period::Day, 1_002_501)]).await;
    store.settle(0, &asked, &[400_000]).await;
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (400_000, 0), "held what was granted, not what was wanted");
    // The dearest claim that is elastic, on the largest cap: 2^53 pico-dollars.
    let dearest = Elastic::new(1, 9_007_199_254_740, 1_000, 1).expect("exact");
    let cap = 400_000 + dearest.cost(999).get();
    let asked = ask(&store, dearest, &[(Period::Day, cap)]).await;
    assert_eq!((asked.decision.granted, asked.decision.verdicts[0].remaining), (Some(999), 0));
}
