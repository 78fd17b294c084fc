//! Redis as the compose file has it: every write on disk within a second, nothing ever thrown away.

use super::process::Process;
use super::{free_address, program};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// A running Redis.
pub struct Redis {
    pub process: Process,
    pub address: SocketAddr,
}

impl Redis {
    pub fn start(directory: &Path) -> Result<Self, String> {
        let address = free_address()?;
        let mut command = Command::new(program("redis-server")?);
        command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
        command.args(["--appendfsync", "everysec", "--maxmemory-policy", "noeviction", "--dir"]).arg(directory);
        let mut process = Process::start(command, "redis", directory)?;
        process.listens(address)?;
        Ok(Self { process, address })
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}
