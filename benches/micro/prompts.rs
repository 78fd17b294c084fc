//! Counting prompts: one that was seen before, and one that was not.

use crate::Work;
use std::fmt::Write;
use std::hint::black_box;
use tollgate::estimate::{Estimator, Piece, SegmentKind};
use tollgate::wire::Api;

pub const WORK: [Work; 3] = [
    Work { name: "count-warm-3k", set_up: warm },
    Work { name: "count-new-3k", set_up: new },
    Work { name: "count-new-history", set_up: history },
];

const SENTENCE: &str =
    "Please compare the delivery contract of Tuesday with the invoice for parcel A-113 and explain the difference. ";

/// Prose of about so many bytes, which may stand in a JSON string as it is.
pub fn text(bytes: usize) -> String {
    SENTENCE.repeat(bytes.div_ceil(SENTENCE.len()))
}

fn message(text: &str) -> String {
    format!(r#"{{"role":"user","content":"{text}"}}"#)
}

fn count(estimator: &Estimator, messages: &[&str]) {
    let pieces: Vec<_> =
        messages.iter().map(|message| Piece { kind: SegmentKind::ChatMessage, json: message.as_bytes() }).collect();
    black_box(estimator.count_if_quick("gpt-4o-mini", Api::Chat, &pieces).expect("short enough"));
}

/// A prompt of 3,000 bytes again and again.
fn warm() -> Option<Box<dyn FnMut()>> {
    Estimator::warm_up();
    let (estimator, message) = (Estimator::new(10_000), message(&text(3_000)));
    Some(Box::new(move || count(&estimator, &[&message])))
}

/// As long, and never the same.
fn new() -> Option<Box<dyn FnMut()>> {
    Estimator::warm_up();
    let (estimator, mut number, mut message) = (Estimator::new(10_000), 0_u64, String::new());
    let text = text(3_000);
    Some(Box::new(move || {
        number += 1;
        message.clear();
        let _ = write!(message, r#"{{"role":"user","content":"{number} {text}"}}"#);
        count(&estimator, &[&message]);
    }))
}

/// A conversation of twenty messages of 500 bytes, of which only the last is new.
fn history() -> Option<Box<dyn FnMut()>> {
    Estimator::warm_up();
    let (estimator, mut number) = (Estimator::new(10_000), 0_u64);
    let before: Vec<String> = (0..19).map(|turn| message(&format!("{turn} {}", text(500)))).collect();
    let last = text(500);
    Some(Box::new(move || {
        number += 1;
        let last = message(&format!("question {number} {last}"));
        let messages: Vec<&str> = before.iter().chain([&last]).map(String::as_str).collect();
        count(&estimator, &messages);
    }))
}
