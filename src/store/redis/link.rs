//! The connection to one Redis server: dialled on demand, shared by all calls, replaced when it breaks.
//!
//! Every call has a deadline, is waited for a few times as long, and ends then, whatever the connection does. Calls are sent down one multiplexed connection; a call
//! that is given up leaves its place in the reply order, so a late reply is never taken for another call's. While no connection
//! stands, one task dials and all calls wait for it, each until its own deadline; after a failed dial calls fail at once until the
//! next one is due. So an outage costs each request a moment, and recovery needs nobody's help.

use super::scripts::Scripts;
use super::sentinel::Sentinels;
use crate::store::StoreError;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

/// The longest a dial may take, name lookup, TLS and log-in included, unless even a single call may take longer.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// An answer is waited for this many deadlines. One that is late is still the answer: nothing is decided twice and nothing has to be
/// given back, and a server that is slow for a moment is not taken for one that is away. What takes longer is silence.
pub(super) const DEADLINES: u32 = 4;
/// The pause between a failed dial and the next.
const DIAL_PAUSE: Duration = Duration::from_millis(100);
/// A connection on which calls time out and that gave no reply for this long is replaced: the peer may be gone without a word.
const SILENCE: Duration = Duration::from_secs(1);
/// Scripts are loaded again this often for one call before it fails; more than one flush during a call is no accident.
const RELOADS: usize = 2;

/// The replies of a pipeline, one per command.
pub(super) type Replies = Vec<RedisResult<Value>>;

/// A server and the connection to it. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub(super) struct Link(Arc<Inner>);

/// Where a link leads.
pub(super) enum Target {
    /// To this server.
    Server(Client),
    /// To this node of a cluster, named in errors.
    Node(Client, String),
    /// To whatever server is the master when it dials.
    Master(Sentinels),
}

struct Inner {
    target: Target,
    deadline: Duration,
    scripts: Arc<Scripts>,
    live: ArcSwapOption<Live>,
    dial: Mutex<Dial>,
    dialled: Notify,
    eviction: AtomicU8,
    /// Calls answered after the deadline.
    late: AtomicU64,
    /// Serialises the loading of scripts and counts it, so that calls which miss them together load them once.
    loading: tokio::sync::Mutex<()>,
    loads: AtomicU64,
    born: Instant,
}

/// A connection that stood when it was last used.
pub(super) struct Live {
    connection: MultiplexedConnection,
    /// Milliseconds after `born` at which it last gave a reply.
    replied: AtomicU64,
}

/// The state of dialling.
#[derive(Default)]
struct Dial {
    running: bool,
    /// When the last dial failed, and with what.
    failed: Option<(Instant, String)>,
}

/// What the server does when its memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Eviction {
    /// Not asked yet, or the server does not tell.
    Unknown,
    /// It refuses writes, as it should.
    Never,
    /// It may throw away budgets.
    Possible,
}

impl Link {
    /// A link that dials on its first use.
    pub(super) fn new(target: Target, scripts: Arc<Scripts>, deadline: Duration) -> Self {
        Self(Arc::new(Inner {
            target,
            deadline,
            scripts,
            live: ArcSwapOption::empty(),
            dial: Mutex::default(),
            dialled: Notify::new(),
            eviction: AtomicU8::new(Eviction::Unknown as u8),
            late: AtomicU64::new(0),
            loading: tokio::sync::Mutex::default(),
            loads: AtomicU64::new(0),
            born: Instant::now(),
        }))
    }

    /// The scripts this link keeps loaded.
    pub(super) fn scripts(&self) -> &Scripts {
        &self.0.scripts
    }

    /// What was learned of the server's eviction policy when the connection was made.
    pub(super) fn eviction(&self) -> Eviction {
        match self.0.eviction.load(Ordering::Relaxed) {
            n if n == Eviction::Never as u8 => Eviction::Never,
            n if n == Eviction::Possible as u8 => Eviction::Possible,
            _ => Eviction::Unknown,
        }
    }

    /// Calls so far that were answered after the deadline.
    pub(super) fn late(&self) -> u64 {
        self.0.late.load(Ordering::Relaxed)
    }

    /// Sends the commands in one round trip and gives their replies in order. Scripts the server has lost are loaded again.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] when patience ends or without a connection, [`StoreError::Failed`] for an error reply to any command.
    pub(super) async fn call(&self, pipeline: &mut Pipeline) -> Result<Vec<Value>, StoreError> {
        let (live, replies) = self.exchange(pipeline, Instant::now() + self.0.deadline * DEADLINES).await?;
        replies.into_iter().collect::<RedisResult<_>>().map_err(|error| self.failed(&live, &error))
    }

    /// As [`Link::call`], with another deadline and error replies left in their places. They are to be reported to [`Link::failed`]
    /// together with the connection they came from.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] when that is over or without a connection, [`StoreError::Failed`] where replies make no sense.
    pub(super) async fn exchange(&self, pipeline: &mut Pipeline, until: Instant) -> Result<(Arc<Live>, Replies), StoreError> {
        pipeline.ignore_errors(); // of single commands: they are sorted out by the caller
        let asked = Instant::now();
        match timeout_at(until, self.attempt(pipeline)).await {
            Ok(replies) => {
                if asked.elapsed() > self.0.deadline {
                    self.0.late.fetch_add(1, Ordering::Relaxed);
                }
                replies
            }
            Err(_) => {
                self.0.check_silence();
                Err(StoreError::Unreachable(self.0.named(format!("no reply within {:?}", asked.elapsed())).into_owned()))
            }
        }
    }

    /// Classifies an error reply, and drops the connection it came from where only another one can help.
    pub(super) fn failed(&self, live: &Arc<Live>, error: &RedisError) -> StoreError {
        self.0.failed(live, error)
    }

    async fn attempt(&self, pipeline: &Pipeline) -> Result<(Arc<Live>, Replies), StoreError> {
        let inner = &self.0;
        for _ in 0..=RELOADS {
            let live = self.live().await?;
            let loads = inner.loads.load(Ordering::Acquire);
            let replies = inner.send(&live, pipeline).await?;
            if !replies.iter().any(|reply| reply.as_ref().is_err_and(lost_script)) {
                return Ok((live, replies));
            }
            inner.reload(&live, loads).await?;
        }
        Err(StoreError::Failed(String::from("the scripts are flushed as fast as they are loaded")))
    }

    /// The standing connection, or the one that is being dialled.
    async fn live(&self) -> Result<Arc<Live>, StoreError> {
        if let Some(live) = self.0.live.load_full() {
            return Ok(live);
        }
        let dialled = self.0.dialled.notified();
        tokio::pin!(dialled);
        dialled.as_mut().enable(); // from here on the end of a dial is not missed
        self.dial()?;
        dialled.await;
        self.0.live.load_full().ok_or_else(|| self.0.not_connected())
    }

    /// Starts a dial unless one runs, or one just failed.
    pub(super) fn dial(&self) -> Result<(), StoreError> {
        let mut dial = self.0.dial.lock();
        if let Some((at, error)) = dial.failed.as_ref().filter(|(at, _)| at.elapsed() < DIAL_PAUSE) {
            let ago = at.elapsed();
            return Err(StoreError::Unreachable(format!("{error} ({ago:?} ago)")));
        }
        if self.0.live.load().is_some() {
            self.0.dialled.notify_waiters(); // it came to stand while the caller looked
        } else if !std::mem::replace(&mut dial.running, true) {
            let inner = self.0.clone();
            // Bounded in time, and nothing waits for it at shutdown: it writes nothing.
            tokio::spawn(async move { inner.dial().await });
        }
        Ok(())
    }
}

impl Inner {
    async fn dial(&self) {
        let patience = DIAL_TIMEOUT.max(self.deadline);
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(patience)).set_response_timeout(None);
        let connect = async {
            let client = match &self.target {
                Target::Server(client) | Target::Node(client, _) => Cow::Borrowed(client),
                Target::Master(sentinels) => Cow::Owned(sentinels.master().await?),
            };
            let connection = client.get_multiplexed_async_connection_with_config(&config).await;
            let mut connection = connection.map_err(|error| describe(&error))?;
            let eviction = self.prepare(&mut connection).await?;
            Ok::<_, String>((connection, eviction))
        };
        let result = timeout(patience, connect).await.unwrap_or_else(|_| Err(format!("no connection within {patience:?}")));
        let result = result.map_err(|error| self.named(error).into_owned());
        let mut dial = self.dial.lock();
        dial.running = false;
        match result {
            Ok((connection, eviction)) => {
                if dial.failed.take().is_some() {
                    tracing::info!("redis is reachable again");
                }
                self.note_eviction(eviction);
                let replied = AtomicU64::new(self.age());
                self.live.store(Some(Arc::new(Live { connection, replied })));
            }
            Err(error) => {
                if dial.failed.is_none() {
                    tracing::warn!(%error, "redis is not reachable");
                }
                dial.failed = Some((Instant::now(), error));
            }
        }
        drop(dial);
        self.dialled.notify_waiters();
    }

    /// Loads the scripts and asks for the eviction policy, once per connection. Neither has to succeed: a server may forbid `CONFIG`,
    /// and a script that is missing is loaded when it is called. What sentinels call the master must be one, as far as it tells.
    async fn prepare(&self, connection: &mut MultiplexedConnection) -> Result<Eviction, String> {
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors().cmd("CONFIG").arg("GET").arg("maxmemory-policy");
        if matches!(self.target, Target::Master(_)) {
            pipeline.cmd("ROLE");
        }
        self.scripts.load(&mut pipeline);
        let replies: Replies = pipeline.query_async(connection).await.map_err(|error| describe(&error))?;
        let mut replies = replies.into_iter();
        let policy = match replies.next() {
            Some(Ok(Value::Array(pair))) => pair.into_iter().nth(1),
            Some(Ok(Value::Map(pairs))) => pairs.into_iter().next().map(|(_, value)| value),
            _ => None,
        };
        if let (Target::Master(_), Some(Ok(Value::Array(role)))) = (&self.target, replies.next())
            && matches!(role.first(), Some(Value::BulkString(role)) if role != b"master")
        {
            return Err(String::from("READONLY what the sentinels call the master is a replica"));
        }
        Ok(match policy {
            Some(Value::BulkString(policy)) if policy == b"noeviction" => Eviction::Never,
            Some(Value::BulkString(_)) => Eviction::Possible,
            _ => Eviction::Unknown,
        })
    }

    fn note_eviction(&self, eviction: Eviction) {
        let before = self.eviction.swap(eviction as u8, Ordering::Relaxed);
        if eviction == Eviction::Possible && before != eviction as u8 {
            tracing::warn!("redis may evict keys when its memory is full, budgets included; set maxmemory-policy to noeviction");
        }
    }

    async fn send(&self, live: &Arc<Live>, pipeline: &Pipeline) -> Result<Replies, StoreError> {
        let mut connection = live.connection.clone();
        let replies: Replies = pipeline.query_async(&mut connection).await.map_err(|error| self.failed(live, &error))?;
        live.replied.store(self.age(), Ordering::Relaxed);
        Ok(replies)
    }

    /// Loads the scripts, unless another call has done so since `seen` loads.
    async fn reload(&self, live: &Arc<Live>, seen: u64) -> Result<(), StoreError> {
        let _turn = self.loading.lock().await;
        if self.loads.load(Ordering::Acquire) != seen {
            return Ok(());
        }
        let mut pipeline = redis::pipe();
        pipeline.ignore_errors();
        self.scripts.load(&mut pipeline);
        let replies = self.send(live, &pipeline).await?;
        replies.into_iter().collect::<RedisResult<Vec<_>>>().map_err(|error| self.failed(live, &error))?;
        self.loads.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Classifies an error and drops the connection where only another one can help.
    fn failed(&self, live: &Arc<Live>, error: &RedisError) -> StoreError {
        let text = describe(error);
        match error.kind() {
            // After a failover the old master answers so; its name, or the sentinels, may lead to the new one by now.
            ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => {
                self.discard(live);
                StoreError::Failed(text)
            }
            // A new connection logs in again.
            _ if error.code() == Some("NOAUTH") => {
                self.discard(live);
                StoreError::Failed(text)
            }
            ErrorKind::Server(_) | ErrorKind::Extension => StoreError::Failed(text),
            ErrorKind::Io => {
                self.discard(live);
                StoreError::Unreachable(text)
            }
            // What is left are replies that do not parse: nothing after them on this connection can be trusted.
            _ => {
                self.discard(live);
                StoreError::Failed(text)
            }
        }
    }

    fn check_silence(&self) {
        if let Some(live) = self.live.load_full() {
            let silent = self.age().saturating_sub(live.replied.load(Ordering::Relaxed));
            if u128::from(silent) > SILENCE.as_millis() {
                self.discard(&live);
            }
        }
    }

    /// Takes this connection out of use, if it still is in use. Calls already under way on it end by themselves.
    fn discard(&self, live: &Arc<Live>) {
        let _turn = self.dial.lock();
        if self.live.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, live)) {
            self.live.store(None);
        }
    }

    fn not_connected(&self) -> StoreError {
        let dial = self.dial.lock();
        StoreError::Unreachable(dial.failed.as_ref().map_or_else(|| String::from("the connection broke"), |(_, e)| e.clone()))
    }

    /// Says of which node an error is, where there are several.
    fn named<'a>(&self, error: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let error = error.into();
        match &self.target {
            Target::Node(_, name) => Cow::Owned(format!("{name}: {error}")),
            Target::Server(_) | Target::Master(_) => error,
        }
    }

    /// Milliseconds since the link was made.
    fn age(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn lost_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// The error for the log, bounded. The client never puts the address or its password into an error's text.
pub(super) fn describe(error: &RedisError) -> String {
    error.to_string().chars().take(200).collect()
}
