//! The whole way from text to policy.

mod examples;

use super::policy::{App, Auth, Counts, ForwardId, Limit, LimitKind, Step, StoreKind, Unpriced};
use super::{Env, Policy, hash_key};
use crate::domain::{NanoUsd, Period, Priority};
use crate::limit::{Bucket, LimitName, Measure};
use crate::wire::Dialect;
use std::time::Duration;

const MINUTE: u64 = 60_000_000;

fn env(vars: &[(&str, &str)]) -> Env {
    vars.iter().copied().collect()
}

fn sound(text: &str, vars: &[(&str, &str)]) -> (Policy, Vec<String>) {
    let (policy, warnings) = Policy::parse(text, "f", &env(vars)).unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
    (policy, warnings.iter().map(ToString::to_string).collect())
}

fn policy(text: &str) -> Policy {
    sound(text, &[]).0
}

fn problems(text: &str, vars: &[(&str, &str)]) -> Vec<String> {
    let Err(problems) = Policy::parse(text, "f", &env(vars)) else { panic!("no problem in {text}") };
    problems.iter().map(ToString::to_string).collect()
}

fn bucket(name: LimitName, measure: Measure, bucket: Result<Bucket, crate::limit::BucketError>) -> Limit {
    Limit { name, measure, kind: LimitKind::Bucket(bucket.expect("exact")), max_wait: Duration::ZERO }
}

#[test]
fn nothing_configured_serves_on_loopback_with_the_shipped_plans() {
    let policy = Policy::builtin();
    assert_eq!(policy.server.listen.to_string(), "127.0.0.1:8080");
    assert!(matches!(&policy.auth, Auth::Passthrough { trusted } if trusted.is_empty()));
    assert!(matches!(&policy.store, StoreKind::Embedded { path } if path.ends_with("tollgate-data")));
    let individual = &policy.identity.default_plan;
    assert_eq!(&*individual.name, "individual");
    assert_eq!(individual.limits.messages, Some(bucket(LimitName::Messages, Measure::Message, Bucket::new(10, 5, MINUTE))));
    let rates = [
        bucket(LimitName::Rpm, Measure::Request, Bucket::new(60, 60, MINUTE)),
        bucket(LimitName::Tpm, Measure::Tokens, Bucket::new(40_000, 40_000, MINUTE)),
    ];
    assert_eq!(individual.limits.rates, rates);
    assert_eq!(individual.limits.spend, [(Period::Day, NanoUsd::new(500_000_000))]);
    assert_eq!(individual.user.messages, Some(bucket(LimitName::Messages, Measure::Message, Bucket::new(4, 2, MINUTE))));
    assert_eq!((individual.max_output_tokens, individual.max_in_flight), (Some(1_024), Some(4)));
    assert_eq!(individual.on_spend, [Step::Cheaper, Step::Handoff]);
    assert!(individual.on_tokens.is_empty());
    let business = &policy.plans["business"];
    assert_eq!(business.limits.messages, Some(bucket(LimitName::Messages, Measure::Message, Bucket::new(120, 1, MINUTE / 60))));
    assert_eq!(business.limits.spend, [(Period::Day, NanoUsd::new(40_000_000_000))]);
    let url = |dialect| policy.upstream_of("any-model", dialect).map(|up| up.base_url.as_str());
    assert_eq!(url(Dialect::OpenAi), Some("https://api.openai.com/v1"));
    assert_eq!(url(Dialect::Anthropic), Some("https://api.anthropic.com/v1"));
    assert_eq!((policy.unpriced, policy.notice_percent), (Unpriced::Refuse, 80));
    assert_eq!(policy.shares[&Priority::Background], 150_000);
}

#[test]
fn dollars_are_read_from_their_digits() {
    for (text, nano) in [
        ("0.50", 500_000_000),
        ("0.1", 100_000_000),
        ("0.3", 300_000_000),
        ("1_000.000000001", 1_000_000_000_001),
        ("7", 7_000_000_000),
    ] {
        let policy = policy(&format!("[plans.individual]\nspend = {{ day = {text} }}"));
        assert_eq!(policy.plans["individual"].limits.spend, [(Period::Day, NanoUsd::new(nano))], "{text}");
    }
    let variable = sound("", &[("TOLLGATE_PLANS__INDIVIDUAL__SPEND__DAY", "0.1")]).0;
    assert_eq!(variable.plans["individual"].limits.spend, [(Period::Day, NanoUsd::new(100_000_000))]);
}

#[test]
fn a_bad_entry_is_named_with_its_line_and_what_to_do() {
    for (text, right) in [
        ("[plans.p]\nspend = { day = nan }", "f:2: plans.p.spend.day: nan is not a non-negative decimal number; write dollars"),
        ("[plans.p]\nspend = { day = inf }", "f:2: plans.p.spend.day: inf is not"),
        ("[plans.p]\nspend = { day = -1.0 }", "f:2: plans.p.spend.day: -1.0 is not"),
        ("[plans.p]\nspend = { day = 0.0000000001 }", "f:2: plans.p.spend.day: 0.0000000001 has more decimals"),
        ("[plans.p]\nspend = { day = 9_000_001 }", "f:2: plans.p.spend.day: 9000001 is too large"),
        ("[plans.p]\nspend = { day = \"1\" }", "f:2: plans.p.spend.day: must be a number, not the string \"1\""),
        ("[plans.p]\nrpm = -5", "f:2: plans.p.rpm: -5 is negative"),
        ("[plans.p]\nrpm = inf", "f:2: plans.p.rpm: inf is not a whole number"),
        ("[plans.p]\nrpm = 1.5", "f:2: plans.p.rpm: 1.5 is not a whole number"),
        ("[plans.p]\nrpm = true", "f:2: plans.p.rpm: must be a number, not true or false"),
        ("[plans.p]\nrpm = 99999999999999999999999", "f:2: plans.p.rpm: 99999999999999999999999 is too large"),
        ("[plans.p]\nmessages = { burst = 3 }", "f:2: plans.p.messages: `rate` is missing"),
        ("[plans.p]\nmessages = \"5/x\"", "f:2: plans.p.messages: \"5/x\" is not a rate; write a rate such as \"5/m\""),
        (
            "[plans.p]\nrpm = { limit = 5, window = \"sliding\", burst = 9 }",
            "f:2: plans.p.rpm.burst: a sliding window has no burst",
        ),
        ("[plans.p]\nrpm = { limit = 5, limt = 5 }", "f:2: plans.p.rpm.limt: is not a setting; did you mean `limit`?"),
        ("[plans.p]\nmax_output_tokens = 0", "f:2: plans.p.max_output_tokens: is 0"),
        ("[plans.p]\non_spend = [\"handof\"]", "f:2: plans.p.on_spend[0]: \"handof\" is unknown; did you mean `handoff`?"),
        ("[plans.p]\non_spend = [\"handoff\", \"cheaper\"]", "f:2: plans.p.on_spend: has a step after \"handoff\""),
        ("[plans.p]\nupgrade_url = \"buy\"", "f:2: plans.p.upgrade_url: \"buy\" is not a URL"),
        ("[server]\nlisten = \"8080\"", "f:2: server.listen: \"8080\" is not an address and a port"),
        ("[server]\nheader_timeout = \"0s\"", "f:2: server.header_timeout: is zero"),
        ("[server]\nheader_timeout = 5", "f:2: server.header_timeout: must be a string, not a number; write a duration"),
        ("[server]\nmax_body = \"32 potatoes\"", "f:2: server.max_body: \"32 potatoes\" is not a size"),
        ("[retry]\nwait_budget = \"6 lightyears\"", "f:2: retry.wait_budget: \"6 lightyears\" is not a duration"),
        ("[budget]\nzone = \"Mars/Base\"", "f:2: budget.zone: there is no time zone \"Mars/Base\""),
        ("[budget]\nnotice = 101", "f:2: budget.notice: 101 is not a percentage"),
        (
            "[identity]\ndefault_plan = \"busines\"",
            "f:2: identity.default_plan: there is no plan \"busines\"; did you mean `business`?",
        ),
        ("[identity]\nanonymous = \"x\"", "f:2: identity.anonymous: there is no plan \"x\"; there is business, individual"),
        ("[customers.c]\nplan = \"gold\"", "f:2: customers.c.plan: there is no plan \"gold\""),
        ("[customers.\"a b\"]\nrpm = 1", "f:1: customers.\"a b\": the customer id may only hold visible ASCII"),
        ("[customers.c]\nrmp = 1", "f:2: customers.c.rmp: is not a setting; did you mean `rpm`?"),
        ("[concurrency]\nslots = 0", "f:2: concurrency.slots: 0 is out of range"),
        ("[priorities.background]\nshare = 1.5", "f:2: priorities.background.share: 1.5 is not a part"),
        ("[upstreams.u]\nbase_url = \"https://me:pw@x/v1\"", "f:2: upstreams.u.base_url: has credentials in it"),
        ("[upstreams.u]\ndialect = \"openai\"", "f:1: upstreams.u: `base_url` is missing"),
        (
            "[pools.p]\nupstream = \"opnai\"\nmodels = [\"m\"]",
            "f:2: pools.p.upstream: there is no upstream \"opnai\"; did you mean `openai`?",
        ),
        ("[pools.p]\nupstream = \"openai\"", "f:1: pools.p: `models` is missing"),
        ("[pools.p]\nupstream = \"openai\"\nmodels = [\"g*t\"]", "f:3: pools.p.models[0]: \"g*t\" has a `*` before its end"),
        (
            "[pools.p]\nupstream = \"openai\"\nmodels = [\"m\"]\nceiling = { tpm = 1, input_tpm = 1 }",
            "f:4: pools.p.ceiling.input_tpm: stands beside tpm",
        ),
        ("[models.m]\nprice = { input = 1.0 }", "f:2: models.m.price: `output` is missing"),
        ("[models.m]\nprice = { input = -1, output = 1 }", "f:2: models.m.price.input: -1 is not a non-negative decimal"),
        ("[models.m]\nprice = { input = nan, output = 1 }", "f:2: models.m.price.input: nan is not"),
        ("[models.m]\nprice = { input = \"\", output = 1 }", "f:2: models.m.price.input: must be a number"),
        ("[pricing]\nfile = \"/no/such\"", "f:2: pricing.file: the price file \"/no/such\" cannot be read"),
        ("[levels]\nx = 1", "f:1: levels: is not a setting"),
        ("x = [", "f:1: is not TOML here"),
    ] {
        let found = problems(text, &[]);
        assert_eq!(found.len(), 1, "{text}: {found:#?}");
        assert!(found[0].starts_with(right), "{text}\n  found {}\n  right {right}", found[0]);
    }
}

#[test]
fn all_problems_come_at_once_in_the_order_of_the_file() {
    let text = "[plans.p]\nrpm = -1\nwat = 1\n[server]\nlisten = 3\n[customers.c]\nplan = \"q\"\n";
    let found = problems(text, &[("TOLLGATE_SERVER__GRACE", "soon"), ("TOLLGATE_SERVR__GRACE", "1s")]);
    let starts = [
        "f:2: plans.p.rpm",
        "f:3: plans.p.wat",
        "f:5: server.listen",
        "f:7: customers.c.plan",
        "environment variable TOLLGATE_SERVER__GRACE: server.grace: \"soon\" is not a duration",
        "environment variable TOLLGATE_SERVR__GRACE: servr: is not a setting; did you mean `server`?",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
}

#[test]
fn numbers_that_cannot_be_counted_exactly_come_with_the_nearest_that_can() {
    let text = "[pools.p]\nupstream = \"openai\"\nmodels = [\"m*\"]\nceiling = { tpm = 150_000_001 }";
    let found = problems(text, &[]);
    assert!(
        found[0].starts_with("f:4: pools.p.ceiling.tpm: 150000001: this rate and capacity cannot be counted exactly"),
        "{found:?}"
    );
    assert!(found[0].ends_with("the nearest number that can is 150000000"), "{found:?}");
    policy(&text.replace("150_000_001", "150000000"));
}

#[test]
fn zero_blocks_everything_and_says_so() {
    let text = "[plans.p]\nrpm = 0\ntpm = 0\nspend = { day = 0 }\nmessages = { rate = \"0/m\", burst = 0 }\nmax_in_flight = 0\nmax_output_tokens = 1\n";
    let (policy, warnings) = sound(text, &[]);
    let plan = &policy.plans["p"];
    assert_eq!(plan.limits.rates[0].kind, LimitKind::Bucket(Bucket::new(0, 0, MINUTE).expect("exact")));
    assert_eq!(plan.limits.spend, [(Period::Day, NanoUsd::ZERO)]);
    assert_eq!(plan.max_in_flight, Some(0));
    for line in [2, 3, 4, 5, 6] {
        assert!(
            warnings.iter().any(|w| w.starts_with(&format!("f:{line}: plans.p")) && w.contains("is 0")),
            "line {line}: {warnings:#?}"
        );
    }
    assert!(policy_limits_of_a_trillion().is_some());
}

fn policy_limits_of_a_trillion() -> Option<Limit> {
    policy("[plans.p]\nrpm = 1_000_000_000_000").plans["p"].limits.rates.first().copied()
}

#[test]
fn rate_limits_in_full_say_window_burst_and_wait() {
    let text = "[plans.p]\nmessages = { rate = \"0.7/s\", burst = 9, max_wait = \"2m\" }\nrpm = { limit = 60, window = \"sliding\", max_wait = \"1s\" }\ntpm = { limit = 1_000, burst = 5_000 }\nquota = { requests_month = 7, tokens_day = 8 }";
    let policy = policy(text);
    let limits = &policy.plans["p"].limits;
    let messages = limits.messages.expect("set");
    assert_eq!(messages.kind, LimitKind::Bucket(Bucket::new(9, 7, 10_000_000).expect("exact")));
    assert_eq!(messages.max_wait, Duration::from_secs(120));
    assert_eq!((limits.rates[0].kind, limits.rates[0].max_wait), (LimitKind::Sliding(60), Duration::from_secs(1)));
    assert_eq!(limits.rates[1].kind, LimitKind::Bucket(Bucket::new(5_000, 1_000, MINUTE).expect("exact")));
    assert_eq!(limits.quotas, [(LimitName::RequestQuota(Period::Month), 7), (LimitName::TokenQuota(Period::Day), 8)]);
}

#[test]
fn a_customer_keeps_what_it_does_not_override() {
    let policy = policy(
        "[plans.individual]\nspend = { month = 5 }\n[customers.a]\nplan = \"business\"\nspend = { month = 900 }\n[customers.b]\nrpm = \"unlimited\"\nuser = { rpm = 3 }\n[customers.c]",
    );
    let a = policy.plan_of("a").expect("known");
    assert_eq!(&*a.name, "business");
    assert_eq!(a.limits.spend, [(Period::Day, NanoUsd::new(40_000_000_000)), (Period::Month, NanoUsd::new(900_000_000_000))]);
    assert_eq!(a.limits.rates, policy.plans["business"].limits.rates);
    let b = policy.plan_of("b").expect("known");
    assert_eq!(b.limits.rates.iter().map(|rate| rate.name).collect::<Vec<_>>(), [LimitName::Tpm]);
    assert_eq!(b.user.rates, [bucket(LimitName::Rpm, Measure::Request, Bucket::new(3, 3, MINUTE))]);
    assert_eq!(b.user.messages, policy.plans["individual"].user.messages, "inherited beside the override");
    assert_eq!(b.limits.spend, [(Period::Day, NanoUsd::new(500_000_000)), (Period::Month, NanoUsd::new(5_000_000_000))]);
    assert!(std::sync::Arc::ptr_eq(policy.plan_of("c").expect("known"), &policy.plans["individual"]));
}

#[test]
fn unknown_customers_get_the_default_plan_or_nothing() {
    assert_eq!(policy("[identity]\ndefault_plan = \"business\"").plan_of("x").map(|plan| &*plan.name), Some("business"));
    let strict = policy("[identity]\nunknown_customers = \"refuse\"\n[customers.k]\nplan = \"business\"");
    assert!(strict.plan_of("x").is_none());
    assert_eq!(strict.plan_of("k").map(|plan| &*plan.name), Some("business"));
}

#[test]
fn a_pool_mirrors_the_providers_rule() {
    let text = "[pools.small]\nupstream = \"openai\"\nmodels = [\"gpt-4o-mini*\"]\nceiling = { rpm = 500, tpm = 400_000, rpd = 10_000 }\n\
        [pools.strict]\nupstream = \"openai\"\nmodels = [\"gpt-*\"]\nceiling = { rpm = 1_000, tpm = 1_000 }\nwindow = \"sliding\"\nheadroom = 0.9\ncounts = \"actual\"\nbackground_wait = \"5s\"\n\
        [pools.claude]\nupstream = \"anthropic\"\nmodels = [\"claude-*\"]\nceiling = { rpm = 50, input_tpm = 30_000, output_tpm = 8_000 }\n[retry]\nwait_budget = \"4s\"";
    let policy = policy(text);
    let [small, strict, claude] = &policy.pools[..] else { panic!("three pools") };
    let ceiling = |name, measure, limit, period| Limit {
        max_wait: Duration::from_secs(4),
        ..bucket(name, measure, Bucket::with_headroom(limit, limit, period, 970_000))
    };
    let day = 1_440 * MINUTE;
    assert_eq!(
        small.ceiling,
        [
            ceiling(LimitName::Rpm, Measure::Request, 500, MINUTE),
            ceiling(LimitName::Tpm, Measure::Reserved, 400_000, MINUTE),
            ceiling(LimitName::Rpd, Measure::Request, 10_000, day),
        ]
    );
    assert_eq!((small.counts, small.background_wait), (Counts::Reserved, Duration::from_secs(60)));
    let background = &small.shares[&Priority::Background];
    assert_eq!(background[1].kind, LimitKind::Bucket(Bucket::with_headroom(60_000, 400_000, MINUTE, 145_500).expect("exact")));
    assert_eq!(
        (background[1].max_wait, small.shares[&Priority::Internal][1].max_wait),
        (Duration::from_secs(60), Duration::from_secs(4))
    );
    assert!(!small.shares.contains_key(&Priority::Live), "live work may use all of it");
    assert_eq!(
        strict.ceiling.iter().map(|l| (l.kind, l.measure)).collect::<Vec<_>>(),
        [(LimitKind::Sliding(900), Measure::Request), (LimitKind::Sliding(900), Measure::Tokens)]
    );
    assert_eq!(strict.shares[&Priority::Background][0].kind, LimitKind::Sliding(135));
    assert_eq!(
        claude.ceiling[1..],
        [
            ceiling(LimitName::InputTpm, Measure::Input, 30_000, MINUTE),
            ceiling(LimitName::OutputTpm, Measure::Output, 8_000, MINUTE)
        ]
    );
    assert_eq!(claude.counts, Counts::InputOutput);

    let pool = |model| policy.pool_of(model).map(|pool| &*pool.name);
    assert_eq!((pool("gpt-4o-mini-2024"), pool("gpt-4o"), pool("o3")), (Some("small"), Some("strict"), None));
    assert!(policy.upstream_of("claude-x", Dialect::OpenAi).is_none(), "nothing is translated");
}

#[test]
fn a_pool_that_an_earlier_one_hides_is_a_problem() {
    let pools = |first: &str, second: &str| {
        format!(
            "[pools.a]\nupstream = \"openai\"\nmodels = [\"{first}\"]\n[pools.b]\nupstream = \"openai\"\nmodels = [\"{second}\"]"
        )
    };
    for (first, second) in [("gpt-*", "gpt-4o*"), ("gpt-*", "gpt-4o"), ("m", "m"), ("*", "x*")] {
        let found = problems(&pools(first, second), &[]);
        assert!(found[0].starts_with(&format!("f:6: pools.b.models[0]: \"{second}\" is never reached")), "{found:?}");
    }
    for (first, second) in [("gpt-4o*", "gpt-*"), ("m", "m*"), ("a*", "b*")] {
        policy(&pools(first, second));
    }
}

#[test]
fn fallbacks_that_loop_chain_or_have_no_price_are_refused() {
    let priced = "[pricing]\nunpriced = \"free\"\n";
    for (text, right) in [
        ("[models.a]\nfallback = \"a\"", "f:4: models.a.fallback: is the model itself"),
        (
            "[models.a]\nfallback = \"b\"\n[models.b]\nfallback = \"a\"",
            "f:4: models.a.fallback: falls back in a circle (a -> b -> a)",
        ),
        ("[models.a]\nfallback = \"b\"\n[models.b]\nfallback = \"c\"", "f:4: models.a.fallback: is a chain (a -> b -> c)"),
        (
            "[models.a]\nfallback = \"b\"\n[models.b]\nfallback = \"c\"\n[models.c]\nfallback = \"b\"",
            "f:4: models.a.fallback: falls back in a circle (a -> b -> c -> b)",
        ),
    ] {
        let found = problems(&format!("{priced}{text}"), &[]);
        assert!(found[0].starts_with(right), "{text}: {found:?}");
    }
    let unpriced = problems("[models.gpt-4o]\nfallback = \"m-small\"", &[]);
    assert!(unpriced[0].starts_with("f:2: models.gpt-4o.fallback: the fallback \"m-small\" has no price"), "{unpriced:?}");
    let text = "[models.gpt-4o]\nfallback = \"m-small\"\n[models.m-small]\nprice = { input = 0.15, output = 0.60 }";
    assert_eq!(policy(text).models["gpt-4o"].fallback.as_deref(), Some("m-small"));
}

#[test]
fn an_operators_price_is_exact() {
    let policy = policy(
        "[models.m]\nprice = { input = 0.15, cached_input = 0.075, output = 0.60, long_context = { above = 200_000, input = 0.3 }, web_search_call = 0.01 }",
    );
    let price = policy.prices.get("m").expect("set");
    let rates = price.rates();
    assert_eq!((rates.input.pico(), rates.cached_input.pico(), rates.output.pico()), (150_000, 75_000, 600_000));
    assert_eq!((price.long_context()[0].above, price.long_context()[0].rates.input.pico()), (200_000, 300_000));
    assert_eq!(price.web_search, Some(NanoUsd::new(10_000_000)));
}

#[test]
fn passthrough_beyond_loopback_needs_to_know_its_callers() {
    let found = problems("[server]\nlisten = \"0.0.0.0:8080\"", &[]);
    assert!(found[0].starts_with("f:2: server.listen: 0.0.0.0:8080 is reachable from other machines"), "{found:?}");
    let found = problems("", &[("TOLLGATE_SERVER__LISTEN", "[::]:80")]);
    assert!(
        found[0].starts_with("environment variable TOLLGATE_SERVER__LISTEN: server.listen: [::]:80 is reachable"),
        "{found:?}"
    );
    let policy = policy("[server]\nlisten = \"0.0.0.0:8080\"\n[auth]\ntrusted_networks = [\"10.0.0.0/8\", \"192.168.1.7\"]");
    let Auth::Passthrough { trusted } = &policy.auth else { panic!("passthrough") };
    assert_eq!(trusted.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.0/8", "192.168.1.7/32"]);
}

#[test]
fn gateway_keys_become_apps_by_hash() {
    let hex = blake3::hash(b"another-long-random-key").to_hex();
    let text = format!(
        "[auth]\nmode = \"keys\"\n[keys.shop]\nkey = {{ env = \"TOLLGATE_SHOP\" }}\nplans = [\"business\"]\npriority = \"background\"\nmodels = [\"gpt-4o*\"]\ncustomers = [\"c_*\"]\nrpm = 9\nspend = {{ day = 5 }}\n[keys.other]\nhash = \"blake3:{hex}\""
    );
    let (policy, _) = sound(&text, &[("TOLLGATE_SHOP", "a-long-and-random-key\n"), ("OPENAI_API_KEY", "sk-1")]);
    let Auth::Keys { apps } = &policy.auth else { panic!("keys") };
    assert_eq!(apps.len(), 2);
    let App { name, limits, plans, priority, models, customers } = &*apps[&hash_key("a-long-and-random-key")].clone();
    assert_eq!(
        (&**name, *priority, limits.rates.len(), limits.spend[0].1),
        ("shop", Priority::Background, 1, NanoUsd::new(5_000_000_000))
    );
    assert_eq!((&*plans[0], &*models[0], &*customers[0]), ("business", "gpt-4o*", "c_*"));
    assert_eq!(&*apps[&hash_key("another-long-random-key")].name, "other");
    assert_eq!(policy.upstreams["openai"].api_key.as_ref().map(|key| key.expose()), Some("sk-1"));
    assert!(policy.upstream_of("x", Dialect::Anthropic).is_none(), "no key, no upstream");
}

#[test]
fn secrets_come_from_outside_and_never_show() {
    let keys = "[auth]\nmode = \"keys\"\n[keys.a]\n";
    let upstream = "[upstreams.openai]\napi_key = ";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "sk-from-a-file\n").expect("written");
    for (text, vars, right) in [
        (format!("{keys}key = \"hunter2\""), &[][..], "f:4: keys.a.key: is a secret written in the file itself"),
        (format!("{keys}key = {{ env = \"NOPE\" }}"), &[][..], "f:4: keys.a.key: the environment variable NOPE is not set"),
        (
            format!("{keys}key = {{ env = \"hunter-2\" }}"),
            &[][..],
            "f:4: keys.a.key.env: is not the name of an environment variable",
        ),
        (format!("{keys}key = {{ file = \"/no/such\" }}"), &[][..], "f:4: keys.a.key: the file /no/such cannot be read"),
        (format!("{keys}key = {{ env = \"K\" }}"), &[("K", " ")][..], "f:4: keys.a.key: the environment variable K is empty"),
        (
            format!("{keys}key = {{ env = \"K\" }}"),
            &[("K", "hunter2\nx")][..],
            "f:4: keys.a.key: the environment variable K holds more",
        ),
        (format!("{keys}hash = \"hunter2\""), &[][..], "f:4: keys.a.hash: is not the hash of a key"),
        (format!("{keys}rpm = 1"), &[][..], "f:3: keys.a: has neither hash nor key"),
        ("[auth]\nmode = \"keys\"".to_owned(), &[][..], "f:1: keys mode without a key"),
        (
            "[store]\nkind = \"redis\"\nurls = [\"redis://:hunter2@h:6379\"]".to_owned(),
            &[][..],
            "f:3: store.urls[0]: has credentials in the file itself",
        ),
        (
            "[store]\nkind = \"redis\"\nurls = [{ env = \"R\" }]".to_owned(),
            &[("R", "hunter2")][..],
            "f:3: store.urls[0]: is not the address",
        ),
        ("[store]\nkind = \"redis\"".to_owned(), &[][..], "f:1: store: `urls` is missing"),
    ] {
        let vars: Vec<_> = vars.iter().copied().chain([("OPENAI_API_KEY", "sk")]).collect();
        let found = problems(&text, &vars);
        assert_eq!(found.len(), 1, "{text}: {found:#?}");
        assert!(found[0].starts_with(right), "{text}\n  found {}\n  right {right}", found[0]);
        assert!(!found[0].contains("hunter"), "{}", found[0]);
    }
    let text = format!("{keys}key = {{ env = \"K\" }}\n{upstream}{{ file = {:?} }}", file.path());
    let (policy, _) = sound(&text, &[("K", "a-long-and-random-key")]);
    assert_eq!(policy.upstreams["openai"].api_key.as_ref().map(|key| key.expose()), Some("sk-from-a-file"));
    assert!(!format!("{policy:?}").contains("sk-from-a-file"));
    let redis = "[store]\nkind = \"redis\"\nurls = [\"redis://a:1\", { env = \"R\" }]";
    let (policy, _) = sound(redis, &[("R", "redis://:p%40ss@h:6379/1")]);
    assert!(matches!(&policy.store, StoreKind::Redis { urls, .. } if urls[1].expose() == "redis://:p%40ss@h:6379/1"));
    assert!(!format!("{policy:?}").contains("p%40ss"));
    let hashed = "[identity]\nforward_id = { hashed_with = { env = \"S\" } }";
    assert!(
        matches!(&sound(hashed, &[("S", "salt")]).0.identity.forward, ForwardId::Hashed { secret } if secret.expose() == "salt")
    );
}

#[test]
fn variables_override_the_file() {
    let text = "[server]\nlisten = \"127.0.0.1:1\"\n[models.\"gpt-4.1\"]\noutput_floor = 1";
    let (policy, _) = sound(
        text,
        &[
            ("TOLLGATE_SERVER__LISTEN", "127.0.0.1:2"),
            ("TOLLGATE_MODELS__GPT_4_1__OUTPUT_FLOOR", "99"),
            ("TOLLGATE_AUTH__TRUSTED_NETWORKS", "10.0.0.0/8, ::1"),
            ("TOLLGATE_PLANS__INDIVIDUAL__USER", "{ rpm = 7 }"),
            ("TOLLGATE_PLANS__INDIVIDUAL__MESSAGES", "9/m"),
            ("TOLLGATE_LOG", "debug"),
            ("TOLLGATE_PORT", "tcp://10.0.0.1:8080"),
            ("TOLLGATE_SERVICE_HOST", "10.0.0.1"),
        ],
    );
    assert_eq!(policy.server.listen.port(), 2);
    assert_eq!(policy.models["gpt-4.1"].output_floor, Some(99));
    assert!(matches!(&policy.auth, Auth::Passthrough { trusted } if trusted.len() == 2));
    assert_eq!(policy.plans["individual"].user.rates, [bucket(LimitName::Rpm, Measure::Request, Bucket::new(7, 7, MINUTE))]);
    assert_eq!(
        policy.plans["individual"].limits.messages.map(|l| l.kind),
        Some(LimitKind::Bucket(Bucket::new(18, 9, MINUTE).expect("exact")))
    );
    for (name, right) in [
        ("TOLLGATE_", "environment variable TOLLGATE_: names no setting"),
        ("TOLLGATE_LISTEN", "environment variable TOLLGATE_LISTEN: listen: is not a setting"),
        ("TOLLGATE_SERVER__LISTEN__PORT", "environment variable TOLLGATE_SERVER__LISTEN__PORT: server.listen: is not a table"),
    ] {
        let found = problems(text, &[(name, "1")]);
        assert!(found[0].starts_with(right), "{name}: {found:?}");
    }
}

#[test]
fn what_is_odd_is_said() {
    for (text, right) in [
        ("", "built-in: concurrency.slots is not set"),
        ("", "built-in: plans.business: on_spend, on_tokens and on_provider of business, individual: their steps have no effect"),
        ("[plans.p]\nrpm = 5", "f:1: plans.p: does not say tpm, spend, max_output_tokens, so that is unlimited"),
        (
            "[plans.p]\nmessages = { rate = \"5/m\", burst = 5 }",
            "f:2: plans.p.messages: the burst (5) is no more than the rate's own amount (5)",
        ),
        ("[models.wat]\noutput_floor = 1", "f:1: models.wat: the model \"wat\" has no price"),
        ("[pools.p]\nupstream = \"openai\"\nmodels = [\"wat\"]", "f:3: pools.p.models[0]: the model \"wat\" has no price"),
        ("[handoff]\nmessage = \"x\"", "f:2: handoff.message: is checked but has no effect in this version"),
        ("[classes.c]\nfallback = true", "f:1: classes.c: is checked but has no effect"),
        ("[retry]\nmax = 2", "f:2: retry.max: has no effect"),
        ("[store]\nurls = [\"redis://h\"]", "f:2: store.urls: has no effect with the embedded store"),
        ("[upstreams.openai]\napi_key = { env = \"UNSET\" }", "f:2: upstreams.openai.api_key: has no effect in passthrough mode"),
        ("[auth]\ntrusted_networks = [\"0.0.0.0/0\"]", "f:2: auth.trusted_networks[0]: trusts every address there is"),
    ] {
        let (_, warnings) = sound(text, &[]);
        assert!(warnings.iter().any(|w| w.starts_with(right)), "{text}: {warnings:#?}");
    }
    let quiet = "[plans.individual]\non_spend = []\non_provider = []\n[plans.business]\non_spend = []\non_provider = []\n[concurrency]\nslots = 8";
    assert_eq!(sound(quiet, &[]).1, [""; 0]);
}

#[test]
fn one_upstream_of_a_dialect_replaces_the_shipped_one() {
    let policy = policy("[upstreams.local]\nbase_url = \"http://127.0.0.1:9/v1/\"\non_abort = \"drain\"\ninclude_usage = false");
    let local = policy.upstream_of("m", Dialect::OpenAi).expect("there");
    assert_eq!(
        (&*local.name, local.base_url.as_str(), local.drain_on_abort, local.include_usage),
        ("local", "http://127.0.0.1:9/v1", true, false)
    );
    assert!(!policy.upstreams.contains_key("openai") && policy.upstreams.contains_key("anthropic"));
}
