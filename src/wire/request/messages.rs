//! `POST /v1/messages` and `POST /v1/messages/count_tokens`

use super::draft::Draft;
use super::error::BodyError;
use super::{SegmentKind, ServerTool, read, tools};
use crate::wire::cursor::{Cursor, Kind};

/// Reads a field of this API, or leaves the cursor where it is and says `false`.
pub(super) fn field(draft: &mut Draft, cursor: &mut Cursor<'_>, key: &str) -> Result<bool, BodyError> {
    match key {
        "messages" => draft.messages(cursor, SegmentKind::Message)?,
        "system" => {
            if !matches!(cursor.kind()?, Kind::Null | Kind::String | Kind::Array) {
                return Err(BodyError::WrongType { field: "system".into(), expected: "a string or an array of blocks" });
            }
            let ((), place) = cursor.spanned(|cursor| draft.segment(cursor, "system", SegmentKind::System))?;
            draft.places.system = Some(place);
        }
        "tools" => tools::read(draft, cursor, "tools", SegmentKind::AnthropicTools)?,
        "tool_choice" => draft.segment(cursor, "tool_choice", SegmentKind::ToolChoice)?,
        // 0 is allowed here: it only warms the prompt cache.
        "max_tokens" => draft.cap(cursor, "max_tokens", 0)?,
        "thinking" => {
            let features = &mut draft.features;
            read::fields(cursor, "thinking", &["budget_tokens"], |cursor, _| {
                features.thinking_budget = read::count(cursor, "thinking.budget_tokens", 0)?;
                Ok(())
            })?;
        }
        "output_config" => output_config(draft, cursor)?,
        "output_format" => draft.format(cursor, "output_format", SegmentKind::ResponseFormat)?,
        "speed" => draft.features.speed = read::text(cursor, "speed")?,
        "inference_geo" => draft.features.inference_geo = read::text(cursor, "inference_geo")?,
        "mcp_servers" => {
            let range = cursor.skip()?;
            if !matches!(cursor.slice(&range), "null" | "[]") {
                draft.features.add_server_tool(ServerTool::Mcp);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `output_config`: `effort` and `format`.
fn output_config(draft: &mut Draft, cursor: &mut Cursor<'_>) -> Result<(), BodyError> {
    let member = |cursor: &mut Cursor<'_>, name: &'static str| match name {
        "effort" => {
            draft.features.reasoning_effort = read::text(cursor, "output_config.effort")?;
            Ok(())
        }
        _ => draft.format(cursor, "output_config.format", SegmentKind::ResponseFormat),
    };
    read::fields(cursor, "output_config", &["effort", "format"], member).map(drop)
}
