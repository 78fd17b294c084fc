//! The stage of these tests: two models of each dialect, plans with every chain, requests of every API, and answers taken apart.

use crate::bed::Bed;
use http::HeaderMap;
use serde_json::Value;
use std::sync::Arc;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::telemetry::SystemClock;
use tollgate::triage::{Query, Ticket};

/// The sentence of the hand-off.
pub const SENTENCE: &str = "A colleague will \"write\" to you. ✓";

/// Keys mode, so that a request may name its plan. The key is the bed's own, `sk-test`. `m-big` gives no answer shorter than its whole
/// cap, so that a budget affords it or does not; `m-small` is its fallback, `c-big` and `c-small` are the same in Anthropic's dialect.
pub fn config(plans: &[(String, String)], more: &str) -> String {
    // The provider asks for a key, and none of the environment is read here.
    let key = concat!(env!("CARGO_TARGET_TMPDIR"), "/degrade-provider-key");
    static WRITTEN: std::sync::Once = std::sync::Once::new();
    WRITTEN.call_once(|| {
        // Each test may be a process of its own: none must find the file half written by another.
        let own = format!("{key}-{}", std::process::id());
        std::fs::write(&own, "sk-of-the-company").and_then(|()| std::fs::rename(&own, key)).expect("a directory for tests");
    });
    let hash = blake3::hash(b"sk-test").to_hex();
    let names: Vec<String> = plans.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let tables: String = plans.iter().map(|(name, body)| format!("[plans.{name}]\n{body}\n")).collect();
    let names = names.join(", ");
    format!(
        r#"
[auth]
mode = "keys"
[keys.app]
hash = "blake3:{hash}"
plans = [{names}]
[upstreams.openai]
base_url = "{{provider}}"
api_key = {{ file = {key:?} }}
[upstreams.anthropic]
base_url = "{{provider}}"
api_key = {{ file = {key:?} }}
dialect = "anthropic"
[models.m-big]
price = {{ input = 2.50, output = 10.0 }}
output_floor = 1_000
fallback = "m-small"
[models.m-small]
price = {{ input = 0.15, output = 0.60 }}
[models.c-big]
price = {{ input = 2.50, output = 10.0 }}
output_floor = 1_000
fallback = "c-small"
[models.c-small]
price = {{ input = 0.15, output = 0.60 }}
[models.emb]
price = {{ input = 0.02, output = 0 }}
[classes.general]
fallback = true
[classes.strict]
fallback = false
[handoff]
message = {SENTENCE:?}
[retry]
max = 0
wait_budget = "2s"
breaker = {{ failures = 0 }}
[concurrency]
slots = 64
{tables}
{more}
"#
    )
}

/// A bed with these plans; each is a name and the body of its table.
pub async fn bed(plans: &[(&str, &str)], more: &str) -> Bed {
    bed_with(plans, more, ProviderOptions::default()).await
}

pub async fn bed_with(plans: &[(&str, &str)], more: &str, options: ProviderOptions) -> Bed {
    let plans: Vec<_> = plans.iter().map(|(name, body)| ((*name).to_owned(), (*body).to_owned())).collect();
    let provider = Arc::new(Provider::start(options).await.expect("a loopback port"));
    let ledger = Arc::new(EmbeddedLedger::in_memory(Arc::new(SystemClock)));
    Bed::on(&config(&plans, more), provider, ledger).await
}

/// A chat route, streamed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub path: &'static str,
    pub stream: bool,
}

pub const ROUTES: [Route; 6] = [
    Route { path: "/v1/chat/completions", stream: false },
    Route { path: "/v1/chat/completions", stream: true },
    Route { path: "/v1/responses", stream: false },
    Route { path: "/v1/responses", stream: true },
    Route { path: "/v1/messages", stream: false },
    Route { path: "/v1/messages", stream: true },
];

impl Route {
    pub fn anthropic(self) -> bool {
        self.path == "/v1/messages"
    }

    /// The dear model of the route's dialect, and the cheap one.
    pub fn models(self) -> (&'static str, &'static str) {
        if self.anthropic() { ("c-big", "c-small") } else { ("m-big", "m-small") }
    }

    /// A question to the dear model that gives an answer of 20 tokens; `more` are further members, with a leading comma.
    pub fn body(self, more: &str) -> String {
        let (model, stream) = (self.models().0, self.stream);
        let question = r#"[{"role":"user","content":"Where is it? [20 tokens]"}]"#;
        match self.path {
            "/v1/responses" => format!(r#"{{"model":"{model}","stream":{stream},"input":{question}{more}}}"#),
            "/v1/messages" => format!(r#"{{"model":"{model}","max_tokens":1000,"stream":{stream},"messages":{question}{more}}}"#),
            _ => format!(r#"{{"model":"{model}","stream":{stream},"messages":{question}{more}}}"#),
        }
    }
}

/// An answer taken apart.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        let reply = request.send().await.expect("an answer");
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        Self { status, headers, body: reply.text().await.expect("a whole body") }
    }

    /// A header as text; empty when absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// `error.code` of either format.
    pub fn code(&self) -> String {
        let json = self.json();
        let code = [&json["error"]["code"], &json["error"]["details"]["error_code"]];
        code.iter().find_map(|code| code.as_str()).unwrap_or_default().to_owned()
    }

    /// The `data:` of each event of a stream; the one body of any other answer.
    fn documents(&self) -> Vec<Value> {
        if !self.header("content-type").starts_with("text/event-stream") {
            return vec![self.json()];
        }
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }

    /// The text it gives.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for json in self.documents() {
            for place in [
                &json["choices"][0]["message"]["content"],
                &json["choices"][0]["delta"]["content"],
                &json["content"][0]["text"],
                &json["delta"]["text"],
                &json["output"][0]["content"][0]["text"],
            ] {
                text.push_str(place.as_str().unwrap_or_default());
            }
            if json["type"] == "response.output_text.delta" {
                text.push_str(json["delta"].as_str().unwrap_or_default());
            }
        }
        text
    }

    /// The model it names.
    pub fn model(&self) -> String {
        let documents = self.documents();
        let models = documents.iter().flat_map(|json| [&json["model"], &json["response"]["model"], &json["message"]["model"]]);
        models.filter_map(Value::as_str).next().unwrap_or_default().to_owned()
    }

    /// What is left of one of the customer's limits, from the `RateLimit` header.
    pub fn remaining(&self, limit: &str) -> Option<u64> {
        let item = self.header("ratelimit").split(", ").find_map(|item| item.strip_prefix(&format!("\"{limit}\";r=")));
        item.and_then(|rest| rest.split(';').next()).and_then(|digits| digits.parse().ok())
    }
}

/// The models the provider saw, in order.
pub fn models_seen(bed: &Bed) -> Vec<String> {
    bed.provider.log().into_iter().map(|seen| seen.model).collect()
}

/// The tickets that wait, once their writing is done.
pub async fn tickets(bed: &Bed, right: usize) -> Vec<Ticket> {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let query = Query { limit: 1_000, ..Query::default() };
        let tickets = bed.gateway.triage.list(&query).await.expect("memory answers").tickets;
        if tickets.len() == right {
            return tickets;
        }
        assert!(tokio::time::Instant::now() < deadline, "{} tickets in place of {right}", tickets.len());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await; // polling with a deadline
    }
}
