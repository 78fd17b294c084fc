use super::*;

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;

/// Claims and takes, without waiting.
fn ask(bucket: Bucket, state: &mut Option<BucketState>, now: u64, amount: u64) -> Fit {
    let mut at = bucket.advance(*state, Timestamp(now));
    let fit = bucket.fit(at, Timestamp(now), amount, 0);
    if fit == Fit::Now {
        bucket.take(&mut at, amount);
    }
    *state = Some(at);
    fit
}

#[test]
fn a_business_plan_gets_its_burst_and_then_one_a_second() {
    let bucket = Bucket::new(120, 1, SECOND).expect("exact");
    let mut state = None;
    let mut admitted = 0;
    for i in 0..6_000 {
        admitted += u32::from(ask(bucket, &mut state, i * 100_000, 1) == Fit::Now); // ten a second for ten minutes
    }
    assert_eq!(admitted, 120 + 599);
}

#[test]
fn polling_an_empty_bucket_does_not_starve_it() {
    for (rate, poll, polls, grants) in [(60, 400_000, 50, 19..=21), (6, SECOND, 60, 5..=7)] {
        let bucket = Bucket::new(rate, rate, MINUTE).expect("exact");
        let mut state = None;
        assert_eq!(ask(bucket, &mut state, 0, rate), Fit::Now);
        let granted = (1..=polls).filter(|i| ask(bucket, &mut state, i * poll, 1) == Fit::Now).count();
        assert!(grants.contains(&granted), "{rate}/m polled {polls} times: {granted}");
    }
}

#[test]
fn a_full_bucket_earns_no_hidden_credit() {
    let bucket = Bucket::new(10_000, 10_000, MINUTE).expect("exact");
    let mut state = None;
    assert_eq!(ask(bucket, &mut state, 0, 1), Fit::Now);
    assert_eq!(ask(bucket, &mut state, 600 * SECOND, 10_000), Fit::Now);
    assert_eq!(ask(bucket, &mut state, 600 * SECOND, 10_000), Fit::Refused(MINUTE));
}

#[test]
fn the_wait_is_the_exact_instant() {
    let bucket = Bucket::new(10_000, 10_000, MINUTE).expect("exact");
    let mut state = Some(BucketState::of(bucket.full(), Timestamp(0), bucket.unit()));
    assert_eq!(ask(bucket, &mut state, 0, 10_000), Fit::Now);
    let Fit::Refused(wait) = ask(bucket, &mut state, 1, 1_000) else { panic!("empty") };
    assert!(matches!(ask(bucket, &mut state, wait, 1_000), Fit::Refused(1)));
    assert_eq!(ask(bucket, &mut state, 1 + wait, 1_000), Fit::Now);
}

#[test]
fn an_overrun_is_debt_down_to_one_capacity() {
    let bucket = Bucket::new(10_000, 10_000, MINUTE).expect("exact");
    let full = bucket.advance(None, Timestamp(0));
    let mut state = full;
    bucket.take(&mut state, 9_000); // level 1,000
    bucket.correct(&mut state, 1_000, 9_000, true);
    assert_eq!(state.level, -7_000 * bucket.unit().cast_signed());
    assert_eq!(bucket.fit(state, Timestamp(0), 1_000, 0), Fit::Refused(48 * SECOND));
    bucket.correct(&mut state, 0, 1_000_000, true);
    assert_eq!(state.level, -10_000 * bucket.unit().cast_signed());
    bucket.correct(&mut state, 1_000_000, 0, true);
    assert_eq!(state.level, full.level, "a refund never passes capacity");
}

#[test]
fn a_changed_limit_converts_the_level() {
    let (old, small, large) = (
        Bucket::new(10_000, 10_000, MINUTE).expect("exact"),
        Bucket::new(1_000, 1_000, MINUTE).expect("exact"),
        Bucket::new(100_000, 100_000, MINUTE).expect("exact"),
    );
    let mut state = Some(old.advance(None, Timestamp(0)));
    assert_eq!(ask(old, &mut state, 0, 1_000), Fit::Now);
    let lowered = small.advance(state, Timestamp(0));
    assert_eq!(small.remaining(lowered), 1_000);
    let raised = large.advance(Some(lowered), Timestamp(0));
    assert_eq!(large.remaining(raised), 1_000, "grows only by refill");
}

#[test]
fn the_deepest_debt_survives_a_change_of_limit() {
    let fine = Bucket::new(7, 7, 10 * SECOND).expect("exact");
    let deep = BucketState::of(-MAX_EXACT.cast_signed(), Timestamp(0), 1);
    let converted = fine.advance(Some(deep), Timestamp(0));
    assert_eq!(converted.level, -MAX_EXACT.cast_signed());
    assert_eq!(fine.remaining(converted), 0);
}

#[test]
fn time_that_runs_back_neither_earns_nor_locks_out() {
    let bucket = Bucket::new(60, 60, MINUTE).expect("exact");
    let hour_ahead = BucketState::of(5 * bucket.unit().cast_signed(), Timestamp(3_600 * SECOND), bucket.unit());
    let mut state = Some(hour_ahead);
    assert_eq!(ask(bucket, &mut state, 10 * SECOND, 5), Fit::Now);
    assert_eq!(ask(bucket, &mut state, 10 * SECOND, 1), Fit::Refused(SECOND));
    assert_eq!(ask(bucket, &mut state, 10 * SECOND - 5, 1), Fit::Refused(SECOND + 5), "jitter earns nothing, promises included");
    assert_eq!(ask(bucket, &mut state, 11 * SECOND, 1), Fit::Now);
}

#[test]
fn silly_limits_do_no_harm() {
    let none = Bucket::new(0, 0, MINUTE).expect("zero is a limit");
    assert_eq!(none.fit(none.advance(None, Timestamp(0)), Timestamp(0), 1, 0), Fit::Never);
    let huge = Bucket::new(1_000_000_000_000, 1_000_000_000_000, MINUTE).expect("exact");
    let mut state = None;
    assert_eq!(ask(huge, &mut state, 0, 1_000_000_000_000), Fit::Now);
    assert_eq!(huge.until_full(state.expect("seen")), MINUTE);
    assert_eq!(Bucket::new(u64::MAX, 1, MINUTE), Err(BucketError::NotExact));
    assert_eq!(Bucket::new(1, 1, 0), Err(BucketError::NoPeriod));
    let fractional = Bucket::new(10, 7, 10 * SECOND).expect("0.7 a second");
    assert_eq!((fractional.gain(), fractional.unit()), (7, 10_000_000));
}

#[test]
fn a_wait_is_a_place_in_line() {
    let bucket = Bucket::new(1, 1, SECOND).expect("exact");
    let mut state = bucket.advance(None, Timestamp(0));
    let starts: Vec<_> = (0..4)
        .map(|_| {
            let fit = bucket.fit(state, Timestamp(0), 1, 2 * SECOND);
            if matches!(fit, Fit::Now | Fit::Starts(_)) {
                bucket.take(&mut state, 1);
            }
            fit
        })
        .collect();
    assert_eq!(starts, [Fit::Now, Fit::Starts(SECOND), Fit::Starts(2 * SECOND), Fit::Refused(SECOND)]);
}
