//! Chat Completions messages and the prompts of legacy completions and embeddings.
//!
//! Each message costs 3 tokens around it, the text of its members, and 1 more where it has a name; the request costs 3 more for the answer's beginning.

use std::{cell::RefCell, fmt};

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer};

use super::{
    json::{self, Json},
    tally::Tally,
};

impl Tally {
    /// One element of `messages`.
    pub(crate) fn chat_message(&mut self, message: &Json<'_>) {
        self.message();
        let Json::Object(members) = message else { return self.anything(message) };
        for (key, value) in members {
            match (&**key, value) {
                (_, Json::Null) => {}
                ("role", Json::Text(role)) => self.text(role),
                ("name", Json::Text(name)) => {
                    self.text(name);
                    self.count.tokens = self.count.tokens.saturating_add_signed(self.family.per_name);
                    self.scaled(0, 4);
                }
                ("content" | "reasoning_content" | "reasoning", _) => self.content(value),
                ("tool_calls", Json::Array(calls)) => calls.iter().for_each(|call| self.call(call)),
                ("function_call", _) => self.call(value),
                ("audio", _) => self.earlier_audio(value),
                _ => self.member(key, value),
            }
        }
    }

    /// `response_format` or `text.format`: free where it is a plain word, else at most its JSON.
    pub(crate) fn format(&mut self, format: &Json<'_>) {
        let plain = match format {
            Json::Object(members) => {
                members.iter().all(|(key, value)| key == "type" && matches!(value.as_str(), Some("text" | "json_object")))
            }
            other => other.is_void(),
        };
        if plain {
            self.scaled(0, 16);
        } else {
            self.rendered(format);
            self.scaled(0, 32);
        }
    }

    /// A prompt or an embedding input: text, token ids, or lists of either. Token ids count exactly and are not kept, so long lists cost no memory.
    pub(crate) fn prompt(&mut self, json: &[u8]) -> Result<(), json::ParseError> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let tally = RefCell::new(self);
        Prompt { tally: &tally }
            .deserialize(&mut deserializer)
            .and_then(|()| deserializer.end())
            .map_err(json::ParseError::Malformed)
    }
}

/// Counts while it reads.
#[derive(Clone, Copy)]
struct Prompt<'c, 't> {
    tally: &'c RefCell<&'t mut Tally>,
}

impl<'de> DeserializeSeed<'de> for Prompt<'_, '_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Prompt<'_, '_> {
    fn token(self) {
        self.tally.borrow_mut().scaled(1, 1);
    }
}

impl<'de> Visitor<'de> for Prompt<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or tokens")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.token();
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.token();
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.token();
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.token();
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.tally.borrow_mut().text(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        // Multimodal inputs of compatible servers.
        let value = json::read(MapAccessDeserializer::new(map))?;
        self.tally.borrow_mut().part(&value);
        Ok(())
    }
}
