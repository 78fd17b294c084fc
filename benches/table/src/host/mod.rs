//! The processes a row needs: nginx, Redis, gateways, generators.

pub mod books;
pub mod gateway;
pub mod generator;
pub mod http;
pub mod nginx;
pub mod probe;
pub mod process;
pub mod redis;
pub mod side;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// A port that nobody has.
pub fn free_address() -> Result<SocketAddr, String> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map_err(|error| error.to_string())
}

/// A program by its name, where the path of a user who is not root often ends, too.
pub fn program(name: &str) -> Result<std::path::PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = places.map(|place| place.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("{name} is not installed"))
}
