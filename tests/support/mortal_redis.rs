//! A Redis server that a test kills, freezes and brings back, on one port and with its data where it keeps any.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// See the module. Dropping it ends exactly its process.
pub struct MortalRedis {
    port: u16,
    directory: tempfile::TempDir,
    child: Option<Child>,
}

impl MortalRedis {
    /// One that is not running yet.
    pub fn asleep() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        Self { port, directory: tempfile::tempdir().expect("a directory"), child: None }
    }

    /// A running one.
    pub fn awake() -> Self {
        let mut redis = Self::asleep();
        redis.wake();
        redis
    }

    /// Starts the process, with the data of the one before, and waits until it answers.
    ///
    /// # Panics
    /// When `redis-server` is not installed or does not answer within ten seconds.
    pub fn wake(&mut self) {
        self.start(&[]);
        self.until_it_answers();
    }

    /// Starts the process with more data than it reads in a while: it says `LOADING` to whoever asks, until [`MortalRedis::loaded`].
    ///
    /// # Panics
    /// As of [`MortalRedis::wake`].
    pub fn wake_loading(&mut self) {
        self.start(&["--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"]);
    }

    /// Writes so much that reading it takes [`MortalRedis::wake_loading`] half a minute.
    pub fn fill(&self) {
        let mut connection = self.connection();
        let script = "for i = 1, 3000 do redis.call('SET', 'filler' .. i, string.rep('x', 100)) end";
        redis::cmd("EVAL").arg(script).arg(0).exec(&mut connection).expect("EVAL");
        // It listens while it reads a snapshot, more often than while it reads single commands.
        redis::cmd("BGREWRITEAOF").exec(&mut connection).expect("BGREWRITEAOF");
        let patience = Instant::now() + Duration::from_secs(10);
        loop {
            let info: String = redis::cmd("INFO").arg("persistence").query(&mut connection).expect("INFO");
            if info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0") {
                return;
            }
            assert!(Instant::now() < patience, "{info}");
            std::thread::yield_now(); // waiting for another process, not for time to pass
        }
    }

    /// Lets a process that is loading read the rest at once, and waits until it answers.
    ///
    /// # Panics
    /// As of [`MortalRedis::wake`].
    pub fn loaded(&self) {
        let client = redis::Client::open(self.url()).expect("an address");
        let mut connection = client.get_connection().expect("it listens");
        let refused = redis::cmd("PING").exec(&mut connection).expect_err("it is loading");
        assert!(refused.to_string().contains("LOADING") || refused.to_string().contains("loading"), "{refused}");
        redis::cmd("CONFIG").arg("SET").arg("key-load-delay").arg(0).exec(&mut connection).expect("CONFIG SET");
        self.until_it_answers();
    }

    fn start(&mut self, more: &[&str]) {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
            .args(["--maxmemory-policy", "noeviction"])
            // Every write is with the operating system before its reply leaves, so `kill -9` loses nothing. With `everysec` writes
            // are held back, replies are not, while the disk is busy with the last second's.
            .args(["--appendfsync", "no"])
            .arg("--dir")
            .arg(self.directory.path())
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("redis-server does not start ({error}); tests/run.sh installs it"));
        self.child = Some(child);
    }

    fn until_it_answers(&self) {
        let patience = Instant::now() + Duration::from_secs(10);
        while self.try_connection().is_none() {
            assert!(Instant::now() < patience, "redis-server does not answer on port {}", self.port);
            std::thread::yield_now(); // waiting for another process, not for time to pass
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("running");
        child.kill().expect("ours");
        child.wait().expect("ours");
    }

    /// Forgets everything, as a server without persistence does when it dies.
    pub fn forget(&self) {
        let _ = std::fs::remove_dir_all(self.directory.path().join("appendonlydir"));
    }

    /// Stops the process without ending it: connections stay open and nothing is answered.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("running").id().to_string();
        let status = Command::new("kill").args([signal, &id]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {signal} {id}");
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection for looking into it and changing it, past the code under test.
    pub fn connection(&self) -> redis::Connection {
        self.try_connection().expect("a running server")
    }

    fn try_connection(&self) -> Option<redis::Connection> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        let mut connection = redis::Client::open(self.url()).ok()?.get_connection().ok()?;
        redis::cmd("PING").exec(&mut connection).ok().map(|()| connection)
    }
}

impl Drop for MortalRedis {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
