//! Streams of the Responses API: named events, of which exactly one is terminal.

use super::reading::Reading;
use super::summary::ReplyError;
use crate::wire::pick::{items, pick, string};
use crate::wire::sse::Event;

/// Reads one event.
pub(super) fn event(reading: &mut Reading, event: &Event<'_>) {
    if event.data.trim_ascii() == b"[DONE]" {
        reading.over = true; // some servers add it
        return;
    }
    if event.name.starts_with(b"response.") || event.name == b"error" {
        named(reading, event.name, &event.data);
    } else {
        let json = String::from_utf8_lossy(&event.data);
        let kind = pick(&json, ["type"]).and_then(|[kind]| kind).and_then(string);
        kind.into_iter().for_each(|kind| named(reading, kind.as_bytes(), &event.data));
    }
}

fn named(reading: &mut Reading, name: &[u8], data: &[u8]) {
    match name {
        // Neither is the model's text: one is sound, the other what a tool printed.
        b"response.audio.delta" => {
            let json = String::from_utf8_lossy(data);
            let sound = pick(&json, ["delta"]).and_then(|[delta]| delta).and_then(string);
            reading.collector.audio(sound.map_or(0, |sound| sound.len() as u64));
            reading.content = true;
        }
        b"response.shell_call_output_content.delta" => reading.content = true,
        b"response.output_item.added" => reading.delta(data),
        name if name.ends_with(b".delta") => reading.delta(data),
        b"response.created" | b"response.queued" | b"response.in_progress" if reading.model.is_none() => response(reading, data),
        b"response.output_item.done" => item_done(reading, data),
        b"response.completed" | b"response.incomplete" | b"response.failed" | b"response.cancelled" => {
            response(reading, data);
            reading.over = true;
        }
        b"error" => error(reading, data),
        _ => {}
    }
}

/// Reads an event that carries the whole response as it stands.
fn response(reading: &mut Reading, data: &[u8]) {
    let json = String::from_utf8_lossy(data);
    let Some([Some(response)]) = pick(&json, ["response"]) else { return };
    let Some([id, model, tier, usage, error]) = pick(response, ["id", "model", "service_tier", "usage", "error"]) else { return };
    reading.head(id, model, tier);
    reading.usage(usage);
    reading.failed(error);
    reading.record.saw_searches(searches(response));
    // A server that sent no deltas has delivered all of it here.
    if !reading.content && !reading.record.output_known() {
        reading.delta(response.as_bytes());
    }
}

/// The number of web searches in the output of a response: each call is priced by the piece.
pub(super) fn searches(response: &str) -> u64 {
    let [output] = pick(response, ["output"]).unwrap_or_default();
    output.into_iter().flat_map(items).filter(|item| is_search(item)).count() as u64
}

fn is_search(item: &str) -> bool {
    pick(item, ["type"]) == Some([Some("\"web_search_call\"")])
}

/// Counts searches as they end, for a stream that is cut before its terminal event.
fn item_done(reading: &mut Reading, data: &[u8]) {
    let json = String::from_utf8_lossy(data);
    if let Some([Some(item)]) = pick(&json, ["item"])
        && is_search(item)
    {
        reading.searches += 1;
        reading.record.saw_searches(reading.searches);
    }
}

/// The error event is flat; some servers wrap it as elsewhere.
fn error(reading: &mut Reading, data: &[u8]) {
    let json = String::from_utf8_lossy(data);
    let [wrapped] = pick(&json, ["error"]).unwrap_or_default();
    let mut error = ReplyError::read(wrapped.unwrap_or(&json));
    if wrapped.is_none() {
        error.kind = None; // the type of the event, which says no more than that it is an error
    }
    reading.error = Some(error);
}
