//! Where connections come in, and who answers them.

use super::room::{Place, Room};
use super::tls;
use crate::stack::router::Routes;
use axum::extract::Request;
use axum::response::Response;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

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
    pub(super) front: Front,
}

/// Who answers the requests of a door.
#[derive(Clone, Debug)]
pub(super) enum Front {
    /// The routes for applications, and their router for what is no call.
    Public(Routes, axum::Router),
    /// The routes for operators.
    Operators(axum::Router),
}

impl Front {
    /// Answers one request.
    pub(super) async fn answer(self, request: Request) -> Response {
        let router = match self {
            Self::Public(routes, router) => match Routes::called(&request) {
                Some(api) => return routes.serve(api, request).await,
                None => router,
            },
            Self::Operators(router) => router,
        };
        // Boxed: the few requests that come here are not to widen the others' future.
        match Box::pin(router.oneshot(request)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// A connection, and its place in the room.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) place: Place,
}

impl Door {
    /// Binds `[NAME] listen`.
    pub(super) async fn open(name: &'static str, listen: SocketAddr, front: Front) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    format!("; set {name}.listen or TOLLGATE_{}__LISTEN to another port", name.to_uppercase())
                }
                _ => String::new(),
            };
            io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}{advice}"))
        })?;
        Ok(Self { listener, room: Room::default(), name, turns: Arc::new(Semaphore::new(tls::AT_ONCE)), front })
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
