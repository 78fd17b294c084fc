//! Streams of Anthropic's Messages API: named events, ended by `message_stop`.

use super::reading::Reading;
use super::summary::ReplyError;
use crate::wire::pick::{pick, string};
use crate::wire::sse::Event;

/// Reads one event.
pub(super) fn event(reading: &mut Reading, event: &Event<'_>) {
    // By far the most frequent one is told by its name alone.
    if event.name == b"content_block_delta" {
        reading.delta(&event.data);
        return;
    }
    let json = String::from_utf8_lossy(&event.data);
    let names = ["type", "message", "usage", "error"];
    let Some([kind, message, usage, error]) = pick(&json, names) else { return };
    match kind.and_then(string).as_deref() {
        Some("content_block_start" | "content_block_delta") => reading.delta(&event.data),
        Some("message_start") => {
            let Some([id, model, usage]) = message.and_then(|json| pick(json, ["id", "model", "usage"])) else { return };
            reading.head(id, model, None);
            usage.into_iter().for_each(|json| reading.record.read_placeholder(json));
        }
        Some("message_delta") => reading.usage(usage),
        Some("message_stop") => reading.over = true,
        Some("error") => reading.error = Some(error.map(ReplyError::read).unwrap_or_default()),
        _ => {}
    }
}
