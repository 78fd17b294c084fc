//! Declared tools: which the client runs, and which the provider runs by itself.

use super::draft::{Draft, element_name};
use super::error::BodyError;
use super::{SegmentKind, ServerTool, read};
use crate::wire::cursor::{Cursor, Kind};

/// Reads `tools` or `functions`: an array of objects, or `null`.
pub(super) fn read(draft: &mut Draft, cursor: &mut Cursor<'_>, field: &'static str, kind: SegmentKind) -> Result<(), BodyError> {
    let wrong = || BodyError::WrongType { field: field.into(), expected: "an array of objects or null" };
    match cursor.kind()? {
        Kind::Null => return cursor.skip().map(drop),
        Kind::Array => {}
        _ => return Err(wrong()),
    }
    let mut any = false;
    let range = cursor.array(|cursor, index| {
        any = true;
        if cursor.kind()? != Kind::Object {
            return Err(wrong());
        }
        let tool = |cursor: &mut Cursor<'_>, _| {
            if cursor.kind()? != Kind::String {
                return cursor.skip().map(drop);
            }
            if let Some(tool) = server_tool(&cursor.string()?) {
                draft.features.add_server_tool(tool);
            }
            Ok(())
        };
        read::members(cursor, || element_name(field, index), &["type"], tool).map(drop)
    })?;
    if !any {
        return Ok(());
    }
    draft.features.tools = true;
    draft.push(field, kind, range)
}

/// Which server tool a tool's `type` stands for; none for what the client runs, and for what only reorders the declared tools. Types carry
/// dates (`web_search_20250305`, `web_search_preview_2025_03_11`), so prefixes decide. An unknown type is taken for a server tool: better
/// to hold too much than to give something away.
fn server_tool(kind: &str) -> Option<ServerTool> {
    const CLIENT: [&str; 4] = ["function", "custom", "local_shell", "namespace"];
    const CLIENT_PREFIXES: [&str; 7] =
        ["apply_patch", "bash", "browser_toolset", "computer", "memory", "text_editor", "tool_search"];
    const SERVER_PREFIXES: [(&str, ServerTool); 8] = [
        ("web_search", ServerTool::WebSearch),
        ("web_fetch", ServerTool::WebFetch),
        ("code_interpreter", ServerTool::CodeExecution),
        ("code_execution", ServerTool::CodeExecution),
        ("shell", ServerTool::CodeExecution),
        ("file_search", ServerTool::FileSearch),
        ("mcp", ServerTool::Mcp),
        ("image_generation", ServerTool::ImageGeneration),
    ];
    if CLIENT.contains(&kind) || CLIENT_PREFIXES.iter().any(|prefix| kind.starts_with(prefix)) {
        return None;
    }
    let known = SERVER_PREFIXES.iter().find(|(prefix, _)| kind.starts_with(prefix));
    Some(known.map_or(ServerTool::Other, |(_, tool)| *tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_provider_runs_is_a_server_tool() {
        for (kind, right) in [
            ("function", None),
            ("custom", None),
            ("local_shell", None),
            ("apply_patch", None),
            ("computer_use_preview", None),
            ("computer_20250124", None),
            ("bash_20250124", None),
            ("text_editor_20250728", None),
            ("memory_20250818", None),
            ("tool_search_tool_regex_20251119", None),
            ("web_search", Some(ServerTool::WebSearch)),
            ("web_search_preview_2025_03_11", Some(ServerTool::WebSearch)),
            ("web_search_20250305", Some(ServerTool::WebSearch)),
            ("web_fetch_20250910", Some(ServerTool::WebFetch)),
            ("code_interpreter", Some(ServerTool::CodeExecution)),
            ("code_execution_20250825", Some(ServerTool::CodeExecution)),
            ("shell", Some(ServerTool::CodeExecution)),
            ("file_search", Some(ServerTool::FileSearch)),
            ("mcp", Some(ServerTool::Mcp)),
            ("mcp_toolset", Some(ServerTool::Mcp)),
            ("image_generation", Some(ServerTool::ImageGeneration)),
            ("functions", Some(ServerTool::Other)),
            ("browser_search", Some(ServerTool::Other)),
            ("", Some(ServerTool::Other)),
        ] {
            assert_eq!(server_tool(kind), right, "{kind:?}");
        }
    }
}
