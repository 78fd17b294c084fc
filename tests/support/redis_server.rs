//! A Redis server of a test's own: started on a free port in a directory of its own, ended with the test.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server. Dropping it ends exactly this process and removes its directory.
pub struct RedisServer {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl RedisServer {
    /// Starts a server on a free port and waits until it answers.
    ///
    /// # Panics
    /// When `redis-server` is not installed or does not come up within ten seconds.
    pub fn start() -> Self {
        // Another process may take the port between the look and the start.
        (0..5).find_map(|_| Self::try_start(free_port())).expect("redis-server gets none of five ports")
    }

    /// Starts a server on this port.
    pub fn start_on(port: u16) -> Self {
        Self::try_start(port).unwrap_or_else(|| panic!("redis-server does not get port {port}"))
    }

    fn try_start(port: u16) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory for redis-server");
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--maxmemory-policy", "noeviction"])
            .arg("--dir")
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "redis-server does not start ({error}); install it with `apt-get install -y redis-server`, \
                     or run tests/run.sh, which does"
                )
            });
        let mut server = Self { child, port, directory };
        let patience = Instant::now() + Duration::from_secs(10);
        while !server.answers() {
            if server.child.try_wait().expect("a child").is_some() {
                return None;
            }
            assert!(Instant::now() < patience, "redis-server does not answer on port {port}");
            #[expect(clippy::disallowed_methods, reason = "it waits for another process, not for time to pass")]
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(server)
    }

    /// Whether this very process, not another one on the port, answers.
    fn answers(&self) -> bool {
        let client = redis::Client::open(self.url()).expect("a well-formed address");
        let info = client.get_connection().and_then(|mut c| redis::cmd("INFO").arg("server").query::<String>(&mut c));
        info.is_ok_and(|info| info.contains(&format!("process_id:{}\r", self.child.id())))
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A connection for looking into it, past the code under test.
    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).expect("a well-formed address");
        client.get_connection().expect("a running server")
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
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {signal} {}", self.child.id());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        debug_assert!(self.directory.path().exists(), "removed after the process that writes there has ended");
    }
}

/// A port nobody listens on at the moment.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("bound").port()
}
