//! What goes wrong at the provider, and when another one may answer.

use crate::bed::Bed;
use crate::scene::{Answer, ROUTES, bed, config, models_seen};
use std::sync::Arc;
use tollgate::demo::provider::Script;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::telemetry::SystemClock;

const OPEN: &str = "messages = \"unlimited\"\nrpm = 600\ntpm = 1_000_000\nmax_output_tokens = 1_000\nspend = { day = 1.0 }";

#[tokio::test]
async fn each_kind_of_trouble_at_the_provider_walks_the_chain() {
    let event = "data: {\"error\":{\"message\":\"late\",\"type\":\"server_error\"}}\n\n";
    let bed = bed(&[("open", OPEN)], "").await;
    for (what, stream, script) in [
        ("its own 429", false, Script::json(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after", "60")),
        ("its quota", false, Script::json(429, r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#)),
        ("500", false, Script::json(500, "{}")),
        ("502 without JSON", false, Script::http(502).send("<html>")),
        ("529", false, Script::json(529, "{}")),
        ("a broken connection", false, Script::raw().reset()),
        ("no HTTP", false, Script::raw().send("nonsense\r\n\r\n")),
        ("a stream that begins with an error", true, Script::sse().send(event)),
        ("a stream that ends before it begins", true, Script::sse().close()),
    ] {
        bed.provider.script(script);
        let request =
            bed.post("/v1/chat/completions", "c", ROUTES[usize::from(stream)].body("")).header("x-customer-plan", "open");
        let answer = Answer::of(request.header("x-request-class", "general")).await;
        assert_eq!(
            (answer.status, answer.header("x-tollgate-degraded")),
            (200, "cheaper;cause=provider"),
            "{what}: {}",
            answer.body
        );
        assert!(answer.text().starts_with("Thank you"), "{what}: {}", answer.body);
    }
    // After the first text there is no way back.
    let chunk = "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m-big\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n";
    bed.provider.script(Script::sse().send(chunk).send(event));
    let before = bed.provider.seen();
    let request = bed.post("/v1/chat/completions", "late", ROUTES[1].body("")).header("x-customer-plan", "open");
    let answer = Answer::of(request.header("x-request-class", "general")).await;
    assert_eq!((answer.status, answer.header("x-tollgate-degraded"), &*answer.text()), (200, "", "Hello"));
    assert_eq!(bed.provider.seen() - before, 1);
    bed.quiet().await;
}

#[tokio::test]
async fn the_ceiling_and_the_slots_walk_the_chain_too() {
    let more = "[pools.full]\nupstream = \"openai\"\nmodels = [\"m-big\"]\nceiling = { rpm = 1 }";
    let bed = bed(&[("open", OPEN)], more).await;
    let send = |priority: &str, class: &str| {
        let request = bed.post("/v1/chat/completions", "c", ROUTES[0].body("")).header("x-customer-plan", "open");
        Answer::of(request.header("x-request-class", class).header("x-priority", priority))
    };
    let first = send("live", "general").await;
    assert_eq!((first.status, first.header("x-tollgate-degraded"), first.header("x-tollgate-level")), (200, "", "0"));
    let second = send("live", "general").await;
    assert_eq!((second.status, second.header("x-tollgate-degraded")), (200, "cheaper;cause=provider"), "{}", second.body);
    assert_eq!(second.header("x-tollgate-level"), "", "the fallback is in no pool");
    let third = send("live", "strict").await;
    assert_eq!((third.status, third.header("x-tollgate-degraded")), (200, "handoff;cause=provider"));
    assert_eq!(models_seen(&bed), ["m-big", "m-small"]);
    bed.assert_books(&["c"]).await;
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_answered_by_the_chain() {
    let more = "[upstreams.gone]\nbase_url = \"http://127.0.0.1:1/v1\"\ndialect = \"openai\"\n[pools.gone]\nupstream = \"gone\"\nmodels = [\"m-gone\"]\n\
                [models.m-gone]\nprice = { input = 1.0, output = 1.0 }";
    let bed = bed(&[("open", OPEN)], more).await;
    let body = ROUTES[0].body("").replace("m-big", "m-gone");
    let answer = Answer::of(bed.post("/v1/chat/completions", "c", body).header("x-customer-plan", "open")).await;
    assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, "handoff;cause=provider"), "{}", answer.body);
    bed.assert_books(&["c"]).await;
}

/// Two providers with a key each. The second serves the fallback.
struct Two {
    bed: Bed,
    other: Provider,
    _keys: tempfile::TempDir,
}

async fn two(other_provider: bool, main: &str) -> Two {
    let other = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    let keys = tempfile::tempdir().expect("a directory");
    for name in ["main", "other"] {
        std::fs::write(keys.path().join(name), format!("sk-of-{name}")).expect("written");
    }
    let key = |name: &str| keys.path().join(name).display().to_string();
    let more = format!(
        r#"
[upstreams.main]
base_url = "{main}"
dialect = "openai"
api_key = {{ file = "{}" }}
[upstreams.other]
base_url = "{}"
dialect = "openai"
api_key = {{ file = "{}" }}
[pools.main]
upstream = "main"
models = ["home"]
[pools.other]
upstream = "other"
models = ["away"]
[models.home]
price = {{ input = 2.0, output = 8.0 }}
fallback = {{ model = "away", other_provider = {other_provider} }}
[models.away]
price = {{ input = 1.0, output = 2.0 }}
"#,
        key("main"),
        other.base_url(),
        key("other"),
    );
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let ledger = Arc::new(EmbeddedLedger::in_memory(Arc::new(SystemClock)));
    let bed = Bed::on(&config(&[("open".to_owned(), OPEN.to_owned())], &more), provider, ledger).await;
    Two { bed, other, _keys: keys }
}

#[tokio::test]
async fn another_provider_answers_only_what_is_marked_free_of_personal_data_and_looks_so() {
    let chat = |content: &str| format!(r#"{{"model":"home","messages":[{{"role":"user","content":{content}}}]}}"#);
    let plain = chat(r#""What is the capital of France?""#);
    let image = chat(
        r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}]"#,
    );
    for (switched_on, marks, body, leaves) in [
        (true, &["none"][..], &*plain, true),
        (true, &["None"][..], &plain, true),
        (false, &["none"][..], &plain, false),
        (true, &[][..], &plain, false),
        (true, &["some"][..], &plain, false),
        (true, &["none", "some"][..], &plain, false),
        (true, &["none"][..], &chat(r#""I am jane@example.com""#), false),
        (true, &["none"][..], &chat(r#""My card is 4111 1111 1111 1111""#), false),
        (true, &["none"][..], &chat(r#"[{"type":"text","text":"call +49 30 1234567"}]"#), false),
        (true, &["none"][..], &image, false),
    ] {
        let two = two(switched_on, "{provider}").await;
        two.bed.provider.script(Script::json(500, "{}"));
        let request = two.bed.post("/v1/chat/completions", "c", body.to_owned()).header("x-customer-plan", "open");
        let request = marks.iter().fold(request, |request, mark| request.header("x-personal-data", *mark));
        let answer = Answer::of(request.header("x-request-class", "general")).await;
        let right = if leaves { "cheaper;cause=provider" } else { "handoff;cause=provider" };
        assert_eq!((answer.status, answer.header("x-tollgate-degraded")), (200, right), "{switched_on} {marks:?} {body:.90}");
        let log = two.other.log();
        assert_eq!(log.len(), usize::from(leaves), "{marks:?} {body:.90}");
        assert_eq!(two.bed.provider.log()[0].header("authorization"), "Bearer sk-of-main");
        if let Some(seen) = log.first() {
            assert_eq!(seen.header("authorization"), "Bearer sk-of-other", "each sees its own key");
            assert_eq!(seen.header("x-personal-data"), "");
            let cost = seen.usage.as_ref().map(|usage| usage.input() * 1_000 + usage.total_output() * 2_000);
            assert_eq!(Some(two.bed.spent("c").await.get()), cost, "at the price of who answered");
        } else {
            assert_eq!(two.bed.spent("c").await.get(), 0);
        }
    }
}

/// In passthrough mode the caller's own key goes to the model's upstream, and to no other.
#[tokio::test]
async fn a_callers_key_is_never_shown_to_another_upstream() {
    let other = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    let config = format!(
        r#"
[upstreams.openai]
base_url = "{{provider}}"
[upstreams.other]
base_url = "{}"
dialect = "openai"
[pools.other]
upstream = "other"
models = ["away"]
[models.home]
price = {{ input = 2.0, output = 8.0 }}
fallback = {{ model = "away", other_provider = true }}
[models.away]
price = {{ input = 1.0, output = 2.0 }}
[classes.general]
fallback = true
[retry]
max = 0
"#,
        other.base_url()
    );
    let bed = Bed::with(&config, ProviderOptions::default()).await;
    bed.provider.script(Script::json(500, "{}"));
    let body = r#"{"model":"home","messages":[{"role":"user","content":"hi"}]}"#;
    let request = bed.post("/v1/chat/completions", "c", body).header("x-personal-data", "none");
    let answer = Answer::of(request.header("x-request-class", "general")).await;
    assert_eq!(answer.header("x-tollgate-degraded"), "handoff;cause=provider");
    assert_eq!((bed.provider.seen(), other.seen()), (1, 0));
    bed.assert_books(&["c"]).await;
}
