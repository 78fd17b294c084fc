//! The gateway, with every limit on.

use super::process::Process;
use super::{free_address, http};
use std::io::BufRead;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The key of the application that asks.
pub const KEY: &str = "bench-0123456789abcdef0123456789";
/// Dollars of a million tokens in and out: of every model here.
const PRICE: (u64, u64) = (150, 600);
/// How long it may take to come up and to settle.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// What a gateway is to be like.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The name of its directory.
    pub name: String,
    /// Where it sends requests.
    pub upstream: SocketAddr,
    /// The Redis it keeps its books in; none: it keeps them itself.
    pub redis: Option<String>,
    /// Requests at once.
    pub slots: usize,
    /// Dollars a day of every customer that has no plan of its own.
    pub cap: &'static str,
    /// More configuration.
    pub more: String,
    /// A program that runs it, with its arguments.
    pub under: Vec<String>,
}

/// A cap that nobody reaches.
pub const WIDE: &str = "100_000";
/// A cap that everybody has reached who spent anything.
pub const SPENT: &str = "0.000000001";

/// A running gateway.
pub struct Gateway {
    pub process: Process,
    pub address: SocketAddr,
    pub directory: PathBuf,
    program: PathBuf,
}

/// Files that a process here may have open.
pub fn files() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    line.split_ascii_whitespace().nth(3).and_then(|soft| soft.parse().ok()).unwrap_or(1_024)
}

/// Nano-dollars of an answer with this usage.
pub const fn cost((input, output): (u64, u64)) -> u64 {
    input * PRICE.0 + output * PRICE.1
}

impl Wanted {
    /// The limits are all there, of everybody who may have one, and wide: nobody but the probes shall meet them.
    fn config(&self, address: SocketAddr) -> String {
        let Self { upstream, redis, slots, cap, more, .. } = self;
        let store = redis.as_ref().map_or_else(
            || "kind = \"embedded\"\npath = \"data\"".to_owned(),
            |url| format!("kind = \"redis\"\nurls = [\"{url}\"]\njournal = \"journal\""),
        );
        let wide = "rpm = 60_000_000\ntpm = 600_000_000_000\n";
        let common = "max_output_tokens = 1_024\non_spend = []\non_tokens = []\non_provider = []\n";
        let probe = |name: &str, limit: &str| format!("[plans.{name}]\n{limit}\n{common}[customers.{name}]\nplan = \"{name}\"\n");
        let probes: String = super::probe::PROBES.iter().map(|one| probe(one.customer, one.limit)).collect();
        format!(
            "[server]\nlisten = \"{address}\"\ngrace = \"20s\"\n[auth]\nmode = \"keys\"\n\
             [keys.bench]\nkey = {{ env = \"BENCH_KEY\" }}\n{wide}spend = {{ day = 1_000_000 }}\n\
             [gateway]\n{wide}spend = {{ day = 1_000_000 }}\n\
             [identity]\ndefault_plan = \"wide\"\n[store]\n{store}\n\
             [upstreams.openai]\nbase_url = \"http://{upstream}/v1\"\napi_key = {{ env = \"PROVIDER_KEY\" }}\n\
             [pools.mini]\nupstream = \"openai\"\nmodels = [\"gpt-4o-mini\"]\nceiling = {{ rpm = 60_000_000, tpm = 600_000_000_000 }}\n\
             [pools.tight]\nupstream = \"openai\"\nmodels = [\"{tight}\"]\nceiling = {{ rpm = 3, tpm = 600_000_000_000 }}\n\
             [models.\"{tight}\"]\nprice = {{ input = 0.15, output = 0.60 }}\n[models.gpt-4o-mini]\nprice = {{ input = 0.15, output = 0.60 }}\n\
             [concurrency]\nslots = {slots}\n\
             [plans.wide]\nmessages = {{ rate = \"1000000/s\", burst = 1_000_000 }}\n{wide}spend = {{ day = {cap}, month = 1_000_000 }}\n\
             max_in_flight = 1_000\n{common}\n{probes}{more}\n",
            tight = super::probe::TIGHT,
        )
    }

    /// Starts it and waits until it is ready.
    pub async fn start(&self, program: &Path, scratch: &Path) -> Result<Gateway, String> {
        let (directory, address) = (scratch.join(&self.name), free_address()?);
        std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        std::fs::write(directory.join("tollgate.toml"), self.config(address)).map_err(|error| error.to_string())?;
        let mut words = self.under.iter().map(std::ffi::OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or(program.as_os_str()));
        command.args(words);
        // The filter is the shipped one: the access log is on.
        command.args(["serve", "--config", "tollgate.toml", "--log", "info", "--log-file", "access.log"]).current_dir(&directory);
        command.env("BENCH_KEY", KEY).env("PROVIDER_KEY", "sk-bench-0123456789");
        let process = Process::start(command, "tollgate", &directory)?;
        let mut gateway = Gateway { process, address, directory, program: program.to_owned() };
        let until = Instant::now() + PATIENCE;
        while gateway.get("/readyz").await != "ready\n" {
            if gateway.process.ended() || Instant::now() > until {
                let said = std::fs::read_to_string(gateway.directory.join("tollgate.out")).unwrap_or_default();
                return Err(format!("the gateway does not come up: {said}"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(gateway)
    }
}

impl Gateway {
    /// The body of a page, or why there is none.
    pub async fn get(&self, path: &str) -> String {
        http::get(self.address, path).await.map_or_else(|error| error, |(_, body)| body)
    }

    /// The sum of the samples of a metric whose lines begin like this.
    pub async fn metric(&self, begins: &str) -> Option<u64> {
        let text = self.get("/metrics").await;
        let mut values =
            text.lines().filter(|line| line.starts_with(begins)).filter_map(|line| line.rsplit(' ').next()?.parse().ok());
        let first: u64 = values.next()?;
        Some(first + values.sum::<u64>())
    }

    /// Waits until nothing is in flight or unsettled any more.
    pub async fn settled(&self) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let metrics = self.get("/metrics").await;
            let open = ["tollgate_unsettled 0", "tollgate_in_flight 0"];
            let open: Vec<_> = open.iter().filter(|line| !metrics.lines().any(|one| one == **line)).collect();
            if open.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("a minute after the last answer it is still not so that {open:?}"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether `tollgate audit` finds nothing; an embedded store only when the gateway has ended.
    pub fn audit(&self) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(["audit", "--config", "tollgate.toml"]).current_dir(&self.directory);
        command.env("BENCH_KEY", KEY).env("PROVIDER_KEY", "sk-bench-0123456789");
        let audit = command.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&audit.stdout);
        if audit.status.success() { Ok(()) } else { Err(format!("the audit is not clean: {said}")) }
    }

    /// Lines of the access log with this status.
    pub fn logged(&self, status: u16) -> Result<u64, String> {
        let file = std::fs::File::open(self.directory.join("access.log")).map_err(|error| error.to_string())?;
        let (mut reader, mut line, mut count) = (std::io::BufReader::with_capacity(1 << 20, file), Vec::new(), 0);
        let (target, status) = (memchr::memmem::Finder::new("\"target\":\"access\""), format!("\"status\":{status},"));
        let status = memchr::memmem::Finder::new(&status);
        while reader.read_until(b'\n', &mut line).map_err(|error| error.to_string())? > 0 {
            count += u64::from(target.find(&line).is_some() && status.find(&line).is_some());
            line.clear();
        }
        Ok(count)
    }
}
