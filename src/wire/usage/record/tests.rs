use super::*;

/// The usage after these usage objects, and whether its parts fit together.
fn read(shape: Shape, objects: &[&str]) -> (Option<Usage>, bool, Oddities) {
    let mut record = Record::new(shape);
    objects.iter().for_each(|json| record.read(json));
    let (usage, consistent) = record.usage();
    (usage, consistent, record.oddities())
}

#[test]
fn openai_parts_are_taken_out_of_the_prompt() {
    for (json, want) in [
        (
            r#"{"prompt_tokens":1000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":800}}"#,
            Usage { uncached_input: 200, cache_read: 800, output: 100, ..Usage::default() },
        ),
        (
            r#"{"input_tokens":1000,"output_tokens":100,"input_tokens_details":{"cached_tokens":800},"output_tokens_details":{"reasoning_tokens":64}}"#,
            Usage { uncached_input: 200, cache_read: 800, output: 100, reasoning: 64, ..Usage::default() },
        ),
        (
            r#"{"prompt_tokens":300000,"completion_tokens":2000,"prompt_tokens_details":{"cached_tokens":100000,"cache_write_tokens":50000}}"#,
            Usage { uncached_input: 150_000, cache_read: 100_000, cache_write: 50_000, output: 2_000, ..Usage::default() },
        ),
        (
            r#"{"input_tokens":100,"output_tokens":1,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":70,"cache_write_tokens_details":{"ttl_30m_tokens":50,"ttl_12h_tokens":20}}}"#,
            Usage { uncached_input: 30, cache_write: 50, cache_write_long: 20, output: 1, ..Usage::default() },
        ),
        (
            r#"{"prompt_tokens":50,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":null,"audio_tokens":30,"text_tokens":20},"completion_tokens_details":{"audio_tokens":25,"reasoning_tokens":0}}"#,
            Usage { uncached_input: 20, audio_input: 30, output: 15, audio_output: 25, ..Usage::default() },
        ),
        (
            r#"{"prompt_tokens":10,"completion_tokens":1,"prompt_cache_hit_tokens":6,"prompt_cache_miss_tokens":4}"#,
            Usage { uncached_input: 4, cache_read: 6, output: 1, ..Usage::default() },
        ),
        (
            r#"{"completion_tokens":1,"prompt_cache_hit_tokens":6,"prompt_cache_miss_tokens":4}"#,
            Usage { uncached_input: 4, cache_read: 6, output: 1, ..Usage::default() },
        ),
    ] {
        assert_eq!(read(Shape::OpenAi, &[json]), (Some(want), true, Oddities::default()), "{json}");
    }
}

#[test]
fn anthropic_parts_stand_beside_the_input() {
    for (json, want) in [
        (
            r#"{"input_tokens":3,"cache_creation_input_tokens":12304,"cache_read_input_tokens":0,"output_tokens":550}"#,
            Usage { uncached_input: 3, cache_write: 12_304, output: 550, ..Usage::default() },
        ),
        (
            r#"{"input_tokens":100,"cache_creation_input_tokens":2500,"cache_read_input_tokens":10000,"cache_creation":{"ephemeral_5m_input_tokens":2000,"ephemeral_1h_input_tokens":500},"output_tokens":300,"output_tokens_details":{"thinking_tokens":90},"service_tier":"standard"}"#,
            Usage {
                uncached_input: 100,
                cache_read: 10_000,
                cache_write: 2_000,
                cache_write_long: 500,
                output: 300,
                reasoning: 90,
                service_tier: Some("standard".into()),
                ..Usage::default()
            },
        ),
        (
            r#"{"input_tokens":1,"output_tokens":2,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":7},"server_tool_use":{"web_search_requests":3,"web_fetch_requests":1},"service_tier":"standard","speed":"fast"}"#,
            Usage {
                uncached_input: 1,
                cache_write: 5,
                cache_write_long: 7,
                output: 2,
                web_searches: 3,
                service_tier: Some("fast".into()),
                ..Usage::default()
            },
        ),
    ] {
        assert_eq!(read(Shape::Anthropic, &[json]), (Some(want), true, Oddities::default()), "{json}");
    }
}

#[test]
fn a_later_statement_replaces_what_it_restates_and_nothing_else() {
    let start = r#"{"input_tokens":25,"cache_creation_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":6,"ephemeral_1h_input_tokens":4},"output_tokens":1}"#;
    for (delta, input, write, output) in [
        (r#"{"output_tokens":15}"#, 25, 6, 15),
        (r#"{"input_tokens":25,"output_tokens":15}"#, 25, 6, 15),
        (r#"{"input_tokens":40,"cache_creation_input_tokens":30,"output_tokens":15}"#, 40, 26, 15),
        (r#"{"input_tokens":null,"output_tokens":15}"#, 25, 6, 15),
    ] {
        let mut record = Record::new(Shape::Anthropic);
        record.read_placeholder(start);
        assert!(record.input_known() && !record.output_known());
        record.read(delta);
        assert!(record.output_known());
        let usage = record.usage().0.expect("stated");
        let got = (usage.uncached_input, usage.cache_write, usage.cache_write_long, usage.output);
        assert_eq!(got, (input, write, 4, output), "{delta}");
        assert_eq!(record.oddities(), Oddities::default(), "{delta}");
    }
}

#[test]
fn a_placeholder_that_was_too_high_is_no_decrease() {
    let mut record = Record::new(Shape::Anthropic);
    record.read_placeholder(r#"{"input_tokens":25,"output_tokens":3}"#);
    record.read(r#"{"output_tokens":2}"#);
    assert_eq!(record.usage().0.map(|usage| usage.output), Some(2));
    assert_eq!(record.oddities().decreased, 0);
}

#[test]
fn a_decrease_is_counted_once_per_statement_and_the_later_taken() {
    let statements = [
        r#"{"prompt_tokens":10,"completion_tokens":9}"#,
        r#"{"prompt_tokens":9,"completion_tokens":5}"#,
        r#"{"prompt_tokens":9,"completion_tokens":7}"#,
    ];
    let (usage, _, oddities) = read(Shape::OpenAi, &statements);
    assert_eq!(usage, Some(Usage { uncached_input: 9, output: 7, ..Usage::default() }));
    assert_eq!(oddities, Oddities { decreased: 1, ..Oddities::default() });
}

#[test]
fn lies_are_flagged_and_do_no_harm() {
    let odd = |garbage, capped| Oddities { decreased: 0, garbage, capped };
    for (json, input, output, output_known, oddities, consistent) in [
        (r#"{"prompt_tokens":10,"completion_tokens":-5}"#, Some(10), 0, false, odd(true, false), true),
        (r#"{"prompt_tokens":10,"completion_tokens":"12"}"#, Some(10), 12, true, odd(false, false), true),
        (r#"{"prompt_tokens":10,"completion_tokens":"lots"}"#, Some(10), 0, false, odd(true, false), true),
        (r#"{"prompt_tokens":10,"completion_tokens":null}"#, Some(10), 0, false, odd(false, false), true),
        (r#"{"prompt_tokens":10,"completion_tokens":1e12}"#, Some(10), MAX_TOKENS, true, odd(false, true), true),
        (r#"{"prompt_tokens":10,"completion_tokens":12.0}"#, Some(10), 12, true, odd(false, false), true),
        (
            r#"{"prompt_tokens":1000,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2000}}"#,
            Some(0),
            1,
            true,
            odd(false, false),
            false,
        ),
        (
            r#"{"prompt_tokens":5,"completion_tokens":1,"completion_tokens_details":{"audio_tokens":9}}"#,
            Some(5),
            0,
            true,
            odd(false, false),
            false,
        ),
        ("{}", None, 0, false, odd(false, false), true),
        ("[]", None, 0, false, odd(true, false), true),
        ("7", None, 0, false, odd(true, false), true),
        (r#"{"completion_tokens_details":{"reasoning_tokens":50}}"#, None, 0, false, odd(false, false), true),
        (r#"{"prompt_tokens":{},"completion_tokens":[1]}"#, None, 0, false, odd(true, false), true),
    ] {
        let mut record = Record::new(Shape::OpenAi);
        record.read(json);
        let (usage, fits) = record.usage();
        assert_eq!(usage.as_ref().map(|usage| usage.uncached_input), input, "{json}");
        assert_eq!(usage.map_or(0, |usage| usage.output), output, "{json}");
        assert_eq!((record.output_known(), record.oddities(), fits), (output_known, oddities, consistent), "{json}");
    }
}

#[test]
fn garbage_does_not_undo_what_was_stated_before() {
    let (usage, _, oddities) =
        read(Shape::OpenAi, &[r#"{"prompt_tokens":10,"completion_tokens":99}"#, r#"{"completion_tokens":-1}"#, "[]"]);
    assert_eq!(usage, Some(Usage { uncached_input: 10, output: 99, ..Usage::default() }));
    assert!(oddities.garbage);
}

#[test]
fn an_embedding_may_state_only_the_total() {
    for (json, input) in [(r#"{"prompt_tokens":1000,"total_tokens":1000}"#, 1_000), (r#"{"total_tokens":8}"#, 8)] {
        let mut record = Record::new(Shape::OpenAi);
        record.read_embedding(json);
        assert_eq!(record.usage().0, Some(Usage { uncached_input: input, ..Usage::default() }), "{json}");
    }
}

#[test]
fn the_latest_plausible_tier_is_kept() {
    let mut record = Record::new(Shape::OpenAi);
    record.read(r#"{"prompt_tokens":1}"#);
    let long = format!("\"{}\"", "x".repeat(100));
    for tier in [Some("\"auto\""), Some("\"priority\""), None, Some("\"\""), Some("5"), Some(&*long)] {
        record.read_tier(tier);
    }
    assert_eq!(record.usage().0.and_then(|usage| usage.service_tier).as_deref(), Some("priority"));
}

#[test]
fn searches_are_not_added_up() {
    let mut record = Record::new(Shape::OpenAi);
    [1, 2, 2, 0].into_iter().for_each(|count| record.saw_searches(count));
    assert_eq!(record.usage().0.map(|usage| usage.web_searches), Some(2));
}
