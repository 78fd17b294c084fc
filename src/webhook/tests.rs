//! Attempts, pauses and signatures, with the time paused and a receiver that answers from a list.

use super::*;
use crate::config::policy::Secret;
use crate::domain::Timestamp;
use crate::telemetry::triage::ResultLabels;
use base64::Engine as _;
use futures_util::future::BoxFuture;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// One attempt, as the receiver saw it.
#[derive(Clone, Debug)]
struct Seen {
    after: Duration,
    headers: HeaderMap,
    body: Bytes,
}

/// Answers in turn, the last answer again and again; `None` = never.
struct Receiver {
    started: Instant,
    answers: Mutex<Vec<Option<Result<(), Failure>>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Post for Receiver {
    fn post(&self, headers: HeaderMap, body: Bytes) -> BoxFuture<'_, Result<(), Failure>> {
        self.seen.lock().push(Seen { after: self.started.elapsed(), headers, body });
        let mut answers = self.answers.lock();
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }

    fn host(&self) -> &'static str {
        "receiver.example"
    }
}

/// Moves with tokio's paused time.
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_800_000_000).plus(u64::try_from(self.0.elapsed().as_micros()).expect("short"))
    }
}

struct Rig {
    webhook: Webhook,
    seen: Arc<Mutex<Vec<Seen>>>,
    metrics: Arc<Metrics>,
}

fn rig(answers: Vec<Option<Result<(), Failure>>>) -> Rig {
    let (seen, metrics) = (Arc::default(), Arc::<Metrics>::default());
    let receiver = Receiver { started: Instant::now(), answers: Mutex::new(answers), seen: Arc::clone(&seen) };
    let settings = policy::Webhook {
        url: Secret::new("http://unused.example"),
        secret: Some(Secret::new(SECRET)),
        timeout: Duration::from_secs(10),
        attempts: 4,
    };
    let clock = Arc::new(PausedClock(Instant::now()));
    Rig { webhook: Webhook::through(Box::new(receiver), &settings, clock, metrics.clone()), seen, metrics }
}

impl Rig {
    fn count(&self, result: &'static str) -> u64 {
        self.metrics.triage.webhooks.get_or_create(&ResultLabels { result }).get()
    }

    async fn end(&self) {
        while self.webhook.undelivered() > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

const fn status(code: StatusCode, wait: Option<u64>) -> Option<Result<(), Failure>> {
    let wait = match wait {
        Some(secs) => Some(Duration::from_secs(secs)),
        None => None,
    };
    Some(Err(Failure::Status { status: code, wait }))
}

const FINE: Option<Result<(), Failure>> = Some(Ok(()));

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_repeated_with_growing_pauses_and_all_else_is_given_up() {
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    // The least seconds at which each attempt came; then delivered, repeated, given up.
    for (answers, right, counts) in [
        (vec![FINE], &[0][..], [1, 0, 0]),
        (vec![status(StatusCode::BAD_GATEWAY, None), FINE], &[0, 1], [1, 1, 0]),
        (vec![status(StatusCode::TOO_MANY_REQUESTS, None), FINE], &[0, 1], [1, 1, 0]),
        (vec![status(StatusCode::TOO_MANY_REQUESTS, Some(30)), FINE], &[0, 30], [1, 1, 0]),
        (vec![status(unavailable, Some(9_999)), FINE], &[0, 300], [1, 1, 0]),
        (vec![Some(Err(Failure::Connect)), Some(Err(Failure::Broken)), FINE], &[0, 1, 5], [1, 2, 0]),
        (vec![None, FINE], &[0, 11], [1, 1, 0]),
        (vec![status(unavailable, None)], &[0, 1, 5, 21], [0, 3, 1]),
        (vec![status(StatusCode::BAD_REQUEST, None)], &[0], [0, 0, 1]),
        (vec![status(StatusCode::GONE, None)], &[0], [0, 0, 1]),
        (vec![status(StatusCode::FOUND, None)], &[0], [0, 0, 1]),
    ] {
        let rig = rig(answers.clone());
        rig.webhook.send("tt_1.opened".to_owned(), &serde_json::json!({ "type": "triage.opened" }));
        rig.end().await;
        let seen = rig.seen.lock().clone();
        assert_eq!(seen.len(), right.len(), "{answers:?}");
        let mut drift = 0.0;
        for (seen, right) in seen.iter().zip(right) {
            let (after, right) = (seen.after.as_secs_f64(), f64::from(*right));
            drift = f64::max(drift, right * JITTER);
            assert!((right..=right + drift + 0.01).contains(&after), "{answers:?}: {after} for {right}");
        }
        assert_eq!([rig.count("delivered"), rig.count("repeated"), rig.count("given_up")], counts, "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_signed_anew_under_the_same_id() {
    let rig = rig(vec![Some(Err(Failure::Connect)), FINE]);
    rig.webhook.send("tt_1.answered".to_owned(), &serde_json::json!({ "type": "triage.answered", "data": { "text": "é" } }));
    rig.end().await;
    let seen = rig.seen.lock().clone();
    let key = base64::engine::general_purpose::STANDARD.decode(&SECRET["whsec_".len()..]).expect("base64");
    let mut stamps = Vec::new();
    for seen in &seen {
        let header = |name: &str| seen.headers[name].to_str().expect("ASCII").to_owned();
        assert_eq!(header("webhook-id"), "tt_1.answered");
        assert_eq!(header("content-type"), "application/json");
        let signed = [format!("tt_1.answered.{}.", header("webhook-timestamp")).as_bytes(), &seen.body].concat();
        let given =
            base64::engine::general_purpose::STANDARD.decode(&header("webhook-signature")["v1,".len()..]).expect("base64");
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
        ring::hmac::verify(&key, &signed, &given).expect("the signature of this attempt");
        stamps.push(header("webhook-timestamp"));
    }
    assert_eq!(stamps, ["1800000000", "1800000001"]);
    assert_eq!(seen[0].body, seen[1].body);
}

#[tokio::test(start_paused = true)]
async fn a_drain_makes_the_last_attempt_at_once_and_cuts_what_hangs() {
    let failing = rig(vec![status(StatusCode::SERVICE_UNAVAILABLE, Some(200)), FINE]);
    failing.webhook.send("tt_1.opened".to_owned(), &serde_json::json!({}));
    while failing.count("repeated") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let before = Instant::now();
    failing.webhook.drain(Duration::from_secs(5)).await;
    assert_eq!(before.elapsed(), Duration::ZERO, "the pause was not waited for");
    assert_eq!([failing.count("delivered"), failing.count("given_up")], [1, 0]);

    let hanging = rig(vec![None]);
    hanging.webhook.send("tt_1.opened".to_owned(), &serde_json::json!({}));
    let before = Instant::now();
    hanging.webhook.drain(Duration::from_secs(5)).await;
    assert_eq!(before.elapsed(), Duration::from_secs(5));
    assert_eq!([hanging.count("delivered"), hanging.count("given_up")], [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn no_more_wait_to_be_delivered_than_have_a_place() {
    let rig = rig(vec![None]);
    for n in 0..QUEUE + 5 {
        rig.webhook.send(format!("tt_{n}.opened"), &serde_json::json!({}));
    }
    assert_eq!(rig.webhook.undelivered(), QUEUE);
    assert_eq!(rig.count("given_up"), 5);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.seen.lock().len(), AT_ONCE, "attempts at the same time");
}
