//! Counts against the references, and that no input takes for ever.

use super::Encoding::{Cl100k, O200k};
use proptest::prelude::*;

fn both(text: &str) -> (u64, u64) {
    (O200k.count(text), Cl100k.count(text))
}

#[test]
fn golden_vectors() {
    let family = "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}";
    let harmony = "<|start|>assistant<|channel|>final<|message|>";
    for (text, o200k, cl100k) in [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("Hello, world!", 4, 4),
        ("The quick brown fox jumps over the lazy dog.", 10, 10),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 8, 9),
        (r#"{"a":1,"b":[true,null]}"#, 10, 10),
        ("fn main() {\n    println!(\"hi\");\n}\n", 10, 10),
        ("北京", 1, 1),
        (family, 11, 18),
        ("<|endoftext|>", 7, 7),
        ("<|im_start|>", 6, 6),
        ("<|endofprompt|>", 7, 7),
    ] {
        assert_eq!(both(text), (o200k, cl100k), "{text:?}");
    }
    assert_eq!(O200k.count(harmony), 17);
}

#[test]
fn repeated_characters_count_as_the_reference_does() {
    for (unit, times, o200k, cl100k) in [
        ("A", 100_000, 12_500, 12_500),
        ("^", 100_000, 12_500, 25_000),
        (" ", 100_000, 782, 782),
        ("\n", 100_000, 6_250, 3_125),
        ("\u{12000}", 100, 400, 400),
        ("\u{10FFFF}", 10, 40, 40),
        ("ğ", 100, 100, 100),
        ("\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{200D}\u{1F466}", 100, 1_100, 1_800),
    ] {
        assert_eq!(both(&unit.repeat(times)), (o200k, cl100k), "{unit:?} x {times}");
    }
    assert_eq!(O200k.count(&"a".repeat(1_000_000)), 125_000);
    assert_eq!(O200k.count(&"<|endoftext|>".repeat(1_000)), 6_001);
}

#[test]
fn long_hostile_runs_neither_panic_nor_take_for_ever() {
    let spaces = " ".repeat(2_000_000);
    for (text, at_most) in [
        (format!("{spaces}x"), 2_000_000 / 100),
        (spaces, 2_000_000 / 100),
        ("\n".repeat(1_000_000), 62_500),
        ("\t \t".repeat(350_000), 350_000),
        ("7".repeat(1_000_000), 333_334),
        ("/".repeat(1_000_000), 62_500),
    ] {
        for encoding in [O200k, Cl100k] {
            let tokens = encoding.count(&text);
            assert!(tokens > 0 && tokens <= at_most, "{tokens} of {}", text.len());
        }
    }
    let mixed = "\t \t".repeat(1_000);
    assert_eq!(O200k.count(&mixed), tiktoken_rs::o200k_base_singleton().encode_ordinary(&mixed).len() as u64);
}

/// Long runs that are looked through for nothing: what follows them, or is strewn into them, is not in our tables, so the library begins again.
#[test]
fn runs_that_end_with_the_unknown_cost_no_more_than_twice() {
    let unknown = '\u{301}';
    let runs = [" ", "a", "A", "7", "!", "文A", "文", "A文", "aB", "\n ", "'s", " a", unknown.encode_utf8(&mut [0; 4])]
        .map(|unit| unit.repeat(100_000));
    for run in runs {
        for text in [format!("{run}{unknown}"), format!("\n{run}{unknown}"), format!("文{run}{unknown}{run}")] {
            for encoding in [O200k, Cl100k] {
                assert_eq!(encoding.count(&text), encoding.tokenizer().count(&text) as u64);
            }
        }
    }
}

#[test]
fn a_megabyte_of_noise_counts_as_the_library_counts_it() {
    let mut random = fastrand::Rng::with_seed(11);
    let bytes: Vec<u8> = (0..1_000_000).map(|_| random.u8(..)).collect();
    let ascii: String = bytes.iter().map(|byte| char::from(byte & 127)).collect();
    for text in [String::from_utf8_lossy(&bytes).into_owned(), ascii] {
        for encoding in [O200k, Cl100k] {
            assert_eq!(encoding.count(&text), encoding.tokenizer().count(&text) as u64);
        }
    }
}

/// Ten times as many different words as are remembered, so that all places change hands, and each of them twice.
#[test]
fn words_that_come_again_count_as_they_did() {
    let mut random = fastrand::Rng::with_seed(13);
    let words: Vec<String> = (0..40_000).map(|_| (0..random.usize(1..18)).map(|_| random.lowercase()).collect()).collect();
    for encoding in [O200k, Cl100k, O200k] {
        for word in &words {
            let tokens = encoding.tokenizer().count(word) as u64;
            assert_eq!((encoding.count(word), encoding.count(word)), (tokens, tokens), "{word}");
        }
        let text = words.join(" ");
        assert_eq!(encoding.count(&text), encoding.tokenizer().count(&text) as u64);
    }
}

#[test]
fn random_letters_cost_about_half_a_token_each() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut letters = |n: usize| -> String { (0..n).map(|_| random.lowercase()).collect() };
    let short = O200k.count(&letters(100_000));
    assert!((51_000..52_600).contains(&short), "{short}");
    let long = O200k.count(&letters(1_000_000));
    assert!((510_000..526_000).contains(&long), "{long}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn agrees_with_the_reference_on_any_text(text in prop_oneof![
        "\\PC{0,60}",
        any::<String>(),
        "([ \t\r\n\u{a0}\u{3000}]{0,6}[a-zA-Z0-9'sSſtdé\u{301}/.^]{0,6}){0,12}",
        "([ \t\r\n]{0,3}([A-Za-z]{0,9}('[sS]|'[lL][lL]|'re)?|[0-9]{1,5}|[!-/:-@]{1,3})){0,30}",
        "([ \n]?[一-龥ぁ-ヿ가-힣А-яÀ-ž]{0,6}[‘’“”—、。！]?[A-Za-z']{0,4}){0,12}",
    ]) {
        prop_assert_eq!(O200k.count(&text), tiktoken_rs::o200k_base_singleton().encode_ordinary(&text).len() as u64);
        prop_assert_eq!(Cl100k.count(&text), tiktoken_rs::cl100k_base_singleton().encode_ordinary(&text).len() as u64);
    }
}
