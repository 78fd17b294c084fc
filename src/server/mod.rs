//! The listeners, for applications and for operators: connections in, bounded in number and time; a graceful end.

mod stall;
mod unread;

use crate::config::policy::Server as Settings;
use crate::stack::Gateway;
use crate::stack::jobs::Runner;
use crate::stack::router::{Peer, Routes};
use http::HeaderValue;
use http::header::CONNECTION;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use stall::Impatient;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// How long to wait after the system refused us another connection (usually: no file descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the last settlements get at least, however late it is.
const SETTLING: Duration = Duration::from_secs(1);

/// Connections of operators at once.
const OPERATORS: usize = 256;

/// A gateway bound to its addresses, not yet serving.
#[derive(Debug)]
pub struct Server {
    public: Door,
    admin: Option<Door>,
    gateway: Arc<Gateway>,
    routes: Routes,
    settings: Settings,
}

/// Where connections come in, and who answers them.
#[derive(Debug)]
struct Door {
    listener: TcpListener,
    room: Arc<Semaphore>,
    router: axum::Router,
}

impl Server {
    /// Binds the configured addresses.
    ///
    /// # Errors
    /// When an address cannot be bound; the message names it.
    pub async fn bind(gateway: Arc<Gateway>) -> io::Result<Self> {
        let (settings, admin) = {
            let policy = gateway.policy.load();
            (policy.server.clone(), policy.admin.clone())
        };
        // Read now, so that the first request does not have to; should it fail, that one tries again.
        let policy = gateway.policy.load_full();
        if let Err(error) = gateway.directory.view(&policy).await {
            tracing::warn!(%error, "what was set at run time cannot be read yet");
        }
        let routes = Routes::new(gateway.clone());
        let public = Door::open("server", settings.listen, settings.max_connections, routes.router()).await?;
        let admin = match &admin {
            Some(admin) => Some(Door::open("admin", admin.listen, OPERATORS, crate::console::router(&gateway, admin)).await?),
            None => None,
        };
        Ok(Self { public, admin, gateway, routes, settings })
    }

    /// Where it listens to applications.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.public.listener.local_addr()
    }

    /// Where it listens to operators, if it does.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn admin_address(&self) -> io::Result<Option<SocketAddr>> {
        self.admin.as_ref().map(|door| door.listener.local_addr()).transpose()
    }

    /// Serves until `stop` resolves, then drains: readiness says no, no new connections, requests in flight end within the grace
    /// period, and what they used is settled.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send) {
        let graceful = GracefulShutdown::new();
        let (connections, cut) = (TaskTracker::new(), CancellationToken::new());
        let jobs = Runner::start(&self.gateway);
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = self.accept() => accepted,
            };
            let Some((stream, peer, place, router)) = accepted else { continue };
            let connection = connection(stream, peer, router, &self.settings, &graceful);
            let cut = cut.clone();
            connections.spawn(async move {
                cut.run_until_cancelled(connection).await;
                drop(place);
            });
        }
        drop((self.public, self.admin));
        self.routes.drain();
        tracing::info!(grace = ?self.settings.grace, "shutting down: no new connections, requests in flight go on");
        let deadline = tokio::time::Instant::now() + self.settings.grace;
        let jobs = async {
            if let Some(jobs) = jobs {
                jobs.end(self.settings.grace).await;
            }
        };
        let (ended, ()) = tokio::join!(timeout(self.settings.grace, graceful.shutdown()), jobs);
        if ended.is_err() {
            tracing::warn!("the grace period is over; what is still in flight is cut");
        }
        let left = || deadline.saturating_duration_since(tokio::time::Instant::now());
        // A connection that is cut drops its replies, and those settle what they delivered.
        cut.cancel();
        connections.close();
        connections.wait().await;
        if !self.gateway.tasks.end(left()).await {
            tracing::warn!("replies whose clients had left did not end in time; they are booked by what is known of them");
        }
        let unwritten = self.gateway.triage.drain(left().max(SETTLING)).await;
        if unwritten > 0 {
            tracing::warn!(unwritten, "stopped with hand-offs that have no ticket, since the store did not take them");
        }
        let unsettled = self.gateway.settler.drain(left().max(SETTLING)).await;
        if unsettled > 0 {
            tracing::warn!(unsettled, "stopped with reservations that the store did not take; their holds end with their lease");
        }
        if !self.gateway.history.flush(left().max(SETTLING)).await {
            tracing::warn!("stopped with a part of the history that the store did not take");
        }
        if !self.gateway.records.drain(left().max(SETTLING)).await {
            tracing::warn!("stopped with records of requests that the store did not take");
        }
    }
}

/// A connection, its place, and who answers it.
type Accepted = (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit, axum::Router);

impl Server {
    /// The next connection at either door; a crowd at one keeps nobody from the other.
    async fn accept(&self) -> Option<Accepted> {
        match &self.admin {
            Some(admin) => tokio::select! {
                accepted = self.public.accept() => accepted,
                accepted = admin.accept() => accepted,
            },
            None => self.public.accept().await,
        }
    }
}

impl Door {
    /// Binds `[table] listen`.
    async fn open(table: &str, listen: SocketAddr, room: usize, router: axum::Router) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    format!("; set {table}.listen or TOLLGATE_{}__LISTEN to another port", table.to_uppercase())
                }
                _ => String::new(),
            };
            io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}{advice}"))
        })?;
        Ok(Self { listener, room: Arc::new(Semaphore::new(room)), router })
    }

    async fn accept(&self) -> Option<Accepted> {
        let place = self.room.clone().acquire_owned().await.ok()?;
        match self.listener.accept().await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                Some((stream, peer, place, self.router.clone()))
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }
}

/// One connection, HTTP/1.1 or h2c, to its end.
fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: axum::Router,
    settings: &Settings,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + 'static {
    let asked = Arc::new(AtomicBool::new(false));
    let first = asked.clone();
    let most = settings.max_body;
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        first.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Peer(peer));
        let http1 = request.version() < http::Version::HTTP_2;
        let (request, rest) = unread::lend(request);
        let answer = router.clone().oneshot(request.map(axum::body::Body::new));
        async move {
            let mut response = answer.await?;
            // HTTP/2 ends a stream without ending its connection.
            if http1 && !rest.discard(most).await {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    // Without a timer hyper would wait for a slow head for ever.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(settings.header_timeout);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(settings.header_timeout)).max_concurrent_streams(1_024);
    let connection = builder.serve_connection(TokioIo::new(Impatient::new(stream)), service).into_owned();
    let connection = graceful.watch(connection);
    let patience = settings.header_timeout;
    async move {
        let mut connection = std::pin::pin!(connection);
        // hyper's own timer starts once it knows the protocol; whoever sends too little to tell is cut here.
        let ended = match timeout(patience, &mut connection).await {
            Err(_) if !asked.load(Ordering::Relaxed) => return,
            Err(_) => connection.await,
            Ok(ended) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, %peer, "a connection ended badly");
        }
    }
}
