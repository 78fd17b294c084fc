//! The connections to a cluster: one link to each master, every command to the one that serves its slot.
//!
//! Commands of one call that go to the same node are one round trip there; nodes are asked at the same time. A command is repeated only
//! where the cluster said that it did nothing: MOVED and ASK name who to ask instead, TRYAGAIN comes while a slot is on its way to
//! another node. What got no answer is never repeated here, since it may have been done; that is why this is not left to a client that
//! repeats what broke.
//!
//! A redirection, a node that is away or a cluster that is down also has the cluster asked who serves what, once for all calls and not
//! more than every tenth of a second, of any node that answers.

use super::link::{DEADLINES, Eviction, Link, Live, Replies, Target, describe};
use super::scripts::Scripts;
use super::sentinel::at;
use super::topology::{Address, Topology};
use crate::store::StoreError;
use arc_swap::ArcSwapOption;
use futures_util::future::join_all;
use parking_lot::Mutex;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, Pipeline, RedisError};
use redis::{RedisResult, ServerErrorKind, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// How long one node may take to tell who serves what.
const PATIENCE: Duration = Duration::from_millis(500);
/// The pause between two questions who serves what.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause before a command is repeated whose slot is on its way.
const ON_ITS_WAY: Duration = Duration::from_millis(2);
/// Redirections of one command in a row; more mean that nodes disagree for the moment, and it waits before it goes on.
const REDIRECTIONS: u32 = 4;

/// A cluster. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub(super) struct Cluster(Arc<Inner>);

struct Inner {
    /// Addresses from the configuration; the first one also says how to log in at every node.
    seeds: Vec<ConnectionInfo>,
    deadline: Duration,
    scripts: Arc<Scripts>,
    topology: ArcSwapOption<Topology>,
    links: Mutex<HashMap<Address, Link>>,
    asking: Mutex<Asking>,
    asked: Notify,
}

/// The state of asking who serves what.
#[derive(Default)]
struct Asking {
    running: bool,
    last: Option<Instant>,
    /// What went wrong the last time.
    failed: Option<String>,
}

/// A command on its way.
struct Sent {
    index: usize,
    slot: u16,
    command: Cmd,
    /// Whom a redirection named, and whether it is to be asked with `ASKING`.
    told: Option<(Address, bool)>,
    /// How often it was redirected.
    redirections: u32,
}

/// What one node answered.
struct Answer {
    address: Address,
    link: Link,
    sent: Vec<Sent>,
    result: Result<(Arc<Live>, Replies), StoreError>,
}

impl Cluster {
    /// A cluster of which these nodes are known. Asks nobody yet.
    pub(super) fn new(seeds: Vec<ConnectionInfo>, deadline: Duration) -> Self {
        Self(Arc::new(Inner {
            seeds,
            deadline,
            scripts: Arc::new(Scripts::new(true)),
            topology: ArcSwapOption::empty(),
            links: Mutex::default(),
            asking: Mutex::default(),
            asked: Notify::new(),
        }))
    }

    /// The scripts its nodes know.
    pub(super) fn scripts(&self) -> &Scripts {
        &self.0.scripts
    }

    /// The worst that any node does when its memory is full, as far as known.
    pub(super) fn eviction(&self) -> Eviction {
        let links: Vec<_> = self.0.links.lock().values().map(Link::eviction).collect();
        [Eviction::Possible, Eviction::Never].into_iter().find(|worst| links.contains(worst)).unwrap_or(Eviction::Unknown)
    }

    /// Of these slots one for each master that serves any.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] while it is not known who serves what.
    pub(super) async fn one_of_each_master(&self, slots: impl Iterator<Item = u16> + Send) -> Result<Vec<u16>, StoreError> {
        let topology = self.topology(Instant::now() + self.0.deadline * DEADLINES).await?;
        let mut seen: Vec<&Address> = Vec::new();
        let mut first_of = |slot: &u16| match topology.master(*slot) {
            Some(master) if !seen.contains(&master) => {
                seen.push(master);
                true
            }
            _ => false,
        };
        Ok(slots.filter(|slot| first_of(slot)).collect())
    }

    /// Calls so far that nodes known now answered after the deadline.
    pub(super) fn late(&self) -> u64 {
        self.0.links.lock().values().map(Link::late).sum()
    }

    /// Sends each command to whoever serves its slot, and gives the replies in order.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] at the deadline or where a node is away, [`StoreError::Failed`] for an error reply to any command.
    /// Other commands may have been done.
    pub(super) async fn call(&self, commands: Vec<(u16, Cmd)>) -> Result<Vec<Value>, StoreError> {
        let until = Instant::now() + self.0.deadline * DEADLINES;
        let mut replies: Vec<Option<Value>> = Vec::new();
        replies.resize_with(commands.len(), || None);
        let sent = |(index, (slot, command))| Sent { index, slot, command, told: None, redirections: 0 };
        let mut open: Vec<Sent> = commands.into_iter().enumerate().map(sent).collect();
        while !open.is_empty() {
            let topology = self.topology(until).await?;
            let calls: Vec<_> = self.by_node(&topology, open)?.into_iter().map(|(to, sent)| self.ask(to, sent, until)).collect();
            (open, replies) = self.sort_out(join_all(calls).await, replies)?;
            if open.iter().any(|sent| sent.told.is_none()) {
                let pause = timeout_at(until, sleep(ON_ITS_WAY)).await;
                pause.map_err(|_| StoreError::Failed(String::from("TRYAGAIN a slot is on its way to another node")))?;
            }
        }
        replies.into_iter().map(|reply| reply.ok_or_else(|| StoreError::Failed(String::from("no reply to a command")))).collect()
    }

    fn by_node(&self, topology: &Topology, open: Vec<Sent>) -> Result<Vec<(Address, Vec<Sent>)>, StoreError> {
        let mut nodes: Vec<(Address, Vec<Sent>)> = Vec::new();
        for sent in open {
            let told = sent.told.as_ref().map(|(address, _)| address);
            let Some(address) = told.or_else(|| topology.master(sent.slot)) else {
                self.look_again();
                return Err(StoreError::Failed(format!("CLUSTERDOWN nobody serves slot {}", sent.slot)));
            };
            match nodes.iter_mut().find(|(node, _)| node == address) {
                Some((_, commands)) => commands.push(sent),
                None => nodes.push((address.clone(), vec![sent])),
            }
        }
        Ok(nodes)
    }

    async fn ask(&self, address: Address, sent: Vec<Sent>, until: Instant) -> Answer {
        let link = self.0.link(&address);
        let mut pipeline = Pipeline::with_capacity(sent.len());
        for sent in &sent {
            if matches!(sent.told, Some((_, true))) {
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(sent.command.clone());
        }
        let result = link.exchange(&mut pipeline, until).await;
        Answer { address, link, sent, result }
    }

    /// Keeps the replies, and gives back what is to be sent again.
    fn sort_out(
        &self,
        answers: Vec<Answer>,
        mut replies: Vec<Option<Value>>,
    ) -> Result<(Vec<Sent>, Vec<Option<Value>>), StoreError> {
        let (mut again, mut failed) = (Vec::new(), None);
        for Answer { address, link, sent, result } in answers {
            let (live, mut answered) = match result {
                Ok((live, answered)) => (live, answered.into_iter()),
                Err(error) => {
                    self.look_again();
                    failed = Some(error);
                    continue;
                }
            };
            for mut sent in sent {
                let asked = matches!(sent.told, Some((_, true)));
                let reply = if asked { answered.nth(1) } else { answered.next() };
                match reply {
                    Some(Ok(value)) => replies[sent.index] = Some(value),
                    Some(Err(error)) => match self.redirected(&address, &mut sent, &error) {
                        true => again.push(sent),
                        false => failed = Some(link.failed(&live, &error)),
                    },
                    None => failed = Some(StoreError::Failed(String::from("too few replies"))),
                }
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok((again, replies)),
        }
    }

    /// Whether the command is to be sent again, and notes to whom.
    fn redirected(&self, from: &Address, sent: &mut Sent, error: &RedisError) -> bool {
        let told = error.redirect_node().and_then(|(address, _)| Address::told(address, from));
        match (error.kind(), told) {
            (ErrorKind::Server(ServerErrorKind::Moved), Some(to)) => {
                self.0.topology.rcu(|topology| topology.as_ref().map(|t| Arc::new(t.with(sent.slot, to.clone()))));
                self.look_again();
                sent.told = Some((to, false));
            }
            (ErrorKind::Server(ServerErrorKind::Ask), Some(to)) => sent.told = Some((to, true)),
            // From the one who serves it, whoever that is by then.
            (ErrorKind::Server(ServerErrorKind::TryAgain), _) => {
                sent.told = None;
                return true;
            }
            (ErrorKind::Server(ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown | ServerErrorKind::ReadOnly), _) => {
                self.look_again();
                return false;
            }
            _ => return false,
        }
        sent.redirections += 1;
        if sent.redirections.is_multiple_of(REDIRECTIONS) {
            sent.told = None;
        }
        true
    }

    /// Who serves what, as last heard; where nothing was heard yet the cluster is asked.
    async fn topology(&self, until: Instant) -> Result<Arc<Topology>, StoreError> {
        loop {
            if let Some(topology) = self.0.topology.load_full() {
                return Ok(topology);
            }
            let asked = self.0.asked.notified();
            tokio::pin!(asked);
            asked.as_mut().enable(); // from here on the end of asking is not missed
            if !self.look_again() && self.0.topology.load().is_none() {
                let failed = self.0.asking.lock().failed.clone();
                return Err(StoreError::Unreachable(failed.unwrap_or_else(|| String::from("the cluster was not reachable"))));
            }
            let waited = timeout_at(until, asked).await;
            waited.map_err(|_| StoreError::Unreachable(format!("no view of the cluster within {:?}", self.0.deadline)))?;
        }
    }

    /// Has the cluster asked who serves what, unless that was just done. Whether it is being asked.
    pub(super) fn look_again(&self) -> bool {
        let mut asking = self.0.asking.lock();
        if asking.running {
            return true;
        }
        if asking.last.is_some_and(|at| at.elapsed() < PAUSE) {
            return false;
        }
        asking.running = true;
        let inner = Arc::clone(&self.0);
        // Bounded in time, and nothing waits for it at shutdown: it writes nothing.
        tokio::spawn(async move { inner.look().await });
        true
    }
}

impl Inner {
    /// The link to a node; made where there is none.
    fn link(&self, address: &Address) -> Link {
        let mut links = self.links.lock();
        let new = || Link::new(Target::Node(self.client(address), address.to_string()), self.scripts.clone(), self.deadline);
        links.entry(address.clone()).or_insert_with(new).clone()
    }

    fn client(&self, address: &Address) -> Client {
        let seed = &self.seeds[0];
        let info = seed.clone().set_addr(at(seed.addr(), address.host.to_string(), address.port));
        Client::open(info).expect("it differs from a sound address in host and port only")
    }

    async fn look(&self) {
        let known = self.topology.load().as_ref().map(|topology| topology.nodes.clone()).unwrap_or_default();
        let mut nodes = known;
        let seeds = self.seeds.iter().filter_map(|seed| match seed.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Address { host: host.as_str().into(), port: *port })
            }
            _ => None,
        });
        fastrand::shuffle(&mut nodes); // whoever answers wrongly is not asked first again
        nodes.extend(seeds.filter(|seed| !nodes.contains(seed)).collect::<Vec<_>>());
        let mut result = Err(String::from("no node of the cluster is known"));
        for node in &nodes {
            result = match timeout(PATIENCE, self.ask_view(node)).await {
                Ok(view) => view,
                Err(_) => Err(format!("{node}: no answer within {PATIENCE:?}")),
            };
            if result.is_ok() {
                break;
            }
        }
        let mut asking = self.asking.lock();
        asking.running = false;
        asking.last = Some(Instant::now());
        match result {
            Ok(topology) => {
                if asking.failed.take().is_some() {
                    tracing::info!("the redis cluster is reachable again");
                }
                self.links.lock().retain(|address, _| topology.serves(address));
                self.topology.store(Some(Arc::new(topology)));
            }
            Err(error) => {
                if asking.failed.is_none() {
                    tracing::warn!(%error, "the redis cluster is not reachable");
                }
                asking.failed = Some(error);
            }
        }
        drop(asking);
        self.asked.notify_waiters();
    }

    async fn ask_view(&self, node: &Address) -> Result<Topology, String> {
        let failed = |error: RedisError| format!("{node}: {}", describe(&error));
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
        let client = self.client(node);
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)?;
        let reply: RedisResult<Value> = redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await;
        Topology::read(&reply.map_err(failed)?, node).ok_or_else(|| format!("{node}: CLUSTERDOWN it knows no masters"))
    }
}
