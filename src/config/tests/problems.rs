//! What is refused, and what is only said.

use super::{policy, problems, sound};
use crate::config::policy::Fallback;

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
        ("[records]\nkeep = \"5s\"", "f:2: records.keep: \"5s\" is not a time to keep something; write a duration"),
        ("[records]\nkeep = 7", "f:2: records.keep: must be a string, not a number"),
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
        ("[alarms]\nx = 1", "f:1: alarms: is not a setting"),
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
    assert_eq!(found.len(), 1, "the shares of a ceiling do not repeat what is wrong with it: {found:?}");
    policy(&text.replace("150_000_001", "150000000"));
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
    assert_eq!(policy(text).models["gpt-4o"].fallback.as_ref().map(|f| &*f.model), Some("m-small"));
}

#[test]
fn levels_ascend_and_can_end() {
    for (text, right) in [
        ("at = [85, 70, 95]", "f:2: levels.at: is not three ascending percentages from 1 to 200"),
        ("at = [70, 85]", "f:2: levels.at: is not three ascending percentages"),
        ("at = [70, 85, 201]", "f:2: levels.at: is not three ascending percentages"),
        ("at = [10, 85, 95]\nmargin = 10", "f:3: levels.margin: 10 points are not less than the first threshold"),
        ("output_cap = 0", "f:2: levels.output_cap: is 0"),
    ] {
        let found = problems(&format!("[levels]\n{text}"), &[]);
        assert!(found[0].starts_with(right), "{text}: {found:?}");
    }
    let levels = policy("[levels]\nat = [5, 85, 120]\nhold = \"30s\"\nbrevity = \"Short.\"").levels;
    assert_eq!((levels.up, levels.margin, levels.hold[2].as_secs(), &*levels.brevity), ([5, 85, 120], 4, 30, "Short."));
}

#[test]
fn what_is_odd_is_said() {
    for (text, right) in [
        ("", "f:1: concurrency.slots is not set"),
        ("", "f:1: customers of business, individual are handed off to people who cannot read their tickets"),
        ("[plans.p]\nrpm = 5", "f:1: plans.p: does not say tpm, spend, max_output_tokens, so that is unlimited"),
        (
            "[plans.p]\nmessages = { rate = \"5/m\", burst = 5 }",
            "f:2: plans.p.messages: the burst (5) is no more than the rate's own amount (5)",
        ),
        ("[models.wat]\noutput_floor = 1", "f:1: models.wat: the model \"wat\" has no price"),
        ("[pools.p]\nupstream = \"openai\"\nmodels = [\"wat\"]", "f:3: pools.p.models[0]: the model \"wat\" has no price"),
        ("[models.gpt-4o]\nfallback = \"gpt-4o-mini\"", "f:2: models.gpt-4o.fallback: never answers: no class allows a fallback"),
        (
            "[models.gpt-4o-mini]\nfallback = { model = \"gpt-4o\" }",
            "f:2: models.gpt-4o-mini.fallback.model: is dearer than \"gpt-4o-mini\" (input and output)",
        ),
        (
            "[models.gpt-4o]\nfallback = { model = \"gpt-4o-mini\", other_provider = true }",
            "f:2: models.gpt-4o.fallback.other_provider: has no effect in passthrough mode",
        ),
        (
            "[models.gpt-4o]\nfallback = \"gpt-4o-mini\"\n[upstreams.openai]\nbase_url = \"http://a\"\n[upstreams.b]\nbase_url = \"http://b\"\ndialect = \"openai\"\n\
             [pools.a]\nupstream = \"openai\"\nmodels = [\"gpt-4o\"]\n[pools.b]\nupstream = \"b\"\nmodels = [\"gpt-4o-mini\"]",
            "f:2: models.gpt-4o.fallback: is served by another upstream (\"b\"), so it never answers",
        ),
        ("[store]\nurls = [\"redis://h\"]", "f:2: store.urls: has no effect with the embedded store"),
        ("[upstreams.openai]\napi_key = { env = \"UNSET\" }", "f:2: upstreams.openai.api_key: has no effect in passthrough mode"),
        ("[upstreams.openai]\nbase_url = \"https://api.openai.com\"", "f:2: upstreams.openai.base_url: has no path"),
        ("[upstreams.openai]\nbase_url = \"https://api.openai.com/\"", "f:2: upstreams.openai.base_url: has no path"),
        (
            "[upstreams.openai]\nbase_url = \"http://8.8.8.8/v1\"",
            "f:2: upstreams.openai.base_url: sends keys and prompts in the clear",
        ),
        (
            "[upstreams.openai]\nbase_url = \"http://llm.example.com/v1\"",
            "f:2: upstreams.openai.base_url: sends keys and prompts in the",
        ),
        ("[auth]\ntrusted_networks = [\"0.0.0.0/0\"]", "f:2: auth.trusted_networks[0]: trusts every address there is"),
    ] {
        let (_, warnings) = sound(text, &[]);
        assert!(warnings.iter().any(|w| w.starts_with(right)), "{text}: {warnings:#?}");
    }
    assert_eq!(sound("[admin]\nlisten = \"127.0.0.1:8081\"\n[concurrency]\nslots = 8\n[handoff]\nmessage = \"x\"\n[classes.c]\nfallback = true", &[]).1, [""; 0]);
}

#[test]
fn a_fallback_is_a_name_or_a_table() {
    let text = "[classes.c]\nfallback = true\n[classes.d]\n[handoff]\nmessage = \"Soon.\"\n[models.gpt-4o]\nfallback = ";
    let policy_of = |fallback: &str| policy(&format!("{text}{fallback}"));
    let short = policy_of("\"gpt-4o-mini\"");
    let right = Fallback { model: "gpt-4o-mini".into(), system: None, other_provider: false };
    assert_eq!(short.models["gpt-4o"].fallback.as_deref(), Some(&right));
    assert_eq!((short.classes["c"].fallback, short.classes["d"].fallback, &*short.handoff.message), (true, false, "Soon."));
    let long = policy_of("{ model = \"gpt-4o-mini\", system = \"Be brief.\", other_provider = true }");
    let right = Fallback { system: Some("Be brief.".into()), other_provider: true, ..right };
    assert_eq!(long.models["gpt-4o"].fallback.as_deref(), Some(&right));
    for (wrong, right) in [
        ("{ system = \"x\" }", "f:7: models.gpt-4o.fallback: `model` is missing"),
        ("{ model = \"gpt-4o-mini\", sistem = \"x\" }", "f:7: models.gpt-4o.fallback.sistem: is not a setting"),
        ("{ model = \"gpt-4o\" }", "f:7: models.gpt-4o.fallback.model: is the model itself"),
        ("{ model = \"nobody-knows\" }", "f:7: models.gpt-4o.fallback.model: the fallback \"nobody-knows\" has no price"),
    ] {
        let found = problems(&format!("{text}{wrong}"), &[]);
        assert!(found[0].starts_with(right), "{wrong}: {found:?}");
    }
    assert!(problems("[handoff]\nmessage = \" \"", &[])[0].starts_with("f:2: handoff.message: is 1 bytes long"));
}

#[test]
fn an_upstream_that_is_near_or_spelled_in_full_is_not_odd() {
    for url in [
        "https://api.openai.com/v1",
        "https://llm.example.com/v1/",
        "http://127.0.0.1:9",
        "http://[::1]:9/v1",
        "http://10.1.2.3/v1",
        "http://[fd00::1]/v1",
        "http://localhost:11434",
        "http://ollama:11434/v1",
        "http://llm.default.svc.cluster.local/v1",
        "http://host.docker.internal:8000",
    ] {
        let warnings = sound(&format!("[upstreams.openai]\nbase_url = \"{url}\""), &[]).1;
        assert!(!warnings.iter().any(|warning| warning.contains("base_url")), "{url}: {warnings:#?}");
    }
}
