//! More is asked than the account holds: how much of it is used, whether the provider ever has to refuse, whether we refuse too much.

use crate::bench::Bench;
use crate::host::books::Expected;
use crate::host::gateway::{KEY, cost};
use crate::host::http;
use crate::host::side::{Sent, Setup, Side};
use crate::load::{Prompt, Prompts};
use crate::strict::{self, Strict};
use crate::table::Line;
use crate::trace::{self, Asked};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// The trace is played so many times faster, and asks so many times what the account holds.
const FASTER: u32 = 2;
const DEMAND: f64 = 1.6;
/// The full bucket with which an account begins is asked away at first, by so many times what it holds; then it is measured.
const DRAIN: Duration = Duration::from_secs(5);
const DRAINED: f64 = 1.5;
const BEFORE: Duration = Duration::from_secs(10);
const MEASURED: Duration = Duration::from_secs(60);
const CUSTOMERS: usize = 40;
const MODEL: &str = "gpt-4o";
/// What the gateway uses of the limit.
const HEADROOM: f64 = 0.97;
/// What is claimed for the wish for a short answer, which the estimate of the prompt does not have.
const WISH: u64 = 8;
/// The bucket is kept in whole units, this one in floating point: a token between them is nobody's.
const SLACK: f64 = 1.0;

pub async fn saturation(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let row = "ceiling";
    let (asked, tpm) = demand(bench.options.trace.as_deref())?;
    let provider = Strict::start(tpm).await?;
    let more = format!(
        "[pools.account]\nupstream = \"openai\"\nmodels = [\"{MODEL}\"]\nceiling = {{ rpm = 60_000, tpm = {tpm} }}\n\
         [models.{MODEL}]\nprice = {{ input = 0.15, output = 0.60 }}\n"
    );
    let side =
        Side::start(bench, Setup { upstream: Some(provider.address), more: &more, slots: 1_000, ..Setup::new(row) }).await?;
    let log = side.gateways[0].directory.join("access.log");
    let start = Instant::now();
    let statuses = ask_all(&asked, side.targets()[0], start).await?;
    side.gateways[0].settled().await?;
    let calls = provider.calls().await;
    let answered = statuses.iter().filter(|status| **status == 200).count() as u64;
    let odd = statuses.iter().find(|status| !matches!(status, 200 | 503));
    if let Some(status) = odd {
        return Err(format!("a request was answered with {status}"));
    }
    let (from, to) = ((start + BEFORE).into_std(), (start + BEFORE + MEASURED).into_std());
    let used: u64 = calls.iter().filter(|call| !call.refused && from <= call.at && call.at < to).map(|call| call.counted).sum();
    let share = used as f64 / (tpm as f64 * MEASURED.as_secs_f64() / 60.0);
    let provider_429 = calls.iter().filter(|call| call.refused).count();
    let spent = calls.iter().map(|call| cost((call.input, call.output))).sum();
    let customers = (0..CUSTOMERS).map(|number| format!("t{number}")).collect();
    let expected = vec![Expected::Together(customers, spent)];
    side.prove(bench, &Sent { admitted: answered, spent, beside: None, expected }).await?;
    // Once the gateway has ended: its last lines are written some milliseconds after their requests.
    let judged = Judged::read(&log, tpm)?;
    let refused = statuses.len() as u64 - answered;
    let found = format!(
        "{:.1} % of the limit used, {provider_429} provider 429s; {refused} of {} refused, {} of them would have fitted",
        share * 100.0,
        statuses.len(),
        judged.wrongly
    );
    let estimates = format!(
        "prompts estimated {:.2} % off on average, {:.2} % at most, {} of them",
        judged.off, judged.most_off, judged.prompts
    );
    let kept = share >= 0.90 && provider_429 == 0 && judged.wrongly == 0;
    let line = Line::said(row, "tollgate", String::new()).judged(share, found, ">= 90 %, 0, 0", kept);
    let estimate = Line::said(row, "estimate against actual", String::new());
    Ok(vec![line, estimate.judged(judged.off, estimates, "<= 1 %", judged.off <= 1.0)])
}

/// What is asked when, and the account's tokens a minute.
fn demand(file: Option<&Path>) -> Result<(Vec<Asked>, u64), String> {
    let length = (BEFORE + MEASURED) * FASTER;
    let mut asked = match file {
        Some(file) => trace::read(file, length)?,
        None => trace::made_up(length),
    };
    asked.iter_mut().for_each(|one| one.at /= FASTER);
    let all: u64 = asked.iter().map(|one| one.input.max(cap(one))).sum();
    let tpm = (all as f64 / (BEFORE + MEASURED).as_secs_f64() * 60.0 / DEMAND) as u64;
    // More at the beginning, for the full bucket.
    let mut early = 0;
    let first: Vec<Asked> = asked
        .iter()
        .take_while(|one| {
            early += one.input.max(cap(one));
            (early as f64) < tpm as f64 * DRAINED
        })
        .copied()
        .collect();
    let many = first.len().max(1) as u32;
    asked.extend(first.into_iter().zip(0..).map(|(one, number)| Asked { at: DRAIN * number / many, ..one }));
    asked.sort_by_key(|one| one.at);
    Ok((asked, tpm))
}

/// The output cap that a client sends who does not know how long the answer will be.
const fn cap(asked: &Asked) -> u64 {
    match asked.output {
        0..=256 => 256,
        257..=512 => 512,
        _ => 1_024,
    }
}

async fn ask_all(asked: &[Asked], gateway: SocketAddr, start: Instant) -> Result<Vec<u16>, String> {
    let mut questions = JoinSet::new();
    let mut prompts = Prompts::new(Prompt::New(0), 0, 1);
    let mut sample = String::new();
    prompts.append(40_000, &mut sample);
    let bytes = sample.len() as f64 / strict::tokens(&sample) as f64;
    for (number, one) in asked.iter().enumerate() {
        let mut text = String::new();
        prompts.append((one.input as f64 * bytes) as usize, &mut text);
        let body = format!(
            r#"{{"model":"{MODEL}","max_tokens":{},"messages":[{{"role":"user","content":"[{} tokens] {}"}}]}}"#,
            cap(one),
            one.output,
            text.trim_end_matches([' ', ','])
        );
        let headers = [format!("authorization: Bearer {KEY}"), format!("x-customer-id: t{}", number % CUSTOMERS)];
        sleep_until(start + one.at).await;
        questions
            .spawn(async move { http::post(gateway, "/v1/chat/completions", &headers, &body).await.map(|(status, _)| status) });
    }
    questions.join_all().await.into_iter().collect()
}

/// What the access log says of the decisions.
#[derive(Default)]
struct Judged {
    /// Refusals of what would have fitted at once.
    wrongly: u64,
    /// Percent by which the estimated input differed from the provider's own count.
    off: f64,
    most_off: f64,
    prompts: u64,
}

impl Judged {
    /// Plays the ceiling's bucket over all decisions, in the order in which they were made and at the store's own time of each, as one that
    /// knew them all would have. A prompt that takes its time to be counted is decided after those that came behind it meanwhile, and what
    /// is told of a decision (a line, an answer) may be late by as long as a disk takes.
    fn read(log: &Path, tpm: u64) -> Result<Self, String> {
        let text = std::fs::read_to_string(log).map_err(|error| error.to_string())?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut decisions: Vec<(Duration, bool, u64)> = Vec::new();
        let mut judged = Self::default();
        for line in lines.filter(|line| line["target"] == "access" && line["model"] == MODEL) {
            let number = |name: &str| line[name].as_u64().unwrap_or(0);
            let decided =
                line["decided_at_us"].as_u64().map(Duration::from_micros).ok_or("a line of the access log has no decision")?;
            let admitted = number("status") == 200;
            let (estimated, actual) = (number("estimated_input_tokens"), number("input_tokens"));
            let cap = number("output_cap");
            let as_asked = line["degraded"].is_null();
            let wish = if as_asked { 0 } else { WISH };
            // What the provider found the input to be is what the ceiling is settled to, where that is more.
            let claim = if admitted {
                (estimated + wish).max(actual).max(cap)
            } else {
                number("refused_asked").min(estimated.max(cap) + WISH)
            };
            decisions.push((decided, admitted, claim));
            // A prompt to which we added the wish for a short answer is not the one that was estimated.
            if admitted && actual > 0 && as_asked {
                let off = estimated.abs_diff(actual) as f64 * 100.0 / actual as f64;
                judged.off += off;
                judged.most_off = judged.most_off.max(off);
                judged.prompts += 1;
            }
        }
        judged.off /= judged.prompts.max(1) as f64;
        decisions.sort_unstable();
        let (full, gain) = (tpm as f64, tpm as f64 * HEADROOM / 60.0);
        let (mut level, mut before) = (full, Duration::ZERO);
        for (at, admitted, claim) in decisions {
            level = (level + at.saturating_sub(before).as_secs_f64() * gain).min(full);
            before = at;
            if admitted {
                level -= claim as f64;
            } else if level >= claim as f64 + SLACK {
                judged.wrongly += 1;
            }
        }
        Ok(judged)
    }
}
