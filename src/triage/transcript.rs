//! A conversation as text for the person who takes over: who said what, without images, files or anything of the head of the request.

use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// How much of the name of a part that is no text is repeated.
const KIND: usize = 40;

/// The parts of a body of any chat route that people can read.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    messages: Option<Messages<'a>>,
    #[serde(borrow, default)]
    input: Option<Messages<'a>>,
    #[serde(borrow, default)]
    prompt: Option<Messages<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Messages<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    List(#[serde(borrow)] Vec<Message<'a>>),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Message<'a> {
    Said {
        #[serde(borrow, default)]
        role: Option<Cow<'a, str>>,
        #[serde(borrow)]
        content: Content<'a>,
    },
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Parts(#[serde(borrow)] Vec<Part<'a>>),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Part<'a> {
    Text {
        #[serde(borrow)]
        text: Cow<'a, str>,
    },
    Kind {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    },
    Other(IgnoredAny),
}

/// What was said in a request's body, one paragraph a message, at most the last `most` bytes; instructions of the application (the roles
/// `system` and `developer`) are left out, since they are not the customer's. A body that is none of a chat gives an empty text.
#[must_use]
pub fn transcript(body: &[u8], most: usize) -> String {
    let Ok(body) = serde_json::from_slice::<Body<'_>>(body) else { return String::new() };
    let mut paragraphs = Vec::new();
    for messages in [body.messages, body.input, body.prompt].into_iter().flatten() {
        match messages {
            Messages::Text(text) => paragraphs.push(format!("user: {text}")),
            Messages::List(list) => paragraphs.extend(list.iter().filter_map(paragraph)),
            Messages::Other(_) => {}
        }
    }
    // From the end, so that a long history is not joined only to be cut.
    let (mut kept, mut length) = (Vec::new(), 0);
    for paragraph in paragraphs.into_iter().rev() {
        length += paragraph.len() + 2;
        kept.push(paragraph);
        if length > most {
            break;
        }
    }
    kept.reverse();
    super::Text::end_of(&kept.join("\n\n"), most).text
}

fn paragraph(message: &Message<'_>) -> Option<String> {
    match message {
        Message::Said { role, content } => {
            let role = role.as_deref().unwrap_or("user");
            let said = content.said();
            (!matches!(role, "system" | "developer") && !said.is_empty())
                .then(|| format!("{}: {said}", role.chars().take(KIND).collect::<String>()))
        }
        Message::Text(text) => Some(format!("user: {text}")),
        Message::Other(_) => None,
    }
}

impl Content<'_> {
    fn said(&self) -> String {
        match self {
            Self::Text(text) => text.to_string(),
            Self::Parts(parts) => parts.iter().filter_map(Part::said).collect::<Vec<_>>().join("\n"),
            Self::Other(_) => String::new(),
        }
    }
}

impl Part<'_> {
    fn said(&self) -> Option<String> {
        match self {
            Self::Text { text } => Some(text.to_string()),
            Self::Kind { kind } => Some(format!("[{}]", kind.chars().take(KIND).collect::<String>())),
            Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_was_said_on_every_chat_route() {
        for (body, right) in [
            (
                r#"{"messages":[{"role":"system","content":"be nice"},{"role":"user","content":"Where\nis it?"},
                   {"role":"assistant","content":null,"tool_calls":[]},{"role":"user","content":[{"type":"text","text":"Here"},
                   {"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}"#,
                "user: Where\nis it?\n\nuser: Here\n[image_url]",
            ),
            (r#"{"input":"hi"}"#, "user: hi"),
            (
                r#"{"input":[{"role":"developer","content":"x"},{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}"#,
                "user: hi",
            ),
            (r#"{"prompt":["one","two"]}"#, "user: one\n\nuser: two"),
            (r#"{"system":"s","messages":[{"role":"user","content":"é\u00e9"}]}"#, "user: éé"),
            (r#"{"messages":7,"input":{"a":1}}"#, ""),
            ("no JSON", ""),
        ] {
            assert_eq!(transcript(body.as_bytes(), 1_000), right, "{body}");
        }
    }

    #[test]
    fn a_long_conversation_keeps_its_end_from_a_character_on() {
        let body =
            serde_json::json!({ "messages": [{ "role": "user", "content": "first" }, { "role": "user", "content": "ééé?" }] });
        let body = body.to_string();
        for (most, right) in [(100, "user: first\n\nuser: ééé?"), (13, "user: ééé?"), (6, "éé?"), (1, "?"), (0, "")] {
            assert_eq!(transcript(body.as_bytes(), most), right, "{most} bytes");
        }
    }
}
