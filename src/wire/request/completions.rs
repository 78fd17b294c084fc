//! `POST /v1/completions`

use super::draft::Draft;
use super::error::BodyError;
use super::{SegmentKind, read, text_input};
use crate::wire::cursor::Cursor;

/// Reads a field of this API, or leaves the cursor where it is and says `false`.
pub(super) fn field(draft: &mut Draft, cursor: &mut Cursor<'_>, key: &str) -> Result<bool, BodyError> {
    match key {
        "prompt" => draft.prompts = text_input::read(draft, cursor, "prompt", SegmentKind::Prompt)?,
        "suffix" => draft.text_segment(cursor, "suffix", SegmentKind::Suffix)?,
        // 0 is allowed here: with `echo` it asks for the prompt's own log probabilities.
        "max_tokens" => draft.cap(cursor, "max_tokens", 0)?,
        "n" => draft.n = read::count(cursor, "n", 1)?,
        "best_of" => draft.best_of = read::count(cursor, "best_of", 0)?,
        "stream_options" => draft.stream_options(cursor)?,
        _ => return Ok(false),
    }
    Ok(true)
}
