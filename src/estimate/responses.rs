//! The Responses API: `instructions` counts as a system message and each input item as a message.

use super::{json::Json, tally::Tally};

impl Tally {
    /// A message of one string: `instructions` (role "system") or a plain `input` (role "user").
    pub(crate) fn responses_text(&mut self, role: &str, text: &Json<'_>) {
        match text {
            Json::Text(text) => {
                self.message();
                self.text(role);
                self.text(text);
            }
            Json::Array(items) => items.iter().for_each(|item| self.responses_item(item)),
            Json::Null => {}
            other => self.responses_item(other),
        }
    }

    /// One element of an `input` list.
    pub(crate) fn responses_item(&mut self, item: &Json<'_>) {
        let Json::Object(members) = item else {
            self.message();
            return self.anything(item);
        };
        match item.str_of("type") {
            "item_reference" => self.unseen(),
            "function_call" | "custom_tool_call" | "mcp_call" | "local_shell_call" | "shell_call" | "computer_call" => {
                self.message();
                self.call(item);
            }
            "image_generation_call" => {
                self.message();
                for (key, value) in members {
                    match (&**key, value.as_str()) {
                        ("result", Some(base64)) => {
                            self.image(Some(super::media::Data { media_type: "image/png", base64 }), super::vision::Detail::Auto)
                        }
                        _ => self.member(key, value),
                    }
                }
            }
            _ => {
                self.message();
                for (key, value) in members {
                    match (&**key, value) {
                        ("role", Json::Text(role)) => self.text(role),
                        _ => self.member(key, value),
                    }
                }
            }
        }
    }

    /// `text`, or its member `format`.
    pub(crate) fn responses_format(&mut self, text: &Json<'_>) {
        match text {
            Json::Object(members) if text.get("type").is_none() => {
                for (key, value) in members {
                    match &**key {
                        "format" => self.format(value),
                        "verbosity" => self.aside(value),
                        _ => self.member(key, value),
                    }
                }
            }
            format => self.format(format),
        }
    }
}
