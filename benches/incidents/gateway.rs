//! The gateway as a process of its own, and a look at its gauges four times a second.

use crate::say;
use crate::scene::Scene;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate::config::policy::LostHold;
use tollgate::domain::CustomerId;
use tollgate::limit::{Scope, ScopeKey};
use tollgate::store::Stores;
use tollgate::telemetry::SystemClock;

/// How long it may take to come up, to settle, and to go down.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(250);

/// A running gateway with an embedded store.
pub struct Gateway {
    directory: tempfile::TempDir,
    child: Child,
    pub base: String,
}

/// What `/metrics` said of the pool, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    pub after: Duration,
    pub level: u64,
    /// Thousandths of the ceiling.
    pub used: u64,
}

impl Gateway {
    pub async fn start(scene: &Scene, provider: &str, http: &reqwest::Client) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = bound.map_err(|error| error.to_string())?.port();
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:{port}\"\ngrace = \"20s\"\n[store]\npath = \"data\"\n[upstreams.openai]\nbase_url = \"{provider}\"\n\
             [identity]\ndefault_plan = \"{}\"\nforward_id = \"as_is\"\n\
             [models.\"{}\"]\nprice = {{ input = 0.15, output = 0.60 }}\n{}",
            scene.plan,
            crate::scene::SMALL,
            scene.config.as_deref().unwrap_or_default(),
        );
        std::fs::write(directory.path().join("tollgate.toml"), config).map_err(|error| error.to_string())?;
        let log = std::fs::File::create(directory.path().join("log")).map_err(|error| error.to_string())?;
        let mut command = program()?;
        command.args(["serve", "--config", "tollgate.toml", "--log", "warn"]).current_dir(directory.path());
        let child = command.stdout(Stdio::null()).stderr(log).spawn().map_err(|error| error.to_string())?;
        let gateway = Self { directory, child, base: format!("http://127.0.0.1:{port}") };
        let until = Instant::now() + PATIENCE;
        while gateway.get(http, "/readyz").await != "ready\n" {
            if Instant::now() > until {
                return Err(format!("the gateway does not come up: {}", gateway.log()));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(gateway)
    }

    /// Its log, of warnings.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    pub async fn metrics(&self, http: &reqwest::Client) -> String {
        self.get(http, "/metrics").await
    }

    async fn get(&self, http: &reqwest::Client, path: &str) -> String {
        match http.get(format!("{}{path}", self.base)).timeout(PATIENCE).send().await {
            Ok(reply) => reply.text().await.unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }

    /// Waits until nothing is in flight or unsettled any more.
    pub async fn settled(&self, http: &reqwest::Client) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let metrics = self.metrics(http).await;
            if ["tollgate_unsettled", "tollgate_in_flight"].iter().all(|name| value(&metrics, name) == Some(0)) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err("a minute after the last answer something is still not settled".to_owned());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// SIGTERM, then the audit, then the balance of each of these customers in nano-dollars: spent and held.
    pub async fn stop(mut self, customers: &BTreeSet<String>) -> Result<(bool, Vec<(String, u64, u64)>), String> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().map_err(|error| error.to_string())?;
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break status,
                None if Instant::now() > until => return Err("the gateway does not end on SIGTERM".to_owned()),
                None => tokio::time::sleep(LOOK).await,
            }
        };
        let mut command = program()?;
        let audit = command.args(["audit", "--config", "tollgate.toml"]).current_dir(self.directory.path()).output();
        let audit = audit.map_err(|error| error.to_string())?;
        let clean = status.success() && audit.status.success();
        if !clean {
            say(&format!("{status}; audit: {}\n{}", String::from_utf8_lossy(&audit.stdout), self.log()));
        }
        let path = self.directory.path().join("data");
        let stores = Stores::embedded(&path, Arc::new(SystemClock), LostHold::Charge).map_err(|error| error.to_string())?;
        let mut balances = Vec::new();
        for customer in customers {
            let id = CustomerId::from_trusted(customer);
            let scope = ScopeKey { scope: Scope::Customer, owner: id.key().as_ref().into() };
            let found = stores.ledger.read(&scope).await.map_err(|error| error.to_string())?;
            let sum = |part: fn(&tollgate::store::Balance) -> u64| found.iter().map(part).sum();
            balances.push((customer.clone(), sum(|one| one.spent), sum(|one| one.held)));
        }
        Ok((clean, balances))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks at the gauges until it is aborted or has looked for `length`.
pub async fn watch(base: String, http: reqwest::Client, start: Instant, length: Duration) -> Vec<Look> {
    let mut looks = Vec::new();
    while start.elapsed() < length {
        if let Ok(reply) = http.get(format!("{base}/metrics")).timeout(PATIENCE).send().await {
            let metrics = reply.text().await.unwrap_or_default();
            let gauge = |name| value(&metrics, name).unwrap_or(0);
            let (level, used) = (gauge("tollgate_level{"), gauge("tollgate_ceiling_used_permille{"));
            looks.push(Look { after: start.elapsed(), level, used });
        }
        tokio::time::sleep(LOOK).await;
    }
    looks
}

/// The sum of the samples of a metric whose lines begin like this.
pub fn value(metrics: &str, begins: &str) -> Option<u64> {
    let lines = metrics.lines().filter(|line| line.starts_with(begins));
    let mut values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).peekable();
    values.peek()?;
    Some(values.sum())
}

/// This very program, so that it always plays what it was built with.
fn program() -> Result<Command, String> {
    std::env::current_exe().map(Command::new).map_err(|error| error.to_string())
}
