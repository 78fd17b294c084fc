//! A master, a replica and three sentinels of a test's own, on free ports, ended with the test.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that a state is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The name under which the sentinels know the master.
const NAME: &str = "mymaster";
/// After so much silence a master is taken for dead, milliseconds: not so short that a busy machine is.
const SILENCE: u32 = 1_500;

/// See the module. Dropping it ends exactly its processes.
pub struct Sentinels {
    servers: Vec<Process>,
    sentinels: Vec<Process>,
}

struct Process {
    port: u16,
    child: Child,
    _directory: tempfile::TempDir,
}

impl Sentinels {
    /// Starts them, and waits until every sentinel knows the others and the replica.
    pub fn start() -> Self {
        let server = |more: &[&str]| {
            let mut args = vec!["--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"];
            args.extend(["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"]);
            args.extend(more);
            Process::start(&[], &args)
        };
        let master = server(&[]);
        let replica = server(&["--replicaof", &format!("127.0.0.1 {}", master.port)]);
        let config = format!(
            "sentinel monitor {NAME} 127.0.0.1 {} 2\nsentinel down-after-milliseconds {NAME} {SILENCE}\n\
             sentinel failover-timeout {NAME} 10000\nsentinel parallel-syncs {NAME} 1\n",
            master.port
        );
        let sentinels = (0..3).map(|_| Process::start(&[&config], &["--sentinel"])).collect();
        let all = Self { servers: vec![master, replica], sentinels };
        all.wait("the replica is in step", || all.in_step());
        all.wait("every sentinel knows the others", || {
            all.sentinels.iter().all(|sentinel| {
                let known = |what: &str| {
                    let list: Vec<redis::Value> = redis::cmd("SENTINEL").arg(what).arg(NAME).query(&mut sentinel.connection())?;
                    Ok::<_, redis::RedisError>(list.len())
                };
                matches!((known("SENTINELS"), known("REPLICAS")), (Ok(2), Ok(1)))
            })
        });
        all
    }

    /// The addresses of the sentinels.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(|sentinel| format!("redis://127.0.0.1:{}", sentinel.port)).collect()
    }

    fn named(sentinel: &Process) -> Option<u16> {
        let mut command = redis::cmd("SENTINEL");
        let mut connection = sentinel.try_connection()?;
        let (_, port): (String, u16) = command.arg("GET-MASTER-ADDR-BY-NAME").arg(NAME).query(&mut connection).ok()?;
        Some(port)
    }

    /// The port of the master, as most sentinels say.
    pub fn master(&self) -> u16 {
        let all: Vec<_> = self.sentinels.iter().filter_map(Self::named).collect();
        *all.iter().max_by_key(|port| all.iter().filter(|other| other == port).count()).expect("a sentinel answers")
    }

    /// Waits until the replica has followed every write so far.
    pub fn wait_in_step(&self) {
        self.wait("the replica is in step", || self.in_step());
    }

    fn in_step(&self) -> bool {
        let field = |server: &Process, name: &str| {
            let info: String = redis::cmd("INFO").arg("replication").query(&mut server.connection()).expect("INFO");
            info.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned)).unwrap_or_default()
        };
        field(&self.servers[1], "master_link_status:") == "up"
            && field(&self.servers[1], "slave_repl_offset:") == field(&self.servers[0], "master_repl_offset:")
    }

    /// Has the replica step in for a master that lives.
    pub fn fail_over(&self) {
        let ask = || redis::cmd("SENTINEL").arg("FAILOVER").arg(NAME).query::<()>(&mut self.sentinels[0].connection()).is_ok();
        self.wait("a sentinel agrees", ask);
    }

    /// Waits until all sentinels name the same master, and the other server has heard that it is none.
    pub fn wait_agreed(&self) {
        self.wait("all sentinels agree", || {
            let named: Vec<_> = self.sentinels.iter().filter_map(Self::named).collect();
            let master = named[0];
            // Whoever changes its role closes its connections.
            let role = |server: &Process| {
                let info = redis::cmd("INFO").arg("replication").query::<String>(&mut server.try_connection()?).ok()?;
                Some(if info.contains("role:master") { "master" } else { "replica" })
            };
            named.iter().all(|port| *port == master)
                && self
                    .servers
                    .iter()
                    .all(|server| role(server) == Some(if server.port == master { "master" } else { "replica" }))
        });
    }

    /// `kill -9` of the master.
    pub fn kill_master(&mut self) {
        let port = self.master();
        self.servers.iter_mut().find(|server| server.port == port).expect("one of ours").kill();
    }

    /// `kill -9` of a sentinel.
    pub fn kill(&mut self, sentinel: usize) {
        self.sentinels[sentinel].kill();
    }

    /// Stops a sentinel without ending it.
    pub fn freeze(&self, sentinel: usize) {
        self.sentinels[sentinel].signal("-STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self, sentinel: usize) {
        self.sentinels[sentinel].signal("-CONT");
    }

    fn wait(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let patience = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < patience, "waited for: {what}");
            #[expect(clippy::disallowed_methods, reason = "it waits for other processes, not for time to pass")]
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Process {
    /// Starts `redis-server` with a configuration file, if there is anything for it, and these arguments.
    fn start(config: &[&str], args: &[&str]) -> Self {
        // Another process may take the port between the look and the start.
        (0..5).find_map(|_| Self::try_start(config, args)).expect("redis-server gets none of five ports")
    }

    fn try_start(config: &[&str], args: &[&str]) -> Option<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("redis-server");
        if let [config] = config {
            let path = directory.path().join("sentinel.conf"); // sentinels write into it
            std::fs::write(&path, config).expect("a file");
            command.arg(path);
        }
        let child = command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(args)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("redis-server does not start ({error}); tests/run.sh installs it"));
        let mut process = Self { port, child, _directory: directory };
        let patience = Instant::now() + PATIENCE;
        while process.try_connection().is_none() {
            if process.child.try_wait().expect("a child").is_some() {
                return None;
            }
            assert!(Instant::now() < patience, "redis-server does not answer on port {port}");
            #[expect(clippy::disallowed_methods, reason = "it waits for another process, not for time to pass")]
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(process)
    }

    fn connection(&self) -> redis::Connection {
        self.try_connection().expect("a running process")
    }

    /// A connection to this very process.
    fn try_connection(&self) -> Option<redis::Connection> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("a well-formed address");
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(2)).ok()?;
        connection.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection).ok()?;
        info.contains(&format!("process_id:{}\r", self.child.id())).then_some(connection)
    }

    fn kill(&mut self) {
        self.child.kill().expect("ours");
        self.child.wait().expect("ours");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {signal} {}", self.child.id());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
