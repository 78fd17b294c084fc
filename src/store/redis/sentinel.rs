//! Sentinels: who the master is at the moment.
//!
//! Asked whenever a connection is made, so a failover is followed as soon as the old connection is of no use: it broke, went silent, or
//! answered READONLY. Each sentinel has a moment to answer, the one that last did is asked first.

use super::link::describe;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// How long one sentinel may take, connecting and log-in included.
const PATIENCE: Duration = Duration::from_millis(250);

/// Some sentinels, and the name under which they know the master.
pub(super) struct Sentinels {
    name: String,
    sentinels: Vec<Client>,
    /// How to log in at the master; its address is replaced by the one that they name.
    login: ConnectionInfo,
    /// The one to ask first.
    first: AtomicUsize,
}

impl Sentinels {
    pub(super) const fn new(name: String, sentinels: Vec<Client>, login: ConnectionInfo) -> Self {
        Self { name, sentinels, login, first: AtomicUsize::new(0) }
    }

    /// The master that the first sentinel to answer names.
    ///
    /// # Errors
    /// What the last of them said, for the log.
    pub(super) async fn master(&self) -> Result<Client, String> {
        let first = self.first.load(Ordering::Relaxed);
        let mut problem = String::from("there are no sentinels");
        for i in 0..self.sentinels.len() {
            let index = (first + i) % self.sentinels.len();
            // Should the caller give up meanwhile, it begins with the next one when it comes back.
            self.first.store(index + 1, Ordering::Relaxed);
            match timeout(PATIENCE, self.ask(&self.sentinels[index])).await {
                Ok(Ok(client)) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(client);
                }
                Ok(Err(error)) => problem = error,
                Err(_) => problem = format!("a sentinel does not answer within {PATIENCE:?}"),
            }
        }
        Err(problem)
    }

    /// The sentinel that is asked first was wrong: another one may know better.
    pub(super) fn doubt(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    async fn ask(&self, sentinel: &Client) -> Result<Client, String> {
        let failed = |error| format!("a sentinel failed: {}", describe(&error));
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
        let mut connection = sentinel.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let named: Option<(String, u16)> = command.query_async(&mut connection).await.map_err(failed)?;
        let (host, port) = named.ok_or_else(|| format!("the sentinels know no master {:?}", self.name))?;
        let info = self.login.clone().set_addr(at(self.login.addr(), host, port));
        Client::open(info).map_err(failed)
    }
}

/// An address of the same kind (plain or TLS) at another host and port.
pub(super) fn at(like: &ConnectionAddr, host: String, port: u16) -> ConnectionAddr {
    match like {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
        }
        _ => ConnectionAddr::Tcp(host, port),
    }
}
