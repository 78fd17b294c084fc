use super::*;
use crate::pricing::{Asked, PriceTable};
use crate::wire::Usage;

fn table(json: &str) -> (PriceTable, Vec<Warning>) {
    let mut table = PriceTable::default();
    let warnings = table.add_litellm(json.as_bytes()).expect("a price file");
    (table, warnings)
}

#[test]
fn an_entry_is_read_to_the_last_field() {
    let (table, warnings) = table(
        r#"{
        "sample_spec": {"input_cost_per_token": "a number", "mode": "one of: chat, embedding"},
        "m": {
            "litellm_provider": "openai", "mode": "chat", "supports_vision": true, "unknown": {"x": [1]},
            "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1.5e-05,
            "cache_read_input_token_cost": 2.5e-07, "cache_creation_input_token_cost": 3.125e-06,
            "cache_creation_input_token_cost_above_12hr": 6.25e-06,
            "input_cost_per_token_above_272k_tokens": 5e-06, "output_cost_per_token_above_272k_tokens": 2.25e-05,
            "cache_creation_input_token_cost_above_12hr_above_272k_tokens": 1.25e-05,
            "input_cost_per_token_flex": 1.25e-06, "output_cost_per_token_flex": 7.5e-06,
            "input_cost_per_token_priority": 5e-06, "output_cost_per_token_priority": 3e-05,
            "input_cost_per_token_above_272k_tokens_priority": 1e-05,
            "input_cost_per_token_batches": 1.25e-06,
            "input_cost_per_audio_token": 4e-05, "output_cost_per_audio_token": 8e-05,
            "output_cost_per_reasoning_token": 2e-05,
            "search_context_cost_per_query": {"search_context_size_low": 0.01, "search_context_size_high": 0.025},
            "max_input_tokens": 1050000, "max_output_tokens": 128000.0, "deprecation_date": "2027-04-01"
        }}"#,
    );
    assert_eq!(warnings, []);
    assert_eq!(table.len(), 1);
    let price = table.get("m").expect("a price");
    let rates = price.rates();
    let picos = [rates.input, rates.output, rates.cached_input, rates.cache_write, rates.cache_write_long].map(Rate::pico);
    assert_eq!(picos, [2_500_000, 15_000_000, 250_000, 3_125_000, 6_250_000]);
    let picos = [rates.audio_input, rates.audio_output, rates.reasoning].map(Rate::pico);
    assert_eq!(picos, [40_000_000, 80_000_000, 20_000_000]);
    let [long] = price.long_context() else { panic!("one step") };
    let picos = [long.rates.input, long.rates.output, long.rates.cached_input, long.rates.cache_write_long].map(Rate::pico);
    assert_eq!((long.above, picos), (272_000, [5_000_000, 22_500_000, 250_000, 12_500_000]));
    assert_eq!(price.web_search, Some(NanoUsd::new(25_000_000)));
    assert_eq!((price.max_input_tokens, price.max_output_tokens), (Some(1_050_000), Some(128_000)));
    assert_eq!(price.deprecation_date, Some(jiff::civil::date(2027, 4, 1)));

    for (tier, input, nano) in [
        (None, 1_000, 2_500_000),
        (Some("flex"), 1_000, 1_250_000),
        (Some("batch"), 1_000, 1_250_000),
        (Some("priority"), 1_000, 5_000_000),
        (Some("fast"), 1_000, 5_000_000),
        (Some("priority"), 300_000, 3_000_000_000),
        (Some("flex"), 300_000, 1_500_000_000),
    ] {
        let usage = Usage { uncached_input: input, ..Usage::default() };
        assert_eq!(price.cost(&usage, tier).get(), nano, "{tier:?} {input}");
    }
    assert!(price.has_tier("flex") && price.has_tier("priority") && !price.has_tier("ultrafast"));
}

#[test]
fn a_bad_entry_is_named_and_the_rest_is_kept() {
    let (table, warnings) = table(
        r#"{
        "good": {"mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
        "negative": {"mode": "chat", "input_cost_per_token": -1, "output_cost_per_token": 2e-06},
        "text": {"mode": "chat", "input_cost_per_token": "nan", "output_cost_per_token": 2e-06},
        "infinite": {"mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": "inf"},
        "empty": {"mode": "chat", "input_cost_per_token": "", "output_cost_per_token": 2e-06},
        "huge": {"mode": "chat", "input_cost_per_token": 1.5, "output_cost_per_token": 2e-06},
        "no_output": {"mode": "chat", "input_cost_per_token": 1e-06},
        "null_output": {"mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": null},
        "no_input": {"input_cost_per_second": 1e-06, "output_cost_per_token": 1e-06},
        "list": [1],
        "by_second": {"mode": "chat", "input_cost_per_second": 1e-06},
        "picture": {"mode": "image_generation", "output_cost_per_image": 0.04},
        "reads": {"mode": "embedding", "input_cost_per_token": 1e-07, "max_tokens": 8191},
        "free": {"mode": "chat", "input_cost_per_token": 0, "output_cost_per_token": 0.0}
        }"#,
    );
    let said: Vec<_> = warnings.iter().map(|warning| (&*warning.entry, &*warning.problem)).collect();
    assert_eq!(
        said,
        [
            ("empty", "its input_cost_per_token is not a number"),
            ("huge", "its input_cost_per_token is too large"),
            ("infinite", "its output_cost_per_token is not a number"),
            ("list", "it is not an object"),
            ("negative", "its input_cost_per_token is negative"),
            ("no_input", "it has no price per input token"),
            ("no_output", "it has no price per output token"),
            ("null_output", "it has no price per output token"),
            ("text", "its input_cost_per_token is not a number"),
        ]
    );
    assert_eq!(warnings[1].to_string(), "price of \"huge\" skipped: its input_cost_per_token is too large");
    let mut priced: Vec<_> = ["good", "reads", "free", "negative", "text", "no_output", "picture", "by_second"].to_vec();
    priced.retain(|model| table.get(model).is_some());
    assert_eq!(priced, ["good", "reads", "free"]);
    assert_eq!(table.get("reads").expect("a price").max_output_tokens, Some(8_191));
}

#[test]
fn what_is_no_file_says_where() {
    for (json, part) in [
        (r#"{"m": {"input_cost_per_token": NaN}}"#, "entry \"m\""),
        (r#"{"m": {"input_cost_per_token": Infinity}}"#, "entry \"m\""),
        (r#"{"m": {}, "n": {"a": 1"#, "entry \"n\""),
        ("[]", "an object"),
        ("", "line 1"),
        ("{} x", "trailing"),
    ] {
        let mut table = PriceTable::builtin();
        let error = table.add_litellm(json.as_bytes()).expect_err(json);
        assert!(error.to_string().contains(part), "{json}: {error}");
        assert_eq!(table.len(), PriceTable::builtin().len(), "nothing changed");
    }
}

#[test]
fn aliases_are_followed_and_cycles_end() {
    let (table, warnings) = table(
        r#"{
        "a": {"alias_of": "b"}, "b": {"alias_of": "m"},
        "x": {"alias_of": "y"}, "y": {"alias_of": "x"}, "lost": {"alias_of": "nowhere"},
        "m": {"input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06}
        }"#,
    );
    let mut named: Vec<_> = warnings.iter().map(|warning| &*warning.entry).collect();
    named.sort_unstable();
    assert_eq!(named, ["lost", "x", "y"]);
    assert_eq!(table.get("a"), table.get("m"));
    assert_eq!(table.len(), 3);
}

#[test]
fn ranges_and_multipliers_become_steps_and_tiers() {
    let (table, warnings) = table(
        r#"{
        "q": {"mode": "chat", "tiered_pricing": [
            {"range": [32000.0, 128000.0], "input_cost_per_token": 2e-06, "output_cost_per_token": 8e-06},
            {"range": [0, 32000.0], "input_cost_per_token": 1e-06, "output_cost_per_token": 4e-06}]},
        "c": {"mode": "chat", "input_cost_per_token": 5e-06, "output_cost_per_token": 2.5e-05,
            "provider_specific_entry": {"us": 1.1, "fast": 2.5}}
        }"#,
    );
    assert_eq!(warnings, []);
    let price = table.get("q").expect("a price");
    for (input, nano) in [(1_000, 1_000_000), (32_000, 32_000_000), (32_001, 64_002_000)] {
        assert_eq!(price.cost(&Usage { uncached_input: input, ..Usage::default() }, None).get(), nano, "{input}");
    }
    let fast = table.get("c").expect("a price").worst(&Asked::new(1_000, Some("fast")));
    assert_eq!((fast.fixed_pico, fast.per_output_token_pico), (12_500_000_000, 62_500_000));
}
