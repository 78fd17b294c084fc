//! Streams of chat completions and legacy completions: unnamed events, ended by `[DONE]`.

use super::reading::{Mention, Reading};
use crate::wire::pick::{items, pick};
use std::sync::LazyLock;

/// So many first chunks are looked at for id and model; servers differ in where they begin to state them.
const HEADS: u8 = 4;

static USAGE: LazyLock<Mention> = LazyLock::new(|| Mention::of("\"usage\""));
static ERROR: LazyLock<Mention> = LazyLock::new(|| Mention::of("\"error\""));
static FINISH: LazyLock<Mention> = LazyLock::new(|| Mention::of("\"finish_reason\""));

/// Reads one chunk. True when it is a usage-only one: `choices` is an empty array and `usage` is stated.
pub(super) fn event(reading: &mut Reading, data: &[u8]) -> bool {
    let data = data.trim_ascii();
    if data == b"[DONE]" {
        reading.over = true;
        return false;
    }
    if data.first() != Some(&b'{') {
        return false;
    }
    reading.finishing = reading.finishing || FINISH.is_in(data);
    let usage = USAGE.is_in(data);
    if (usage || ERROR.is_in(data) || wants_head(reading)) && tells(reading, data) {
        return true;
    }
    // Servers that state the usage with each chunk state it once more after the last content; one that does not has stated too little.
    if reading.record.output_known() && !usage {
        reading.late_delta(data);
    } else {
        reading.delta(data);
    }
    false
}

fn wants_head(reading: &mut Reading) -> bool {
    let wants = reading.model.is_none() && reading.heads < HEADS;
    reading.heads += u8::from(wants);
    wants
}

/// Reads what a chunk says beside its text. True when it is a usage-only chunk.
fn tells(reading: &mut Reading, data: &[u8]) -> bool {
    let json = String::from_utf8_lossy(data);
    let names = ["id", "model", "service_tier", "choices", "usage", "x_groq", "error"];
    let Some([id, model, tier, choices, usage, groq, error]) = pick(&json, names) else { return false };
    reading.head(id, model, tier);
    // Groq states the usage of a stream a level deeper, and some models of it in both places.
    let nested = groq.and_then(|json| pick(json, ["usage"])).and_then(|[usage]| usage);
    reading.usage(usage.or(nested));
    reading.failed(error);
    let no_choices = choices.is_some_and(|json| json.starts_with('[') && items(json).next().is_none());
    no_choices && usage.is_some() && error.is_none()
}
