//! `tollgate request`: what is kept of one request, asked of a running gateway.
//!
//! Through its admin listener and not in the store, since the embedded store belongs to the gateway's process.

use super::ask::Trust;
use super::{BAD_CONFIG, out};
use reqwest::StatusCode;
use std::process::ExitCode;
use std::time::Duration;

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of an answer that is not ours is repeated, characters.
const REPEATED: usize = 200;

/// Asks once and prints the record.
pub fn run(id: &str, url: &str, token: Option<&str>, trust: &Trust) -> ExitCode {
    let base = reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(mut address) = base else {
        return super::fail(&format!("{url:?} is not a URL; write http://127.0.0.1:8081"), BAD_CONFIG);
    };
    if let Ok(mut path) = address.path_segments_mut() {
        // An id of the provider's may hold anything; as a segment it is encoded.
        path.pop_if_empty().extend(["admin", "requests", id]);
    }
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(&error.to_string(), 1),
    };
    let client = match trust.client(PATIENCE) {
        Ok(client) => client,
        Err(message) => return super::fail(&message, BAD_CONFIG),
    };
    let answer = runtime.block_on(async {
        let mut request = client.get(address);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let reply = request.send().await?;
        Ok::<_, reqwest::Error>((reply.status(), reply.text().await?))
    });
    match answer {
        Ok((StatusCode::OK, text)) => match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(record) => {
                out::line(&format!("{record:#}"));
                ExitCode::SUCCESS
            }
            Err(_) => super::fail(&format!("no admin listener answers at {url}"), 1),
        },
        Ok((status, text)) => super::fail(&complaint(status, &text), 1),
        Err(error) if error.is_timeout() => super::fail(&format!("no answer from {url} within {PATIENCE:?}"), 1),
        Err(_) => super::fail(&format!("no answer from {url}; is the gateway running, and its [admin] listening there?"), 1),
    }
}

/// The listener's own sentence, where it is one.
fn complaint(status: StatusCode, text: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let message = parsed.as_ref().and_then(|answer| answer.pointer("/error/message")?.as_str());
    let message = message.unwrap_or(text).chars().filter(|c| !c.is_control()).take(REPEATED).collect::<String>();
    format!("{status}: {message}")
}
