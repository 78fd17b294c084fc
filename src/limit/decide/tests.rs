use super::*;
use crate::domain::{NanoUsd, Period, ReservationId, Zone};
use crate::limit::{Bucket, Refusal, Remedy, Scope};
use std::collections::HashMap;

/// States in a map: the simplest store there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory(pub HashMap<(ScopeKey, LimitName), State>);

impl States for Memory {
    fn state(&mut self, scope: &ScopeKey, limit: LimitName) -> Option<State> {
        self.0.get(&(scope.clone(), limit)).cloned()
    }

    fn put(&mut self, scope: &ScopeKey, limit: LimitName, state: State) {
        self.0.insert((scope.clone(), limit), state);
    }
}

/// 2027-01-15 08:00 UTC.
pub const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
pub const MINUTE: u64 = 60_000_000;
pub const DAY: LimitName = LimitName::Spend(Period::Day);

pub fn scope(scope: Scope) -> ScopeKey {
    ScopeKey { scope, owner: if scope == Scope::User { "c/u" } else { "c" }.into() }
}

pub fn bucket(whose: Scope, limit: LimitName, measure: Measure, size: u64, max_wait: u64, amount: u64) -> Claim {
    let bucket = Bucket::new(size, size, MINUTE).expect("exact");
    let rule = Rule::Bucket { bucket, max_wait, forgive: whose != Scope::Pool, mirrors: false };
    Claim { scope: scope(whose), limit, rule, measure, amount }
}

pub fn budget(whose: Scope, limit: LimitName, cap: u64, amount: u64, now: Timestamp) -> Claim {
    let boundaries = Zone::default().boundaries(limit.period().expect("a budget"), now);
    Claim { scope: scope(whose), limit, rule: Rule::Budget { cap, boundaries }, measure: Measure::Money, amount }
}

pub fn ask(claims: &[Claim], elastic: Option<Elastic>) -> Admission {
    let customer = scope(Scope::Customer);
    Admission { reservation: ReservationId::new(1), customer, claims: claims.to_vec(), elastic, lease: MINUTE }
}

pub fn end(admission: &Admission, decision: &Decision, actual: impl Fn(&Claim) -> u64) -> Settlement {
    let mut lines = admission.lines(decision);
    lines.iter_mut().for_each(|line| line.actual = actual(&line.claim));
    Settlement { reservation: admission.reservation, customer: admission.customer.clone(), lines }
}

fn outcomes(decision: &Decision) -> Vec<Outcome> {
    decision.verdicts.iter().map(|v| v.outcome).collect()
}

fn spent(states: &mut Memory, claim: &Claim, amount: u64, now: Timestamp) {
    let used = ask(&[Claim { amount, ..claim.clone() }], None);
    let decision = admit(now, &used, states);
    settle(now, &end(&used, &decision, |claim| claim.amount), Hold::AsClaimed, states);
}

#[test]
fn a_refused_request_takes_nothing_but_its_message() {
    let claims = [
        bucket(Scope::Customer, LimitName::Messages, Measure::Message, 60, 0, 1),
        bucket(Scope::Customer, LimitName::Rpm, Measure::Request, 60, 0, 1),
        bucket(Scope::Customer, LimitName::Tpm, Measure::Tokens, 100, 0, 100),
        budget(Scope::Customer, DAY, 1_000, 10, NOW),
    ];
    let mut states = Memory::default();
    let first = admit(NOW, &ask(&claims, None), &mut states);
    assert!(first.admitted);
    let before = states.clone();
    for refused in 1..50 {
        let decision = admit(NOW, &ask(&claims, None), &mut states);
        assert_eq!(
            outcomes(&decision),
            [Outcome::Fits, Outcome::Fits, Outcome::Refused(MINUTE), Outcome::Fits],
            "no room for tokens"
        );
        assert_eq!(decision.verdicts[0].remaining, 59 - refused, "every message is spent");
        assert_eq!(decision.verdicts[1].remaining, 59, "requests are not");
    }
    states.0.remove(&(scope(Scope::Customer), LimitName::Messages));
    let mut before = before;
    before.0.remove(&(scope(Scope::Customer), LimitName::Messages));
    assert_eq!(states, before);
}

#[test]
fn a_message_that_does_not_pass_its_own_bucket_is_not_spent() {
    let claims = [bucket(Scope::Customer, LimitName::Messages, Measure::Message, 1, 0, 1)];
    let mut states = Memory::default();
    assert!(admit(NOW, &ask(&claims, None), &mut states).admitted);
    for _ in 0..3 {
        assert_eq!(outcomes(&admit(NOW, &ask(&claims, None), &mut states)), [Outcome::Refused(MINUTE)]);
    }
    assert!(admit(NOW.plus(MINUTE), &ask(&claims, None), &mut states).admitted, "polling cost nothing");
}

#[test]
fn who_waits_over_a_second_for_its_own_claims_the_ceiling_later() {
    let share = bucket(Scope::Share, LimitName::Rpm, Measure::Request, 60, MINUTE, 1);
    let ceiling = bucket(Scope::Pool, LimitName::Rpm, Measure::Request, 600, MINUTE, 1);
    let mut states = Memory::default();
    let admission = ask(&[share, ceiling], None);
    for _ in 0..60 {
        assert!(!admit(NOW, &admission, &mut states).deferred());
    }
    let second = admit(NOW, &admission, &mut states);
    assert_eq!((second.deferred(), second.start_in), (false, 1_000_000), "a second is not too long");
    let third = admit(NOW, &admission, &mut states);
    assert_eq!(outcomes(&third), [Outcome::Starts(2_000_000), Outcome::Deferred]);
    assert_eq!((third.admitted, third.start_in), (true, 2_000_000));
    assert_eq!(third.verdicts[1].remaining, 600 - 61, "the ceiling was not touched");
    assert_eq!(admission.lines(&third).len(), 1, "nor is it part of what was taken");
}

#[test]
fn the_ceilings_own_wait_defers_nothing() {
    let ceiling = bucket(Scope::Pool, LimitName::Rpm, Measure::Request, 1, 2 * MINUTE, 1);
    let mut states = Memory::default();
    let admission = ask(&[ceiling], None);
    let waits: Vec<_> = (0..4).map(|_| admit(NOW, &admission, &mut states).verdicts[0].outcome).collect();
    let right = [Outcome::Fits, Outcome::Starts(MINUTE), Outcome::Starts(2 * MINUTE), Outcome::Refused(MINUTE)];
    assert_eq!(waits, right);
}

#[test]
fn the_output_cap_shrinks_to_what_every_budget_affords() {
    // 1,000 nano-dollars fixed, one per token of output.
    let elastic = Elastic::new(1_000_000, 1_000, 4_000, 500).expect("exact");
    let asked = elastic.cost(4_000).get();
    assert_eq!(asked, 5_000);
    // Day's spent, month's spent, granted.
    for (day, month, granted) in [
        (0, 0, Ok(None)),
        (5_000, 5_000, Ok(None)),
        (6_000, 0, Ok(Some(3_000))),
        (0, 7_500, Ok(Some(1_500))),
        (6_000, 7_500, Ok(Some(1_500))),
        (8_500, 0, Ok(Some(500))),
        (8_501, 0, Err(Outcome::Exhausted)),
        (6_000, 9_500, Err(Outcome::Exhausted)),
    ] {
        let claims = [
            budget(Scope::Customer, DAY, 10_000, asked, NOW),
            budget(Scope::App, LimitName::Spend(Period::Month), 10_000, asked, NOW),
        ];
        let mut states = Memory::default();
        spent(&mut states, &claims[0], day, NOW);
        spent(&mut states, &claims[1], month, NOW);
        let admission = ask(&claims, Some(elastic));
        let decision = admit(NOW, &admission, &mut states);
        match granted {
            Ok(cap) => {
                assert!(decision.admitted, "{day} {month}");
                assert_eq!(decision.granted, cap, "{day} {month}");
                let held = cap.map_or(asked, |cap| elastic.cost(cap).get());
                assert!(decision.verdicts.iter().all(|v| v.held == held), "both hold the same");
                assert!(admission.lines(&decision).iter().all(|line| line.claim.amount == held));
            }
            Err(outcome) => {
                assert!(!decision.admitted, "{day} {month}");
                assert!(outcomes(&decision).contains(&outcome), "{day} {month}");
                assert!(decision.verdicts.iter().all(|v| v.held == 0));
            }
        }
    }
}

#[test]
fn below_the_floor_only_because_of_others_in_flight_is_no_final_refusal() {
    let elastic = Elastic::new(1_000_000, 1_000, 4_000, 500).expect("exact");
    let claim = budget(Scope::Customer, DAY, 10_000, 5_000, NOW);
    let mut states = Memory::default();
    spent(&mut states, &claim, 6_000, NOW);
    let other = Claim { amount: 3_000, ..claim.clone() };
    assert!(admit(NOW, &ask(&[other], None), &mut states).admitted);
    let decision = admit(NOW, &ask(std::slice::from_ref(&claim), Some(elastic)), &mut states);
    assert_eq!(outcomes(&decision), [Outcome::InFlight]);
    let refusal = Refusal::worst(&[claim], &decision).expect("refused");
    assert_eq!((refusal.used, refusal.held, refusal.asked), (6_000, 3_000, 5_000));
}

#[test]
fn a_budget_that_affords_a_shorter_answer_is_not_the_cause_of_anothers_refusal() {
    let elastic = Elastic::new(1_000_000, 1_000, 4_000, 500).expect("exact");
    let asked = elastic.cost(4_000).get();
    let narrow = budget(Scope::User, LimitName::Spend(Period::Day), elastic.cost(1_000).get(), asked, NOW);
    let wide = budget(Scope::Customer, LimitName::Spend(Period::Day), elastic.cost(2_000).get(), asked, NOW);
    let all = elastic.cost(2_000).get();
    for (is_spent, outcome) in [(false, Outcome::InFlight), (true, Outcome::Exhausted)] {
        let mut states = Memory::default();
        if is_spent {
            spent(&mut states, &wide, all, NOW);
        } else {
            assert!(admit(NOW, &ask(&[Claim { amount: all, ..wide.clone() }], None), &mut states).admitted);
        }
        let decision = admit(NOW, &ask(&[narrow.clone(), wide.clone()], Some(elastic)), &mut states);
        assert!(!decision.admitted);
        assert_eq!(outcomes(&decision), [Outcome::Fits, outcome]);
    }
}

#[test]
fn fifty_at_once_on_the_last_dime_admit_exactly_ten() {
    let dollar = NanoUsd::from_usd("1").expect("a dollar").get();
    let cent = dollar / 100;
    let claim = budget(Scope::Customer, DAY, dollar, cent, NOW);
    let mut states = Memory::default();
    spent(&mut states, &claim, 90 * cent, NOW);
    let admission = ask(&[claim], None);
    let admitted = (0..50).filter(|_| admit(NOW, &admission, &mut states).admitted).count();
    assert_eq!(admitted, 10);
}

#[test]
fn a_thousand_tiny_costs_sum_exactly() {
    let mut states = Memory::default();
    let claim = budget(Scope::Customer, DAY, 3_000_000_000, 3_000_000, NOW);
    let admission = ask(&[claim], None);
    for request in 0..1_000 {
        let decision = admit(NOW, &admission, &mut states);
        assert!(decision.admitted, "{request}");
        settle(NOW, &end(&admission, &decision, |_| 3_000_000), Hold::AsClaimed, &mut states);
    }
    let refused = admit(NOW, &admission, &mut states);
    assert_eq!(outcomes(&refused), [Outcome::Exhausted]);
    assert_eq!((refused.verdicts[0].used, refused.verdicts[0].held), (3_000_000_000, 0));
}

#[test]
fn a_request_settles_in_the_period_in_which_it_was_admitted() {
    let midnight = Timestamp::from_secs(NOW.secs().next_multiple_of(86_400));
    let before = Timestamp(midnight.micros() - 1);
    let mut states = Memory::default();
    let admission = ask(&[budget(Scope::Customer, DAY, 100, 60, before)], None);
    let yesterday = admit(before, &admission, &mut states);
    assert!(!admit(before, &admission, &mut states).admitted);
    let today = ask(&[budget(Scope::Customer, DAY, 100, 60, midnight)], None);
    assert!(admit(midnight, &today, &mut states).admitted, "a new day");
    settle(midnight.plus(5), &end(&admission, &yesterday, |_| 50), Hold::AsClaimed, &mut states);
    let Some(State::Budget(book)) = states.state(&scope(Scope::Customer), DAY) else { panic!("a budget") };
    assert_eq!((book.previous.spent, book.previous.held), (50, 0));
    assert_eq!((book.current.spent, book.current.held), (0, 60));
}

#[test]
fn an_unknown_hold_is_booked_without_giving_anything_back() {
    let mut states = Memory::default();
    let admission = ask(&[budget(Scope::Customer, DAY, 100, 60, NOW)], None);
    let known = admit(NOW, &admission, &mut states);
    let unknown = end(&admission, &known, |_| 20);
    settle(NOW, &unknown, Hold::Unknown, &mut states);
    let Some(State::Budget(book)) = states.state(&scope(Scope::Customer), DAY) else { panic!("a budget") };
    assert_eq!((book.current.spent, book.current.held), (20, 60), "the other's hold stays");
}

#[test]
fn a_settlement_by_a_plan_that_counted_otherwise_leaves_the_present_count_alone() {
    let claim = |rule| Claim { rule, ..bucket(Scope::Customer, LimitName::Tpm, Measure::Tokens, 100, 0, 60) };
    let size = Bucket::new(100, 100, MINUTE).expect("exact");
    let (by_bucket, by_window) = (
        claim(Rule::Bucket { bucket: size, max_wait: 0, forgive: true, mirrors: false }),
        claim(Rule::Window { limit: 100, max_wait: 0 }),
    );
    for (before, after) in [(&by_bucket, &by_window), (&by_window, &by_bucket)] {
        let mut states = Memory::default();
        let old = ask(std::slice::from_ref(before), None);
        let first = admit(NOW, &old, &mut states);
        let new = ask(std::slice::from_ref(after), None);
        assert!(admit(NOW, &new, &mut states).admitted, "a rule of another kind starts afresh");
        for actual in [0, 60, 100] {
            settle(NOW, &end(&old, &first, |_| actual), Hold::AsClaimed, &mut states);
            let verdict = admit(NOW, &new, &mut states).verdicts[0];
            assert_eq!((verdict.outcome.passes(), verdict.used, verdict.remaining), (false, 60, 40), "settled to {actual}");
        }
    }
}

#[test]
fn the_refusal_reported_is_the_one_that_waits_longest_or_never_ends() {
    let at = |outcome, reset_in| Verdict { outcome, used: 0, held: 0, remaining: 0, reset_in, booked: 0 };
    let claims: Vec<_> = [LimitName::Messages, LimitName::Rpm, LimitName::Tpm]
        .map(|limit| bucket(Scope::Customer, limit, Measure::Tokens, 60, 0, 1))
        .to_vec();
    for (outcomes, which, remedy) in [
        ([Outcome::Refused(5), Outcome::Refused(9), Outcome::Fits], 1, Remedy::Wait(9)),
        ([Outcome::InFlight, Outcome::Refused(999_999), Outcome::Fits], 0, Remedy::InFlight(1_000_000)),
        ([Outcome::InFlight, Outcome::Refused(1_000_001), Outcome::Fits], 1, Remedy::Wait(1_000_001)),
        ([Outcome::Refused(u64::MAX), Outcome::Exhausted, Outcome::Starts(3)], 1, Remedy::NextPeriod(77)),
        ([Outcome::Exhausted, Outcome::Refused(3), Outcome::Never], 2, Remedy::Never),
    ] {
        let verdicts = outcomes.map(|outcome| at(outcome, 77)).to_vec();
        let decision = Decision { at: NOW, admitted: false, start_in: 0, granted: None, verdicts };
        let worst = Refusal::worst(&claims, &decision).expect("refused");
        assert_eq!((worst.limit, worst.remedy), (claims[which].limit, remedy), "{outcomes:?}");
        assert_eq!(worst.resets_at, NOW.plus(77));
    }
    let verdicts = vec![at(Outcome::Fits, 0), at(Outcome::Deferred, 0), at(Outcome::Starts(2), 0)];
    let decision = Decision { at: NOW, admitted: true, start_in: 2, granted: None, verdicts };
    assert_eq!(Refusal::worst(&claims, &decision), None);
}
