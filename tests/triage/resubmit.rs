//! A ticket's request asked again from the desk: as a new request on its customer's account, by one operator at a time.

use crate::bed::{Bed, config_and};
use crate::kit::{ADMIN, by};
use crate::redis_server::RedisServer;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tollgate::config::{Env, Policy};
use tollgate::demo::provider::Gate;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::domain::NanoUsd;
use tollgate::store::Stores;
use tollgate::store::documents::memory::MemoryDocuments;
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::store::redis::{RedisDocuments, RedisLedger};
use tollgate::telemetry::SystemClock;
use tollgate::triage::Query;

/// The question of the cases: 10 tokens out, and nothing that says how the answer is to come.
const ASKED: &str = r#"{"model":"m-big","messages":[{"role":"user","content":"Where is it? [10 tokens]"}]MORE}"#;
const PATIENCE: Duration = Duration::from_secs(10);

/// Keys mode with the bed's own key, a plan that affords nothing, and requests that are kept.
fn config(directory: &tempfile::TempDir, more: &str) -> String {
    let key = directory.path().join("key");
    std::fs::write(&key, "sk-of-the-company").expect("a key file");
    let upstreams = format!("base_url = \"{{provider}}\"\napi_key = {{ file = {key:?} }}\n");
    let more = format!(
        "[plans.broke]\nmessages = {{ rate = \"1/h\", burst = 6 }}\nspend = {{ day = 0.000_001 }}\non_spend = [\"handoff\"]\n\
         [customers.t]\nplan = \"broke\"\n[auth]\nmode = \"keys\"\n[keys.shop]\nhash = \"blake3:{}\"\nplans = [\"broke\"]\n{ADMIN}\n{more}",
        blake3::hash(b"sk-test").to_hex()
    );
    // In place of the customer of the cases, whom this one's plan replaces.
    config_and(&more).replace("[customers.t]\nplan = \"case\"\n", "").replace("base_url = \"{provider}\"\n", &upstreams)
}

fn memory() -> Stores {
    let clock = Arc::new(SystemClock);
    let ledger = Arc::new(EmbeddedLedger::in_memory(clock.clone()));
    Stores { ledger, documents: Arc::new(MemoryDocuments::new(clock)) }
}

fn redis(server: &RedisServer) -> Stores {
    let (url, deadline) = (server.url(), Duration::from_secs(5));
    Stores {
        ledger: Arc::new(RedisLedger::connect(&[&url], deadline).expect("well-formed")),
        documents: Arc::new(RedisDocuments::connect(&[&url], deadline).expect("well-formed")),
    }
}

/// Gateways that share a provider and the stores.
struct Desk {
    beds: Vec<Bed>,
    gate: Gate,
    config: String,
    _directory: tempfile::TempDir,
}

impl Desk {
    async fn new(more: &str, stores: &[Stores]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = config(&directory, more);
        let gate = Gate::new();
        let options = ProviderOptions { gate: Some(gate.clone()), ..ProviderOptions::default() };
        let provider = Arc::new(Provider::start(options).await.expect("a loopback port"));
        let mut beds = Vec::new();
        for stores in stores {
            let stores = Stores { ledger: stores.ledger.clone(), documents: stores.documents.clone() };
            beds.push(Bed::over(&config, provider.clone(), stores, Arc::new(SystemClock)).await);
        }
        Self { beds, gate, config, _directory: directory }
    }

    /// Hands a request off at the first gateway; the ticket's id, once it is written.
    async fn hand_off(&self, more: &str) -> String {
        let request = self.beds[0].post("/v1/chat/completions", "t", ASKED.replace("MORE", more));
        let request = request.header("x-user-id", "u1").header("idempotency-key", fastrand::u64(..).to_string());
        let reply = request.header("cookie", "s=1").header("x-priority", "internal").send().await.expect("an answer");
        assert_eq!(
            (reply.status().as_u16(), &reply.headers()["x-tollgate-model"]),
            (200, &"human-triage".parse().expect("text"))
        );
        let id = reply.headers()["x-tollgate-ticket"].to_str().expect("text").to_owned();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.beds[0].gateway.triage.unwritten() > 0 {
            assert!(tokio::time::Instant::now() < deadline, "never written");
            tokio::time::sleep(Duration::from_millis(2)).await; // polling with a deadline
        }
        id
    }

    fn post(&self, gateway: usize, path: &str, body: Value) -> reqwest::RequestBuilder {
        let bed = &self.beds[gateway % self.beds.len()];
        let url = format!("http://{}{path}", bed.admin.expect("an admin listener"));
        bed.client.post(url).header("content-type", "application/json").body(body.to_string())
    }

    /// What an operator's POST at a gateway comes to.
    async fn act(&self, gateway: usize, path: &str, body: Value) -> (u16, Value) {
        let reply = self.post(gateway, path, body).send().await.expect("an answer");
        let status = reply.status().as_u16();
        (status, serde_json::from_slice(&reply.bytes().await.expect("a body")).expect("JSON"))
    }

    async fn look(&self, gateway: usize, path: &str) -> Value {
        let bed = &self.beds[gateway % self.beds.len()];
        let url = format!("http://{}{path}", bed.admin.expect("an admin listener"));
        let reply = bed.client.get(url).send().await.expect("an answer");
        serde_json::from_slice(&reply.bytes().await.expect("a body")).expect("JSON")
    }

    /// What the app is told.
    async fn poll(&self, id: &str) -> Value {
        let bed = &self.beds[0];
        let request = bed.client.get(bed.url(&format!("/v1/triage/{id}"))).header("authorization", "Bearer sk-test");
        let reply = request.header("x-customer-id", "t").send().await.expect("an answer");
        serde_json::from_slice(&reply.bytes().await.expect("a body")).expect("JSON")
    }

    /// The key the app showed is not one of ours any more.
    fn take_the_key_away(&self) {
        let (one, other) = (blake3::hash(b"sk-test").to_hex(), blake3::hash(b"another").to_hex());
        let config = self.config.replace(one.as_str(), other.as_str()).replace("{provider}", &self.beds[0].provider.base_url());
        let (policy, _) = Policy::parse(&config, "bed.toml", &Env::default()).expect("it is sound");
        self.beds[0].gateway.policy.store(Arc::new(policy));
    }

    /// Gives the customer ten dollars for today.
    async fn credit(&self) {
        let credit = json!({ "period": "day", "dollars": 10, "by": "ann" });
        assert_eq!(self.act(0, "/admin/customers/t/credits", credit).await.0, 200);
    }

    async fn assert_books(&self) {
        for bed in &self.beds {
            bed.quiet().await;
        }
        self.beds[0].assert_books(&["t"]).await;
    }
}

fn again(id: &str) -> String {
    format!("/admin/triage/{id}/resubmit")
}

/// The case as it is told: asked again while the customer has no budget, then with some, by two operators, at two gateways where there are two.
async fn asked_again(stores: &[Stores]) {
    let desk = Desk::new("[triage]\nrequests = true", stores).await;
    let id = desk.hand_off(r#","stream":true,"stream_options":{"include_usage":true}"#).await;
    assert_eq!(desk.look(1, &format!("/admin/triage/{id}")).await["resubmittable"], true);

    // Out of budget still: refused as any request would be, which costs nothing and makes no further ticket.
    for n in 1..=2 {
        let (status, ticket) = desk.act(n % 2, &again(&id), by("ann")).await;
        let done = &ticket["resubmitted"][n - 1];
        assert_eq!((status, &done["status"], &done["code"]), (200, &json!(402), &json!("spend_cap_exceeded")), "{ticket}");
        assert_eq!((&done["text"], &done["model"], &done["cost_usd"]), (&Value::Null, &Value::Null, &json!("0.00")), "{ticket}");
        assert_eq!((&ticket["status"], &ticket["claimed_by"]["agent"]), (&json!("claimed"), &json!("ann")));
        assert_eq!((&ticket["requests"], &ticket["asked"].as_array().map(Vec::len)), (&json!(1), &Some(1)), "no other hand-off");
    }
    assert_eq!(desk.beds[0].provider.seen(), 0);
    let open = desk.beds[0].gateway.triage.list(&Query { limit: 9, ..Query::default() }).await.expect("it answers");
    assert_eq!(open.tickets.len(), 1);

    // With budget: once, whoever asks meanwhile.
    desk.credit().await;
    let first = tokio::spawn(desk.post(0, &again(&id), by("ann")).send());
    desk.beds[0].provider.wait_until(|seen| seen.len() == 1).await;
    let (status, twice) = desk.act(1, &again(&id), by("ann")).await;
    assert_eq!((status, &twice["error"]["code"]), (409, &json!("ticket_resubmitting")), "{twice}");
    let (status, held) = desk.act(1, &again(&id), by("bob")).await;
    assert_eq!((status, &held["error"]["code"], &held["error"]["held_by"]), (409, &json!("ticket_claimed"), &json!("ann")));
    desk.gate.open();
    let ticket: Value = {
        let reply = first.await.expect("it ran").expect("an answer");
        assert_eq!(reply.status(), 200);
        serde_json::from_slice(&reply.bytes().await.expect("a body")).expect("JSON")
    };
    let done = ticket["resubmitted"].as_array().and_then(|all| all.last()).expect("a result").clone();
    assert_eq!((&done["status"], &done["code"], &done["model"]), (&json!(200), &Value::Null, &json!("m-big")), "{ticket}");
    assert_eq!((&done["agent"], &done["truncated"]), (&json!("ann"), &json!(false)));
    let text = done["text"].as_str().expect("what the model said").to_owned();
    assert!(!text.is_empty());

    // Charged to the customer, whole and once; the provider saw one request, as the app sent it but for the stream, and no secret.
    let seen = desk.beds[0].provider.log();
    assert_eq!(seen.len(), 1);
    let body: Value = serde_json::from_slice(&seen[0].body).expect("JSON");
    assert_eq!((&body["stream"], &body["stream_options"]), (&Value::Null, &Value::Null), "{body}");
    assert_eq!(body["messages"][0]["content"], "Where is it? [10 tokens]");
    assert_eq!((seen[0].header("authorization"), seen[0].header("cookie")), ("Bearer sk-of-the-company", ""));
    let spent = desk.beds[0].spent("t").await;
    assert!(spent > NanoUsd::ZERO);
    assert_eq!(done["cost_usd"], json!(spent.to_string().trim_start_matches('$')), "{done}");
    desk.assert_books().await;

    // On record as a request of the customer's, with who asked and for which ticket.
    let record = loop {
        let record = desk.look(0, &format!("/admin/requests/{}", done["request_id"].as_str().expect("an id"))).await;
        if record["error"].is_null() {
            break record;
        }
        tokio::time::sleep(Duration::from_millis(5)).await; // polling; a record is written behind its request
    };
    for (field, right) in [
        ("customer", json!("t")),
        ("user", json!("u1")),
        ("app", json!("shop")),
        ("plan", json!("broke")),
        ("priority", json!("internal")),
        ("ticket", json!(id)),
        ("resubmitted_by", json!("ann")),
        ("status", json!(200)),
    ] {
        assert_eq!(record[field], right, "{field}: {record}");
    }

    // The answer is the agent's to give, or the model's at once.
    assert_eq!(desk.poll(&id).await["answer"], Value::Null, "nothing was answered yet");
    let (status, ticket) = desk.act(1, &again(&id), json!({ "agent": "ann", "answer": true })).await;
    assert_eq!((status, &ticket["status"], &ticket["answer"]["agent"]), (200, &json!("answered"), &json!("ann")), "{ticket}");
    let texts: Vec<bool> =
        ticket["resubmitted"].as_array().expect("results").iter().map(|done| done["text"].is_string()).collect();
    assert_eq!(texts, [false, false, false, true], "the latest keeps its text");
    assert_eq!(desk.poll(&id).await["answer"]["text"], ticket["resubmitted"][3]["text"]);
    let (status, ended) = desk.act(0, &again(&id), by("ann")).await;
    assert_eq!((status, &ended["error"]["code"]), (409, &json!("ticket_ended")));
    assert_eq!(desk.beds[0].provider.seen(), 2);

    // Each of the five was one message of the six its customer has, the ticket's own included; the message after the last is refused.
    desk.credit().await;
    let statuses = [200, 429];
    for right in statuses {
        let reply = desk.beds[0].post("/v1/chat/completions", "t", ASKED.replace("MORE", "")).send().await.expect("an answer");
        assert_eq!(reply.status(), right);
        drop(reply.bytes().await);
    }
    desk.assert_books().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_asked_again_is_metered_anew_and_run_once_in_memory() {
    asked_again(&[memory()]).await; // of one gateway, as this store is
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_asked_again_is_metered_anew_and_run_once_on_redis() {
    let server = RedisServer::start();
    asked_again(&[redis(&server), redis(&server)]).await;
}

#[tokio::test]
async fn of_many_who_ask_at_once_one_runs() {
    let server = RedisServer::start();
    let desk = Desk::new("[triage]\nrequests = true", &[redis(&server), redis(&server)]).await;
    let id = desk.hand_off("").await;
    desk.credit().await;
    let path = again(&id);
    let all = (0..12).map(|n| {
        let agent = ["ann", "bob", "cid"][n % 3];
        desk.act(n % 2, &path, by(agent))
    });
    let opening = async {
        desk.beds[0].provider.wait_until(|seen| !seen.is_empty()).await;
        desk.gate.open();
    };
    let (answers, ()) = tokio::join!(futures_util::future::join_all(all), opening);
    let ran = answers.iter().filter(|(status, _)| *status == 200).count();
    let codes: Vec<&str> = answers.iter().filter_map(|(_, body)| body["error"]["code"].as_str()).collect();
    assert!(codes.iter().all(|code| ["ticket_claimed", "ticket_resubmitting"].contains(code)), "{codes:?}");
    // One after the other an agent may ask as often as they like; what must not be is two at once.
    assert_eq!(desk.beds[0].provider.seen(), ran as u64, "{answers:?}");
    assert!(ran >= 1 && ran + codes.len() == 12);
    desk.assert_books().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_of_it_stands_on_the_ticket_though_the_operator_left() {
    let stores = memory();
    let desk = Desk::new("[triage]\nrequests = true", &[stores]).await;
    let id = desk.hand_off("").await;
    desk.credit().await;
    let operator = tokio::spawn(desk.post(0, &again(&id), json!({ "agent": "ann", "answer": true })).send());
    desk.beds[0].provider.wait_until(|seen| seen.len() == 1).await;
    operator.abort();
    assert!(operator.await.expect_err("it left").is_cancelled());
    desk.gate.open();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while desk.poll(&id).await["status"] != "answered" {
        assert!(tokio::time::Instant::now() < deadline, "never answered");
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
    let ticket = desk.look(0, &format!("/admin/triage/{id}")).await;
    assert_eq!(desk.poll(&id).await["answer"]["text"], ticket["resubmitted"][0]["text"]);
    assert_eq!(desk.beds[0].provider.seen(), 1);
    desk.assert_books().await;
}

#[tokio::test]
async fn what_is_not_kept_or_has_no_key_any_more_is_not_asked() {
    let long = format!(r#","metadata":{{"about":"{}"}}"#, "x".repeat(1_024));
    for more in ["", "[triage]\nrequests = true\nrequest_max = \"1KiB\""] {
        let desk = Desk::new(more, &[memory()]).await;
        let id = desk.hand_off(&long).await;
        assert_eq!(desk.look(0, &format!("/admin/triage/{id}")).await["resubmittable"], false);
        let (status, body) = desk.act(0, &again(&id), by("ann")).await;
        assert_eq!((status, &body["error"]["code"]), (409, &json!("request_not_kept")), "{more:?}");
        desk.assert_books().await;
    }
    let desk = Desk::new("[triage]\nrequests = true", &[memory()]).await;
    let id = desk.hand_off("").await;
    desk.credit().await;
    desk.take_the_key_away();
    let (status, ticket) = desk.act(0, &again(&id), by("ann")).await;
    assert_eq!((status, &ticket["resubmitted"][0]["status"]), (200, &json!(401)), "{ticket}");
    for (path, body, right) in [
        ("/admin/triage/tt_00000000000000000000000000000000/resubmit", by("ann"), (404, "ticket_not_found")),
        (&*again(&id), json!({ "agent": "" }), (400, "invalid_request")),
        (&*again(&id), json!({ "agent": "ann", "answers": true }), (400, "invalid_request")),
    ] {
        let (status, answer) = desk.act(0, path, body.clone()).await;
        assert_eq!((status, answer["error"]["code"].as_str().unwrap_or_default()), right, "{path} {body}");
    }
    assert_eq!(desk.beds[0].provider.seen(), 0);
    desk.assert_books().await;
}
