//! Damaged bytes for everything that reads what others wrote.
//!
//! A corpus of interesting inputs is kept under `tests/corpus`, a directory per reader; whatever once broke a reader belongs there. Every
//! file is read as it is, and then damaged in a few random places, many times (`PROPTEST_CASES` says how often). Readers with a grammar of
//! their own have properties next to them as well: request bodies and streams in `src/wire`, journal records and store replies in
//! `src/store`.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::cell::Cell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tollgate::config::{Env, Policy, Source};
use tollgate::domain::id::{CustomerId, IdError};
use tollgate::pricing::PriceTable;
use tollgate::wire::edit::Edits;
use tollgate::wire::error::{ErrorBody, UpstreamError, read, render};
use tollgate::wire::meter::{Meter, MeterOptions, Summary};
use tollgate::wire::request::parse;
use tollgate::wire::{Api, Dialect};

const APIS: [Api; 6] = [Api::Chat, Api::Responses, Api::Completions, Api::Embeddings, Api::Messages, Api::CountTokens];

/// A change to some bytes.
#[derive(Clone, Debug)]
enum Damage {
    Set(Index, u8),
    Remove(Index, usize),
    Repeat(Index, usize),
    Insert(Index, &'static str),
    Cut(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let words = select(vec![
        "\0",
        "\"",
        "\\u0000",
        "\\ud83d",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\n",
        "\r",
        "\n\n",
        "null",
        "-1",
        "1e999",
        "9007199254740993",
        "0.1",
        "nan",
        "data: ",
        "event: ",
        "[DONE]",
        "\u{feff}",
        "é",
        "@a.b",
        "= ",
        "#",
        "'''",
        "__",
    ]);
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, n)| Damage::Remove(at, n)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, n)| Damage::Repeat(at, n)),
        (any::<Index>(), words).prop_map(|(at, word)| Damage::Insert(at, word)),
        any::<Index>().prop_map(Damage::Cut),
    ]
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        match damage {
            Damage::Set(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Damage::Set(..) => {}
            Damage::Remove(at, n) => {
                let at = at.index(bytes.len() + 1);
                bytes.drain(at..bytes.len().min(at + n));
            }
            Damage::Repeat(at, n) => {
                let at = at.index(bytes.len() + 1);
                let again = bytes[at..bytes.len().min(at + n)].to_vec();
                bytes.splice(at..at, again);
            }
            Damage::Insert(at, word) => {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, word.bytes());
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len() + 1)),
        }
    }
    bytes
}

/// Every file of a directory as it is, then damaged. What it finds belongs into the directory: the failing bytes are printed.
///
/// `holds` says whether the bytes were read rather than refused: of each kind there must be some, or it would check nothing.
fn corpus(directory: &str, cases: u32, holds: impl Fn(&[u8]) -> Result<bool, TestCaseError>) {
    let (was_read, was_refused) = (Cell::new(0_u32), Cell::new(0_u32));
    let holds = |bytes: &[u8]| {
        let read = holds(bytes)?;
        let count = if read { &was_read } else { &was_refused };
        count.set(count.get() + 1);
        Ok::<_, TestCaseError>(())
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(directory);
    let mut files: Vec<_> = path.read_dir().expect("a corpus").map(|file| file.expect("readable").path()).collect();
    files.sort();
    let files: Vec<_> = files.iter().map(|file| std::fs::read(file).expect("readable")).collect();
    assert!(files.len() >= 3, "{directory} has its corpus");
    for file in &files {
        holds(file).unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(file)));
    }
    let config = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { config.cases } else { cases };
    let config = Config { cases, failure_persistence: None, ..config };
    let inputs = (0..files.len(), proptest::collection::vec(damage(), 1..6));
    let result = TestRunner::new(config).run(&inputs, |(file, damages)| {
        let bytes = damaged(files[file].clone(), &damages);
        holds(&bytes).map_err(|error| TestCaseError::fail(format!("{error}: {:?}", String::from_utf8_lossy(&bytes))))
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let (read, refused) = (was_read.get(), was_refused.get());
    assert!(read.min(refused) >= cases / 50, "{read} of the inputs in {directory} were read, {refused} refused");
}

#[test]
fn a_request_that_is_read_is_read_the_same_after_an_edit() {
    let edits = Edits {
        model: Some("\"é".into()),
        output_cap: Some(7),
        include_usage: true,
        user_id: Some("u".into()),
        ..Edits::default()
    };
    corpus("requests", 3_000, |bytes| {
        let mut read = false;
        for api in APIS {
            let Ok(request) = parse(api, bytes) else { continue };
            read = true;
            let changed = request.apply(&Bytes::copy_from_slice(bytes), &edits);
            let after = parse(api, &changed).map_err(|error| TestCaseError::fail(format!("{api:?} after the edit: {error}")))?;
            prop_assert_eq!(&after.model, "\"é");
            prop_assert_eq!(after.segments.len(), request.segments.len());
            for (before, after) in request.segments.iter().zip(&after.segments) {
                prop_assert_eq!(&bytes[before.range.clone()], &changed[after.range.clone()], "the prompt's own bytes");
            }
            let capped = matches!(api, Api::Chat | Api::Responses | Api::Completions | Api::Messages);
            prop_assert_eq!(after.output_cap, if capped { Some(7) } else { request.output_cap });
            let again = after.apply(&changed, &edits);
            prop_assert_eq!(again, changed, "a second edit has nothing to do");
        }
        Ok(read)
    });
}

#[test]
fn replies_pass_unchanged_and_are_read_the_same_however_they_arrive() {
    let pass = |api, declared: bool, pieces: &[&[u8]]| -> (Vec<u8>, Summary) {
        let options = MeterOptions { api, hide_usage_chunk: false, count: Arc::new(|text| text.len() as u64) };
        let mut meter = Meter::for_reply(options, declared.then_some("text/event-stream"));
        let mut out = VecDeque::new();
        pieces.iter().for_each(|piece| meter.feed(Bytes::copy_from_slice(piece), &mut out));
        meter.finish(&mut out);
        (out.iter().flatten().copied().collect(), meter.summary())
    };
    corpus("replies", 1_500, |bytes| {
        let mut read = false;
        for (api, declared) in APIS.into_iter().flat_map(|api| [(api, true), (api, false)]) {
            let (whole, summary) = pass(api, declared, &[bytes]);
            prop_assert_eq!(&whole, bytes);
            let thirds: Vec<&[u8]> = bytes.chunks(bytes.len() / 3 + 1).collect();
            let (pieces, same) = pass(api, declared, &thirds);
            prop_assert_eq!(pieces, whole);
            read |= summary.usage.is_some();
            prop_assert_eq!(same, summary);
        }
        Ok(read)
    });
}

#[test]
fn a_providers_error_is_bounded_and_reads_back_when_we_send_it() {
    corpus("errors", 3_000, |bytes| {
        let mut read_something = false;
        for (dialect, status) in [(Dialect::OpenAi, 429), (Dialect::Anthropic, 529), (Dialect::OpenAi, 0)] {
            let error = read(dialect, status, bytes);
            let UpstreamError { status: same, code, kind, param, message } = &error;
            prop_assert_eq!(*same, status);
            for text in [code, kind, param, message].into_iter().flatten() {
                prop_assert!(text.len() <= 1_024);
            }
            prop_assert!(!error.names_field("no such field"));
            read_something |= code.is_some();
            let text = message.as_deref().unwrap_or_default();
            let (kind, code, param) = (kind.as_deref().unwrap_or_default(), code.as_deref(), param.as_deref());
            let body = ErrorBody { status, kind, code, param, message: text, request_id: "r", extra: serde_json::Map::new() };
            let back = read(dialect, status, &render(dialect, &body));
            prop_assert_eq!(back.code.as_deref(), code);
            prop_assert!(text.starts_with(back.message.as_deref().unwrap_or_default().trim_end_matches('…')), "{:?}", back);
        }
        Ok(read_something)
    });
}

#[test]
fn a_price_file_changes_no_price_but_those_it_states() {
    static BUILTIN: LazyLock<PriceTable> = LazyLock::new(PriceTable::builtin);
    let good = br#","the-good-one":{"input_cost_per_token":1e-06,"output_cost_per_token":2e-06}}"#;
    let mut alone = PriceTable::default();
    alone.add_litellm(&[b"{\"_\":{}", &good[..]].concat()).expect("sound");
    let right = alone.get("the-good-one").expect("sound");
    corpus("prices", 1_500, |bytes| {
        let mut table = BUILTIN.clone();
        let before = table.get("gpt-4o").expect("built in");
        let read = table.add_litellm(bytes).is_ok();
        prop_assert!(read || table.len() == BUILTIN.len(), "nothing of a file that is none");
        if !String::from_utf8_lossy(bytes).contains("gpt-4o") && !bytes.contains(&b'\\') {
            prop_assert_eq!(table.get("gpt-4o"), Some(before));
        }
        // One bad entry costs no other.
        if let Some(open) = bytes.trim_ascii_end().strip_suffix(b"}") {
            let mut table = PriceTable::default();
            let both = [open, &good[..]].concat();
            if serde_json::from_slice::<serde::de::IgnoredAny>(&both).is_ok() && table.add_litellm(&both).is_ok() {
                prop_assert_eq!(table.get("the-good-one"), Some(right.clone()));
            }
        }
        Ok(read)
    });
}

#[test]
fn a_configuration_is_taken_whole_or_refused_with_a_line_that_exists() {
    let taken = |text: &str, env: &Env| -> Result<bool, TestCaseError> {
        let parsed = Policy::parse(text, "t.toml", env);
        if let Err(problems) = &parsed {
            prop_assert!(!problems.is_empty(), "refused without a reason");
            for problem in problems {
                prop_assert!(!problem.reason.is_empty());
                prop_assert!(!problem.to_string().contains('\n'), "one line each: {}", problem);
                if let Source::File { line, .. } = problem.place.source {
                    prop_assert!((1..=text.lines().count() + 1).contains(&line), "{}", problem);
                }
            }
        }
        Ok(parsed.is_ok())
    };
    corpus("configs", 300, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let read = taken(&text, &Env::default())?;
        // The same bytes as the name and the value of an override.
        let (name, value) = text.split_at(text.char_indices().nth(12).map_or(text.len(), |(at, _)| at));
        taken("", &[(format!("TOLLGATE_{name}"), value.to_owned())].into_iter().collect())?;
        taken("", &[("TOLLGATE_PLANS__INDIVIDUAL__SPEND".to_owned(), text.into_owned())].into_iter().collect())?;
        Ok(read)
    });
}

#[test]
fn an_id_is_exact_or_refused_and_its_key_fits_everywhere() {
    corpus("ids", 5_000, |bytes| {
        for allow_emails in [false, true] {
            match CustomerId::parse(bytes, allow_emails) {
                Ok(id) => {
                    let exact = bytes.trim_ascii();
                    prop_assert_eq!(id.as_str().as_bytes(), exact, "byte for byte");
                    prop_assert!(exact.iter().all(|b| b.is_ascii_graphic() && *b != b','));
                    let key = id.key();
                    let plain = !key.is_empty() && key.len() <= 64 && !key.contains([':', '{', '}', '/', '*', '?', '[', '\\']);
                    prop_assert!(plain, "{}", key);
                    prop_assert!(key == id.as_str() || key.starts_with('#'), "two ids never share a key");
                }
                Err(IdError::Email) => prop_assert!(!allow_emails && bytes.contains(&b'@')),
                Err(IdError::Empty) => prop_assert!(bytes.trim_ascii().is_empty()),
                Err(IdError::TooLong) => prop_assert!(bytes.trim_ascii().len() > 512),
                Err(IdError::Character) => {
                    prop_assert!(bytes.trim_ascii().iter().any(|b| !b.is_ascii_graphic() || *b == b','));
                }
            }
        }
        Ok(CustomerId::parse(bytes, true).is_ok())
    });
}
