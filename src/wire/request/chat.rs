//! `POST /v1/chat/completions`

use super::draft::Draft;
use super::error::BodyError;
use super::{SegmentKind, ServerTool, read, tools};
use crate::wire::cursor::{Cursor, Kind};

/// Reads a field of this API, or leaves the cursor where it is and says `false`.
pub(super) fn field(draft: &mut Draft, cursor: &mut Cursor<'_>, key: &str) -> Result<bool, BodyError> {
    match key {
        "messages" => draft.messages(cursor, SegmentKind::ChatMessage)?,
        "tools" => tools::read(draft, cursor, "tools", SegmentKind::ChatTools)?,
        "functions" => functions(draft, cursor)?,
        "tool_choice" => draft.segment(cursor, "tool_choice", SegmentKind::ToolChoice)?,
        "function_call" => draft.segment(cursor, "function_call", SegmentKind::ToolChoice)?,
        "response_format" => draft.format(cursor, "response_format", SegmentKind::ResponseFormat)?,
        "prediction" => draft.segment(cursor, "prediction", SegmentKind::Prediction)?,
        "max_completion_tokens" => draft.cap(cursor, "max_completion_tokens", 1)?,
        "max_tokens" => draft.cap(cursor, "max_tokens", 1)?,
        "n" => draft.n = read::count(cursor, "n", 1)?,
        // Not OpenAI's here, but some compatible servers still take it and bill each candidate.
        "best_of" => draft.best_of = read::count(cursor, "best_of", 0)?,
        "stream_options" => draft.stream_options(cursor)?,
        "reasoning_effort" => draft.features.reasoning_effort = read::text(cursor, "reasoning_effort")?,
        "audio" => draft.features.audio_output |= read::present(cursor)?,
        "modalities" => draft.features.audio_output |= lists_audio(cursor)?,
        "web_search_options" => {
            if read::present(cursor)? {
                draft.features.add_server_tool(ServerTool::WebSearch);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The older `functions`: their elements have no `type`, and a field of that name says nothing.
fn functions(draft: &mut Draft, cursor: &mut Cursor<'_>) -> Result<(), BodyError> {
    let server_tools = draft.features.server_tools.clone();
    tools::read(draft, cursor, "functions", SegmentKind::ChatFunctions)?;
    draft.features.server_tools = server_tools;
    Ok(())
}

/// Whether `modalities` names audio. Other types than a list of strings are the provider's to refuse.
fn lists_audio(cursor: &mut Cursor<'_>) -> Result<bool, BodyError> {
    if cursor.kind()? != Kind::Array {
        return cursor.skip().map(|_| false);
    }
    let mut audio = false;
    let element = |cursor: &mut Cursor<'_>, _| {
        if cursor.kind()? != Kind::String {
            return cursor.skip().map(drop);
        }
        audio |= cursor.string()? == "audio";
        Ok(())
    };
    cursor.array(element)?;
    Ok(audio)
}
