//! The listeners, for applications and for operators: connections in, bounded in number and time; a graceful end.

mod connection;
mod door;
mod first;
mod last;
mod room;
mod stall;
mod tls;
mod unread;
mod workers;

use crate::config::Policy;
use crate::config::policy::Tls;
use crate::stack::Gateway;
use crate::stack::jobs::Runner;
use crate::stack::router::Routes;
use door::{Accepted, Door, Front};
use hyper_util::server::graceful::GracefulShutdown;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workers::Workers;

/// Connections of operators at once.
const OPERATORS: usize = 256;

/// A gateway bound to its addresses, not yet serving.
#[derive(Debug)]
pub struct Server {
    public: Door,
    admin: Option<Door>,
    gateway: Arc<Gateway>,
    routes: Routes,
    workers: Workers,
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
        let public = Door::open("server", settings.listen, Front::Public(routes.clone(), routes.router())).await?;
        let admin = match &admin {
            Some(admin) => {
                Some(Door::open("admin", admin.listen, Front::Operators(crate::console::router(&gateway, admin))).await?)
            }
            None => None,
        };
        Ok(Self { public, admin, gateway, routes, workers: Workers::default() })
    }

    /// Serves applications on as many threads of its own as the machine has cores, instead of on the present runtime: for a process that
    /// does nothing else. Operators stay on the runtime.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn with_threads(self) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self { workers: Workers::start(cores)?, ..self })
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
        let (connections, closing, cut) = (TaskTracker::new(), CancellationToken::new(), CancellationToken::new());
        let here = Workers::default();
        let jobs = Runner::start(&self.gateway);
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = self.accept() => accepted,
            };
            let Some((Accepted { stream, peer, place }, door)) = accepted else { continue };
            let workers = if std::ptr::eq(door, &self.public) { &self.workers } else { &here };
            let policy = self.gateway.policy.load();
            let (settings, front, cut) = (policy.server.clone(), door.front.clone(), cut.clone());
            let (ends, closing) = ((graceful.watcher(), closing.clone()), closing.clone());
            let tls = self.tls_of(door, &policy);
            let (turns, name, metrics) = (door.turns.clone(), door.name, self.gateway.metrics.clone());
            workers.serve(&connections, stream, move |stream| async move {
                let _place = place;
                let connection: Pin<Box<dyn Future<Output = ()> + Send>> = match tls {
                    None => connection::serve(stream, peer, front, &settings, ends),
                    Some(tls) => {
                        // Whoever is not through when the doors close has asked for nothing yet.
                        let hands = closing.run_until_cancelled(tls::shake_hands(stream, &tls, &turns));
                        let hands = Box::pin(hands).await;
                        let Some(stream) = hands.and_then(|hands| tls::tell(hands, name, peer, &metrics)) else { return };
                        connection::serve(stream, peer, front, &settings, ends)
                    }
                };
                // A connection keeps the certificate it was shown, and nothing else of the configuration.
                drop((settings, turns, metrics, closing));
                cut.run_until_cancelled(connection).await;
            });
        }
        closing.cancel();
        drop((self.public, self.admin));
        self.routes.drain();
        let grace = self.gateway.policy.load().server.grace;
        tracing::info!(?grace, "shutting down: no new connections, requests in flight go on");
        let deadline = tokio::time::Instant::now() + grace;
        let (ended, ()) = tokio::join!(timeout(grace, graceful.shutdown()), jobs.end(grace));
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
        last::words(&self.gateway, deadline).await;
    }

    /// What a door shows of itself, by the configuration of the moment.
    fn tls_of(&self, door: &Door, policy: &Policy) -> Option<Arc<Tls>> {
        if std::ptr::eq(door, &self.public) {
            return policy.server.tls.clone();
        }
        policy.admin.as_ref().and_then(|admin| admin.tls.clone())
    }

    /// The next connection at either door, and that door; a crowd at one keeps nobody from the other.
    async fn accept(&self) -> Option<(Accepted, &Door)> {
        let public = async {
            let most = || self.gateway.policy.load().server.max_connections;
            self.public.accept(most).await.map(|accepted| (accepted, &self.public))
        };
        match &self.admin {
            Some(admin) => tokio::select! {
                accepted = public => accepted,
                accepted = admin.accept(|| OPERATORS) => accepted.map(|accepted| (accepted, admin)),
            },
            None => public.await,
        }
    }
}
