//! The listeners, for applications and for operators: connections in, bounded in number and time; a graceful end.

mod connection;
mod door;
mod first;
mod last;
mod room;
mod stall;
mod tls;
mod unread;

use crate::config::Policy;
use crate::config::policy::Tls;
use crate::stack::Gateway;
use crate::stack::jobs::Runner;
use crate::stack::router::Routes;
use door::{Accepted, Door, Front};
use hyper_util::server::graceful::GracefulShutdown;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections of operators at once.
const OPERATORS: usize = 256;

/// A gateway bound to its addresses, not yet serving.
#[derive(Debug)]
pub struct Server {
    public: Door,
    admin: Option<Door>,
    gateway: Arc<Gateway>,
    routes: Routes,
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
        Ok(Self { public, admin, gateway, routes })
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
        let jobs = Runner::start(&self.gateway);
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = self.accept() => accepted,
            };
            let Some((Accepted { stream, peer, place }, door)) = accepted else { continue };
            let policy = self.gateway.policy.load();
            let (settings, front, cut) = (&policy.server, door.front.clone(), cut.clone());
            let ends = (graceful.watcher(), closing.clone());
            let Some(tls) = self.tls_of(door, &policy) else {
                let connection = connection::serve(stream, peer, front, settings, ends);
                connections.spawn(async move {
                    cut.run_until_cancelled(connection).await;
                    drop(place);
                });
                continue;
            };
            let (settings, turns, name, closing) = (settings.clone(), door.turns.clone(), door.name, closing.clone());
            let metrics = self.gateway.metrics.clone();
            connections.spawn(async move {
                // Whoever is not through when the doors close has asked for nothing yet.
                let hands = closing.run_until_cancelled_owned(tls::shake_hands(stream, &tls, &turns)).await;
                // A connection keeps the certificate it was shown, and nothing else of the configuration.
                drop(tls);
                if let Some(stream) = hands.and_then(|hands| tls::tell(hands, name, peer, &metrics)) {
                    let connection = connection::serve(stream, peer, front, &settings, ends);
                    drop(settings);
                    cut.run_until_cancelled(connection).await;
                }
                drop(place);
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
