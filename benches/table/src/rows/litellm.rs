//! LiteLLM's proxy with limits per customer, both on Redis, before the same upstream.

use crate::bench::{Bench, PROMPT};
use crate::host::gateway::KEY;
use crate::host::process::{self, Process};
use crate::host::redis::Redis;
use crate::host::side::{Sent, Setup, Side};
use crate::host::{free_address, http};
use crate::load::{Prompt, Spec};
use crate::table::Line;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long it may take to come up.
const PATIENCE: Duration = Duration::from_secs(300);
/// Requests a minute of the customer with whom it is seen that the limits are on.
const FEW: u16 = 3;

/// Who asks is who the header says, with limits that nobody meets, and one who meets them: what needs no database.
const LIMITS: &str = r#"from fastapi import Request
from litellm.proxy._types import UserAPIKeyAuth


async def user_api_key_auth(request: Request, api_key: str) -> UserAPIKeyAuth:
    customer = request.headers.get("x-customer-id", "nobody")
    few = customer == "few-requests"
    return UserAPIKeyAuth(
        api_key=customer,
        user_id=customer,
        rpm_limit=FEW if few else 60_000_000,
        tpm_limit=600_000_000_000,
        max_parallel_requests=1_000,
    )
"#;

/// A running proxy.
struct LiteLlm {
    process: Process,
    address: SocketAddr,
}

pub async fn against(bench: &mut Bench) -> Result<Vec<Line>, String> {
    let row = "litellm";
    let directory = bench.scratch.join("litellm-itself");
    std::fs::create_dir(&directory).map_err(|error| error.to_string())?;
    let redis = Redis::start(&directory)?;
    let theirs = LiteLlm::start(bench, &directory, redis.address).await?;
    let probed = theirs.probe().await?;
    let side = Side::start(bench, Setup { redis: true, ..Setup::new(row) }).await?;
    let before = bench.upstream.handled().await?;
    let seconds = bench.seconds().max(6.0);
    let spec = |targets: &[SocketAddr]| Spec { seconds, warm_up: 2.0, ..bench.spec(targets, Prompt::Known(PROMPT)) };
    let watched = |proxy: u32, redis: u32| {
        let mut watched = bench.direct();
        watched.extend([("litellm", vec![proxy]), ("redis", vec![redis])]);
        watched
    };
    let loads = [
        ("litellm", Spec { answer: None, ..spec(&[theirs.address]) }, watched(theirs.process.id(), redis.process.id())),
        ("tollgate", spec(&side.targets()), side.watched(bench)),
    ];
    let windows = bench.interleaved(&loads).await?;
    let [other, ours] = &windows[..] else { return Err("two sides".to_owned()) };
    // It may ask the upstream once more or less than it answers; what is ours is in our books.
    let sent = Sent { beside: None, ..Sent::usual(&[&ours.report], 0) };
    let handled = bench.upstream.handled().await? - before - 1;
    if handled < ours.report.status(200) + other.report.status(200) {
        return Err(format!("the upstream answered only {handled} requests"));
    }
    let (their_memory, memory) = (process::memory(theirs.process.id()), side.memory());
    side.prove(bench, &sent).await?;
    let ratio = ours.report.rate() / other.report.rate();
    let found = format!("{ratio:.0}x LiteLLM");
    let mut first = Line::of(row, "litellm", other).with_memory(their_memory);
    first.found = format!("limits on: {probed} admitted, then 429");
    Ok(vec![first, Line::of(row, "tollgate", ours).with_memory(memory).judged(ratio, found, ">= 80x", ratio >= 80.0)])
}

impl LiteLlm {
    async fn start(bench: &Bench, directory: &Path, redis: SocketAddr) -> Result<Self, String> {
        let python = bench.options.litellm.as_ref().ok_or("not asked for")?;
        let (address, upstream) = (free_address()?, bench.upstream.address);
        let config = format!(
            "model_list:\n  - model_name: gpt-4o-mini\n    litellm_params:\n      model: openai/gpt-4o-mini\n      api_base: http://{upstream}/v1\n\
             \x20     api_key: sk-bench\n      rpm: 60000000\n      tpm: 600000000000\n\
             router_settings:\n  redis_host: 127.0.0.1\n  redis_port: {port}\n\
             litellm_settings:\n  cache: true\n  cache_params:\n    type: redis\n    host: 127.0.0.1\n    port: {port}\n    supported_call_types: []\n\
             general_settings:\n  custom_auth: limits.user_api_key_auth\n",
            port = redis.port()
        );
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).map_err(|error| error.to_string());
        write("config.yaml", &config)?;
        write("limits.py", &LIMITS.replace("FEW if", &format!("{FEW} if")))?;
        let beside = std::path::absolute(python).map_err(|error| error.to_string())?.with_file_name("litellm");
        let mut command = Command::new(beside);
        // As many workers as there are cores; its access log goes where all of its output goes, into a file.
        let workers = std::thread::available_parallelism().map_or(2, usize::from).to_string();
        command.args(["--config", "config.yaml", "--host", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--num_workers", &workers]).current_dir(directory);
        // It does not start without one; who asks is told by `limits` all the same.
        command.env("LITELLM_MASTER_KEY", "sk-bench-0123456789abcdef0123456789abcdef");
        command.env("LITELLM_TELEMETRY", "False").env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("PYTHONPATH", directory);
        let mut process = Process::start(command, "litellm", directory)?;
        let until = Instant::now() + PATIENCE;
        while !http::get(address, "/health/liveliness").await.is_ok_and(|(status, _)| status == 200) {
            if process.ended() || Instant::now() > until {
                let said = std::fs::read_to_string(directory.join("litellm.out")).unwrap_or_default();
                let from = said.len().saturating_sub(600);
                return Err(format!("LiteLLM does not come up: {}", said.get(from..).unwrap_or_default()));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(Self { process, address })
    }

    /// Whether its limits are on: how many requests were admitted before the refusal.
    async fn probe(&self) -> Result<u16, String> {
        let body = r#"{"model":"gpt-4o-mini","max_tokens":64,"messages":[{"role":"user","content":"hello"}]}"#;
        let headers = [format!("authorization: Bearer {KEY}"), "x-customer-id: few-requests".to_owned()];
        for admitted in 0..=10 * FEW {
            let (status, text) = http::post(self.address, "/v1/chat/completions", &headers, body).await?;
            match status {
                200 => {}
                429 if admitted > 0 => return Ok(admitted),
                _ => return Err(format!("LiteLLM answers {status}: {}", text.get(..600).unwrap_or(&text))),
            }
        }
        Err("LiteLLM's limits are not on".to_owned())
    }
}
