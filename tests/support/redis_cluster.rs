//! A Redis Cluster of a test's own: masters with replicas on free ports, joined by hand, ended with the test.
//!
//! Nodes are told apart by index: first the masters, each with its share of the slots, then a replica of each in the same order. States
//! are waited for by asking, with a deadline.

use redis::Value;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that a state of the cluster is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Slots of a cluster.
const SLOTS: u16 = 16_384;

/// A running cluster. Dropping it ends exactly its processes.
pub struct RedisCluster {
    nodes: Vec<Node>,
    masters: usize,
}

struct Node {
    port: u16,
    silence: Duration,
    directory: tempfile::TempDir,
    child: Option<Child>,
    id: String,
}

impl RedisCluster {
    /// Starts this many masters, and waits until every node calls the cluster sound. On a busy machine nobody is taken for dead.
    pub fn without_replicas(masters: usize) -> Self {
        Self::start(masters, masters, Duration::from_secs(60))
    }

    /// Starts this many masters with a replica each. After this much silence a node is taken for dead.
    pub fn with_replicas(masters: usize, silence: Duration) -> Self {
        Self::start(masters, 2 * masters, silence)
    }

    fn start(masters: usize, count: usize, silence: Duration) -> Self {
        let mut nodes: Vec<_> = (0..count).map(|_| Node::start(silence)).collect();
        for (i, node) in nodes.iter_mut().enumerate() {
            let mut connection = node.connection();
            node.id = redis::cmd("CLUSTER").arg("MYID").query(&mut connection).expect("CLUSTER MYID");
            // Their own epochs, so that nobody has to find out who gives way.
            let _: () = redis::cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(i + 1).query(&mut connection).expect("an epoch");
        }
        let cluster = Self { nodes, masters };
        let share = |i: usize| u16::try_from(i * usize::from(SLOTS) / masters).expect("a slot");
        for i in 0..masters {
            let mut command = redis::cmd("CLUSTER");
            command.arg("ADDSLOTSRANGE").arg(share(i)).arg(share(i + 1) - 1);
            let _: () = command.query(&mut cluster.connection(i)).expect("CLUSTER ADDSLOTSRANGE");
        }
        for node in &cluster.nodes[1..] {
            let mut command = redis::cmd("CLUSTER");
            command.arg("MEET").arg("127.0.0.1").arg(node.port).arg(node.port + BUS);
            let _: () = command.query(&mut cluster.connection(0)).expect("CLUSTER MEET");
        }
        cluster.wait("everybody knows everybody", || {
            (0..count).all(|i| cluster.info(i, "cluster_known_nodes") == count.to_string())
        });
        for i in masters..count {
            let mut command = redis::cmd("CLUSTER");
            command.arg("REPLICATE").arg(&cluster.nodes[i - masters].id);
            let replicate = || command.query::<()>(&mut cluster.connection(i)).is_ok();
            cluster.wait("a replica knows its master", replicate);
        }
        cluster.wait("the cluster is sound", || (0..count).all(|i| cluster.info(i, "cluster_state") == "ok"));
        cluster.wait("replicas are in step", || (masters..count).all(|i| cluster.in_step(i)));
        cluster
    }

    /// The addresses of the masters.
    pub fn urls(&self) -> Vec<String> {
        self.nodes[..self.masters].iter().map(|node| format!("redis://127.0.0.1:{}", node.port)).collect()
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A connection to one node, past the code under test.
    pub fn connection(&self, node: usize) -> redis::Connection {
        self.nodes[node].connection()
    }

    /// A connection to any node that runs.
    pub fn any(&self) -> redis::Connection {
        self.nodes.iter().find_map(Node::try_connection).expect("a running node")
    }

    /// The node that serves a slot at the moment, by its own word.
    pub fn master_of(&self, slot: u16) -> usize {
        let mut found = None;
        self.wait("somebody serves the slot", || {
            found = (0..self.nodes.len()).find(|&i| self.nodes[i].child.is_some() && self.serves(i, slot));
            found.is_some()
        });
        found.expect("waited for")
    }

    /// Whether a node says that it serves a slot itself.
    fn serves(&self, node: usize, slot: u16) -> bool {
        let Some(mut connection) = self.nodes[node].try_connection() else { return false };
        let Ok(Value::Array(ranges)) = redis::cmd("CLUSTER").arg("SLOTS").query::<Value>(&mut connection) else { return false };
        ranges.iter().any(|range| {
            let Value::Array(parts) = range else { return false };
            let [first, last, master, ..] = parts.as_slice() else { return false };
            let number = |value: &Value| redis::from_redis_value_ref::<u16>(value).expect("a number");
            let Value::Array(master) = master else { return false };
            (number(first)..=number(last)).contains(&slot) && number(&master[1]) == self.nodes[node].port
        })
    }

    /// Moves a slot with everything in it to another node, as an operator does.
    pub fn move_slot(&self, slot: u16, to: usize) {
        let from = self.master_of(slot);
        let (mut source, mut target) = (self.connection(from), self.connection(to));
        let set = |node: &mut redis::Connection, state: &str, id: &str| {
            let mut command = redis::cmd("CLUSTER");
            command.arg("SETSLOT").arg(slot).arg(state).arg(id);
            let _: () = command.query(node).expect("CLUSTER SETSLOT");
        };
        set(&mut target, "IMPORTING", &self.nodes[from].id);
        set(&mut source, "MIGRATING", &self.nodes[to].id);
        loop {
            let mut command = redis::cmd("CLUSTER");
            command.arg("GETKEYSINSLOT").arg(slot).arg(2);
            let keys: Vec<String> = command.query(&mut source).expect("CLUSTER GETKEYSINSLOT");
            if keys.is_empty() {
                break;
            }
            let mut command = redis::cmd("MIGRATE");
            command.arg("127.0.0.1").arg(self.nodes[to].port).arg("").arg(0).arg(10_000).arg("KEYS").arg(&keys);
            let _: Value = command.query(&mut source).expect("MIGRATE");
        }
        set(&mut target, "NODE", &self.nodes[to].id);
        set(&mut source, "NODE", &self.nodes[to].id);
        for other in (0..self.masters).filter(|node| ![from, to].contains(node)) {
            set(&mut self.connection(other), "NODE", &self.nodes[to].id);
        }
        // The new owner has made an epoch for itself; the next one must not make the same.
        let epochs = || (0..self.masters).map(|node| self.info(node, "cluster_current_epoch"));
        self.wait("everybody has heard of the move", || epochs().all(|epoch| Some(epoch) == epochs().next()));
    }

    /// `kill -9` of a node.
    pub fn kill(&mut self, node: usize) {
        let mut child = self.nodes[node].child.take().expect("running");
        child.kill().expect("ours");
        child.wait().expect("ours");
    }

    /// Starts a killed node again, empty of keys but knowing the cluster.
    pub fn wake(&mut self, node: usize) {
        self.nodes[node].run();
    }

    /// Waits until every node that runs calls the cluster sound and replicas follow.
    pub fn wait_sound(&self) {
        let running = || (0..self.nodes.len()).filter(|&i| self.nodes[i].child.is_some());
        self.wait("the cluster is sound", || running().all(|i| self.info(i, "cluster_state") == "ok"));
        self.wait("replicas follow", || running().filter(|&i| self.follows(i)).count() == self.nodes.len() - self.masters);
    }

    fn follows(&self, node: usize) -> bool {
        let info: String = redis::cmd("INFO").arg("replication").query(&mut self.connection(node)).expect("INFO");
        value(&info, "role") == "slave" && value(&info, "master_link_status") == "up"
    }

    /// Waits until a node has followed its master's writes so far.
    pub fn wait_in_step(&self, replica: usize) {
        self.wait("the replica is in step", || self.in_step(replica));
    }

    fn in_step(&self, replica: usize) -> bool {
        let field = |node: usize, name: &str| {
            let mut connection = self.connection(node);
            let info: String = redis::cmd("INFO").arg("replication").query(&mut connection).expect("INFO");
            value(&info, name)
        };
        field(replica, "master_link_status") == "up"
            && field(replica, "slave_repl_offset") == field(replica - self.masters, "master_repl_offset")
    }

    fn info(&self, node: usize, name: &str) -> String {
        let Some(mut connection) = self.nodes[node].try_connection() else { return String::new() };
        let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut connection).unwrap_or_default();
        value(&info, name)
    }

    /// How often all nodes together ran a command.
    pub fn calls(&self, command: &str) -> u64 {
        let prefix = format!("cmdstat_{command}:calls=");
        let count = |node: &Node| {
            let Some(mut connection) = node.try_connection() else { return 0 };
            let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).expect("INFO");
            let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
            line.map_or(0, |line| line.split(',').next().expect("a count").parse().expect("a number"))
        };
        self.nodes.iter().map(count).sum()
    }

    /// Every key of the masters, with the node that has it.
    pub fn keys(&self) -> Vec<(usize, String)> {
        let of = |node: usize| {
            let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut self.connection(node)).expect("KEYS");
            keys.into_iter().map(move |key| (node, key))
        };
        (0..self.masters).filter(|&node| self.nodes[node].child.is_some()).flat_map(of).collect()
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

/// How far the port is above a node's own on which nodes talk to each other.
const BUS: u16 = 10_000;

impl Node {
    fn start(silence: Duration) -> Self {
        // The bus needs the port 10,000 above, so the port itself must be low, and both free.
        for _ in 0..200 {
            let port = fastrand::u16(12_000..32_000);
            let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
            if !free(port) || !free(port + BUS) {
                continue;
            }
            let directory = tempfile::tempdir().expect("a directory for redis-server");
            let mut node = Self { port, silence, directory, child: None, id: String::new() };
            if node.try_run() {
                return node;
            }
        }
        panic!("redis-server gets no port in cluster mode; is it installed? tests/run.sh does that");
    }

    fn run(&mut self) {
        assert!(self.try_run(), "redis-server does not come back on port {}", self.port);
    }

    fn try_run(&mut self) -> bool {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--maxmemory-policy", "noeviction", "--cluster-enabled", "yes"])
            .args(["--cluster-node-timeout", &self.silence.as_millis().to_string()])
            .args(["--cluster-port", &(self.port + BUS).to_string(), "--repl-diskless-sync-delay", "0"])
            .args(["--cluster-replica-validity-factor", "0", "--repl-ping-replica-period", "1"])
            .arg("--dir")
            .arg(self.directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("redis-server does not start ({error}); tests/run.sh installs it"));
        self.child = Some(child);
        let patience = Instant::now() + PATIENCE;
        loop {
            if self.try_connection().is_some() {
                return true;
            }
            if self.child.as_mut().is_some_and(|child| child.try_wait().expect("a child").is_some()) {
                self.child = None;
                return false;
            }
            assert!(Instant::now() < patience, "redis-server does not answer on port {}", self.port);
            #[expect(clippy::disallowed_methods, reason = "it waits for another process, not for time to pass")]
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn connection(&self) -> redis::Connection {
        self.try_connection().expect("a running node")
    }

    /// A connection to this very process.
    fn try_connection(&self) -> Option<redis::Connection> {
        let id = self.child.as_ref()?.id();
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("a well-formed address");
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(2)).ok()?;
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection).ok()?;
        info.contains(&format!("process_id:{id}\r")).then_some(connection)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The value of a line `name:value`.
fn value(info: &str, name: &str) -> String {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}
