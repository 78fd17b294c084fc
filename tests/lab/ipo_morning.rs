//! Both mornings: the first as it was, the second as Tollgate makes it.

use crate::kit::{MINUTE, crowd, play, printed, shipped};
use tollgate::lab::tally::Fate;

/// 97 % of 500,000 and of 500.
const CEILING: (u64, u64) = (485_000, 485);

#[test]
fn the_first_morning_loses_a_third_and_the_second_nobody() {
    let scenario = shipped("ipo-morning");
    let report = play(&scenario);
    let [first, second] = report.runs.as_slice() else { panic!("two mornings") };

    // The first, against the field: 270 -> 610 requests a minute, 1,900 of 5,700.
    let questions = crowd(first, "questions");
    assert_eq!(questions.questions, 5_700);
    assert_eq!((questions.questions + crowd(first, "labelling").questions) / 38, 270);
    let lost = questions.of(Fate::Unanswered);
    assert!((1_850..=1_950).contains(&lost), "{lost} of 5,700 is a third");
    assert!((600..=620).contains(&first.calls_per_minute()), "{} calls a minute", first.calls_per_minute());

    // The second. Every live question is answered by a model or, where its class forbids the cheaper one, handed off.
    let live = ["general", "account", "everyday"].map(|name| crowd(second, name));
    for crowd in live {
        assert_eq!(crowd.of(Fate::Unanswered), 0, "{}", crowd.name);
        assert_eq!(crowd.fates.iter().sum::<u64>(), crowd.questions, "{}: each has its fate", crowd.name);
    }
    let [general, account, everyday] = live;
    assert_eq!((account.of(Fate::Cheaper), general.of(Fate::HandedOff), everyday.of(Fate::HandedOff)), (0, 0, 0));
    assert_eq!(general.questions + account.questions, 2 * 55 * 38);
    let given_up: u64 = live.iter().map(|crowd| crowd.of(Fate::Cheaper) + crowd.of(Fate::HandedOff)).sum();
    let all: u64 = live.iter().map(|crowd| crowd.questions).sum();
    assert!(given_up * 100 < all, "{given_up} of {all} are not answered by their own model");
    let retried: u64 = live.iter().map(|crowd| crowd.retried).sum();
    assert!((1..=20).contains(&retried), "a handful on a retry: {retried}");

    // The ceiling is never exceeded, in any 60 s, and the provider never has to say 429.
    let provider = &second.providers[0];
    assert_eq!(provider.refused, 0);
    assert!(provider.trailing_tokens.most <= CEILING.0, "{}", provider.trailing_tokens.most);
    assert!(provider.trailing_requests.most <= CEILING.1, "{}", provider.trailing_requests.most);
    assert!(provider.trailing_tokens.most * 100 >= CEILING.0 * 90, "and it is used: {}", provider.trailing_tokens.most);
    // Background stays under its share.
    let share = CEILING.0 * 15 / 100;
    assert!((1..=share).contains(&provider.trailing_background.most), "{}", provider.trailing_background.most);

    // The level goes up at once and comes down once.
    let levels: Vec<u8> = second.levels.iter().map(|(_, level)| *level).collect();
    assert_eq!(levels, [1, 2, 3, 2, 1, 0]);
    let at = |index: usize| second.levels[index].0;
    assert!(
        (10 * MINUTE..11 * MINUTE).contains(&at(0)) && at(2) < at(0) + MINUTE,
        "in the first minute of the rush: {:?}",
        second.levels
    );
    assert!(at(3) >= at(2) + 10 * MINUTE, "{:?}", second.levels);
    // Live work comes first: what was already in line aside, background waits until the level is over.
    let job = crowd(second, "job");
    let (paused, resumed) = (at(0) + MINUTE, at(5));
    let meanwhile = job.served.iter().filter(|served| (paused..resumed).contains(&served.started)).count();
    assert_eq!(meanwhile, 0, "background while live work is short of room");
    assert!(job.of(Fate::Full) >= job.questions - 5, "and then it is done: {:?}", job.fates);
    let waited = live.iter().map(|crowd| crowd.wait(990)).max();
    assert_eq!(waited, Some(0), "of a hundred live questions 99 wait for nothing");

    // Both stand beside the field figures.
    let text = printed(&scenario, &report);
    for line in
        ["first morning, naive client", "a month later, Tollgate", "270 requests a minute become 610", "nobody is turned away"]
    {
        assert!(text.contains(line), "{text}");
    }
}
