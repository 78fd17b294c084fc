//! `POST /v1/embeddings`

use super::draft::Draft;
use super::error::BodyError;
use super::{SegmentKind, text_input};
use crate::wire::cursor::Cursor;

/// Reads a field of this API, or leaves the cursor where it is and says `false`. An empty text is the provider's to refuse.
pub(super) fn field(draft: &mut Draft, cursor: &mut Cursor<'_>, key: &str) -> Result<bool, BodyError> {
    if key != "input" {
        return Ok(false);
    }
    text_input::read(draft, cursor, "input", SegmentKind::Input).map(|_| true)
}
