//! What really happened, by the provider's own log: which model answered a question, how long it was kept, what it cost.

use crate::asking::Asked;
use crate::scene::{LARGE, SMALL, Scene};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};
use tollgate::demo::provider::{End, Seen};

/// Nano-dollars of a token in and out.
const PRICES: [(&str, u64, u64); 2] = [(LARGE, 2_500, 10_000), (SMALL, 150, 600)];
const MINUTE: Duration = Duration::from_secs(60);

/// One call, as the provider saw it.
#[derive(Clone, Debug)]
pub struct Served {
    pub at: Instant,
    pub status: u16,
    pub model: String,
    pub cap: u64,
}

/// The log, read.
pub struct Truth {
    /// By the mark in the question's text.
    pub calls: HashMap<String, Vec<Served>>,
    /// Nano-dollars by customer.
    pub costs: BTreeMap<String, u64>,
    pub refused: u64,
    pub all: u64,
    /// The most tokens in any minute, for the model the account is for, and of them the background's.
    pub peak: u64,
    pub peak_background: u64,
    /// The most calls in any minute.
    pub peak_calls: u64,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    Full,
    Short,
    Cheaper,
    HandedOff,
    Refused,
}

impl Fate {
    pub const ALL: [Self; 5] = [Self::Full, Self::Short, Self::Cheaper, Self::HandedOff, Self::Refused];
}

impl Truth {
    pub fn read(scene: &Scene, log: &[Seen]) -> Self {
        let mut truth = Self {
            calls: HashMap::new(),
            costs: BTreeMap::new(),
            refused: 0,
            all: log.len() as u64,
            peak: 0,
            peak_background: 0,
            peak_calls: 0,
        };
        let (mut tokens, mut background, mut calls) = (Trailing::default(), Trailing::default(), Trailing::default());
        let limited = |model: &str| scene.account.model.is_none_or(|one| one == model);
        for seen in log {
            let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap_or_default();
            let text = body.pointer("/messages/0/content").and_then(serde_json::Value::as_str).unwrap_or_default();
            let mark = text.split_whitespace().find(|word| word.starts_with('[') && word.ends_with(']') && word.contains('-'));
            let cap = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| body.get(name)?.as_u64()).unwrap_or(0);
            let input = seen.usage.as_ref().map_or(0, |usage| usage.uncached_input);
            let is_background = mark.is_some_and(|mark| mark.starts_with("[job-"));
            let counted = input.max(cap);
            truth.refused += u64::from(seen.status == 429);
            if let Some(usage) = &seen.usage {
                let (_, price_in, price_out) = PRICES.into_iter().find(|(model, ..)| *model == seen.model).unwrap_or_default();
                let output = if seen.end == End::Complete { usage.output } else { usage.output.min(seen.delivered) };
                let id = body.get("safety_identifier").and_then(serde_json::Value::as_str).unwrap_or_default();
                *truth.costs.entry(id.to_owned()).or_default() += usage.uncached_input * price_in + output * price_out;
            }
            if limited(&seen.model) {
                truth.peak_calls = truth.peak_calls.max(calls.add(seen.at, 1));
                if seen.usage.is_some() {
                    truth.peak = truth.peak.max(tokens.add(seen.at, counted));
                    if is_background {
                        truth.peak_background = truth.peak_background.max(background.add(seen.at, counted));
                    }
                }
            }
            if let Some(mark) = mark {
                let served = Served { at: seen.at, status: seen.status, model: seen.model.clone(), cap };
                truth.calls.entry(mark.to_owned()).or_default().push(served);
            }
        }
        truth
    }

    /// What became of a question, and the call that answered it.
    pub fn fate(&self, scene: &Scene, asked: &Asked) -> (Fate, Option<&Served>) {
        let crowd = &scene.crowds[asked.crowd];
        if !asked.answered() {
            return (Fate::Refused, None);
        }
        let calls = self.calls.get(&Asked::mark(crowd.name, asked.index));
        match calls.and_then(|calls| calls.iter().rev().find(|call| call.status == 200)) {
            None => (Fate::HandedOff, None),
            Some(call) if call.model != crowd.model => (Fate::Cheaper, Some(call)),
            Some(call) if call.cap < crowd.cap => (Fate::Short, Some(call)),
            Some(call) => (Fate::Full, Some(call)),
        }
    }
}

/// What was counted in the last minute.
#[derive(Default)]
struct Trailing {
    entries: VecDeque<(Instant, u64)>,
    sum: u64,
}

impl Trailing {
    fn add(&mut self, at: Instant, amount: u64) -> u64 {
        while let Some((_, old)) = self.entries.front().filter(|(then, _)| *then + MINUTE <= at) {
            self.sum -= old;
            self.entries.pop_front();
        }
        self.entries.push_back((at, amount));
        self.sum += amount;
        self.sum
    }
}

/// Whether the headers of an answer say what was given up for it, no less and no more.
pub fn marked(fate: Fate, call: Option<&Served>, asked: &Asked, scene: &Scene) -> bool {
    let says = |item: &str| asked.degraded.split(", ").any(|one| one.split(';').next() == Some(item));
    // An answer of the cheaper model may have been cut short as well, and then says both.
    let short = call.is_some_and(|call| call.cap < scene.crowds[asked.crowd].cap);
    let expected = [("short", short), ("cheaper", fate == Fate::Cheaper), ("handoff", fate == Fate::HandedOff)];
    let model = call.map_or("human-triage", |call| call.model.as_str());
    expected.into_iter().all(|(item, given_up)| says(item) == given_up)
        && asked.marked_model == model
        && (asked.model == model || asked.model.starts_with(model))
        && asked.ticket == (fate == Fate::HandedOff)
}
