//! Replays: an access log against other limits, a trace against a ceiling.

use crate::child::{Running, run};
use crate::kit::{crowd, play, printed};
use std::fmt::Write as _;
use std::io::Cursor;
use std::sync::Arc;
use tollgate::config::{Env, Policy};
use tollgate::lab::replay::{Replayed, replay};
use tollgate::lab::tally::Fate;
use tollgate::lab::trace::{self, Ceiling};

const SECOND: u64 = 1_000_000;
/// 2026-11-23T00:00:00Z
const MONDAY: u64 = 1_795_392_000;

/// A line of the access log: who, when it ended, how long it took, what it used.
fn line(customer: &str, ended: u64, took: u64, input: u64, output: u64, refused: bool) -> String {
    let time = jiff::Timestamp::from_second(i64::try_from(MONDAY + ended).expect("seconds")).expect("a time");
    let end = if refused {
        r#""attempts":0,"status":429,"refused_scope":"customer","refused_limit":"messages""#.to_owned()
    } else {
        format!(r#""attempts":1,"status":200,"input_tokens":{input},"output_tokens":{output}"#)
    };
    format!(
        r#"{{"timestamp":"{time}","level":"INFO","target":"access","customer":"{customer}","plan":"individual","priority":"live","model":"gpt-4o-mini","estimated_input_tokens":{input},"output_cap":500,{end},"duration_us":{}}}"#,
        took * SECOND
    )
}

fn replayed(log: &str, config: &str) -> Replayed {
    let (policy, _) = Policy::parse(config, "t.toml", &Env::default()).unwrap_or_else(|problems| panic!("{problems:?}"));
    replay(Cursor::new(log), &Arc::new(policy), &mut |_| {}).expect("memory is readable")
}

#[test]
fn a_log_says_who_would_have_been_refused_and_by_which_limit() {
    let mut log = String::from("not json\n{\"target\":\"tollgate\",\"message\":\"serving\"}\n");
    // Twelve within a second, each ten seconds long: burst 5, one a second after it.
    for n in 0..12 {
        writeln!(log, "{}", line("busy", 100 + n / 12, 10, 100, 50, false)).expect("memory");
    }
    // Two large ones a second apart: 30,000 tokens a minute afford the first only.
    writeln!(log, "{}", line("large", 200, 1, 20_000, 100, false)).expect("memory");
    writeln!(log, "{}", line("large", 201, 1, 20_000, 100, false)).expect("memory");
    // Refused then; with these limits it passes.
    writeln!(log, "{}", line("quiet", 300, 0, 0, 0, true)).expect("memory");
    let config = "[plans.individual]\nmessages = { rate = \"1/s\", burst = 5 }\nrpm = \"unlimited\"\ntpm = 30_000\n\
                  spend = { day = \"unlimited\" }\n";
    let found = replayed(&log, config);
    assert_eq!((found.requests, found.unreadable, found.skipped, found.late), (15, 1, 1, 0));
    assert_eq!((found.refused, found.newly_refused, found.newly_admitted), (8, 8, 1));
    let by_limit: Vec<_> = found.by_limit.iter().map(|(limit, n)| (limit.as_str(), *n)).collect();
    assert_eq!(by_limit, [("customer messages", 7), ("customer tpm", 1)]);
    let worst: Vec<_> = found.worst().into_iter().map(|(id, of)| (id.to_string(), of.refused, of.requests)).collect();
    assert_eq!(worst, [("busy".to_owned(), 7, 12), ("large".to_owned(), 1, 2)]);
    let micros = |seconds| (MONDAY + seconds) * SECOND;
    assert_eq!(found.span, Some((micros(90), micros(300))), "by arrival, not by the end");
    // The same log against limits that are wide enough.
    assert_eq!(
        replayed(&log, "[plans.individual]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\n").refused,
        0
    );
}

#[test]
fn dollars_are_replayed_at_what_was_really_used() {
    // gpt-4o-mini: $0.15 and $0.60 per million. 1,000,000 in and 500 out cost $0.1503; the cap of the day affords three of four, and
    // the next day begins anew.
    let hours = [1, 2, 3, 4, 25];
    let log: String = hours.iter().map(|hour| line("c", hour * 3_600, 5, 1_000_000, 500, false) + "\n").collect();
    let config =
        "[plans.individual]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\nspend = { day = 0.46 }\n";
    let found = replayed(&log, config);
    assert_eq!((found.requests, found.refused), (5, 1));
    assert_eq!(found.by_limit.get("customer spend_day"), Some(&1));
}

#[test]
fn lines_are_replayed_in_the_order_of_arrival() {
    // The long one ends last and came first: it takes the only message there is.
    let log = [line("c", 50, 1, 10, 5, false), line("c", 60, 40, 10, 5, false)].join("\n");
    let config = "[plans.individual]\nmessages = { rate = \"1/h\", burst = 1 }\n";
    let found = replayed(&log, config);
    assert_eq!((found.refused, found.late), (1, 0));
    assert_eq!(found.span.map(|(first, last)| (last - first) / SECOND), Some(29));
}

#[tokio::test]
async fn the_log_that_a_gateway_writes_is_read_back() {
    let demo = Running::demo(&["--log", "info"]);
    let body = r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hi"}]}"#;
    for _ in 0..4 {
        let (status, ..) =
            demo.post("/v1/chat/completions", &[("x-customer-id", "lab-1"), ("authorization", "Bearer x")], body).await;
        assert_eq!(status, 200);
    }
    let lines = demo.access_log(4);
    let log: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let directory = demo.directory.path();
    let (access, config) = (directory.join("access.log"), directory.join("tighter.toml"));
    std::fs::write(&access, log).expect("written");
    let tighter = "[plans.tight]\nmessages = { rate = \"1/h\", burst = 3 }\n[customers.lab-1]\nplan = \"tight\"\n";
    std::fs::write(&config, tighter).expect("written");
    let (access, config) = (access.display().to_string(), config.display().to_string());
    let (status, out, err) = run(&["lab", "--replay", &access, "--config", &config], &[]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("4 requests of 1 customers, "), "{out}");
    let lines: Vec<String> = out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for right in ["would be refused 1 (25 %)", "of these answered then 1", "customer messages 1", "lab-1 1 4 customer messages 1"]
    {
        assert!(lines.iter().any(|line| line == right), "{right}: {out}");
    }
    assert!(demo.terminate().0.success());
}

/// Ten requests a second of 600 tokens, for two minutes.
fn csv() -> String {
    let mut csv = String::from("TIMESTAMP,ContextTokens,GeneratedTokens\n");
    for n in 0..1_200_u64 {
        let (seconds, tenths) = (n / 10, n % 10);
        writeln!(csv, "2023-11-16 18:{:02}:{:02}.{tenths}000000,{},{}", seconds / 60, seconds % 60, 500 + n % 7, 100 - n % 7)
            .expect("memory");
    }
    csv
}

#[test]
fn a_trace_beyond_the_ceiling_uses_it_whole_without_a_429() {
    let requests = trace::read(csv().as_bytes()).expect("a trace");
    assert_eq!(requests.len(), 1_200);
    // 360,000 tokens a minute on 180,000.
    let ceiling = Ceiling { rpm: Some(1_000), tpm: 180_000, wait: 6 };
    let scenario = trace::scenario("small.csv", requests, ceiling).expect("a ceiling");
    let report = play(&scenario);
    let [naive, gateway] = report.runs.as_slice() else { panic!("two runs") };
    assert!(naive.providers[0].refused > 100, "{}", naive.providers[0].refused);
    let requests = crowd(gateway, "requests");
    assert_eq!(gateway.providers[0].refused, 0, "the provider never says 429:\n{}", printed(&scenario, &report));
    assert_eq!(requests.fates.iter().sum::<u64>(), 1_200);
    // A full bucket and two minutes' refill at 97 % are 529,200 tokens.
    let (used, there) = (gateway.providers[0].tokens, 180_000 + 2 * 174_600);
    assert!(used * 100 >= there * 95, "{used} of {there}");
    assert!(requests.of(Fate::Unanswered) > 200, "what is too much is refused: {:?}", requests.fates);
    let waited = requests.served.iter().map(|served| served.started - served.arrived).max().expect("some wait");
    assert!((1..6 * SECOND).contains(&waited), "some wait for a moment, nobody for longer than the budget: {waited}");
    let text = printed(&scenario, &report);
    assert!(text.contains("wait, p50 / p99 / longest") && text.contains("refused by pool tpm"), "{text}");
}

#[test]
fn a_trace_under_the_ceiling_is_served_whole_and_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("small.csv");
    std::fs::write(&path, csv()).expect("written");
    let path = path.display().to_string();
    let chart = directory.path().join("chart.svg").display().to_string();
    let (status, out, err) = run(&["lab", "--trace", &path, "--tpm", "400000", "--svg", &chart], &[]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("The trace small.csv against a ceiling\n"), "{out}");
    assert!(out.contains("  answered                                 1,200 (100 %)            1,200 (100 %)\n"), "{out}");
    assert!(!out.contains("refused by"), "{out}");
    assert!(std::fs::read_to_string(&chart).expect("drawn").contains("ceiling of trace: 388,000"));
}
