//! A provider that enforces its account's limits as OpenAI does, and counts tokens with another implementation than the gateway's.
//!
//! A bucket of the limit's size, refilled at the limit; a request takes the larger of its output cap and its input, is never given anything
//! back, and is refused with 429 when that does not fit. What it answers is as long as the prompt's `[N tokens]` says, and takes its time.

use crate::upstream::request;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// What a token of the answer takes.
const TOKEN: Duration = Duration::from_millis(2);

/// One call, as the provider saw it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub at: Instant,
    /// Whether it was refused.
    pub refused: bool,
    /// Tokens as the account counts them.
    pub counted: u64,
    pub input: u64,
    pub output: u64,
}

/// The account, and what it saw.
pub struct Strict {
    pub address: SocketAddr,
    account: Arc<Mutex<Account>>,
}

struct Account {
    tpm: f64,
    level: f64,
    at: Instant,
    calls: Vec<Call>,
}

impl Strict {
    /// Starts it, with so many tokens a minute.
    pub async fn start(tpm: u64) -> Result<Self, String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let account = Account { tpm: tpm as f64, level: tpm as f64, at: Instant::now(), calls: Vec::new() };
        let account = Arc::new(Mutex::new(account));
        let shared = account.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A caller that leaves is no failure.
                let account = shared.clone();
                tokio::spawn(async move { serve(stream, &account).await });
            }
        });
        Ok(Self { address, account })
    }

    /// Everything it saw.
    pub async fn calls(&self) -> Vec<Call> {
        self.account.lock().await.calls.clone()
    }
}

async fn serve(mut stream: TcpStream, account: &Mutex<Account>) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(head) = request(&mut stream, &mut buffer).await? {
        let asked: Value = serde_json::from_slice(&buffer[head..]).unwrap_or_default();
        let (input, wanted) = read(&asked);
        let cap = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| asked.get(name)?.as_u64()).unwrap_or(0);
        let output = wanted.min(cap.max(1));
        let call = account.lock().await.admit(input, output, cap);
        let (status, body) = if call.refused {
            (
                "429 Too Many Requests",
                r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#.to_owned(),
            )
        } else {
            tokio::time::sleep(TOKEN * u32::try_from(output).unwrap_or(u32::MAX)).await;
            let total = input + output;
            (
                "200 OK",
                format!(
                    r#"{{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"gpt-4o","choices":[{{"index":0,"message":{{"role":"assistant","content":"Yes."}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total}}}}}"#
                ),
            )
        };
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
    }
    Ok(())
}

impl Account {
    fn admit(&mut self, input: u64, output: u64, cap: u64) -> Call {
        let (at, counted) = (Instant::now(), input.max(cap));
        self.level = (self.level + (at - self.at).as_secs_f64() * self.tpm / 60.0).min(self.tpm);
        self.at = at;
        let refused = self.level < counted as f64;
        if !refused {
            self.level -= counted as f64;
        }
        let call = Call { at, refused, counted, input, output: if refused { 0 } else { output } };
        self.calls.push(call);
        call
    }
}

/// Tokens of the input, and how many the answer shall have.
fn read(asked: &Value) -> (u64, u64) {
    let messages = asked.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = messages.iter().filter_map(|message| message.get("content")?.as_str()).collect();
    // Three tokens around each message, one for its role, three before the answer.
    let wanted = texts.last().and_then(|text| text.split_once('[')?.1.split_once(" tokens]")?.0.parse().ok());
    (texts.iter().map(|text| tokens(text) + 4).sum::<u64>() + 3, wanted.unwrap_or(1))
}

/// Tokens of a text.
pub fn tokens(text: &str) -> u64 {
    tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len() as u64
}
