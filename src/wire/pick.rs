//! Takes named members out of JSON text without building a tree.
//!
//! A reply may be megabytes of floats of which two numbers matter. These helpers borrow what is asked for and skip the rest, and they
//! are lenient where a typed `Deserialize` is not: a member that is doubled, missing or of another type than expected is no error.

use super::cursor::Cursor;
use super::request::BodyError;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The raw text of the members called `names` of the JSON object `json`, in that order.
///
/// A member that is absent or `null` is `None`; of a doubled one the last that is not `null` counts. The whole is `None` when `json`
/// is anything but one complete object.
pub(crate) fn pick<'a, const N: usize>(json: &'a str, names: [&str; N]) -> Option<[Option<&'a str>; N]> {
    strictly(json, &names).ok().flatten().or_else(|| leniently(json, names))
}

/// As [`pick`], in one quick pass. `Err` or `None`: what it does not take (nesting beyond its depth, lone surrogates) may be an object all
/// the same.
fn strictly<'a, const N: usize>(json: &'a str, names: &[&str; N]) -> Result<Option<[Option<&'a str>; N]>, BodyError> {
    let mut cursor = Cursor::new(json, 0);
    let mut found = [None; N];
    cursor.object(|cursor, key| {
        let value = cursor.skip()?;
        if let Some(slot) = names.iter().position(|name| *name == key).and_then(|at| found.get_mut(at)) {
            let value = cursor.slice(&value);
            if value != "null" {
                *slot = Some(value);
            }
        }
        Ok(())
    })?;
    Ok(cursor.at_end().then_some(found))
}

/// As [`pick`], by a parser that takes whatever a provider's may write.
fn leniently<'a, const N: usize>(json: &'a str, names: [&str; N]) -> Option<[Option<&'a str>; N]> {
    let mut parser = serde_json::Deserializer::from_str(json);
    let found = parser.deserialize_map(Members(&names)).ok()?;
    parser.end().ok()?;
    Some(found)
}

/// The raw text of the items of a JSON array; none when `json` is anything else.
pub(crate) fn items(json: &str) -> impl Iterator<Item = &str> {
    serde_json::from_str::<Vec<&RawValue>>(json).unwrap_or_default().into_iter().map(RawValue::get)
}

/// The content of a JSON string; `None` when `json` is another kind of value.
///
/// A string with a lone surrogate has no meaning as text; it is given as it is spelled, escapes and all.
pub(crate) fn string(json: &str) -> Option<Cow<'_, str>> {
    let spelled = json.strip_prefix('"')?.strip_suffix('"')?;
    if spelled.contains('\\') {
        return Some(serde_json::from_str(json).map_or(Cow::Borrowed(spelled), Cow::Owned));
    }
    Some(Cow::Borrowed(spelled))
}

/// Visits an object and keeps the members with these names.
struct Members<'n, const N: usize>(&'n [&'n str; N]);

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = [Option<&'de str>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(position) = map.next_key_seed(Position(self.0))? {
            match position.and_then(|at| found.get_mut(at)) {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(slot) => {
                    let value = map.next_value::<&RawValue>()?.get();
                    if value != "null" {
                        *slot = Some(value);
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Reads a key as its position among the names, so that no key is ever allocated.
struct Position<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Position<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Position<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| *name == key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// JSON, often with something wrong, always of the same few members.
    fn texts() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("-1.5e3".to_owned()),
            Just("\"a\\\"b\"".to_owned()),
            Just("\"\\ud83c\"".to_owned()),
            Just("01".to_owned()),
            "[a-z\\\\\"]{0,3}",
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let member = ("[ab]", inner.clone()).prop_map(|(key, value)| format!("\"{key}\" : {value}"));
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(" ,"))),
            ]
        })
    }

    proptest! {
        /// The quick way finds what the other one finds, or nothing at all.
        #[test]
        fn both_ways_agree(json in texts()) {
            let slow = leniently(&json, ["a", "b"]);
            if let Ok(Some(quick)) = strictly(&json, &["a", "b"]) {
                prop_assert_eq!(Some(quick), slow);
            }
            prop_assert_eq!(pick(&json, ["a", "b"]), slow);
        }
    }

    #[test]
    fn what_only_the_lenient_way_takes_is_taken() {
        let deep = format!("{{\"x\":{}{},\"a\":1}}", "[".repeat(200), "]".repeat(200));
        for json in [deep.as_str(), r#"{"x":"\ud83c","a":1}"#] {
            assert!(!matches!(strictly(json, &["a"]), Ok(Some(_))), "{json}");
            assert_eq!(pick(json, ["a"]), Some([Some("1")]), "{json}");
        }
    }

    #[test]
    fn members_come_back_raw_in_the_order_asked() {
        let json = r#" {"a": {"b":[1, 2]} ,"c":null,"d":"x","a\u0062":3,"d":"y","d":null} "#;
        assert_eq!(pick(json, ["d", "a", "c", "ab", "z"]), Some([Some("\"y\""), Some(r#"{"b":[1, 2]}"#), None, Some("3"), None]));
    }

    #[test]
    fn anything_but_one_whole_object_is_nothing() {
        for json in ["", "1", "[]", "null", "{\"a\":1", "{\"a\":1} x", "{\"a\":1,}", "{bad"] {
            assert_eq!(pick(json, ["a"]), None, "{json}");
        }
    }

    #[test]
    fn strings_are_unescaped_and_only_strings() {
        for (json, want) in [
            (r#""hi""#, Some("hi")),
            (r#""a\n\u5317""#, Some("a\n北")),
            (r#""""#, Some("")),
            (r#""\ud83c""#, Some(r"\ud83c")),
            ("1", None),
            ("{}", None),
            ("\"", None),
        ] {
            assert_eq!(string(json).as_deref(), want, "{json}");
        }
        assert_eq!(items("[1, \"a\",{}]").collect::<Vec<_>>(), ["1", "\"a\"", "{}"]);
        assert_eq!(items("{}").count(), 0);
    }
}
