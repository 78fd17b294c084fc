//! What needs nothing but itself: buckets, bodies, streams.

use crate::Work;
use bytes::Bytes;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use tollgate::domain::Timestamp;
use tollgate::limit::bucket::Fit;
use tollgate::limit::{Bucket, BucketState};
use tollgate::wire::edit::Edits;
use tollgate::wire::meter::{Meter, MeterOptions};
use tollgate::wire::{Api, request};

pub const WORK: [Work; 5] = [
    Work { name: "bucket", set_up: bucket },
    Work { name: "parse-3k", set_up: parse },
    Work { name: "edit-3k", set_up: edit },
    Work { name: "meter-stream-100", set_up: meter_stream },
    Work { name: "meter-body", set_up: meter_body },
];

/// Refill, look, take: one bucket of one request.
fn bucket() -> Option<Box<dyn FnMut()>> {
    let bucket = Bucket::new(120, 60, 60_000_000).expect("exact");
    let mut now = Timestamp::from_secs(1_800_000_000);
    let mut state: Option<BucketState> = None;
    Some(Box::new(move || {
        now = now.plus(900_000);
        let mut advanced = bucket.advance(state, now);
        if bucket.fit(advanced, now, 1, 0) == Fit::Now {
            bucket.take(&mut advanced, 1);
        }
        state = Some(black_box(advanced));
    }))
}

/// A chat request with a prompt of 3,000 bytes, as a client sends it.
fn body() -> Bytes {
    let text = crate::prompts::text(3_000);
    Bytes::from(format!(
        r#"{{"model":"gpt-4o-mini","messages":[{{"role":"system","content":"Answer shortly."}},{{"role":"user","content":"{text}"}}],"stream":true,"max_tokens":4096,"temperature":0.7}}"#
    ))
}

/// Reading what the gateway needs of a request.
fn parse() -> Option<Box<dyn FnMut()>> {
    let body = body();
    Some(Box::new(move || drop(black_box(request::parse(Api::Chat, &body).expect("a request")))))
}

/// Writing the output cap and the question for usage into it.
fn edit() -> Option<Box<dyn FnMut()>> {
    let body = body();
    let request = request::parse(Api::Chat, &body).expect("a request");
    let edits = Edits { output_cap: Some(1_024), include_usage: true, ..Edits::default() };
    Some(Box::new(move || drop(black_box(request.apply(&body, &edits)))))
}

fn options() -> MeterOptions {
    MeterOptions { api: Api::Chat, hide_usage_chunk: true, count: Arc::new(|text| text.len() as u64) }
}

/// A stream of a hundred pieces of text, each an event of its own, and the usage.
fn meter_stream() -> Option<Box<dyn FnMut()>> {
    let chunk = |rest: &str| {
        Bytes::from(format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt-4o-mini\",{rest}}}\n\n"
        ))
    };
    let mut events = vec![chunk(r#""choices":[{"index":0,"delta":{"content":" parcel"},"finish_reason":null}]"#); 100];
    events.push(chunk(r#""choices":[],"usage":{"prompt_tokens":640,"completion_tokens":100,"total_tokens":740}"#));
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    let mut out = VecDeque::new();
    Some(Box::new(move || {
        let mut meter = Meter::for_reply(options(), Some("text/event-stream"));
        for event in &events {
            meter.feed(event.clone(), &mut out);
            out.clear();
        }
        meter.finish(&mut out);
        out.clear();
        black_box(meter.summary());
    }))
}

/// A reply that is no stream.
fn meter_body() -> Option<Box<dyn FnMut()>> {
    let body = Bytes::from(format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"gpt-4o-mini","choices":[{{"index":0,"message":{{"role":"assistant","content":"{}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":640,"completion_tokens":120,"total_tokens":760}}}}"#,
        crate::prompts::text(500)
    ));
    let mut out = VecDeque::new();
    Some(Box::new(move || {
        let mut meter = Meter::for_reply(options(), Some("application/json"));
        meter.feed(body.clone(), &mut out);
        meter.finish(&mut out);
        out.clear();
        black_box(meter.summary());
    }))
}
