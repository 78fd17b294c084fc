//! Clients that ask when their time has come, however the questions before theirs fare.

use crate::scene::{Client, Crowd, Scene};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// A client gives up on a reply after so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// One question, as its client saw it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Which crowd, and which of its questions.
    pub crowd: usize,
    pub index: u64,
    pub customer: String,
    pub from: Instant,
    pub to: Instant,
    /// Calls made.
    pub tries: u64,
    /// Of them refused with 429 or 503, and how many of those said when to come back.
    pub refused: u64,
    pub refused_well: u64,
    /// The longest that a refusal asked to wait.
    pub longest: Duration,
    /// The last status, and whether that reply came whole.
    pub status: u16,
    pub whole: bool,
    /// `x-tollgate-degraded`, `x-tollgate-model`, `x-tollgate-ticket`.
    pub degraded: String,
    pub marked_model: String,
    pub ticket: bool,
    /// `model` in the answer itself.
    pub model: String,
}

impl Asked {
    /// Whether an answer came, whoever gave it.
    pub const fn answered(&self) -> bool {
        self.status == 200 && self.whole
    }

    /// What names the question in its text.
    pub fn mark(crowd: &str, index: u64) -> String {
        format!("[{crowd}-{index}]")
    }
}

/// Asks everything of a scene, and returns when the last client has its answer or has given up.
pub async fn ask_all(scene: &Arc<Scene>, base: &str, http: &reqwest::Client, start: Instant) -> Vec<Asked> {
    let length = Duration::from_secs(scene.seconds);
    let mut crowds = JoinSet::new();
    for number in 0..scene.crowds.len() {
        let (scene, base, http) = (scene.clone(), base.to_owned(), http.clone());
        crowds.spawn(async move {
            let crowd = &scene.crowds[number];
            let mut random = fastrand::Rng::with_seed(blake3_seed(crowd.name));
            let begin = length.mul_f64(crowd.span.0 as f64 / 1_000.0);
            let count = crowd.rate * scene.seconds * (crowd.span.1 - crowd.span.0) / 60_000;
            let slot = Duration::from_secs_f64(60.0 / crowd.rate as f64);
            let mut questions = JoinSet::new();
            for index in 0..count {
                // One in each slot, somewhere in it: no two runs differ in who asks when.
                let at = start + begin + slot.mul_f64(index as f64 + random.f64());
                let words = crowd.words - random.usize(0..=crowd.words / 20);
                let output = random.u64(crowd.output.0..=crowd.output.1);
                let customer = random.usize(0..crowd.customers);
                let question = Question {
                    body: body(crowd, index, words, output),
                    url: format!("{base}/v1/chat/completions"),
                    http: http.clone(),
                    client: crowd.client,
                    class: crowd.class,
                    background: crowd.background,
                    until: start + length,
                };
                let asked = Asked::new(number, index, format!("{}-{customer}", crowd.name), at);
                tokio::time::sleep_until(at.into()).await;
                questions.spawn(question.ask(asked));
            }
            questions.join_all().await
        });
    }
    crowds.join_all().await.concat()
}

fn blake3_seed(name: &str) -> u64 {
    u64::from_le_bytes(blake3::hash(name.as_bytes()).as_bytes()[..8].try_into().expect("a hash has 32 bytes"))
}

fn body(crowd: &Crowd, index: u64, words: usize, output: u64) -> String {
    let mark = Asked::mark(crowd.name, index);
    let (model, cap, stream) = (crowd.model, crowd.cap, index % 2 == 1);
    // The stand-in answers with as many tokens as the first number that is followed by the word.
    let text = format!("[{output} tokens] {mark} {}", "word ".repeat(words));
    format!(
        r#"{{"model":"{model}","stream":{stream},"max_tokens":{cap},"messages":[{{"role":"user","content":"{}"}}]}}"#,
        text.trim_end()
    )
}

impl Asked {
    fn new(crowd: usize, index: u64, customer: String, from: Instant) -> Self {
        Self {
            crowd,
            index,
            customer,
            from,
            to: from,
            tries: 0,
            refused: 0,
            refused_well: 0,
            longest: Duration::ZERO,
            status: 0,
            whole: false,
            degraded: String::new(),
            marked_model: String::new(),
            ticket: false,
            model: String::new(),
        }
    }
}

struct Question {
    body: String,
    url: String,
    http: reqwest::Client,
    client: Client,
    class: Option<&'static str>,
    background: bool,
    until: Instant,
}

impl Question {
    async fn ask(self, mut asked: Asked) -> Asked {
        asked.from = Instant::now();
        loop {
            let told = self.once(&mut asked).await;
            asked.to = Instant::now();
            if asked.answered() {
                return asked;
            }
            let pause = match self.client {
                Client::Once => return asked,
                Client::Stubborn { retries, .. } if asked.tries > u64::from(retries) => return asked,
                Client::Stubborn { pause, .. } => pause,
                Client::Patient { pause } => told.unwrap_or(pause),
            };
            if Instant::now() + pause > self.until {
                return asked;
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// One call. Gives what a refusal asks to wait.
    async fn once(&self, asked: &mut Asked) -> Option<Duration> {
        asked.tries += 1;
        (asked.status, asked.whole) = (0, false);
        let mut request = self.http.post(&self.url).body(self.body.clone()).timeout(PATIENCE);
        request = request.header("authorization", "Bearer sk-test").header("content-type", "application/json");
        request = request.header("x-customer-id", &asked.customer);
        if let Some(class) = self.class {
            request = request.header("x-request-class", class);
        }
        if self.background {
            request = request.header("x-priority", "background");
        }
        let reply = request.send().await.ok()?;
        asked.status = reply.status().as_u16();
        let header = |name: &str| {
            let value = reply.headers().get(name);
            value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let told = header("retry-after-ms").parse().ok().map(Duration::from_millis);
        let told = told.or_else(|| header("retry-after").parse().ok().map(Duration::from_secs));
        if matches!(asked.status, 429 | 503) {
            asked.refused += 1;
            asked.refused_well += u64::from(told.is_some_and(|told| !told.is_zero()));
            asked.longest = asked.longest.max(told.unwrap_or_default());
        }
        (asked.degraded, asked.marked_model) = (header("x-tollgate-degraded"), header("x-tollgate-model"));
        asked.ticket = !header("x-tollgate-ticket").is_empty();
        let stream = header("content-type").starts_with("text/event-stream");
        let text = reply.text().await.ok()?;
        asked.model = text.split("\"model\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned();
        asked.whole = if stream { text.trim_end().ends_with("data: [DONE]") } else { text.contains("\"finish_reason\"") };
        told
    }
}
