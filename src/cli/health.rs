//! `tollgate health`: asks `/readyz` or `/healthz`; for container health checks, where no curl is installed.

use std::process::ExitCode;
use std::time::Duration;

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks once.
pub fn run(url: &str) -> ExitCode {
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(&error.to_string(), 1),
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        client.get(url).send().await
    });
    match answer {
        Ok(reply) if reply.status().is_success() => ExitCode::SUCCESS,
        Ok(reply) => super::fail(&format!("not ready: {}", reply.status()), 1),
        Err(_) => super::fail(&format!("no answer from {url}"), 1),
    }
}
