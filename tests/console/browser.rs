//! A browser without scripts: keeps its cookie, sends forms with the hidden fields of the page it stands on.

use crate::bed::{Bed, CONFIG};
use reqwest::header::{LOCATION, SET_COOKIE};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::{Clock, Timestamp};
use tollgate::store::Stores;
use tollgate::store::documents::memory::MemoryDocuments;
use tollgate::store::embedded::EmbeddedLedger;

/// The admin token of these tests.
pub const TOKEN: &str = "an-admin-token-of-some-length";

/// Gateways with the admin token, a pool and kept conversations.
pub const MORE: &str = r#"
[admin]
listen = "127.0.0.1:0"
token = { file = "{token}" }
[auth]
mode = "keys"
[keys.shop]
hash = "{hash}"
[triage]
conversation = true
requests = true
[pools.big]
upstream = "openai"
models = ["m-big"]
ceiling = { rpm = 1_000 }
[classes.billing]
fallback = true
[plans.handed]
messages = "unlimited"
spend = { day = 0.000_001 }
on_spend = ["handoff"]
on_provider = []
[customers.h]
plan = "handed"
"#;

/// Time that passes when a test says so.
#[derive(Debug)]
pub struct Hand(AtomicU64);

impl Hand {
    pub fn pass(&self, duration: Duration) {
        self.0.fetch_add(u64::try_from(duration.as_micros()).expect("short"), Ordering::SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Gateways on one store.
pub struct World {
    pub beds: Vec<Bed>,
    pub clock: Arc<Hand>,
}

impl World {
    pub async fn new() -> Self {
        Self::of(1, &format!("{CONFIG}\n{MORE}")).await
    }

    pub async fn of(gateways: usize, config: &str) -> Self {
        let clock = Arc::new(Hand(AtomicU64::new(1_800_000_000_000_000)));
        let documents = Arc::new(MemoryDocuments::new(clock.clone()));
        let ledger = Arc::new(EmbeddedLedger::in_memory(clock.clone()));
        let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
        let secret = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(secret.path(), TOKEN).expect("written");
        let mut beds = Vec::new();
        for _ in 0..gateways {
            let stores = Stores { ledger: ledger.clone(), documents: documents.clone() };
            let config = config.replace("{token}", &secret.path().display().to_string());
            let config = config.replace("{hash}", &format!("blake3:{}", blake3::hash(b"sk-test").to_hex()));
            let upstream = "base_url = \"{provider}\"\n";
            let config = config.replace(upstream, &format!("{upstream}api_key = {{ file = {:?} }}\n", secret.path()));
            beds.push(Bed::over(&config, provider.clone(), stores, clock.clone()).await);
        }
        Self { beds, clock }
    }

    pub fn bed(&self) -> &Bed {
        &self.beds[0]
    }

    /// A browser at the first gateway.
    pub fn browser(&self) -> Browser {
        Browser { base: admin(self.bed()), client: self.bed().client.clone(), cookie: None }
    }

    /// One that has logged in under this name.
    pub async fn operator(&self, name: &str) -> Browser {
        let mut browser = self.browser();
        let page = browser.get("/console/login").await;
        let entered = browser.send(&page, "/console/login", &[("name", name), ("token", TOKEN)]).await;
        assert_eq!((entered.status, entered.to.as_str()), (303, "/console"), "{}", entered.text);
        browser
    }

    /// The ticket of a customer's hand-off, once it is written.
    pub async fn ticket(&self, customer: &str, question: &str, class: &str) -> String {
        let body = serde_json::json!({ "model": "m-big", "messages": [{ "role": "user", "content": question }] });
        let request = self.bed().post("/v1/chat/completions", customer, body.to_string()).header("x-request-class", class);
        let reply = request.send().await.expect("an answer");
        assert_eq!(reply.status(), 200);
        let ticket = reply.headers()["x-tollgate-ticket"].to_str().expect("an id").to_owned();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while self.bed().gateway.triage.unwritten() > 0 {
            assert!(tokio::time::Instant::now() < deadline, "never written");
            tokio::time::sleep(Duration::from_millis(2)).await; // polling with a deadline
        }
        self.clock.pass(Duration::from_secs(1)); // so that the next one is younger
        ticket
    }
}

pub fn admin(bed: &Bed) -> String {
    format!("http://{}", bed.admin.expect("an admin listener"))
}

/// What came back.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub text: String,
    /// Where it sends the browser.
    pub to: String,
    /// The cookie it sets, whole.
    pub cookie: String,
    pub headers: reqwest::header::HeaderMap,
}

impl Page {
    /// The value of the first hidden or visible field of this name.
    pub fn field(&self, name: &str) -> &str {
        let at = self.text.find(&format!("name=\"{name}\"")).unwrap_or_else(|| panic!("no field {name}: {}", self.text));
        let value = self.text[at..].split("value=\"").nth(1).expect("a value");
        value.split('"').next().expect("its end")
    }

    pub fn has(&self, text: &str) -> bool {
        self.text.contains(text)
    }
}

pub struct Browser {
    pub base: String,
    pub client: reqwest::Client,
    pub cookie: Option<String>,
}

impl Browser {
    pub async fn get(&mut self, path: &str) -> Page {
        let request = self.client.get(format!("{}{path}", self.base));
        self.ask(request).await
    }

    /// Sends a form of a page, with its hidden proof.
    pub async fn send(&mut self, page: &Page, path: &str, fields: &[(&str, &str)]) -> Page {
        let csrf = page.field("csrf").to_owned();
        let fields: Vec<_> = std::iter::once(("csrf", csrf.as_str())).chain(fields.iter().copied()).collect();
        self.post(path, &fields).await
    }

    /// Posts these fields as they are, from a page of ours.
    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let request = self.form(path, fields).header("origin", self.base.clone());
        self.ask(request).await
    }

    pub fn form(&self, path: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let body: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.client.post(format!("{}{path}", self.base));
        request.header("content-type", "application/x-www-form-urlencoded").body(body)
    }

    pub async fn ask(&mut self, mut request: reqwest::RequestBuilder) -> Page {
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        let reply = request.send().await.expect("an answer");
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        let text = |name| headers.get(name).map_or("", |value| value.to_str().expect("text")).to_owned();
        let (to, cookie) = (text(LOCATION), text(SET_COOKIE));
        if let Some(pair) = cookie.split(';').next().filter(|pair| !pair.is_empty()) {
            self.cookie = (!pair.ends_with('=')).then(|| pair.to_owned());
        }
        Page { status, to, cookie, text: reply.text().await.expect("a body"), headers }
    }
}
