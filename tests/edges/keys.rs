//! Gateway keys: who may call, as whom, for what; and whose key the provider sees.

use crate::bed::Bed;
use crate::kit::{Answer, Before, bed, chat, config, h2c};
use tollgate::config::hash_key;
use tollgate::demo::ProviderOptions;

const SHOP: &str = "tg-shop-0123456789abcdef";
const BATCH: &str = "tg-batch-0123456789abcdef";
const PROVIDERS: &str = "sk-provider-0123456789";

/// A gateway in keys mode: `shop` may do everything, `batch` little. The directory holds the provider's key.
async fn keys() -> (Bed, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("key");
    std::fs::write(&file, format!("{PROVIDERS}\n")).expect("a key file");
    let hash = |key: &str| blake3::Hash::from_bytes(hash_key(key)).to_hex();
    let more = format!(
        r#"
[auth]
mode = "keys"
[keys.shop]
hash = "blake3:{}"
plans = ["small"]
[keys.batch]
hash = "blake3:{}"
priority = "background"
models = ["m-s*"]
customers = ["job-*"]
[plans.small]
messages = {{ rate = "1/h", burst = 7 }}
spend = {{ day = 1.0 }}
on_spend = []
on_provider = []
[pools.shared]
upstream = "openai"
models = ["m-small", "m-big"]
ceiling = {{ rpm = 1_000 }}
[priorities.background]
share = 0.001
"#,
        hash(SHOP),
        hash(BATCH)
    );
    let upstreams = format!("base_url = \"{{provider}}\"\napi_key = {{ file = {:?} }}\n", file.to_str().expect("a plain path"));
    let config = config(&more).replace("base_url = \"{provider}\"\n", &upstreams);
    (Bed::with(&config, ProviderOptions::default()).await, directory)
}

#[tokio::test]
async fn the_provider_sees_its_own_key_and_never_the_callers() {
    let (bed, _directory) = keys().await;
    let messages = r#"{"model":"c-big","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let bearer = format!("Bearer {PROVIDERS}");
    for (path, body, expected) in [
        ("/v1/chat/completions", Some(chat("m-small", "")), ("authorization", &*bearer)),
        ("/v1/responses", Some(r#"{"model":"m-big","input":"hi"}"#.to_owned()), ("authorization", &*bearer)),
        ("/v1/messages", Some(messages.to_owned()), ("x-api-key", PROVIDERS)),
        ("/v1/models", None, ("authorization", &*bearer)),
    ] {
        for (name, value) in
            [("authorization", format!("Bearer {SHOP}")), ("x-api-key", SHOP.to_owned()), ("api-key", SHOP.to_owned())]
        {
            for client in [bed.client.clone(), h2c()] {
                let request = match &body {
                    Some(body) => client.post(bed.url(path)).body(body.clone()),
                    None => client.get(bed.url(path)),
                };
                let answer = Answer::to(request.header(name, &value).header("x-customer-id", "k")).await;
                assert_eq!(answer.status, 200, "{path} {name}: {answer:?}");
                let seen = bed.provider.log().pop().expect("forwarded");
                let credentials: Vec<_> = ["authorization", "x-api-key", "api-key"]
                    .iter()
                    .flat_map(|name| {
                        seen.headers.get_all(*name).iter().map(|value| (*name, value.to_str().expect("text").to_owned()))
                    })
                    .collect();
                assert_eq!(credentials, [(expected.0, expected.1.to_owned())], "{path}: one key, the provider's");
                let all = format!("{:?}{:?}", seen.headers, seen.body);
                assert!(!all.contains("tg-shop"), "{path}: {all}");
            }
        }
    }
    bed.assert_books(&["k"]).await;
}

#[tokio::test]
async fn without_a_key_of_ours_nobody_is_served() {
    let (bed, _directory) = keys().await;
    let before = Before::of(&bed, &["k"]).await;
    let long = "x".repeat(5_000);
    for (headers, what) in [
        (vec![], "no key"),
        (vec![("authorization", "")], "an empty key"),
        (vec![("authorization", "Bearer ")], "a bearer of nothing"),
        (vec![("authorization", "Bearer tg-shop")], "a part of a key"),
        (vec![("authorization", "Basic dGctc2hvcDo=")], "another scheme"),
        (vec![("authorization", &*long)], "a long key"),
        (vec![("x-api-key", PROVIDERS)], "the provider's own key"),
        (vec![("authorization", "Bearer tg-shop-0123456789abcdef"), ("authorization", "Bearer other")], "two keys"),
        (vec![("authorization", "Bearer other"), ("x-api-key", SHOP)], "a wrong key before a right one"),
    ] {
        let with = |path: &str| {
            let request = bed.client.post(bed.url(path)).header("x-customer-id", "k").body(chat("m-small", ""));
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
        };
        let answer = Answer::to(with("/v1/chat/completions")).await;
        let message = answer.refused(401, "invalid_api_key", what);
        assert_eq!(answer.json()["error"]["type"], "authentication_error", "{what}");
        assert_eq!(answer.header("www-authenticate"), "Bearer", "{what}");
        assert!(!message.contains("tg-") && !message.contains("sk-"), "{what}: {message}");
        Answer::to(with("/v1/messages")).await.refused_anthropic(401, "authentication_error", "invalid_api_key", what);
    }
    before.assert_no_effect(&bed, "no key").await;
}

#[tokio::test]
async fn a_key_does_only_what_its_scopes_allow() {
    let (bed, _directory) = keys().await;
    let before = Before::of(&bed, &["job-1", "k"]).await;
    for (key, customer, model, plan, code) in [
        (BATCH, "k", "m-small", None, "customer_not_allowed"),
        (BATCH, "JOB-1", "m-small", None, "customer_not_allowed"),
        (BATCH, "job-1", "m-big", None, "model_not_allowed"),
        (BATCH, "job-1", "M-SMALL", None, "model_not_allowed"),
        (BATCH, "job-1", "m-small", Some("small"), "plan_not_allowed"),
        (SHOP, "k", "m-small", Some("open"), "plan_not_allowed"),
        (SHOP, "k", "m-small", Some("no-such-plan"), "plan_not_allowed"),
    ] {
        let what = format!("{customer} {model} {plan:?}");
        let send = |path: &str| {
            let request = bed.client.post(bed.url(path)).header("x-api-key", key).header("x-customer-id", customer);
            let request = plan.iter().fold(request, |request, plan| request.header("x-customer-plan", *plan));
            request.body(format!(r#"{{"model":"{model}","max_tokens":9,"messages":[{{"role":"user","content":"hi"}}]}}"#))
        };
        let answer = Answer::to(send("/v1/chat/completions")).await;
        answer.refused(403, code, &what);
        assert_eq!(answer.json()["error"]["type"], "request_forbidden", "{what}");
        Answer::to(send("/v1/messages")).await.refused_anthropic(403, "permission_error", code, &what);
    }
    before.assert_no_effect(&bed, "scopes").await;
}

#[tokio::test]
async fn a_key_that_may_names_the_plan() {
    let (bed, _directory) = keys().await;
    let ask = |plan: Option<&'static str>| {
        let request = bed.chat("named", "m-small", "").header("authorization", "");
        let mut request = request.build().expect("a request");
        request.headers_mut().insert("authorization", format!("Bearer {SHOP}").parse().expect("a value"));
        if let Some(plan) = plan {
            request.headers_mut().insert("x-customer-plan", plan.parse().expect("a value"));
        }
        let client = bed.client.clone();
        async move { client.execute(request).await.expect("an answer") }
    };
    for (plan, limit) in [(Some("small"), "7"), (None, "60")] {
        let reply = ask(plan).await;
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.headers()["x-ratelimit-limit-requests"], limit, "{plan:?}");
        reply.bytes().await.expect("a body");
    }
    bed.assert_books(&["named"]).await;
}

#[tokio::test]
async fn a_key_cannot_rise_above_its_priority_and_may_go_below() {
    let (bed, _directory) = keys().await;
    let ask = |key: &'static str, priority: &'static str| {
        let request = bed.client.post(bed.url("/v1/chat/completions")).header("x-api-key", key).header("x-customer-id", "job-1");
        Answer::to(request.header("x-priority", priority).body(chat("m-small", "")))
    };
    // Background's share of the ceiling is one request.
    assert_eq!(ask(BATCH, "live").await.status, 200);
    for (key, priority, status) in [
        (SHOP, "live", 200),
        (SHOP, "internal", 200),
        (SHOP, "background", 429),
        (BATCH, "live", 429),
        (BATCH, "background", 429),
    ] {
        let answer = ask(key, priority).await;
        assert_eq!(answer.status, status, "{priority}: {answer:?}");
        if status == 429 {
            answer.refused(429, "rate_limit_exceeded", priority);
            assert_eq!(answer.json()["error"]["limit"]["scope"], "share", "{answer:?}");
        }
    }
    bed.assert_books(&["job-1"]).await;
}

#[tokio::test]
async fn in_passthrough_mode_the_provider_judges_the_key() {
    let bed = bed("").await;
    let missing = bed.client.post(bed.url("/v1/chat/completions")).header("x-customer-id", "k").body(chat("m-small", ""));
    Answer::to(missing).await.refused(401, "invalid_api_key", "no key at all");
    assert_eq!(bed.provider.seen(), 0);
    let wrong = bed.client.post(bed.url("/v1/chat/completions")).bearer_auth("sk-invalid").header("x-customer-id", "k");
    let answer = Answer::to(wrong.body(chat("m-small", ""))).await;
    assert_eq!((answer.status, answer.header("x-tollgate-refused-by")), (401, "provider"), "{answer:?}");
    assert_eq!(bed.spent("k").await.get(), 0);
    let plan = Answer::to(bed.chat("k", "m-small", "").header("x-customer-plan", "open")).await;
    plan.refused(403, "plan_not_allowed", "without a key of ours nobody names a plan");
}
