//! `tollgate health`: asks `/readyz` or `/healthz`; for container health checks, where no curl is installed.

use super::BAD_CONFIG;
use super::ask::Trust;
use std::process::ExitCode;
use std::time::Duration;

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks once.
pub fn run(url: &str, trust: &Trust) -> ExitCode {
    let parsed = reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(parsed) = parsed else {
        return super::fail(&format!("{url:?} is not a URL; write http://127.0.0.1:8080/readyz"), BAD_CONFIG);
    };
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(&error.to_string(), 1),
    };
    let client = match trust.client(PATIENCE) {
        Ok(client) => client,
        Err(message) => return super::fail(&message, BAD_CONFIG),
    };
    let answer = runtime.block_on(async {
        let reply = client.get(parsed).send().await?;
        let status = reply.status();
        Ok::<_, reqwest::Error>((status, reply.text().await.unwrap_or_default()))
    });
    match answer {
        Ok((status, _)) if status.is_success() => ExitCode::SUCCESS,
        Ok((status, text)) => {
            let reason = text.lines().next().unwrap_or_default().chars().take(200).collect::<String>();
            super::fail(&format!("not ready: {status}: {reason}"), 1)
        }
        Err(error) if error.is_timeout() => super::fail(&format!("no answer from {url} within {PATIENCE:?}"), 1),
        Err(_) => super::fail(&format!("no answer from {url}; is the gateway running there?"), 1),
    }
}
