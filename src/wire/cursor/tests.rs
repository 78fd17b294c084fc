//! The grammar, the bounds, and agreement with another parser.

use super::strings::plain_bytes;
use super::*;
use proptest::prelude::*;

fn valid(text: &str) -> Step<()> {
    let mut cursor = Cursor::new(text, 0);
    cursor.skip()?;
    if cursor.at_end() { Ok(()) } else { Err(BodyError::TrailingData { at: cursor.offset() }) }
}

#[test]
fn the_grammar_is_strict() {
    for text in [
        "{}",
        "[]",
        " [ ] ",
        "{\"a\":{}}",
        "[[],{},\"\",0,-0,1.5e+3,1E-2,true,false,null]",
        "{\"a\" : [ 1 , 2 ] , \"b\":\"\"}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"é\u{7f}\"",
        "1e400",
    ] {
        assert_eq!(valid(text), Ok(()), "{text}");
    }
    for text in [
        "",
        "{",
        "[",
        "[1",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{a:1}",
        "{1:1}",
        "[}",
        "{]",
        "[1}",
        "{\"a\":1]",
        "nul",
        "True",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "NaN",
        "Infinity",
        "'a'",
        "\"a",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12",
        "\"a\tb\"",
        "1 1",
        "{}x",
        "\"\\",
        "[\"a\\\"]",
        "{} // c",
        "{}\0",
    ] {
        assert!(valid(text).is_err(), "{text}");
    }
}

#[test]
fn half_a_surrogate_pair_is_found_wherever_it_stands() {
    for text in [
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83d\\n\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\ud83d\"",
        "\"\\ude00\\ud83d\"",
        "{\"\\ud83d\":1}",
    ] {
        assert!(matches!(valid(text), Err(BodyError::LoneSurrogate { .. })), "{text}");
    }
}

#[test]
fn depth_is_counted_exactly_and_without_recursion() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(valid(&nested(128)), Ok(()));
    assert_eq!(valid(&nested(129)), Err(BodyError::TooDeep));
    let objects = |levels: usize| format!("{}0{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    assert_eq!(valid(&objects(128)), Ok(()));
    assert_eq!(valid(&objects(129)), Err(BodyError::TooDeep));
    assert_eq!(valid(&"[".repeat(10_000_000)), Err(BodyError::TooDeep));
}

#[test]
fn a_visited_text_is_read_like_a_skipped_one() {
    let text = " {\"a\\u0062\" : [1, {\"x\":[]}, \"\\n\"] , \"c\":{} } ";
    let mut cursor = Cursor::new(text, 0);
    let mut seen = Vec::new();
    let span = cursor
        .object(|cursor, key| {
            if cursor.kind()? == Kind::Array {
                let range = cursor.array(|cursor, _| cursor.skip().map(|range| seen.push(cursor.slice(&range).to_owned())))?;
                seen.push(cursor.slice(&range).to_owned());
            } else {
                assert!(cursor.object(|_, _| Ok(()))?.empty);
            }
            seen.push(key.into_owned());
            Ok(())
        })
        .expect("valid");
    assert_eq!(seen, ["1", "{\"x\":[]}", "\"\\n\"", "[1, {\"x\":[]}, \"\\n\"]", "ab", "c"]);
    assert_eq!(span, ObjectSpan { range: 1..text.len() - 1, empty: false });
    assert!(cursor.at_end());
}

proptest! {
    #[test]
    fn plain_bytes_stop_at_the_first_special_one(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let slow = bytes.iter().position(|b| *b < 0x20 || *b == b'"' || *b == b'\\').unwrap_or(bytes.len());
        prop_assert_eq!(plain_bytes(&bytes), slow);
    }

    #[test]
    fn serde_agrees_on_what_is_json(text in "[\\[\\]{}:,\"a\\\\un0-9.eE+ -]{0,12}|\\PC{0,12}") {
        prop_assert_eq!(valid(&text).is_ok(), serde_json::from_str::<Box<serde_json::value::RawValue>>(&text).is_ok());
    }
}
