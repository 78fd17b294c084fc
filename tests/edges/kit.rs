//! What these tests share: a bed whose limits do not move with time, "no effect", and reading answers.

use crate::bed::{Bed, CONFIG};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use tollgate::demo::ProviderOptions;

/// Requests that a customer of plan `edge` has.
pub const MESSAGES: u64 = 60;

/// Slots of a gateway, free when nothing is going on.
pub const SLOTS: usize = 32;

/// Everybody's plan here: one message more an hour, so that the number in the headers is the number of requests admitted.
const EDGE: &str = r#"
[plans.edge]
messages = { rate = "1/h", burst = 60 }
rpm = "unlimited"
tpm = 10_000_000
spend = { day = 1000.0 }
max_output_tokens = 1_000
on_spend = []
on_provider = []
"#;

/// The cases' configuration with plan `edge` for everybody, and these lines behind it.
pub fn config(more: &str) -> String {
    let config = CONFIG.replace("default_plan = \"open\"", "default_plan = \"edge\"");
    assert_ne!(config, CONFIG, "the default plan is replaced");
    format!("{config}{EDGE}{more}")
}

/// A bed on [`config`].
pub async fn bed(more: &str) -> Bed {
    Bed::with(&config(more), ProviderOptions::default()).await
}

/// A client that speaks HTTP/2 without TLS.
pub fn h2c() -> reqwest::Client {
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    builder.http2_prior_knowledge().build().expect("a client without TLS settings")
}

/// The body of a chat with these further members.
pub fn chat(model: &str, more: &str) -> String {
    format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hi"}}]{more}}}"#)
}

/// How things stood before something that must have no effect.
pub struct Before {
    seen: u64,
    admits: usize,
    spent: BTreeMap<&'static str, u64>,
}

impl Before {
    /// Takes note of the present for these customers.
    pub async fn of(bed: &Bed, customers: &[&'static str]) -> Self {
        let mut spent = BTreeMap::new();
        for customer in customers {
            spent.insert(*customer, bed.spent(customer).await.get());
        }
        Self { seen: bed.provider.seen(), admits: bed.ledger.admits.load(Ordering::SeqCst), spent }
    }

    /// Nothing reached the provider, no limit was asked, nothing is held or spent.
    pub async fn assert_no_effect(&self, bed: &Bed, what: &str) {
        bed.quiet().await;
        assert_eq!(bed.provider.seen(), self.seen, "{what}: no call reaches the provider");
        assert_eq!(bed.ledger.admits.load(Ordering::SeqCst), self.admits, "{what}: no limit is asked");
        for (customer, spent) in &self.spent {
            assert_eq!(bed.spent(customer).await.get(), *spent, "{what}: {customer} spends nothing");
        }
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: bytes::Bytes,
}

impl Answer {
    /// Sends a request and reads the answer.
    pub async fn to(request: reqwest::RequestBuilder) -> Self {
        let reply = request.send().await.expect("an answer");
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        Self { status, headers, body: reply.bytes().await.expect("a whole body") }
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header as text; empty when absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// Messages left, as the answer says.
    pub fn messages_left(&self) -> u64 {
        let text = self.header("ratelimit-remaining");
        text.parse().unwrap_or_else(|_| panic!("messages left: {self:?}"))
    }

    /// Checks a refusal of ours in OpenAI's format: status, code, and what every refusal has. Gives the message.
    pub fn refused(&self, status: u16, code: &str, what: &str) -> String {
        let json = self.refusal(status, what);
        let error = &json["error"];
        assert_eq!(error["code"], code, "{what}: {json}");
        assert!(error["type"].is_string() && error["param"].is_string() | error["param"].is_null(), "{what}: {json}");
        assert_eq!(error["request_id"], self.header("x-tollgate-request-id"), "{what}: {json}");
        error["message"].as_str().expect("a message").to_owned()
    }

    /// The same in Anthropic's format.
    pub fn refused_anthropic(&self, status: u16, kind: &str, code: &str, what: &str) -> String {
        let json = self.refusal(status, what);
        let error = &json["error"];
        assert_eq!(json["type"], "error", "{what}: {json}");
        assert_eq!(error["type"], kind, "{what}: {json}");
        assert_eq!(error["details"]["error_code"], code, "{what}: {json}");
        assert_eq!(json["request_id"], self.header("x-tollgate-request-id"), "{what}: {json}");
        error["message"].as_str().expect("a message").to_owned()
    }

    fn refusal(&self, status: u16, what: &str) -> Value {
        assert_eq!(self.status, status, "{what}: {self:?}");
        assert_eq!(self.header("content-type"), "application/json", "{what}");
        assert_eq!(self.header("x-tollgate-refused-by"), "tollgate", "{what}");
        assert!(self.body.len() < 2_000, "{what}: an error is short, not {} bytes", self.body.len());
        self.json()
    }
}

/// One good request of a customer, read to its end; gives the messages left after it.
pub async fn messages_left(bed: &Bed, customer: &str) -> u64 {
    let answer = Answer::to(bed.chat(customer, "m-small", "")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.messages_left()
}
