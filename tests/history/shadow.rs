//! Shadow limits: nothing is refused, and what is counted is what the same limit refuses when it is real.

use crate::bed::{Bed, config_and};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tollgate::config::{Env, Policy};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{Clock, Timestamp};
use tollgate::history::Day;
use tollgate::store::embedded::EmbeddedLedger;

/// Noon of Monday, 30 November 2026: no bucket refills while a case runs, however long that takes.
struct Stands;

impl Clock for Stands {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_796_040_000)
    }
}

/// A gateway whose time stands, with this much more configuration.
async fn bed(more: &str) -> Bed {
    let clock = Arc::new(Stands);
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    Bed::clocked(&config_and(more), provider, Arc::new(EmbeddedLedger::in_memory(clock.clone())), clock).await
}

const REST: &str = "on_spend = []\non_tokens = []\non_provider = []\n";
const UNLIMITED: &str = "messages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\nspend = { day = \"unlimited\" }\n";
const CUSTOMER: &str = "[customers.ann]\nplan = \"p\"\n";

/// The statuses and codes of twelve requests, one after the other, of two users.
async fn twelve(bed: &Bed) -> Vec<(u16, String)> {
    let mut all = Vec::new();
    for n in 0..12 {
        let user = if n % 3 == 0 { "u1" } else { "u2" };
        let request = bed.chat("ann", "m-big", r#","max_tokens":5,"n":8"#).header("x-user-id", user);
        let reply = request.send().await.expect("an answer");
        let status = reply.status().as_u16();
        let body: Value = serde_json::from_str(&reply.text().await.expect("whole")).expect("JSON");
        all.push((status, body["error"]["code"].as_str().unwrap_or_default().to_owned()));
        bed.quiet().await;
    }
    all
}

/// What the history has of the day: refused by limit, and refused by the shadow.
async fn counted(bed: &Bed) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    assert!(bed.gateway.history.flush(Duration::from_secs(10)).await);
    let today = Day::of(Stands.now());
    let day = bed.gateway.history.customer_days("ann", today, today).await.expect("the store answers").remove(0).1;
    assert_eq!(day.requests, 12);
    let hours = bed.gateway.history.customer_hours("ann", today).await.expect("the store answers");
    assert_eq!(hours[12].shadow, day.shadow, "by the hour the same");
    (day.refusals, day.shadow)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_counts_what_the_same_limit_refuses_when_it_is_real() {
    for (limits, by) in [
        ("messages = { rate = \"1/m\", burst = 3 }", "customer.messages"),
        ("rpm = 4", "customer.rpm"),
        ("rpm = { limit = 5, window = \"sliding\" }", "customer.rpm"),
        ("tpm = 60", "customer.tpm"),
        ("spend = { day = 0.004 }", "customer.spend_day"),
        ("quota = { requests_day = 7 }", "customer.requests_day"),
        ("user = { rpm = 3 }", "user.rpm"),
    ] {
        // Over an unlimited plan, so that only this limit is there.
        let key = limits.split(' ').next().expect("a key");
        let rest: String =
            UNLIMITED.lines().filter(|line| !line.starts_with(&format!("{key} "))).map(|line| format!("{line}\n")).collect();
        let real = bed(&format!("{CUSTOMER}[plans.p]\n{rest}{limits}\n{REST}")).await;
        let shadowed = bed(&format!("{CUSTOMER}[plans.p]\n{UNLIMITED}{REST}[shadow.plans.p]\n{limits}\n")).await;
        let refused = twelve(&real).await.iter().filter(|(status, _)| *status >= 400).count() as u64;
        assert!((1..12).contains(&refused), "{limits}: {refused} of 12");
        let answers = twelve(&shadowed).await;
        assert!(answers.iter().all(|(status, _)| *status == 200), "{limits}: nothing is refused: {answers:?}");
        let right = BTreeMap::from([(by.to_owned(), refused)]);
        assert_eq!(counted(&real).await, (right.clone(), BTreeMap::new()), "{limits}");
        assert_eq!(counted(&shadowed).await, (BTreeMap::new(), right), "{limits}");
        let (scope, limit) = by.split_once('.').expect("two words");
        let line = format!("tollgate_shadow_refusals_total{{plan=\"p\",scope=\"{scope}\",limit=\"{limit}\"}} {refused}");
        assert!(shadowed.gateway.metrics.render().contains(&line), "{line}");
        assert_eq!(shadowed.provider.seen(), 12, "{limits}");
    }
}

/// Status, headers but for ids and times, and body but for the provider's id.
async fn answer(bed: &Bed, more: &str) -> (u16, BTreeMap<String, String>, String) {
    let reply = bed.chat("ann", "m-big", more).send().await.expect("an answer");
    let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
    let differs = ["date", "x-request-id", "x-tollgate-request-id"];
    let headers = headers
        .iter()
        .filter(|(name, _)| !differs.contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()));
    let headers = headers.collect();
    (status, headers, reply.text().await.expect("whole"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_changes_no_answer_and_takes_no_call_of_the_store() {
    const PLAN: &str = "[plans.p]\nmessages = { rate = \"1/m\", burst = 8 }\nrpm = 6\ntpm = 500\nspend = { day = 0.01 }\n";
    let without = bed(&format!("{CUSTOMER}{PLAN}{REST}")).await;
    let nothing = "[shadow.plans.p]\nmessages = { rate = \"1/m\", burst = 1 }\nrpm = 1\ntpm = 1\nspend = { day = 0 }\n";
    let with = bed(&format!("{CUSTOMER}{PLAN}{REST}{nothing}")).await;
    for n in 0..12 {
        let more = if n % 2 == 0 { r#","max_tokens":40"# } else { r#","max_tokens":3,"stream":true"# };
        let (one, other) = (answer(&without, more).await, answer(&with, more).await);
        assert_eq!((one.0, &one.1), (other.0, &other.1), "request {n}");
        if one.0 >= 400 {
            let code = |body: &str| serde_json::from_str::<Value>(body).expect("JSON")["error"]["code"].clone();
            assert_eq!(code(&one.2), code(&other.2), "request {n}");
        }
        without.quiet().await;
        with.quiet().await;
    }
    let calls = |bed: &Bed| (bed.ledger.admits.load(Ordering::SeqCst), bed.ledger.settles.load(Ordering::SeqCst));
    assert_eq!(calls(&without), calls(&with), "calls of the store");
    assert_eq!(without.balances("ann").await, with.balances("ann").await, "the books");
    assert_eq!(without.provider.seen(), with.provider.seen());
    with.assert_books(&["ann"]).await;
    let (refused, shadow) = counted(&with).await;
    assert!(!refused.is_empty() && shadow.values().sum::<u64>() > 0, "both count: {refused:?} {shadow:?}");
}

#[tokio::test]
async fn a_request_says_by_which_limit_its_shadow_would_have_refused_it() {
    let bed = bed(&format!("{CUSTOMER}[plans.p]\n{UNLIMITED}{REST}[shadow.plans.p]\nrpm = 1\n")).await;
    for right in [None, Some("customer.rpm")] {
        let reply = bed.chat("ann", "m-big", "").send().await.expect("an answer");
        let id = reply.headers()["x-tollgate-request-id"].to_str().expect("text").to_owned();
        drop(reply.bytes().await);
        bed.quiet().await;
        assert!(bed.gateway.records.drain(Duration::from_secs(10)).await);
        let entry = bed.gateway.records.find(&id).await.expect("the store answers").expect("kept");
        assert_eq!((entry.shadow_refused.as_deref(), entry.status), (right, 200));
    }
}

#[test]
fn a_shadow_of_no_plan_or_with_other_keys_is_a_problem() {
    for (text, says) in [
        ("[shadow.plans.nobody]\nrpm = 1", "there is no plan \"nobody\""),
        ("[shadow.plans.business]\nmax_in_flight = 1", "max_in_flight"),
        ("[shadow]\nrpm = 1", "rpm"),
    ] {
        let problems = Policy::parse(text, "f", &Env::default()).map(|_| ()).expect_err(text);
        assert!(problems.iter().any(|problem| problem.to_string().contains(says)), "{text}: {problems:?}");
    }
}
