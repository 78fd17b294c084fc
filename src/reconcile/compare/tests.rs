use super::*;
use crate::history::ModelUse;

const TODAY: Day = Day(20_787);

fn theirs(day: Day, model: &str, requests: u64, input: u64, output: u64) -> Theirs {
    let [requests, input, cached, output] = [requests, input, input / 2, output].map(Some);
    Theirs { day, model: model.into(), requests, input, cached, output, cost: None, batch: 0 }
}

fn ours(day: Day, served: &str, requests: u64, input: u64, output: u64) -> Ours {
    let used = ModelUse {
        upstream: "openai".into(),
        model: served.into(),
        served_model: served.into(),
        requests,
        input_tokens: input,
        cached_tokens: input / 2,
        output_tokens: output,
        ..ModelUse::default()
    };
    Ours { day, used }
}

fn export(rows: Vec<Theirs>) -> Export {
    Export { provider: Provider::OpenAi, rows, remarks: Vec::new() }
}

/// `model difference-of-the-first-figure cause` of each line, at one percent.
fn told(rows: Vec<Theirs>, of_ours: &[Ours]) -> Vec<(String, i128, Option<&'static str>)> {
    let lines = compare(&export(rows), of_ours, 10_000);
    lines.into_iter().map(|line| (line.model.clone(), line.figures[0].difference(), line.cause)).collect()
}

#[test]
fn the_same_figures_do_not_differ_and_a_percent_is_let_pass() {
    for (input, differs) in [(1_000, None), (1_010, None), (990, None), (1_012, Some(PARTLY_PAST))] {
        let theirs = Theirs { requests: None, ..theirs(TODAY, "m", 0, input, 50) };
        let lines = compare(&export(vec![theirs]), &[ours(TODAY, "m", 5, 1_000, 50)], 10_000);
        assert_eq!((lines.len(), lines[0].differs, lines[0].cause), (1, differs.is_some(), differs), "{input}");
    }
}

#[test]
fn names_are_matched_exactly_first_and_then_without_date_and_spelling() {
    let rows = vec![theirs(TODAY, "gpt-4o-2024-08-06", 1, 10, 1), theirs(TODAY, "gpt-4o-mini", 2, 20, 2)];
    let of_ours = [ours(TODAY, "gpt-4o", 1, 10, 1), ours(TODAY, "gpt-4o-mini", 2, 20, 2), ours(TODAY, "claude-x", 9, 9, 9)];
    assert_eq!(told(rows, &of_ours), [("gpt-4o-2024-08-06".to_owned(), 0, None), ("gpt-4o-mini".to_owned(), 0, None)]);
    let lines = compare(&export(vec![theirs(TODAY, "gpt-4o-2024-08-06", 1, 10, 1)]), &of_ours[..1], 0);
    assert_eq!(lines[0].as_ours, ["gpt-4o"]);
    for (name, right) in [
        ("Claude Haiku 4.5", "claude-haiku-4-5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("chatgpt-4o-latest", "chatgpt-4o"),
        ("gpt-4-0613", "gpt-4-0613"),
        ("20251001", "20251001"),
        ("", ""),
    ] {
        assert_eq!(base(name), right, "{name}");
    }
}

#[test]
fn each_difference_has_its_likely_cause() {
    let (yesterday, tomorrow) = (TODAY.back(1), TODAY.next());
    let m = |day, requests, input, output| theirs(day, "m", requests, input, output);
    let o = |day, requests, input, output| ours(day, "m", requests, input, output);
    let cost = |day, cost| Theirs { day, model: "m".into(), cost: Some(cost), ..Theirs::default() };
    let spent = |cost_nano_usd| {
        let row = o(TODAY, 10, 100, 10);
        Ours { used: ModelUse { cost_nano_usd, ..row.used }, ..row }
    };
    let batch = Theirs { batch: 5, ..m(TODAY, 15, 150, 15) };
    let only_batch = Theirs { batch: 5, ..m(TODAY, 5, 50, 5) };
    let cached = Theirs { cached: Some(90), ..m(TODAY, 10, 100, 10) };
    let dear = Theirs { cost: Some(500), ..m(TODAY, 10, 100, 10) };
    for (rows, of_ours, causes) in [
        (vec![m(TODAY, 10, 100, 10)], vec![], vec![Some(PAST_US)]),
        (vec![m(TODAY, 20, 200, 20)], vec![o(TODAY, 10, 100, 10)], vec![Some(PARTLY_PAST)]),
        (vec![m(TODAY, 10, 100, 10)], vec![o(TODAY, 20, 200, 20)], vec![Some(MORE_OURS)]),
        (vec![m(TODAY, 10, 100, 10)], vec![o(TODAY, 10, 100, 30)], vec![Some(BOOKED_WHOLE)]),
        (vec![batch], vec![o(TODAY, 10, 100, 10)], vec![Some(BATCH)]),
        (vec![only_batch], vec![], vec![Some(BATCH)]),
        (vec![cached], vec![o(TODAY, 10, 100, 10)], vec![Some(CACHE)]),
        (vec![dear], vec![spent(400)], vec![Some(PRICE)]),
        (vec![cost(TODAY, 500)], vec![spent(400)], vec![Some(PARTLY_PAST)]),
        (vec![cost(TODAY, 400)], vec![spent(500)], vec![Some(PRICE)]),
        (
            vec![m(yesterday, 10, 100, 10), m(TODAY, 10, 100, 10), m(tomorrow, 10, 100, 10)],
            vec![o(yesterday, 15, 150, 15), o(TODAY, 5, 50, 5), o(tomorrow, 10, 100, 10)],
            vec![Some(MIDNIGHT), Some(MIDNIGHT), None],
        ),
        (vec![theirs(TODAY, "n", 1, 1, 1)], vec![o(TODAY, 10, 100, 10), ours(TODAY, "n", 1, 1, 1)], vec![Some(NOT_THEIRS), None]),
    ] {
        let found: Vec<_> = compare(&export(rows.clone()), &of_ours, 10_000).iter().map(|line| line.cause).collect();
        assert_eq!(found, causes, "{rows:?}");
    }
}

#[test]
fn an_export_without_models_is_compared_with_the_sum_of_a_day() {
    let row = Theirs { day: TODAY, cost: Some(700), ..Theirs::default() };
    let spent = |served: &str, cost_nano_usd| {
        let row = ours(TODAY, served, 1, 1, 1);
        Ours { used: ModelUse { cost_nano_usd, ..row.used }, ..row }
    };
    let found = told(vec![row], &[spent("a", 300), spent("b", 400), spent("claude-c", 1_000)]);
    assert_eq!(found, [("(all models)".to_owned(), 0, None)]);
}
