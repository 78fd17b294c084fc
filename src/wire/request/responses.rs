//! `POST /v1/responses`

use super::draft::{Draft, element_name};
use super::error::BodyError;
use super::{SegmentKind, read, tools};
use crate::wire::cursor::{Cursor, Kind};

/// Reads a field of this API, or leaves the cursor where it is and says `false`.
pub(super) fn field(draft: &mut Draft, cursor: &mut Cursor<'_>, key: &str) -> Result<bool, BodyError> {
    match key {
        "input" => input(draft, cursor)?,
        "instructions" => {
            let read = |cursor: &mut Cursor<'_>| draft.text_segment(cursor, "instructions", SegmentKind::Instructions);
            let ((), place) = cursor.spanned(read)?;
            draft.places.system = Some(place);
        }
        "tools" => tools::read(draft, cursor, "tools", SegmentKind::ResponsesTools)?,
        "tool_choice" => draft.segment(cursor, "tool_choice", SegmentKind::ToolChoice)?,
        "text" => {
            let format = |cursor: &mut Cursor<'_>, _| draft.format(cursor, "text.format", SegmentKind::ResponsesFormat);
            read::fields(cursor, "text", &["format"], format)?;
        }
        "max_output_tokens" => draft.cap(cursor, "max_output_tokens", 1)?,
        "reasoning" => {
            let features = &mut draft.features;
            read::fields(cursor, "reasoning", &["effort"], |cursor, _| {
                features.reasoning_effort = read::text(cursor, "reasoning.effort")?;
                Ok(())
            })?;
        }
        "background" => draft.features.background = read::boolean(cursor, "background")?.unwrap_or(false),
        "previous_response_id" | "conversation" | "prompt" => draft.features.stored_context |= read::present(cursor)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A string, or a list of items. An item may stand for one that the provider has stored.
fn input(draft: &mut Draft, cursor: &mut Cursor<'_>) -> Result<(), BodyError> {
    const FIELD: &str = "input";
    match cursor.kind()? {
        Kind::Null => return cursor.skip().map(drop),
        Kind::String => {
            draft.has_prompt = true;
            return draft.segment(cursor, FIELD, SegmentKind::ResponsesText);
        }
        Kind::Array => draft.has_prompt = true,
        _ => return Err(BodyError::WrongType { field: FIELD.into(), expected: "a string or an array of objects" }),
    }
    let item = |cursor: &mut Cursor<'_>, index: usize| {
        if cursor.kind()? != Kind::Object {
            return Err(BodyError::WrongType { field: element_name(FIELD, index), expected: "an object" });
        }
        let features = &mut draft.features;
        let span = read::members(
            cursor,
            || element_name(FIELD, index),
            &["type"],
            |cursor, _| {
                if cursor.kind()? != Kind::String {
                    return cursor.skip().map(drop);
                }
                features.stored_context |= cursor.string()? == "item_reference";
                Ok(())
            },
        )?;
        draft.push(FIELD, SegmentKind::ResponsesItem, span.range)
    };
    cursor.array(item).map(drop)
}
