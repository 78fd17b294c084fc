//! nginx, as the upstream that answers at once and as the plain proxy to compare with.

use super::process::Process;
use super::{free_address, program};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// What the upstream answers, always.
pub const ANSWER: &str = r#"{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"message":{"role":"assistant","content":"Your parcel left our warehouse this morning and should be with you on Tuesday. If it is not there by then, write to us again and we will look into it at once.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":640,"completion_tokens":38,"total_tokens":678,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}},"service_tier":"default","system_fingerprint":"fp_bench"}"#;
/// Its usage.
pub const USED: (u64, u64) = (640, 38);

/// A running nginx.
pub struct Nginx {
    pub process: Process,
    pub address: SocketAddr,
}

impl Nginx {
    /// Answers every request at once, in one worker, without a log: it is the same for all who are compared.
    pub fn upstream(directory: &Path) -> Result<Self, String> {
        let server = format!(
            "location = /status {{ stub_status; }}\nlocation / {{ default_type application/json; add_header x-request-id req-bench; return 200 '{ANSWER}'; }}"
        );
        Self::start(directory, "upstream", "1", "", "off", &server)
    }

    /// Passes everything on to `upstream` over connections that stay open, with an access log in a file. `streams` are not buffered.
    pub fn proxy(directory: &Path, upstream: SocketAddr, streams: bool) -> Result<Self, String> {
        let before = format!(
            "upstream provider {{ server {upstream}; keepalive 256; keepalive_requests 1000000000; keepalive_time 24h; }}"
        );
        let buffering = if streams { "proxy_buffering off;" } else { "" };
        let server = format!(
            "location / {{ proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection \"\"; {buffering} }}"
        );
        let log = format!("{}/proxy.access.log", directory.display());
        Self::start(directory, "proxy", "auto", &before, &log, &server)
    }

    fn start(directory: &Path, name: &str, workers: &str, before: &str, log: &str, server: &str) -> Result<Self, String> {
        let (address, at) = (free_address()?, directory.display());
        // Its workers would change to a user who may not enter the directory of our files.
        let root = std::fs::metadata("/proc/self").is_ok_and(|of_us| of_us.uid() == 0);
        let user = if root { "user root;" } else { "" };
        let connections = super::gateway::files() / 2;
        let config = format!(
            "{user}\ndaemon off;\nworker_processes {workers};\npid {at}/{name}.pid;\nerror_log stderr;\n\
             events {{ worker_connections {connections}; }}\nhttp {{\naccess_log {log};\nkeepalive_requests 1000000000;\nkeepalive_time 24h;\n\
             client_max_body_size 64m;\nclient_body_buffer_size 4m;\nclient_body_temp_path {at}/{name}.body;\nproxy_temp_path {at}/{name}.temp;\n\
             fastcgi_temp_path {at}/{name}.fast;\nuwsgi_temp_path {at}/{name}.uwsgi;\nscgi_temp_path {at}/{name}.scgi;\n{before}\n\
             server {{ listen {address} backlog=4096;\n{server}\n}}\n}}\n"
        );
        let file = directory.join(format!("{name}.conf"));
        std::fs::write(&file, config).map_err(|error| error.to_string())?;
        let mut command = Command::new(program("nginx")?);
        command.arg("-p").arg(directory).args(["-e", "stderr"]).arg("-c").arg(file);
        let mut process = Process::start(command, name, directory)?;
        process.listens(address)?;
        Ok(Self { process, address })
    }

    /// Requests the upstream has answered, those for this number included.
    pub async fn handled(&self) -> Result<u64, String> {
        let (_, text) = super::http::get(self.address, "/status").await?;
        let numbers = text.lines().nth(2).and_then(|line| line.split_ascii_whitespace().nth(2)?.parse().ok());
        numbers.ok_or_else(|| format!("nginx does not say how many requests it had: {text}"))
    }
}
