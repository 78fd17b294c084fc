//! The figures of the shipped scenarios.

use crate::kit::{MINUTE, SECOND, crowd, play, printed, shipped};
use std::collections::BTreeSet;
use tollgate::domain::NanoUsd;
use tollgate::lab::algorithms::Kind;
use tollgate::lab::tally::Fate;
use tollgate::limit::LimitName;

#[test]
fn every_scenario_file_has_its_test() {
    let files = std::fs::read_dir(format!("{}/config/scenarios", env!("CARGO_MANIFEST_DIR"))).expect("config/scenarios");
    let files: BTreeSet<String> = files.map(|file| file.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    let tested = [
        "ipo-morning.toml",
        "order-bug.toml",
        "queue-that-cannot-move.toml",
        "shared-versus-own-bucket.toml",
        "twenty-at-once.toml",
        "which-limit-binds.toml",
    ];
    assert_eq!(files, tested.map(str::to_owned).into());
}

#[test]
fn the_order_bug_costs_the_merchant_its_surplus_and_nobody_else_anything() {
    let report = play(&shipped("order-bug"));
    let [naive, gateway, alone] = report.runs.as_slice() else { panic!("three runs") };

    let others = crowd(naive, "others");
    let (first, last) = others.harmed.expect("everybody gets 429");
    assert!(first < 4 * MINUTE, "within four minutes: {first}");
    assert!((18 * MINUTE..22 * MINUTE).contains(&(last - first)), "for about 20 minutes: {first} to {last}");
    assert!(others.of(Fate::Unanswered) > others.questions / 2, "{:?}", others.fates);

    let merchant = crowd(gateway, "merchant");
    assert_eq!((merchant.questions, merchant.attempts - merchant.questions), (6_000, 57_379));
    let mut starts: Vec<u64> = merchant.served.iter().map(|served| served.started).collect();
    starts.sort_unstable();
    for (index, at) in (1..).zip(&starts) {
        assert!(index <= 120 + at / SECOND, "message {index} at {at}: 120, then one a second");
    }
    let last = starts.last().expect("some pass");
    assert_eq!(starts.len() as u64, 120 + last / SECOND, "and not one less");
    // 10 a second against 1: the 134th message finds 120 - 133 x 0.9 = 0.3 of a token.
    assert_eq!(merchant.first_retry_after, Some(700_000));
    assert_eq!(merchant.refusals.keys().collect::<Vec<_>>(), ["customer messages"]);

    let (beside, without) = (crowd(gateway, "others"), crowd(alone, "others"));
    assert_eq!((beside.of(Fate::Full), beside.questions), (21_600, 21_600), "nobody else notices");
    assert_eq!(beside.served, without.served, "to the last request, as if the merchant were not there");
    assert_eq!(gateway.providers[0].refused, 0, "and the provider never says 429");
    assert!(
        gateway.providers[0].trailing_requests.most <= 1_261,
        "97 % of 1,300: {:?}",
        gateway.providers[0].trailing_requests.most
    );
}

#[test]
fn twenty_at_once_end_at_nine_dollars_unless_they_are_held_first() {
    let report = play(&shipped("twenty-at-once"));
    let usd = |text| NanoUsd::from_usd(text).expect("dollars");
    let spent: Vec<_> = report.runs.iter().map(|run| (run.spending[0].before, run.spending[0].after)).collect();
    let before = usd("4.90");
    assert_eq!(spent, [(before, usd("9.00")), (before, usd("5.00")), (before, usd("5.00"))]);
    assert_eq!(crowd(&report.runs[0], "twenty").of(Fate::Full), 20, "all pass");
    for (run, name, refused) in [(1, "twenty", 19), (2, "five_hundred", 499)] {
        let crowd = crowd(&report.runs[run], name);
        assert_eq!((crowd.of(Fate::Short), crowd.of(Fate::Unanswered)), (1, refused), "one gets the shorter answer that is left");
    }
}

#[test]
fn the_queue_moves_in_order_and_starves_nobody() {
    let report = play(&shipped("queue-that-cannot-move"));
    let [polling, line] = report.runs.as_slice() else { panic!("two runs") };
    let last = |run, name| crowd(run, name).served.iter().map(|served| served.started).max().expect("some");
    let first = |run, name| crowd(run, name).served.iter().map(|served| served.started).min().expect("some");

    assert_eq!(crowd(polling, "large").of(Fate::Full), 10);
    let overtaken = crowd(polling, "large").served.iter().filter(|served| served.started > last(polling, "small")).count();
    assert!(overtaken >= 8, "{overtaken} of the large ones come after the last small one");

    let (small, large) = (crowd(line, "small_in_line"), crowd(line, "large_in_line"));
    assert_eq!((small.of(Fate::Full), large.of(Fate::Full)), (490, 10), "all drain");
    let mut all: Vec<_> = small.served.iter().chain(&large.served).collect();
    all.sort_by_key(|served| served.arrived);
    assert!(all.is_sorted_by_key(|served| served.started), "in order");
    assert!(first(line, "large_in_line") < last(line, "small_in_line"));
    // 980,000 tokens, of which a full bucket holds 100,000, at 100,000 a minute. Each claims its whole cap, so the last starts when
    // all others have been earned.
    let end = last(line, "small_in_line").max(last(line, "large_in_line"));
    assert_eq!(end, 880_000 * MINUTE / 100_000, "not a moment later than it takes");
}

#[test]
fn one_bucket_for_all_or_one_each() {
    let report = play(&shipped("shared-versus-own-bucket"));
    let [shared, own] = report.runs.as_slice() else { panic!("two runs") };
    let accepted = |run, name| (crowd(run, name).of(Fate::Full), crowd(run, name).questions);
    assert_eq!(accepted(shared, "normal_shared"), (31, 40));
    assert_eq!(accepted(shared, "abusive_shared"), (18, 250));
    assert_eq!(accepted(own, "normal"), (40, 40));
    assert_eq!(accepted(own, "abusive"), (19, 250));
    assert_eq!(accepted(own, "third"), (5, 10), "ten at one instant");

    let compared = report.compared.expect("asked for");
    let row = |kind, shared| {
        let row = compared.rows.iter().find(|row| row.kind == kind && row.shared == shared).expect("every pair is tried");
        (row.accepted.as_slice(), row.in_a_minute)
    };
    assert_eq!(compared.crowds, [("abusive".to_owned(), 250), ("normal".to_owned(), 40), ("third".to_owned(), 10)]);
    assert_eq!(row(Kind::TokenBucket, true), (&[18, 31, 5][..], 54), "the same figures without the gateway around it");
    assert_eq!(row(Kind::TokenBucket, false), (&[19, 40, 5][..], 40));
    for kind in [Kind::SlidingWindow, Kind::FixedWindow, Kind::SlidingLog, Kind::SlidingCounter] {
        assert_eq!(row(kind, true), (&[173, 7, 0][..], 180), "{kind:?}: the abusive one takes the minute in its first seconds");
        assert_eq!(row(kind, false), (&[180, 40, 10][..], 180), "{kind:?}");
    }
    assert_eq!(compared.rows.len(), 10);
}

#[test]
fn small_requests_run_into_rpm_and_large_ones_into_tpm() {
    let scenario = shipped("which-limit-binds");
    let report = play(&scenario);
    let swept = report.sweep.as_ref().expect("asked for");
    assert_eq!(swept.limits, [(LimitName::Rpm, 1_000), (LimitName::Tpm, 1_000_000)]);
    let found: Vec<_> = swept.rows.iter().map(|row| (row.tokens, row.requests, row.binds, row.never)).collect();
    let (rpm, tpm) = (Some(LimitName::Rpm), Some(LimitName::Tpm));
    let right = [
        (50, 1_000, rpm, false),
        (200, 1_000, rpm, false),
        (500, 1_000, rpm, false),
        (1_000, 1_000, tpm, false), // both at once; the tokens are named
        (2_000, 500, tpm, false),   // with RPM half empty
        (4_000, 250, tpm, false),   // fifty of these are
        (10_000, 100, tpm, false),
        (50_000, 20, tpm, false),
        (200_000, 5, tpm, false), // one of these
        (1_000_001, 0, tpm, true),
    ];
    assert_eq!(found, right);
    let text = printed(&scenario, &report);
    assert!(text.contains("2,000                               500           50 %"), "{text}");
    assert!(text.contains("tpm: one alone is larger, 413"), "{text}");
}

#[test]
fn a_seed_gives_the_same_table_and_another_seed_another() {
    let text =
        std::fs::read_to_string(format!("{}/config/scenarios/order-bug.toml", env!("CARGO_MANIFEST_DIR"))).expect("the file");
    let shorter = text.replace("length = \"30m\"", "length = \"2m\"").replace("gives_up = \"11m\"", "gives_up = \"2m\"");
    let table = |text: &str| {
        let scenario = crate::kit::parsed(text);
        printed(&scenario, &play(&scenario))
    };
    let first = table(&shorter);
    assert_eq!(first, table(&shorter));
    assert_ne!(first, table(&shorter.replace("seed = 4", "seed = 5")));
}
