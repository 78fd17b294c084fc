use super::*;
use crate::pricing::{Asked, CacheWrites, Listed, ListedRates, ListedTier, PriceTable, Worst};

/// `(input, cached, write, long write, output)` in USD per million tokens; empty = not stated.
fn listed([input, cached_input, cache_write, cache_write_long, output]: [&str; 5]) -> ListedRates {
    let rate = |text: &str| (!text.is_empty()).then(|| Rate::per_million(text).expect("a rate"));
    ListedRates {
        input: rate(input),
        cached_input: rate(cached_input),
        cache_write: rate(cache_write),
        cache_write_long: rate(cache_write_long),
        output: rate(output),
        ..ListedRates::default()
    }
}

fn price(rates: [&str; 5]) -> Price {
    Listed { rates: listed(rates), ..Listed::default() }.resolve().expect("a price")
}

const M_BIG: [&str; 5] = ["2.50", "1.25", "", "", "10"];
const M_SMALL: [&str; 5] = ["0.15", "0.075", "", "", "0.60"];
const C_BIG: [&str; 5] = ["3", "0.30", "3.75", "6", "15"];

fn usage(uncached_input: u64, cache_read: u64, cache_write: u64, cache_write_long: u64, output: u64) -> Usage {
    Usage { uncached_input, cache_read, cache_write, cache_write_long, output, ..Usage::default() }
}

/// A model with a long-context step and two service tiers.
fn tiered() -> Price {
    Listed {
        rates: listed(["2", "0.2", "2.5", "5", "10"]),
        long: vec![(200_000, listed(["4", "0.4", "5", "10", "15"]))],
        tiers: vec![
            ListedTier { name: "flex".into(), rates: listed(["1", "0.1", "", "", "5"]), long: Vec::new() },
            ListedTier { name: "priority".into(), rates: listed(["3.5", "", "", "", "17.5"]), long: Vec::new() },
        ],
        ..Listed::default()
    }
    .resolve()
    .expect("a price")
}

#[test]
fn costs_are_exact() {
    let table = PriceTable::builtin();
    for (model, usage, usd) in [
        ("gpt-4o", usage(600, 400, 0, 0, 200), "0.004000"),
        ("claude-sonnet-4-6", usage(100, 10_000, 2_000, 500, 300), "0.018300"),
        ("gemini-2.5-pro", usage(250_000, 0, 0, 0, 1_000), "0.640000"),
        ("gemini-2.5-pro", usage(200_000, 0, 0, 0, 1_000), "0.260000"),
        ("gpt-6-sol", usage(150_000, 100_000, 50_000, 0, 2_000), "0.920000"),
        ("text-embedding-3-small", usage(1_000, 0, 0, 0, 0), "0.000020"),
    ] {
        let price = table.get(model).expect("a price");
        assert_eq!(price.cost(&usage, None), NanoUsd::from_usd(usd).expect("dollars"), "{model}");
    }
}

#[test]
fn the_cache_is_charged_once_and_at_its_own_rate() {
    for (rates, usage, usd) in [
        (M_BIG, usage(200, 800, 0, 0, 100), "0.0025"),
        (C_BIG, usage(3, 0, 12_304, 0, 550), "0.054399"),
        (C_BIG, usage(3, 12_304, 0, 0, 550), "0.0119502"),
        (M_SMALL, usage(1_000, 0, 0, 0, 100), "0.00021"),
    ] {
        assert_eq!(price(rates).cost(&usage, None), NanoUsd::from_usd(usd).expect("dollars"), "{usage:?}");
    }
}

#[test]
fn tiny_costs_add_up_exactly() {
    let price = price(M_SMALL);
    let each = price.cost(&usage(1, 0, 0, 0, 1), None);
    assert_eq!(each.get(), 750);
    let spent = (0..1_000).fold(NanoUsd::ZERO, |spent, _| spent.saturating_add(each));
    assert_eq!(spent, NanoUsd::from_usd("0.00075").expect("dollars"));
    assert_eq!(
        price.cost(&usage(0, 1, 0, 0, 0), None).get(),
        75,
        "$0.075 per million is 75 nano-dollars a thousand, 75,000 pico each"
    );
}

#[test]
fn the_tier_of_the_reply_decides() {
    let price = tiered();
    let base = usage(1_000, 0, 0, 0, 1_000);
    for (reply, asked, usd, unknown) in [
        (None, None, "0.012", false),
        (None, Some("auto"), "0.012", false),
        (Some("default"), Some("priority"), "0.012", false),
        (Some("standard"), Some("auto"), "0.012", false),
        (Some("priority"), Some("auto"), "0.021", false),
        (Some("priority"), Some("fast"), "0.021", false),
        (Some("flex"), Some("flex"), "0.006", false),
        (None, Some("flex"), "0.006", false),
        (Some("scale"), None, "0.021", true),
        (Some("ultrafast"), Some("flex"), "0.021", true),
    ] {
        let usage = Usage { service_tier: reply.map(Into::into), ..base.clone() };
        assert_eq!(price.cost(&usage, asked), NanoUsd::from_usd(usd).expect("dollars"), "{reply:?} {asked:?}");
        assert_eq!(price.gaps(&usage, asked), Gaps { tier: unknown, web_searches: false }, "{reply:?} {asked:?}");
    }
}

#[test]
fn a_requested_tier_has_a_price_or_not() {
    let price = tiered();
    for (tier, right) in [
        ("auto", true),
        ("default", true),
        ("standard", true),
        ("standard_only", true),
        ("flex", true),
        ("priority", true),
        ("fast", true),
        ("scale", false),
        ("Flex", false),
        ("batch", false),
    ] {
        assert_eq!(price.has_tier(tier), right, "{tier}");
    }
    assert!(!self::price(M_BIG).has_tier("fast"));
}

#[test]
fn the_long_tier_looks_at_all_input() {
    let price = tiered();
    for (usage, usd) in [
        (usage(200_000, 0, 0, 0, 0), "0.4"),
        (usage(200_001, 0, 0, 0, 0), "0.800004"),
        (usage(1, 200_000, 0, 0, 0), "0.080004"),
        (Usage { audio_input: 200_001, ..Usage::default() }, "0.800004"),
    ] {
        assert_eq!(price.cost(&usage, None), NanoUsd::from_usd(usd).expect("dollars"), "{usage:?}");
    }
}

#[test]
fn searches_are_priced_or_flagged() {
    let searched = Usage { web_searches: 3, ..usage(1_000, 0, 0, 0, 0) };
    let mut price = price(C_BIG);
    assert_eq!(price.cost(&searched, None), NanoUsd::from_usd("0.003").expect("dollars"));
    assert!(price.gaps(&searched, None).web_searches);
    price.web_search = Some(NanoUsd::from_usd("0.01").expect("dollars"));
    assert_eq!(price.cost(&searched, None), NanoUsd::from_usd("0.033").expect("dollars"));
    assert!(!price.gaps(&searched, None).any());
}

#[test]
fn usage_that_lies_neither_overflows_nor_turns_negative() {
    let all = u64::MAX;
    let lie = Usage {
        uncached_input: all,
        cache_read: all,
        cache_write: all,
        cache_write_long: all,
        audio_input: all,
        output: 1,
        audio_output: all,
        reasoning: all,
        web_searches: all,
        service_tier: None,
    };
    assert_eq!(tiered().cost(&lie, None), NanoUsd::MAX);
    let reasoning_only = Usage { reasoning: 500, ..Usage::default() };
    assert_eq!(tiered().cost(&reasoning_only, None), NanoUsd::ZERO, "reasoning is a part of the output");
}

#[test]
fn reasoning_has_a_rate_of_its_own_where_stated() {
    let rates = ListedRates { reasoning: Some(Rate::per_million("30").expect("a rate")), ..listed(M_BIG) };
    let price = Listed { rates, ..Listed::default() }.resolve().expect("a price");
    let usage = Usage { output: 1_000, reasoning: 400, ..Usage::default() };
    assert_eq!(price.cost(&usage, None), NanoUsd::from_usd("0.018").expect("dollars"));
    assert_eq!(price.worst(&Asked::new(0, None)).per_output_token_pico, 30_000_000);
}

#[test]
fn the_worst_case_knows_what_could_apply() {
    let sol = tiered();
    let plain = |input, tier| Asked { cache_writes: CacheWrites::No, ..Asked::new(input, tier) };
    for (asked, input_rate, output_rate) in [
        (plain(1_000, None), 2_000_000, 10_000_000),
        (Asked { cache_writes: CacheWrites::Short, ..plain(1_000, None) }, 2_500_000, 10_000_000),
        (Asked::new(1_000, None), 5_000_000, 10_000_000),
        (plain(200_000, None), 2_000_000, 10_000_000),
        (plain(200_001, None), 4_000_000, 15_000_000),
        (Asked::new(200_001, None), 10_000_000, 15_000_000),
        (plain(1_000, Some("flex")), 2_000_000, 10_000_000),
        (plain(1_000, Some("priority")), 3_500_000, 17_500_000),
        (plain(1_000, Some("unheard-of")), 3_500_000, 17_500_000),
        (Asked { choices: 3, ..plain(1_000, None) }, 2_000_000, 30_000_000),
    ] {
        let worst = sol.worst(&asked);
        assert_eq!(worst.fixed_pico, input_rate * u128::from(asked.input), "{asked:?}");
        assert_eq!(worst.per_output_token_pico, output_rate, "{asked:?}");
    }
    let worst = price(M_BIG).worst(&Asked::new(1_000, None));
    assert_eq!(worst, Worst { fixed_pico: 2_500_000_000, per_output_token_pico: 10_000_000 }, "no write rate, nothing to add");

    let audio = PriceTable::builtin().get("gpt-audio-1.5").expect("a price");
    let text = Asked { audio_input: false, audio_output: false, ..Asked::new(1, None) };
    assert_eq!(audio.worst(&text), Worst { fixed_pico: 2_500_000, per_output_token_pico: 10_000_000 });
    assert_eq!(audio.worst(&Asked::new(1, None)), Worst { fixed_pico: 32_000_000, per_output_token_pico: 64_000_000 });

    let mut searching = price(C_BIG);
    searching.web_search = Some(NanoUsd::new(10_000_000));
    let worst = searching.worst(&Asked { web_searches: 5, ..plain(0, None) });
    assert_eq!(worst.at(0), NanoUsd::from_usd("0.05").expect("dollars"));
}

#[test]
fn the_claim_of_a_worst_case_is_what_the_elastic_says() {
    let worst = price(M_BIG).worst(&Asked::new(1_001, None));
    let elastic = worst.elastic(1_024, 16).expect("something to shrink");
    for cap in [16, 500, 1_024] {
        assert_eq!(worst.at(cap), elastic.cost(cap), "{cap}");
    }
    assert_eq!(worst.at(1_024).get(), 12_742_500);
    assert_eq!(worst.elastic(16, 16), None);
}

mod never_over {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the reply reports within the bounds of what was asked, it costs no more than was held.
        #[test]
        fn a_cost_within_the_bounds_is_within_the_worst_case(
            parts in [0u64..100_000, 0..100_000, 0..100_000, 0..100_000, 0..100_000],
            output in 0u64..5_000,
            spoken in 0u64..5_000,
            reasoning in 0u64..5_000,
            slack in 0u64..1_000,
            model in prop::sample::select(vec!["gpt-6-sol", "claude-haiku-5-5", "gemini-2.5-flash", "gpt-audio-1.5", "grok-4.7"]),
            tier in prop::sample::select(vec![None, Some("default"), Some("batch")]),
        ) {
            let price = PriceTable::builtin().get(model).expect("a price");
            let [uncached_input, cache_read, cache_write, cache_write_long, audio_input] = parts;
            let usage = Usage {
                uncached_input, cache_read, cache_write, cache_write_long, audio_input, output, audio_output: spoken, reasoning,
                ..Usage::default()
            };
            let worst = price.worst(&Asked::new(usage.input() + slack, tier));
            prop_assert!(price.cost(&usage, tier) <= worst.at(usage.total_output()));
        }
    }
}
