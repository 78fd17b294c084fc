//! Where connections come in, and who answers them.

use super::room::{Place, Room};
use super::tls;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// How long to wait after the system refused us another connection (usually: no file descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) listener: TcpListener,
    room: Room,
    /// `server` or `admin`, the name of its table.
    pub(super) name: &'static str,
    /// Turns for handshakes.
    pub(super) turns: Arc<Semaphore>,
    /// Who answers.
    pub(super) router: axum::Router,
}

/// A connection, and its place in the room.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) place: Place,
}

impl Door {
    /// Binds `[NAME] listen`.
    pub(super) async fn open(name: &'static str, listen: SocketAddr, router: axum::Router) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    format!("; set {name}.listen or TOLLGATE_{}__LISTEN to another port", name.to_uppercase())
                }
                _ => String::new(),
            };
            io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}{advice}"))
        })?;
        Ok(Self { listener, room: Room::default(), name, turns: Arc::new(Semaphore::new(tls::AT_ONCE)), router })
    }

    /// The next connection, once there is room for it among `most`.
    pub(super) async fn accept(&self, most: impl Fn() -> usize) -> Option<Accepted> {
        let place = self.room.place(most).await;
        match self.listener.accept().await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                Some(Accepted { stream, peer, place })
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }
}
