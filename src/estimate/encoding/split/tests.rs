//! Pieces against the library's, one by one: counts alone could agree by chance.

use super::{super::Encoding, class, end};
use proptest::prelude::*;

const BOTH: [Encoding; 2] = [Encoding::Cl100k, Encoding::O200k];

/// The pieces of `text` as it is split here, the library asked where it has to be.
fn pieces(encoding: Encoding, text: &str) -> Vec<&str> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let end = end(encoding, text, at).unwrap_or_else(|| at + library(encoding, &text[at..])[0].len());
        pieces.push(&text[at..end]);
        at = end;
    }
    pieces
}

fn library(encoding: Encoding, text: &str) -> Vec<&str> {
    encoding.tokenizer().split(text).collect()
}

#[track_caller]
fn agree(text: &str) {
    for encoding in BOTH {
        assert_eq!(pieces(encoding, text), library(encoding, text), "{encoding:?} of {text:?}");
    }
}

#[test]
fn each_rule_by_hand() {
    for (text, cl100k, o200k) in [
        ("it's", vec!["it", "'s"], vec!["it's"]),
        ("IT'Save", vec!["IT", "'S", "ave"], vec!["IT'S", "ave"]),
        ("we'red", vec!["we", "'re", "d"], vec!["we're", "d"]),
        ("we'x", vec!["we", "'x"], vec!["we", "'x"]),
        ("'round", vec!["'round"], vec!["'round"]),
        ("'tis", vec!["'t", "is"], vec!["'tis"]),
        ("fooBarBAZ", vec!["fooBarBAZ"], vec!["foo", "Bar", "BAZ"]),
        ("BAZfoo", vec!["BAZfoo"], vec!["BAZfoo"]),
        ("AB文CD", vec!["AB文CD"], vec!["AB文", "CD"]),
        ("1234 5", vec!["123", "4", " ", "5"], vec!["123", "4", " ", "5"]),
        ("a  b", vec!["a", " ", " b"], vec!["a", " ", " b"]),
        ("a \n  b", vec!["a", " \n", " ", " b"], vec!["a", " \n", " ", " b"]),
        ("a\tb  ", vec!["a", "\tb", "  "], vec!["a", "\tb", "  "]),
        ("x //\n/y", vec!["x", " //\n", "/y"], vec!["x", " //\n/", "y"]),
        ("\t!", vec!["\t", "!"], vec!["\t", "!"]),
        ("\u{a0}é\u{3000}\u{3000}!", vec!["\u{a0}é", "\u{3000}", "\u{3000}", "!"], vec!["\u{a0}é", "\u{3000}", "\u{3000}", "!"]),
    ] {
        assert_eq!(pieces(Encoding::Cl100k, text), cl100k);
        assert_eq!(pieces(Encoding::O200k, text), o200k);
        agree(text);
    }
}

/// Every text of up to four characters of each kind, and longer ones of those that contractions and lines are made of.
#[test]
fn all_short_texts() {
    fn each(alphabet: &[char], most: usize, text: &mut String) {
        agree(text);
        if most > 0 {
            for &character in alphabet {
                text.push(character);
                each(alphabet, most - 1, text);
                text.pop();
            }
        }
    }
    let kinds = ['a', 'B', '\'', ' ', '\t', '\n', '7', '!', '/', 'é', 'Д', '文', '\u{301}', '\u{a0}', '\u{1c5}'];
    each(&kinds, 4, &mut String::new());
    each(&['\'', 's', 'R', 'e', 'L', 'ſ'], 5, &mut String::new());
    each(&[' ', '\r', '\n', 'x', '\u{2003}'], 6, &mut String::new());
}

#[test]
fn every_character_of_the_tables() {
    let mut known = 0;
    for c in '\0'..=char::MAX {
        if class::of(c) != class::UNKNOWN {
            known += 1;
            agree(&format!("a{c}A{c}a {c}A1{c}1!{c}\n{c}  {c}b'{c}'s {c}{c} 's{c}É{c}文{c}"));
            agree(&format!("  {c}"));
            agree(&format!("{c}{c}{c}{c}"));
        }
    }
    assert!(known > 40_000, "{known}");
}

#[test]
fn ascii_and_what_is_in_the_tables_never_asks_the_library() {
    let mut text: String = ('\0'..='\x7f').collect();
    text += "“Ça va?” — „Größe“, Łódź, żółć, Москва, Ελλάδα, שלום, 東京タワー、 서울. 5€ → ½ 🙂";
    for encoding in BOTH {
        let mut at = 0;
        while at < text.len() {
            at = end(encoding, &text, at).unwrap_or_else(|| panic!("asked at {:?}", &text[at..]));
        }
    }
}

fn stretch() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,12}",
        "[A-Za-z]{1,8}",
        "[A-Z]{1,6}[a-z]{0,6}",
        "(?i)[a-z]{0,3}'(s|t|re|ve|m|ll|d|r|l|v|x)[a-z]{0,2}",
        "[0-9]{1,9}",
        "[ \t\r\n\x0b\x0c]{1,8}",
        " {1,40}",
        "[!-/:-@\\[-`{-~]{1,6}[\r\n/]{0,4}",
        "[\x00-\x7f]{1,6}",
        "[À-ſͰ-ϿЀ-џ]{1,6}",
        "[\u{2000}-\u{206f}\u{a0}\u{85}\u{3000}]{1,4}",
        "[一-龥ぁ-ヿ가-힣]{1,6}",
        "[\\p{M}\\p{Lm}\\p{Lt}\\p{Nl}\\p{No}]{1,3}",
        "\\PC{1,4}",
        any::<char>().prop_map(String::from),
        "'[ſsSK]",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn any_text(stretches in prop::collection::vec(stretch(), 0..12)) {
        agree(&stretches.concat());
    }
}
