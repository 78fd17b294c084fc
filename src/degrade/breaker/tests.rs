use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000;
const RULES: Rules = Rules { failures: 4, share: 500_000, window: 10 * SECOND, pause: 5 * SECOND };

fn at(micros: u64) -> Timestamp {
    Timestamp(1_000 * SECOND + micros)
}

/// Makes calls that fail, one a millisecond.
fn fail(breaker: &mut Breaker, times: u64, from: u64) {
    for time in 0..times {
        let pass = breaker.ask(&RULES, at(from + time * 1_000)).expect("closed");
        breaker.report(pass, Report::Failed, &RULES, at(from + time * 1_000));
    }
}

#[test]
fn opens_at_the_last_of_enough_failures_and_says_for_how_long() {
    let mut breaker = Breaker::default();
    fail(&mut breaker, 3, 0);
    assert_eq!(breaker.position(), Position::Closed);
    fail(&mut breaker, 1, 10_000);
    assert_eq!(breaker.position(), Position::Open);
    assert_eq!(breaker.ask(&RULES, at(10_000)), Err(5 * SECOND));
    assert_eq!(breaker.ask(&RULES, at(10_000 + 5 * SECOND - 1)), Err(1));
    let probe = breaker.ask(&RULES, at(10_000 + 5 * SECOND)).expect("a probe");
    assert!(probe.is_probe);
}

#[test]
fn a_busy_provider_is_not_cut_off_over_a_few_failures() {
    let mut breaker = Breaker::default();
    for call in 0..100 {
        let pass = breaker.ask(&RULES, at(call)).expect("closed");
        breaker.report(pass, if call % 3 == 0 { Report::Failed } else { Report::Well }, &RULES, at(call));
    }
    assert_eq!(breaker.position(), Position::Closed, "a third is not half");
}

#[test]
fn failures_are_forgotten_after_the_window() {
    let mut breaker = Breaker::default();
    fail(&mut breaker, 3, 0);
    fail(&mut breaker, 3, 10 * SECOND);
    assert_eq!(breaker.position(), Position::Closed, "three are forgotten");
    fail(&mut breaker, 1, 19 * SECOND);
    assert_eq!(breaker.position(), Position::Open, "four within nine seconds");
}

#[test]
fn one_probe_decides() {
    for (report, right) in [(Report::Well, Position::Closed), (Report::Failed, Position::Open)] {
        let mut breaker = Breaker::default();
        fail(&mut breaker, 4, 0);
        let probe = breaker.ask(&RULES, at(6 * SECOND)).expect("a probe");
        assert!(breaker.ask(&RULES, at(6 * SECOND)).is_err(), "one at a time");
        breaker.report(probe, report, &RULES, at(7 * SECOND));
        assert_eq!(breaker.position(), right);
    }
    // A probe whose caller left: the next one is it. One that nobody reports on: the next after the pause.
    let mut breaker = Breaker::default();
    fail(&mut breaker, 4, 0);
    let probe = breaker.ask(&RULES, at(6 * SECOND)).expect("a probe");
    breaker.report(probe, Report::Unknown, &RULES, at(6 * SECOND));
    let second = breaker.ask(&RULES, at(6 * SECOND)).expect("a probe");
    assert!(second.is_probe && breaker.ask(&RULES, at(11 * SECOND - 1)).is_err());
    let third = breaker.ask(&RULES, at(11 * SECOND)).expect("a probe");
    breaker.report(second, Report::Failed, &RULES, at(11 * SECOND));
    assert_eq!(breaker.position(), Position::Probing, "the second came too late");
    breaker.report(third, Report::Well, &RULES, at(11 * SECOND));
    assert_eq!(breaker.position(), Position::Closed);
}

#[test]
fn what_began_before_it_opened_says_nothing_about_now() {
    let mut breaker = Breaker::default();
    let slow = breaker.ask(&RULES, at(0)).expect("closed");
    fail(&mut breaker, 4, 0);
    breaker.report(slow, Report::Well, &RULES, at(SECOND));
    assert_eq!(breaker.position(), Position::Open);
    let probe = breaker.ask(&RULES, at(6 * SECOND)).expect("a probe");
    breaker.report(slow, Report::Failed, &RULES, at(6 * SECOND));
    breaker.report(probe, Report::Well, &RULES, at(6 * SECOND));
    assert_eq!(breaker.position(), Position::Closed);
}

#[test]
fn no_failures_in_the_rules_is_no_breaker() {
    let off = Rules { failures: 0, ..RULES };
    let mut breaker = Breaker::default();
    fail(&mut breaker, 4, 0);
    assert!(!breaker.ask(&off, at(0)).expect("switched off while open").is_probe);
    for _ in 0..100 {
        let pass = breaker.ask(&off, at(0)).expect("never opens");
        breaker.report(pass, Report::Failed, &off, at(0));
    }
    assert_eq!(breaker.position(), Position::Closed);
}

proptest! {
    /// Whatever happens in whatever order: it opens only over enough failures in one window, never lets two probes out at once, and a
    /// caller that does as it is told and comes back when it was told to gets through.
    #[test]
    fn holds_under_any_order_of_events(
        events in proptest::collection::vec((0_u64..4 * SECOND, 0_u8..4, 0_usize..8), 1..200),
    ) {
        let mut breaker = Breaker::default();
        let (mut now, mut passes, mut failures) = (0, Vec::new(), Vec::new());
        let mut probe: Option<(Pass, u64)> = None;
        for (step, what, which) in events {
            now += step;
            if what == 0 || passes.is_empty() {
                let before = breaker.position();
                match breaker.ask(&RULES, at(now)) {
                    Ok(pass) if pass.is_probe => {
                        prop_assert!(before != Position::Closed);
                        prop_assert!(probe.is_none_or(|(_, until)| until <= now), "two probes at once");
                        probe = Some((pass, now + RULES.pause));
                        passes.push(pass);
                    }
                    Ok(pass) => {
                        prop_assert_eq!(before, Position::Closed);
                        passes.push(pass);
                    }
                    Err(wait) => {
                        prop_assert!(before != Position::Closed && (1..=RULES.pause).contains(&wait));
                        let mut patient = breaker.clone();
                        prop_assert!(patient.ask(&RULES, at(now + wait)).is_ok(), "it said when to come back");
                    }
                }
                continue;
            }
            let pass = passes.swap_remove(which % passes.len());
            let report = [Report::Well, Report::Failed, Report::Unknown][usize::from(what) - 1];
            if report == Report::Failed && !pass.is_probe {
                failures.push(now);
            }
            let before = breaker.position();
            breaker.report(pass, report, &RULES, at(now));
            if probe.is_some_and(|(probing, _)| probing == pass) {
                probe = None;
            }
            if before == Position::Closed && breaker.position() == Position::Open {
                let recent = failures.iter().filter(|failed| now - **failed <= RULES.window).count();
                prop_assert!(recent >= RULES.failures as usize, "opened over {recent}");
            }
        }
    }
}
