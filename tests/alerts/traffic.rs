//! What requests show: loops, providers that refuse the account, models without a price.

use crate::bed::Bed;
use crate::kit::{Hand, World, config, wait};
use std::sync::Arc;
use tollgate::alert::{About, Kind};
use tollgate::config::hash_key;
use tollgate::demo::provider::Script;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::Stores;
use tollgate::store::documents::Documents;
use tollgate::store::documents::memory::MemoryDocuments;
use tollgate::store::embedded::EmbeddedLedger;

#[tokio::test]
async fn the_same_prompt_over_and_over_is_a_loop_and_other_prompts_are_none() {
    let world = World::of(2, &config("day = 9.0", "[alerts]\nloop_per_minute = 4\n")).await;
    let ask = async |gateway: usize, customer: &str, text: &str| {
        let body = format!(r#"{{"model":"m-small","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        let reply = world.beds[gateway].post("/v1/chat/completions", customer, body).send().await.expect("an answer");
        assert_eq!(reply.status(), 200);
    };
    for turn in 0..12 {
        ask(0, "acme", &format!("another {turn}")).await;
        ask(0, &format!("customer-{turn}"), "the same").await;
    }
    for _ in 0..4 {
        ask(0, "acme", "again").await;
        ask(1, "acme", "again").await;
    }
    // Nothing is a loop yet; what comes now is, at both gateways, and told once.
    ask(0, "acme", "again").await;
    ask(1, "acme", "again").await;
    let alerts = world.until(Kind::PromptLoop, 1).await;
    assert_eq!(alerts.len(), 1, "{alerts:#?}");
    assert_eq!(alerts[0].about, Some(About { what: "customer".into(), name: "acme".into() }));
    assert_eq!((&alerts[0].facts["times"], &alerts[0].facts["model"]), (&5.into(), &"m-small".into()));
    assert!(!alerts[0].text.contains("again") && alerts[0].text.contains("5 times within a minute"), "{}", alerts[0].text);
    for _ in 0..20 {
        ask(0, "acme", "again").await;
    }
    assert_eq!(world.bed().chat("acme", "unheard-of", "").send().await.expect("an answer").status(), 400);
    world.until(Kind::UnpricedModel, 1).await;
    assert_eq!(world.raised(Kind::PromptLoop), 1, "not again within an hour");
    let mut customers: Vec<_> = (0..12).map(|turn| format!("customer-{turn}")).collect();
    customers.push("acme".to_owned());
    world.beds[1].quiet().await;
    world.bed().assert_books(&customers.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn models_without_a_price_are_told_once_an_hour() {
    let world = World::of(2, &config("day = 9.0", "")).await;
    for (gateway, model) in [(0, "one"), (1, "two"), (0, "three")] {
        assert_eq!(world.beds[gateway].chat("acme", model, "").send().await.expect("an answer").status(), 400);
        world.until(Kind::UnpricedModel, 1).await;
    }
    world.clock.pass(3_601);
    assert_eq!(world.beds[1].chat("acme", "four", "").send().await.expect("an answer").status(), 400);
    let alerts = world.until(Kind::UnpricedModel, 2).await;
    let models: Vec<_> = alerts.iter().filter_map(|alert| Some(alert.about.as_ref()?.name.as_str())).collect();
    assert_eq!((models.len(), models[0]), (2, "one"), "{models:?}");
    world.bed().assert_books(&["acme"]).await;
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_provider_that_does_not_accept_the_configured_account_is_told_and_a_callers_own_key_is_not() {
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let key = "tg-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let mut secret = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut secret, b"sk-0123456789abcdef").expect("written");
    let configured = format!(
        "base_url = \"{{provider}}\"\napi_key = {{ file = \"{}\" }}\n[upstreams.anthropic]\nbase_url = \"{{provider}}\"\napi_key = {{ file = \"{0}\" }}\n",
        secret.path().display()
    );
    let keys = config("day = 9.0", &format!("[auth]\nmode = \"keys\"\n[keys.shop]\nhash = \"blake3:{}\"\n", hex(&hash_key(key))));
    let keys = keys.replacen("base_url = \"{provider}\"\n[upstreams.anthropic]\nbase_url = \"{provider}\"\n", &configured, 1);
    for (config, bearer, right) in
        [(keys, key, vec![(401, false), (429, true)]), (config("day = 9.0", ""), "sk-own", vec![(429, true)])]
    {
        let clock = Hand::new();
        let documents: Arc<dyn Documents> = Arc::new(MemoryDocuments::new(clock.clone()));
        let stores = Stores { ledger: Arc::new(EmbeddedLedger::in_memory(clock.clone())), documents: documents.clone() };
        let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
        let bed = Bed::over(&config, provider.clone(), stores, clock.clone()).await;
        for (status, body) in [(401, r#"{"error":{"message":"no"}}"#), (401, r#"{"error":{"message":"no"}}"#), (429, quota)] {
            provider.script(Script::json(status, body));
            let body = r#"{"model":"m-small","messages":[{"role":"user","content":"hi"}]}"#;
            let request = bed.client.post(bed.url("/v1/chat/completions")).header("authorization", format!("Bearer {bearer}"));
            let request = request.header("content-type", "application/json").header("x-customer-id", "acme").body(body);
            assert_eq!(request.send().await.expect("an answer").status(), status);
        }
        let count = right.len() as u64;
        wait("they are told", || crate::kit::all_raised(std::slice::from_ref(&bed)) >= count).await;
        crate::kit::settled(std::slice::from_ref(&bed), &documents).await;
        let alerts = crate::kit::kept(&documents).await;
        // Those of one instant are listed in any order.
        let mut told: Vec<_> = alerts
            .iter()
            .map(|alert| (alert.facts["status"].as_u64().expect("a status"), alert.facts["used_up"] == true))
            .collect();
        told.sort_unstable();
        assert_eq!(told, right, "{alerts:#?}");
        assert!(
            alerts
                .iter()
                .all(|alert| alert.kind == Kind::ProviderAccount
                    && alert.about.as_ref().is_some_and(|about| about.name == "openai"))
        );
        bed.assert_books(&["acme"]).await;
    }
}
