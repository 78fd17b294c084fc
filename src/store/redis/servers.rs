//! One server or a cluster: whoever sends a command need not know which.

use super::cluster::Cluster;
use super::keys::Index;
use super::link::{Eviction, Link, Target};
use super::scripts::Scripts;
use super::sentinel::Sentinels;
use super::slots::{Group, Tag};
use crate::config::policy::{RedisServers, Secret};
use crate::store::StoreError;
use redis::{Client, Cmd, ConnectionInfo, IntoConnectionInfo, Pipeline, Value};
use std::sync::Arc;
use std::time::Duration;

/// The servers that keep the books.
#[derive(Clone)]
pub(super) enum Servers {
    /// One server, or the master that sentinels name.
    One(Link),
    /// A cluster.
    Cluster(Cluster),
}

impl Servers {
    /// Opens them; waits for nobody. Inside a runtime they are connected to at once, else with the first call.
    ///
    /// # Errors
    /// When an address is not well-formed. The text does not repeat it, since it may hold a password.
    pub(super) fn open(servers: &RedisServers, deadline: Duration) -> Result<Self, StoreError> {
        let target = match servers {
            RedisServers::One(url) => Target::Server(client(url)?),
            RedisServers::Cluster(urls) => {
                let seeds = urls.iter().map(address).collect::<Result<Vec<_>, _>>()?;
                if seeds.is_empty() {
                    return Err(StoreError::Failed(String::from("no redis address is configured")));
                }
                let cluster = Cluster::new(seeds, deadline);
                if tokio::runtime::Handle::try_current().is_ok() {
                    let _ = cluster.look_again(); // a failure shows in the log and in the first call
                }
                return Ok(Self::Cluster(cluster));
            }
            RedisServers::Sentinel { master, sentinels, login } => {
                let sentinels = sentinels.iter().map(client).collect::<Result<Vec<_>, _>>()?;
                let login = login.as_ref().map_or_else(|| address(&Secret::new("redis://master")), address)?;
                Target::Master(Sentinels::new(master.clone(), sentinels, login))
            }
        };
        let link = Link::new(target, Arc::new(Scripts::new(false)), deadline);
        if tokio::runtime::Handle::try_current().is_ok() {
            let _ = link.dial(); // as above
        }
        Ok(Self::One(link))
    }

    /// The scripts they know.
    pub(super) fn scripts(&self) -> &Scripts {
        match self {
            Self::One(link) => link.scripts(),
            Self::Cluster(cluster) => cluster.scripts(),
        }
    }

    /// What they do when their memory is full.
    pub(super) fn eviction(&self) -> Eviction {
        match self {
            Self::One(link) => link.eviction(),
            Self::Cluster(cluster) => cluster.eviction(),
        }
    }

    /// Calls so far that were answered after the deadline.
    pub(super) fn late(&self) -> u64 {
        match self {
            Self::One(link) => link.late(),
            Self::Cluster(cluster) => cluster.late(),
        }
    }

    /// How the books are divided.
    pub(super) const fn groups(&self) -> &'static [Group] {
        match self {
            Self::One(_) => Group::ONE,
            Self::Cluster(_) => Group::CLUSTER,
        }
    }

    /// Every index of leases.
    pub(super) fn indexes(&self) -> Vec<Index> {
        match self {
            Self::One(_) => vec![Index::Whole],
            Self::Cluster(_) => Tag::all().map(Index::Customers).chain([Index::Shared]).collect(),
        }
    }

    /// One command, to whoever serves this slot.
    pub(super) async fn one(&self, slot: u16, command: Cmd) -> Result<Value, StoreError> {
        let mut replies = match self {
            Self::One(link) => {
                let mut pipeline = Pipeline::with_capacity(1);
                pipeline.add_command(command);
                link.call(&mut pipeline).await?
            }
            Self::Cluster(cluster) => cluster.call(vec![(slot, command)]).await?,
        };
        replies.pop().ok_or_else(|| StoreError::Failed(String::from("no reply to a command")))
    }

    /// Commands with the slots they belong to: one round trip to each server that serves any. Their replies, in order.
    pub(super) async fn all(&self, commands: Vec<(u16, Cmd)>) -> Result<Vec<Value>, StoreError> {
        match self {
            Self::One(link) => {
                let mut pipeline = Pipeline::with_capacity(commands.len());
                for (_, command) in commands {
                    pipeline.add_command(command);
                }
                link.call(&mut pipeline).await
            }
            Self::Cluster(cluster) => cluster.call(commands).await,
        }
    }
}

fn address(url: &Secret) -> Result<ConnectionInfo, StoreError> {
    let malformed = |_| StoreError::Failed(String::from("the redis address is not of the form redis://host:port/database"));
    url.expose().into_connection_info().map_err(malformed)
}

fn client(url: &Secret) -> Result<Client, StoreError> {
    let malformed = |_| StoreError::Failed(String::from("the redis address is not of the form redis://host:port/database"));
    Client::open(address(url)?).map_err(malformed)
}
