//! The whole way from text to policy.

mod access;
mod alerts;
mod desk;
mod examples;
mod problems;
mod telemetry;

use super::policy::{Auth, BodySource, Counts, ForwardId, Limit, LimitKind, Retry, Step, StoreKind, Unbounded, Unpriced};
use super::{Env, Policy};
use crate::degrade::breaker::Rules;
use crate::domain::{NanoUsd, Period, Priority};
use crate::limit::{Bucket, LimitName, Measure};
use crate::wire::Dialect;
use foldhash::HashMap;
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
    assert!(matches!(&policy.store, StoreKind::Embedded { path, .. } if path.ends_with("tollgate-data")));
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
fn one_upstream_of_a_dialect_replaces_the_shipped_one() {
    let policy = policy("[upstreams.local]\nbase_url = \"http://127.0.0.1:9/v1/\"\non_abort = \"drain\"\ninclude_usage = false");
    let local = policy.upstream_of("m", Dialect::OpenAi).expect("there");
    assert_eq!(
        (&*local.name, local.base_url.as_str(), local.drain_on_abort, local.include_usage),
        ("local", "http://127.0.0.1:9/v1", true, false)
    );
    assert!(!policy.upstreams.contains_key("openai") && policy.upstreams.contains_key("anthropic"));
}

#[test]
fn models_in_no_pool_go_to_the_namesake_of_the_dialect_or_else_to_the_first() {
    let two = "[upstreams.zeta]\nbase_url = \"http://z/v1\"\n[upstreams.alpha]\nbase_url = \"http://a/v1\"\n";
    let name = |text: &str| policy(text).upstream_of("m", Dialect::OpenAi).map(|up| up.name.to_string());
    assert_eq!(name(two).as_deref(), Some("zeta"), "the first of the file");
    assert_eq!(name(&format!("{two}[upstreams.openai]\nidle_timeout = \"9s\"")).as_deref(), Some("openai"));
}

#[test]
fn every_table_of_the_process_reaches_the_policy() {
    let policy = policy(
        "[server]\nlisten = \"localhost:9\"\nmax_body = \"2MB\"\nheader_timeout = \"1s\"\nbody_idle_timeout = \"2s\"\nbody_timeout = \"3s\"\nmax_connections = 4\ngrace = \"0s\"\n\
         [concurrency]\nslots = 5\nqueue = 6\nqueue_per_customer = 7\nmax_wait = \"8s\"\norphans = 9\norphans_per_customer = 3\n\
         [retry]\nmax = 1\nwait_budget = \"2s\"\nbreaker = { failures = 4, share = 0.25, window = \"20s\", pause = \"1s\" }\n\
         [budget]\nzone = \"Asia/Tokyo\"\nnotice = 90\n\
         [pricing]\nunpriced = \"free\"\nfeatures = { stored_context_tokens = 10, server_tools = 0.25 }\n\
         [priorities.background]\nshare = 0.2\n[priorities.internal]\nshare = 1.0\n\
         [gateway]\nrpm = 11\nspend = { week = 12 }\n\
         [identity]\nanonymous = \"business\"\nallow_emails = true\nbody_sources = [\"user\", \"metadata.user_id\"]\nforward_id = \"as_is\"\n\
         [customers.\"joe@example.com\"]\nplan = \"business\"\n\
         [models.m]\noutput_floor = 13\nmax_output_tokens = 14",
    );
    let secs = Duration::from_secs;
    let server = &policy.server;
    assert_eq!((server.listen.to_string().as_str(), server.max_body, server.max_connections), ("127.0.0.1:9", 2_000_000, 4));
    assert_eq!(
        (server.header_timeout, server.body_idle_timeout, server.body_timeout, server.grace),
        (secs(1), secs(2), secs(3), secs(0))
    );
    let concurrency = &policy.concurrency;
    assert_eq!((concurrency.slots, concurrency.queue, concurrency.queue_per_customer, concurrency.max_wait), (5, 6, 6, secs(8)));
    assert_eq!((concurrency.orphans, concurrency.orphans_per_customer), (9, 3));
    let rules = Rules { failures: 4, share: 250_000, window: 20_000_000, pause: 1_000_000 };
    assert_eq!(policy.retry, Retry { max: 1, wait_budget: secs(2), breaker: rules });
    assert_eq!((policy.zone.clone(), policy.notice_percent), (crate::domain::Zone::named("Asia/Tokyo").expect("a zone"), 90));
    assert_eq!(policy.unpriced, Unpriced::Free);
    assert_eq!(policy.unbounded, Unbounded { stored_context_tokens: Some(10), server_tools: Some(NanoUsd::new(250_000_000)) });
    assert_eq!(policy.shares, HashMap::from_iter([(Priority::Background, 200_000)]), "a whole share is none");
    assert_eq!(policy.gateway.rates, [bucket(LimitName::Rpm, Measure::Request, Bucket::new(11, 11, MINUTE))]);
    assert_eq!(policy.gateway.spend, [(Period::Week, NanoUsd::new(12_000_000_000))]);
    assert_eq!(policy.identity.anonymous.as_ref().map(|plan| &*plan.name), Some("business"));
    assert_eq!(policy.identity.body_sources, [BodySource::MetadataUserId, BodySource::User], "in the order they are read");
    assert_eq!(policy.identity.forward, ForwardId::AsIs);
    assert_eq!(policy.plan_of("joe@example.com").map(|plan| &*plan.name), Some("business"));
    assert_eq!((policy.models["m"].output_floor, policy.models["m"].max_output_tokens), (Some(13), Some(14)));
}
