//! A JSON value that borrows its strings, for walking over pieces whose shape is the client's choice.
//!
//! Members keep their order and duplicates keep all their values, so a key given twice is counted twice. The number of values is bounded, because a
//! list of empty lists would otherwise take ten times the memory of the body.

use std::{borrow::Cow, cell::Cell, fmt};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::Number;

/// More values than any honest message, tool list or schema has.
const MAX_VALUES: usize = 100_000;

/// A parsed value.
#[derive(Clone, Debug)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Why there is no tree.
#[derive(Debug)]
pub(crate) enum ParseError {
    /// The value has more than 100,000 parts.
    TooManyValues,
    /// The value is not valid: a lone surrogate, bytes that are not UTF-8, nesting over 128 levels.
    Malformed(serde_json::Error),
}

/// Reads a value out of a deserializer that is under way, within the same bound.
pub(crate) fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Json<'de>, D::Error> {
    Tree { left: &Cell::new(MAX_VALUES) }.deserialize(deserializer)
}

impl<'a> Json<'a> {
    /// Parses one whole value.
    pub(crate) fn parse(json: &'a [u8]) -> Result<Self, ParseError> {
        let left = Cell::new(MAX_VALUES);
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let value = Tree { left: &left }.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
        value.map_err(|error| if left.get() == 0 { ParseError::TooManyValues } else { ParseError::Malformed(error) })
    }

    /// The member `key` of an object; of several the last, as parsers do.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a string.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text of the member `key`, or "".
    pub(crate) fn str_of(&self, key: &str) -> &str {
        self.get(key).and_then(Self::as_str).unwrap_or_default()
    }

    /// Whether the value says nothing: null, an empty list or an empty object.
    pub(crate) fn is_void(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Array(items) => items.is_empty(),
            Self::Object(members) => members.is_empty(),
            _ => false,
        }
    }

    /// The value as compact JSON, characters outside ASCII not escaped: about what providers show to the model.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        self.render_into(&mut out);
        out
    }

    fn render_into(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::Text(text) => quote(text, out),
            Self::Array(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.render_into(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (n, (key, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    quote(key, out);
                    out.push(':');
                    value.render_into(out);
                }
                out.push('}');
            }
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).expect("a string always serialises"));
}

/// A string that borrows from the body where it has no escapes. (serde borrows a `Cow` only inside such a wrapper.)
#[derive(Deserialize)]
struct Str<'a>(#[serde(borrow)] Cow<'a, str>);

/// Builds a [`Json`], counting down the values that are left.
#[derive(Clone, Copy)]
struct Tree<'l> {
    left: &'l Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Json<'de>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let Some(left) = self.left.get().checked_sub(1).filter(|left| *left > 0) else {
            self.left.set(0);
            return Err(D::Error::custom("too many values"));
        };
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(Str(key)) = map.next_key()? {
            members.push((key, map.next_value_seed(self)?));
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_compactly_in_order_with_duplicates_and_without_needless_escapes() {
        let json =
            Json::parse(br#" { "b" : [ 1 , -2, 0.5, true, null ], "a": "caf\u00e9 \"x\"\n", "a": {} } "#).expect("valid JSON");
        assert_eq!(json.render(), r#"{"b":[1,-2,0.5,true,null],"a":"café \"x\"\n","a":{}}"#);
        assert!(json.get("a").expect("a member").is_void(), "the last of two wins");
    }

    #[test]
    fn strings_borrow_from_the_body() {
        let Ok(Json::Object(members)) = Json::parse(br#"{"k":"plain","e":"a\nb"}"#) else { panic!("an object") };
        assert!(matches!(&members[0], (Cow::Borrowed("k"), Json::Text(Cow::Borrowed("plain")))));
        assert!(matches!(&members[1], (_, Json::Text(Cow::Owned(text))) if text == "a\nb"));
    }

    #[test]
    fn malformed_values_are_errors_and_deep_ones_do_not_overflow_the_stack() {
        let deep = "[".repeat(100_000);
        for json in [r#""\ud83d""#, r#""\ude00""#, "", "{", "1 2", &deep] {
            assert!(matches!(Json::parse(json.as_bytes()), Err(ParseError::Malformed(_))), "{json:.20}");
        }
        assert!(matches!(Json::parse(b"\"\xff\""), Err(ParseError::Malformed(_))));
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let wide = |n: usize| format!("[{}1]", "1,".repeat(n - 2));
        assert!(Json::parse(wide(MAX_VALUES - 1).as_bytes()).is_ok());
        assert!(matches!(Json::parse(wide(MAX_VALUES + 1).as_bytes()), Err(ParseError::TooManyValues)));
    }
}
