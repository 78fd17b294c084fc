//! Health and metrics: for whoever watches, not for customers.

use crate::bed::Bed;
use crate::kit::{Answer, Before, bed, config, messages_left};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::Timestamp;
use tollgate::limit::{Admission, Decision, ScopeKey, Settlement};
use tollgate::store::{Balance, Ledger, StoreError};

/// A store that is away.
struct Away;

fn away<T: Send + 'static>() -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(async { Err(StoreError::Unreachable("redis://:secret@inside:6379 refused".into())) })
}

impl Ledger for Away {
    fn admit<'a>(&'a self, _: &'a Admission, _: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        away()
    }
    fn settle<'a>(&'a self, _: &'a [Settlement], _: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        away()
    }
    fn read<'a>(&'a self, _: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        away()
    }
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        away()
    }
}

#[tokio::test]
async fn health_and_metrics_need_no_customer_and_cost_nothing() {
    let bed = bed("[customers.empty]\nplan = \"edge\"\nmessages = { rate = \"1/h\", burst = 1 }\n").await;
    messages_left(&bed, "empty").await;
    let before = Before::of(&bed, &["empty"]).await;
    for (path, text) in [("/healthz", "ok\n"), ("/readyz", "ready\n"), ("/metrics", "# HELP tollgate_requests")] {
        for customer in [None, Some("empty"), Some("not an id,")] {
            let request = bed.client.get(bed.url(path));
            let answer = Answer::to(customer.iter().fold(request, |request, id| request.header("x-customer-id", *id))).await;
            assert_eq!(answer.status, 200, "{path} for {customer:?}");
            assert!(answer.body.starts_with(text.as_bytes()), "{path}: {answer:?}");
        }
    }
    before.assert_no_effect(&bed, "health").await;
    bed.assert_books(&["empty"]).await;
}

#[tokio::test]
async fn without_its_store_the_gateway_is_alive_and_not_ready_and_says_nothing_of_the_store() {
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a port"));
    let bed = Bed::on(&config(""), provider, Arc::new(Away)).await;
    for (path, status) in [("/healthz", 200), ("/metrics", 200), ("/readyz", 503)] {
        let answer = Answer::to(bed.client.get(bed.url(path))).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("inside"), "{path} names no host");
    }
    let answer = Answer::to(bed.chat("t", "m-big", "")).await;
    let message = answer.refused(503, "limits_unavailable", "no store, no request");
    assert!(!message.contains("secret"), "{message}");
    assert_eq!(bed.provider.seen(), 0);
    bed.quiet().await;
}

#[tokio::test]
async fn metrics_do_not_grow_with_customers_and_models_and_always_parse() {
    let bed = bed("").await;
    let scrape = async || Answer::to(bed.client.get(bed.url("/metrics"))).await;
    let odd = ["t\"}1x=\"", "t\\", "t{}", "#"];
    let round = async |from: usize| {
        for n in from..from + 50 {
            let customer = format!("{}{n}", odd[n % odd.len()]);
            assert_eq!(Answer::to(bed.chat(&customer, "m-small", "")).await.status, 200);
            let model = format!("made-up\\\"{n}");
            Answer::to(bed.chat(&customer, &model, "")).await.refused(400, "model_not_priced", &model);
        }
        bed.quiet().await;
    };
    round(0).await;
    let first = String::from_utf8(scrape().await.body.to_vec()).expect("text");
    round(50).await;
    let second = String::from_utf8(scrape().await.body.to_vec()).expect("text");
    let series = |text: &str| -> Vec<String> {
        text.lines()
            // What is told in the background comes when it comes; its labels are kinds and results, of which there are few.
            .filter(|line| !["#", "tollgate_alerts_total", "tollgate_webhooks_total"].iter().any(|other| line.starts_with(other)))
            .map(|line| line.rsplit_once(' ').expect("a value").0.to_owned())
            .collect()
    };
    assert_eq!(series(&first), series(&second), "the same series after fifty more customers and models");
    assert!(second.len() < 100_000, "{} bytes", second.len());
    for line in second.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(name.starts_with("tollgate_") && !name.contains("made-up") && !name.contains("t\\"), "{line}");
    }
    assert!(second.ends_with("# EOF\n"));
    assert!(second.contains(r#"tollgate_requests_total{api="chat",status="200",cause=""} 100"#), "{second}");
}
