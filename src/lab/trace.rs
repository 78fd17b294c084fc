//! A public trace against a ceiling: real arrivals and real sizes, in a format of three columns.
//!
//! `time, context tokens, generated tokens`, comma-separated, with or without a heading, as published traces of LLM services have it.
//! The trace is played twice, straight at the account and through Tollgate's ceiling.

use super::scenario::{Behaviour, Client, Crowd, Enforced, Path, Provider, Recorded, Run, Scenario, Timing};
use crate::config::{Env, Policy};
use crate::domain::Priority;
use std::io::{self, BufRead};
use std::sync::Arc;

/// The account a trace is played against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// Requests per minute.
    pub rpm: Option<u64>,
    /// Tokens per minute.
    pub tpm: u64,
    /// Seconds that a request may wait for room.
    pub wait: u64,
}

/// Why a trace cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The reader failed.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A line is not of three columns.
    #[error("line {0}: {1}; a line has three columns: time, context tokens, generated tokens")]
    Line(usize, &'static str),
    /// There is no request in it.
    #[error("has no requests in it")]
    Empty,
    /// The limits make no ceiling.
    #[error("this ceiling cannot be kept: {0}")]
    Ceiling(String),
}

/// More is not a trace to play in memory.
const MOST: usize = 5_000_000;

/// Reads a trace, in order of time, from the first request on.
///
/// # Errors
/// See [`TraceError`].
pub fn read(csv: impl BufRead) -> Result<Vec<Recorded>, TraceError> {
    let mut requests: Vec<Recorded> = Vec::new();
    for (index, line) in csv.lines().enumerate() {
        let line = line?;
        let line = line.trim();
        let heading = index == 0 && line.chars().next().is_some_and(char::is_alphabetic);
        if line.is_empty() || heading {
            continue;
        }
        let wrong = |reason| TraceError::Line(index + 1, reason);
        let mut columns = line.split(',').map(str::trim);
        let (Some(time), Some(input), Some(output), None) = (columns.next(), columns.next(), columns.next(), columns.next())
        else {
            return Err(wrong("has not three columns"));
        };
        let at = micros(time).ok_or_else(|| wrong("its first column is no time"))?;
        let tokens = |text: &str| {
            text.parse().ok().filter(|n| *n <= 100_000_000_u64).ok_or_else(|| wrong("has a column that is no number of tokens"))
        };
        requests.push(Recorded { at, input: tokens(input)?, output: tokens(output)? });
        if requests.len() > MOST {
            return Err(wrong("is one more than can be played"));
        }
    }
    requests.sort_by_key(|request| request.at);
    let first = requests.first().ok_or(TraceError::Empty)?.at;
    requests.iter_mut().for_each(|request| request.at -= first);
    Ok(requests)
}

/// Microseconds since whenever: a date and time, an instant, or seconds.
fn micros(text: &str) -> Option<u64> {
    let utc = jiff::tz::TimeZone::UTC;
    let instant = text
        .parse::<jiff::Timestamp>()
        .or_else(|_| text.parse::<jiff::civil::DateTime>().and_then(|time| utc.to_timestamp(time)));
    if let Ok(instant) = instant {
        return u64::try_from(instant.as_microsecond()).ok();
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 12 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction: String = fraction.chars().chain("000000".chars()).take(6).collect();
    Some(whole.parse::<u64>().ok()? * 1_000_000 + fraction.parse::<u64>().ok()?)
}

/// The scenario of a trace: the same requests straight at the account and through Tollgate.
///
/// # Errors
/// When the limits make no ceiling.
pub fn scenario(name: &str, requests: Vec<Recorded>, ceiling: Ceiling) -> Result<Scenario, TraceError> {
    let Ceiling { rpm, tpm, wait } = ceiling;
    let limits = rpm.map_or(String::new(), |rpm| format!("rpm = {rpm}, "));
    let config = format!(
        "[plans.trace]\nmessages = \"unlimited\"\non_provider = []\non_spend = []\n[identity]\ndefault_plan = \"trace\"\n\
         [retry]\nwait_budget = \"{wait}s\"\n\
         [pools.trace]\nupstream = \"openai\"\nmodels = [\"gpt-4o-mini\"]\ncounts = \"actual\"\nceiling = {{ {limits}tpm = {tpm} }}\n"
    );
    let (policy, _) = Policy::parse(&config, "ceiling", &Env::default()).map_err(|problems| {
        TraceError::Ceiling(problems.iter().map(|problem| problem.reason.clone()).collect::<Vec<_>>().join("; "))
    })?;
    let length = requests.last().map_or(0, |request| request.at) + 1;
    let crowd = Crowd {
        name: "requests".into(),
        customers: 1,
        id: "trace".into(),
        plan: None,
        model: "gpt-4o-mini".into(),
        timing: Timing::Recorded(requests.into()),
        input: 0,
        output: 0,
        cap: None,
        spread: 0,
        priority: Priority::Live,
        class: None,
        client: Client { kind: Behaviour::Sdk, retries: 2, pause: 0, gives_up: None },
    };
    let account = Provider {
        name: "trace".into(),
        models: vec!["*".into()],
        rpm,
        tpm: Some(tpm),
        window: Enforced::Bucket,
        counts_refused: true,
        takes: 1_000_000,
        per_token: 10_000,
        errors: 0,
    };
    let policy = Arc::new(policy);
    let run = |name: &str, path| Run {
        name: name.to_owned(),
        path,
        policy: Arc::clone(&policy),
        providers: vec![account.clone()],
        crowds: vec![0],
        length,
        spent: Vec::new(),
        field: Vec::new(),
    };
    Ok(Scenario {
        title: format!("The trace {name} against a ceiling"),
        about: format!(
            "Clients retry twice, as the SDKs do. Through Tollgate a request may wait {wait} s for room under the ceiling."
        ),
        seed: 1,
        crowds: vec![crowd],
        runs: vec![run("straight at the account", Path::Direct), run("Tollgate", Path::Tollgate)],
        sweep: None,
        compare: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_time_are_read_and_put_in_order() {
        for (text, right) in [
            (
                "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:46.1805900,1,2\n",
                500_000,
            ),
            ("2023-11-16T18:15:46Z,1,2\r\n2023-11-16T18:15:47.5Z, 374 , 44\r\n", 1_500_000),
            ("3.25,374,44\n1.125,1,2\n", 2_125_000),
        ] {
            let read = read(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
            let right = [Recorded { at: 0, input: 1, output: 2 }, Recorded { at: right, input: 374, output: 44 }];
            assert_eq!(read, right, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, right) in [
            ("a,b,c\n1,2\n", "line 2: has not three columns"),
            ("1,2,3\nsoon,2,3\n", "line 2: its first column is no time"),
            ("1,2,3\n2,-1,3\n", "line 2: has a column that is no number of tokens"),
            ("a,b,c\n", "has no requests in it"),
        ] {
            let error = read(text.as_bytes()).expect_err(text).to_string();
            assert!(error.starts_with(right), "{error}");
        }
    }
}
