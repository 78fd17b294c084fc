//! One Redis and two gateways, as processes that can be killed and started again.

use crate::{Options, say};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The caps of customers that have one that binds, and of those that have not, dollars a day.
pub const TIGHT: f64 = 0.002;
const WIDE: f64 = 1_000.0;
/// The lease of a hold: short, so that the holds of the dead are booked within the run.
pub const LEASE: Duration = Duration::from_secs(4);
/// How long a process may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// One of the gateways.
    Gateway(usize),
    /// Redis.
    Redis,
}

/// A `kill -9`.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// Whom.
    pub who: Who,
    /// When.
    pub at: Instant,
}

/// The processes.
pub struct Fleet {
    directory: tempfile::TempDir,
    redis: Server,
    gateways: [Server; 2],
    random: fastrand::Rng,
}

struct Server {
    child: Option<Child>,
    port: u16,
    command: Box<dyn Fn() -> Command + Send>,
}

impl Fleet {
    /// Starts all of them.
    pub async fn start(options: &Options, provider: &str, seed: u64) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let redis_port = free_port()?;
        let (at, fsync) = (directory.path().to_owned(), options.appendfsync.clone());
        let mut redis = Server::new(redis_port, move || {
            let mut command = Command::new("redis-server");
            command.args(["--port", &redis_port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
            command.args(["--appendfsync", &fsync, "--maxmemory-policy", "noeviction"]).arg("--dir").arg(&at);
            command
        });
        redis.start()?;
        let config = config(options, provider, redis_port);
        let mut gateways = [0, 1].map(|number| gateway(directory.path().join(format!("gateway{number}")), &config));
        for gateway in &mut gateways {
            match gateway {
                Ok(gateway) => gateway.start()?,
                Err(error) => return Err(std::mem::take(error)),
            }
        }
        let [Ok(one), Ok(two)] = gateways else { return Err("a gateway has no port".to_owned()) };
        let fleet = Self { directory, redis, gateways: [one, two], random: fastrand::Rng::with_seed(seed) };
        fleet.ready().await?;
        Ok(fleet)
    }

    /// Where the gateways listen.
    pub fn addresses(&self) -> [String; 2] {
        [0, 1].map(|number| format!("http://127.0.0.1:{}", self.gateways[number].port))
    }

    /// Where Redis listens.
    pub fn redis(&self) -> String {
        format!("redis://127.0.0.1:{}", self.redis.port)
    }

    /// Kills and starts again until the time is over.
    pub async fn mayhem(&mut self, time: Duration) -> Result<Vec<Kill>, String> {
        let (until, mut kills) = (Instant::now() + time, Vec::new());
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(self.random.u64(1_500..5_000))).await;
            let victims: &[Who] = match self.random.u8(0..10) {
                0..3 => &[Who::Gateway(0)],
                3..5 => &[Who::Gateway(1)],
                5..7 => &[Who::Redis],
                7 => &[Who::Redis, Who::Gateway(0)],
                8 => &[Who::Gateway(0), Who::Gateway(1)],
                _ => &[Who::Gateway(1), Who::Redis, Who::Gateway(0)],
            };
            for who in victims {
                kills.push(Kill { who: *who, at: Instant::now() });
                self.server(*who).kill();
            }
            say(&format!("{:>4} s left, killed {victims:?}", until.saturating_duration_since(Instant::now()).as_secs()));
            tokio::time::sleep(Duration::from_millis(self.random.u64(50..2_500))).await;
            for who in victims {
                self.server(*who).start()?;
            }
        }
        Ok(kills)
    }

    /// Waits until everybody answers and nothing is held or unsettled any more.
    pub async fn settle(&self, options: &Options) -> Result<(), String> {
        self.ready().await?;
        let (client, until) = (crate::client()?, Instant::now() + PATIENCE + 4 * LEASE);
        let ledger = self.ledger()?;
        loop {
            let mut left = Vec::new();
            for address in self.addresses() {
                let metrics = match client.get(format!("{address}/metrics")).send().await {
                    Ok(reply) => reply.text().await.unwrap_or_default(),
                    Err(error) => error.to_string(),
                };
                let open = ["tollgate_unsettled 0", "tollgate_store_waiting 0", "tollgate_in_flight 0"];
                left.extend(open.iter().filter(|line| !metrics.contains(**line)).map(|line| format!("not {line}")));
            }
            for customer in 0..options.customers {
                let (_, held) = crate::bounds::stands(&ledger, customer).await?;
                if held > 0 {
                    left.push(format!("customer {customer} holds {held}"));
                }
            }
            let (_, held) = crate::bounds::all_stand(&ledger).await?;
            if held > 0 {
                left.push(format!("{held} held of the gateways' own budget"));
            }
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("not settled: {left:?}"));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The ledger, past the gateways.
    pub fn ledger(&self) -> Result<tollgate::store::redis::RedisLedger, String> {
        let url = self.redis();
        tollgate::store::redis::RedisLedger::connect(&[&url], Duration::from_secs(2)).map_err(|error| error.to_string())
    }

    async fn ready(&self) -> Result<(), String> {
        let (client, until) = (crate::client()?, Instant::now() + PATIENCE);
        for address in self.addresses() {
            loop {
                let reply = client.get(format!("{address}/readyz")).send().await;
                let text = match reply {
                    Ok(reply) => reply.text().await.unwrap_or_default(),
                    Err(error) => error.to_string(),
                };
                if text == "ready\n" {
                    break;
                }
                if Instant::now() > until {
                    return Err(format!("{address} is not ready: {text}; see {}", self.directory.path().display()));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    const fn server(&mut self, who: Who) -> &mut Server {
        match who {
            Who::Gateway(number) => &mut self.gateways[number],
            Who::Redis => &mut self.redis,
        }
    }
}

impl Server {
    fn new(port: u16, command: impl Fn() -> Command + Send + 'static) -> Self {
        Self { child: None, port, command: Box::new(command) }
    }

    fn start(&mut self) -> Result<(), String> {
        let mut command = (self.command)();
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.map_err(|error| format!("{command:?} does not start: {error}"))?);
        Ok(())
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn gateway(directory: PathBuf, config: &str) -> Result<Server, String> {
    let port = free_port()?;
    std::fs::create_dir(&directory).map_err(|error| error.to_string())?;
    std::fs::write(directory.join("tollgate.toml"), config).map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(Server::new(port, move || {
        let mut command = Command::new(&program);
        command.args(["serve", "--config", "tollgate.toml"]).current_dir(&directory);
        command.env("TOLLGATE_SERVER__LISTEN", format!("127.0.0.1:{port}"));
        command
    }))
}

fn config(options: &Options, provider: &str, redis: u16) -> String {
    let customers: String = (0..options.customers)
        .filter(|customer| is_tight(*customer))
        .map(|customer| format!("[customers.c{customer}]\nplan = \"tight\"\n"))
        .collect();
    let plan = |name: &str, cap: f64| {
        format!(
            "[plans.{name}]\nmessages = \"unlimited\"\nrpm = \"unlimited\"\ntpm = \"unlimited\"\nspend = {{ day = {cap:?} }}\n\
             max_output_tokens = 100\non_spend = []\non_provider = []\n"
        )
    };
    format!(
        "[server]\ngrace = \"5s\"\n[concurrency]\nslots = {slots}\n[store]\nkind = \"redis\"\nurls = [\"redis://127.0.0.1:{redis}\"]\n\
         lease = \"{lease}s\"\nlost_hold = \"{lost_hold}\"\n[upstreams.openai]\nbase_url = \"{provider}\"\n\
         [identity]\ndefault_plan = \"wide\"\nforward_id = \"as_is\"\n[models.m-small]\nprice = {{ input = 0.15, output = 0.60 }}\n\
         [gateway]\nspend = {{ day = 1000000.0 }}\n{}{}{customers}",
        plan("wide", WIDE),
        plan("tight", TIGHT),
        slots = options.concurrency,
        lease = LEASE.as_secs(),
        lost_hold = options.lost_hold,
    )
}

/// Whether a customer's cap binds.
pub const fn is_tight(customer: usize) -> bool {
    customer.is_multiple_of(4)
}

fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| error.to_string())
}
