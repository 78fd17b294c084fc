//! Sentinels: who the master is at the moment.
//!
//! Asked whenever a connection is made, so a failover is followed as soon as the old connection is of no use: it broke, went silent, or
//! answered READONLY. All sentinels are asked at once, and the one with the latest configuration is believed: just after a failover some
//! still name the old master, which may still take itself for one. One that does not answer costs a moment, no more.

use super::link::describe;
use futures_util::future::join_all;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo};
use std::collections::HashMap;
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
}

/// What one sentinel says.
struct Named {
    /// Grows with every failover.
    epoch: u64,
    host: String,
    port: u16,
}

impl Sentinels {
    pub(super) const fn new(name: String, sentinels: Vec<Client>, login: ConnectionInfo) -> Self {
        Self { name, sentinels, login }
    }

    /// The master by the latest configuration that any sentinel tells.
    ///
    /// # Errors
    /// What one of them said, for the log, where none names a master.
    pub(super) async fn master(&self) -> Result<Client, String> {
        let silent = || Err(format!("a sentinel does not answer within {PATIENCE:?}"));
        let ask = |sentinel| async move { timeout(PATIENCE, self.ask(sentinel)).await.unwrap_or_else(|_| silent()) };
        let (mut best, mut problem) = (None, String::from("there are no sentinels"));
        for answer in join_all(self.sentinels.iter().map(ask)).await {
            match answer {
                Ok(named) if best.as_ref().is_none_or(|best: &Named| best.epoch < named.epoch) => best = Some(named),
                Ok(_) => {}
                Err(error) => problem = error,
            }
        }
        let Named { host, port, .. } = best.ok_or(problem)?;
        let info = self.login.clone().set_addr(at(self.login.addr(), host, port));
        Client::open(info).map_err(|error| describe(&error))
    }

    async fn ask(&self, sentinel: &Client) -> Result<Named, String> {
        let failed = |error| format!("a sentinel failed: {}", describe(&error));
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
        let mut connection = sentinel.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("MASTER").arg(&self.name);
        let fields: HashMap<String, String> = command.query_async(&mut connection).await.map_err(failed)?;
        let number = |name: &str| fields.get(name)?.parse::<u64>().ok();
        let named = (|| {
            let (host, port) = (fields.get("ip")?.clone(), u16::try_from(number("port")?).ok()?);
            Some(Named { epoch: number("config-epoch")?, host, port })
        })();
        named.ok_or_else(|| String::from("a sentinel answered something that names no master"))
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
