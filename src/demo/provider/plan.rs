//! From an answer to the steps that deliver it, with the fault the model's name asked for.

use std::time::Duration;

use async_compression::tokio::write::GzipEncoder;
use bytes::{Bytes, BytesMut};
use memchr::memchr_iter;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::{
    answer::Answer,
    ask::Ask,
    errors::Problem,
    fault::Fault,
    script::Step,
    wire::{self, Event, Role},
};
use crate::wire::Api;

/// Pieces of text that get out before a stream breaks.
const BEFORE_BREAK: usize = 3;

/// The pause of `fault-slow` before each piece.
const SLOW: Duration = Duration::from_millis(200);

/// The size of `fault-big`.
const BIG: usize = 8 << 20;

/// A reply, ready to be played.
#[derive(Debug)]
pub(super) struct Plan {
    pub steps: Vec<Step>,
    /// The `content-length` to promise, for a reply that is not streamed.
    pub promised: Option<u64>,
    pub gzip: bool,
}

/// The reply that is not streamed.
pub(super) async fn whole(ask: &Ask, answer: &Answer, fault: Option<Fault>) -> Plan {
    let problem = Problem::of_status(500, false, None);
    let body = match fault {
        Some(Fault::Empty) => empty(ask.api),
        Some(Fault::Failed) => wire::responses::failed(ask, answer, &problem),
        _ => wire::whole(ask, answer),
    };
    let mut bytes = Bytes::from(body.to_string());
    if fault == Some(Fault::Big) {
        // White space is legal before the last brace of a document.
        let mut padded = BytesMut::from(&bytes[..bytes.len() - 1]);
        padded.resize(BIG, b' ');
        padded.extend_from_slice(b"}");
        bytes = padded.freeze();
    }
    let gzip = fault == Some(Fault::Gzip);
    if gzip {
        bytes = compress(vec![bytes]).await.concat().into();
    }
    let promised = Some(bytes.len() as u64);
    let half = Step::send(bytes.slice(..bytes.len() / 2));
    let steps = match fault {
        Some(Fault::Stall) => vec![Step::Silence],
        Some(Fault::Cut) => vec![half, Step::Close],
        Some(Fault::Reset) => vec![half, Step::Reset],
        Some(Fault::Slow) => {
            let pause = SLOW.saturating_mul(u32::try_from(answer.usage.output).unwrap_or(u32::MAX));
            vec![Step::Wait(pause), Step::Send { bytes, tokens: answer.usage.output }]
        }
        _ => vec![Step::Send { bytes, tokens: answer.usage.output }],
    };
    Plan { steps, promised, gzip }
}

/// The streamed reply.
pub(super) async fn stream(ask: &Ask, answer: &Answer, fault: Option<Fault>, per_token: Duration) -> Plan {
    let mut events = wire::stream(ask, answer);
    let mut last = None;
    match fault {
        Some(Fault::Stall) => {
            events.clear();
            last = Some(Step::Silence);
        }
        Some(Fault::Cut) => {
            break_off(&mut events);
            last = Some(Step::Close);
        }
        Some(Fault::Reset) => {
            break_off(&mut events);
            last = Some(Step::Reset);
        }
        Some(Fault::ErrorEvent) => {
            break_off(&mut events);
            let status = if ask.api == Api::Messages { 529 } else { 500 };
            events.push(wire::error_event(ask.api, &Problem::of_status(status, false, None)));
        }
        Some(Fault::Failed) => {
            break_off(&mut events);
            let problem = Problem::of_status(500, false, None);
            let sequence = events.len();
            events.push(wire::responses::failed_event(ask, answer, &problem, sequence));
        }
        Some(Fault::NoDone) => events.retain(|event| event.role != Role::Done),
        Some(Fault::OpenAfterDone) => last = Some(Step::Silence),
        Some(Fault::Big) => enlarge(&mut events),
        Some(Fault::Crlf) => events.iter_mut().for_each(|event| event.bytes = crlf(&event.bytes)),
        Some(Fault::Comments) => {
            let comment = Event { bytes: Bytes::from_static(b": STAND-IN PROCESSING\n\n"), role: Role::Other, tokens: 0 };
            events = events.into_iter().flat_map(|event| [comment.clone(), event]).collect();
        }
        _ => {}
    }
    let gzip = fault == Some(Fault::Gzip);
    if gzip {
        let parts = compress(events.iter().map(|event| event.bytes.clone()).collect()).await;
        let end = parts.len() - 1;
        last = Some(Step::send(parts[end].clone()));
        events.iter_mut().zip(parts).for_each(|(event, bytes)| event.bytes = bytes);
    }
    let pause = if fault == Some(Fault::Slow) { SLOW } else { per_token };
    let mut steps = Vec::with_capacity(events.len() + 1);
    for event in events {
        if event.role == Role::Delta && !pause.is_zero() {
            steps.push(Step::Wait(pause));
        }
        if fault == Some(Fault::Split) {
            let end = event.bytes.len() - 1;
            let tokens_at = |at| if at == end { event.tokens } else { 0 };
            steps.extend((0..=end).map(|at| Step::Send { bytes: event.bytes.slice(at..=at), tokens: tokens_at(at) }));
        } else {
            steps.push(Step::Send { bytes: event.bytes, tokens: event.tokens });
        }
    }
    steps.extend(last);
    Plan { steps, promised: None, gzip }
}

/// A reply of the right shape with nothing in it.
fn empty(api: Api) -> Value {
    match api {
        Api::Messages => {
            json!({ "id": "msg_empty", "type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn" })
        }
        Api::Responses => json!({ "id": "resp_empty", "object": "response", "status": "completed", "output": [] }),
        Api::Embeddings => json!({ "object": "list", "data": [] }),
        _ => json!({ "id": "chatcmpl-empty", "object": "chat.completion", "choices": [] }),
    }
}

/// Keeps the first pieces of text and what comes before them.
fn break_off(events: &mut Vec<Event>) {
    let mut pieces = 0;
    events.retain(|event| {
        let keep = pieces < BEFORE_BREAK;
        pieces += usize::from(event.role == Role::Delta);
        keep
    });
}

/// Pads the first piece of text with white space inside its JSON, to one line of 8 MB.
fn enlarge(events: &mut [Event]) {
    let Some(event) = events.iter_mut().find(|event| event.role == Role::Delta) else { return };
    let Some(end) = memchr::memrchr(b'}', &event.bytes) else { return };
    let mut padded = BytesMut::with_capacity(BIG + event.bytes.len());
    padded.extend_from_slice(&event.bytes[..end]);
    padded.resize(BIG, b' ');
    padded.extend_from_slice(&event.bytes[end..]);
    event.bytes = padded.freeze();
}

fn crlf(bytes: &Bytes) -> Bytes {
    let mut converted = BytesMut::with_capacity(bytes.len() + 4);
    let mut from = 0;
    for at in memchr_iter(b'\n', bytes) {
        converted.extend_from_slice(&bytes[from..at]);
        converted.extend_from_slice(b"\r\n");
        from = at + 1;
    }
    converted.extend_from_slice(&bytes[from..]);
    converted.freeze()
}

/// Compresses parts as one gzip stream that can be read as far as each part; one more part at the end closes it.
async fn compress(parts: Vec<Bytes>) -> Vec<Bytes> {
    let mut encoder = GzipEncoder::new(Vec::new());
    let mut compressed = Vec::new();
    for part in parts {
        encoder.write_all(&part).await.expect("writing to memory");
        encoder.flush().await.expect("writing to memory");
        compressed.push(Bytes::from(std::mem::take(encoder.get_mut())));
    }
    encoder.shutdown().await.expect("writing to memory");
    compressed.push(Bytes::from(encoder.into_inner()));
    compressed
}
