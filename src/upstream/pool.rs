//! Connections without TLS, kept between requests: to a model server beside the gateway, or to a proxy of the same cluster.
//!
//! There nothing is negotiated, so a connection speaks HTTP/1.1 and carries one request at a time (see [`super::http1`]); all that a pool
//! has to do is to lay it aside and take it up again. What speaks TLS, and so perhaps HTTP/2, goes through hyper-util's client, which costs
//! a request some 10,000 instructions more: it hashes the address three times, and has a new connection race against one that becomes free.

use super::http::Timely;
use super::http1::{Connection, ReplyBody};
use bytes::Bytes;
use http::uri::Authority;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper_rustls::MaybeHttpsStream;
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Once, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Id};
use tower::{Service, ServiceExt};

/// Idle connections kept to one address.
pub(super) const IDLE: usize = 1_024;

/// See the module. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    connector: Timely,
    /// How long a connection may lie idle; zero = none is kept.
    idle: Duration,
    /// One for each address and runtime, of which there are few. A connection is taken up where it was made: another runtime would have to
    /// be woken for all that happens on it.
    hosts: Mutex<Vec<Host>>,
    tidied: Once,
}

#[derive(Debug)]
struct Host {
    authority: Authority,
    runtime: Id,
    /// With the time since when it is idle, the latest last.
    idle: Vec<(Instant, Connection)>,
}

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// There is no connection: the request was not sent.
    Connect(Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke.
    Broke(io::Error),
}

impl Pool {
    /// Of connections that this one makes.
    pub(super) fn new(connector: Timely, idle: Duration) -> Self {
        Self(Arc::new(Shared { connector, idle, hosts: Mutex::default(), tidied: Once::new() }))
    }

    /// Sends a request and waits for the reply's headers. One that the connection taken up cannot take any more goes over another.
    pub(super) async fn send(&self, mut request: Request<Bytes>) -> Result<Response<Kept>, NoAnswer> {
        let authority = request.uri().authority().cloned().ok_or_else(|| NoAnswer::Connect("the URL names no host".into()))?;
        while let Some(connection) = self.0.take(&authority) {
            match connection.send(&authority, request).await {
                Ok(reply) => return Ok(self.kept(reply, authority)),
                Err(none) => match none.unsent {
                    Some(unsent) => request = unsent,
                    None => return Err(NoAnswer::Broke(none.error)),
                },
            }
        }
        let connection = self.connect(request.uri().clone()).await.map_err(NoAnswer::Connect)?;
        let reply = connection.send(&authority, request).await.map_err(|none| NoAnswer::Broke(none.error))?;
        Ok(self.kept(reply, authority))
    }

    async fn connect(&self, to: Uri) -> Result<Connection, Box<dyn std::error::Error + Send + Sync>> {
        let mut connector = self.0.connector.clone();
        match connector.ready().await?.call(to).await? {
            MaybeHttpsStream::Http(stream) => Ok(Connection::new(stream.into_inner())),
            MaybeHttpsStream::Https(_) => Err("what has TLS goes another way".into()),
        }
    }

    fn kept(&self, reply: Response<ReplyBody>, authority: Authority) -> Response<Kept> {
        reply.map(|body| {
            let mut kept = Kept { body, back: Some((self.0.clone(), authority, Handle::current().id())) };
            kept.lay_aside();
            kept
        })
    }
}

impl Shared {
    /// Takes up the connection that was laid aside last, of those that can take a request.
    fn take(&self, authority: &Authority) -> Option<Connection> {
        let here = Handle::current().id();
        let at_hand = |host: &&mut Host| host.runtime == here && host.authority == *authority;
        loop {
            let (since, connection) = self.hosts.lock().iter_mut().find(at_hand)?.idle.pop()?;
            if since.elapsed() < self.idle && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Closes what has lain idle for too long, until the pool is gone.
    async fn tidy(shared: Weak<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let Some(shared) = shared.upgrade() else { return };
            for host in &mut *shared.hosts.lock() {
                host.idle.retain(|(since, connection)| since.elapsed() < shared.idle && connection.is_usable());
            }
        }
    }

    fn put(self: &Arc<Self>, authority: Authority, runtime: Id, connection: Connection) {
        if self.idle.is_zero() {
            return;
        }
        // With the first connection, since there is a runtime then.
        self.tidied.call_once(|| drop(tokio::spawn(Self::tidy(Arc::downgrade(self), self.idle / 2))));
        let mut hosts = self.hosts.lock();
        let at = hosts.iter().position(|host| host.runtime == runtime && host.authority == authority).unwrap_or_else(|| {
            hosts.push(Host { authority, runtime, idle: Vec::new() });
            hosts.len() - 1
        });
        let idle = &mut hosts[at].idle;
        if idle.len() < IDLE {
            idle.push((Instant::now(), connection));
        }
    }
}

/// A reply's body, whose connection is laid aside at its end. Dropped before that, it takes the connection along.
#[derive(Debug)]
pub(super) struct Kept {
    body: ReplyBody,
    /// Where to, and on which runtime it was made, until it is over.
    back: Option<(Arc<Shared>, Authority, Id)>,
}

impl Kept {
    fn lay_aside(&mut self) {
        if !self.body.is_end_stream() {
            return;
        }
        let connection = self.body.connection();
        if let (Some(connection), Some((shared, authority, runtime))) = (connection, self.back.take()) {
            shared.put(authority, runtime, connection);
        }
    }
}

impl Body for Kept {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let poll = Pin::new(&mut self.body).poll_frame(cx);
        if poll.is_ready() {
            self.lay_aside();
        }
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::http::Http;
    use bytes::Bytes;
    use http::Request;
    use http_body_util::BodyExt;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    /// A server that tells of each connection it gets, and of each end of one; it answers `requests` requests on each and closes it then.
    async fn server(requests: usize) -> (String, mpsc::Receiver<&'static str>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let (tell, told) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let tell = tell.clone();
                let _ = tell.send("opened").await;
                tokio::spawn(async move {
                    for _ in 0..requests {
                        let mut asked = Vec::new();
                        while !asked.ends_with(b"\r\n\r\n") {
                            let Ok(byte) = stream.read_u8().await else { break };
                            asked.push(byte);
                        }
                        if asked.is_empty() {
                            break;
                        }
                        let asked = String::from_utf8_lossy(&asked).to_lowercase();
                        assert!(asked.starts_with("get /v1/models?a=b http/1.1\r\n"), "{asked}");
                        assert!(asked.contains(&format!("\r\nhost: {address}\r\n")), "{asked}");
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                    }
                    drop(stream);
                    let _ = tell.send("closed").await;
                });
            }
        });
        (format!("http://{address}/v1/models?a=b"), told)
    }

    async fn ask(http: &Http, url: &str) {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url.parse().expect("a URI");
        let reply = http.send(request).await.expect("a reply");
        assert_eq!(reply.into_body().collect().await.expect("whole").to_bytes(), "ok");
    }

    #[tokio::test]
    async fn a_connection_is_used_again_and_one_that_was_closed_is_not() {
        let http = Http::new(Duration::from_secs(5), Duration::from_secs(60)).expect("a client");
        let (url, mut told) = server(3).await;
        for _ in 0..3 {
            ask(&http, &url).await;
        }
        assert_eq!((told.recv().await, told.recv().await), (Some("opened"), Some("closed")), "one for all three");
        ask(&http, &url).await;
        assert_eq!(told.recv().await, Some("opened"), "and another one behind it");
    }

    #[tokio::test]
    async fn requests_at_once_have_a_connection_each() {
        let http = Http::new(Duration::from_secs(5), Duration::from_secs(60)).expect("a client");
        let (url, mut told) = server(10).await;
        tokio::join!(ask(&http, &url), ask(&http, &url));
        assert_eq!((told.recv().await, told.recv().await), (Some("opened"), Some("opened")));
        tokio::join!(ask(&http, &url), ask(&http, &url));
        assert!(told.try_recv().is_err(), "both are kept");
    }

    #[tokio::test]
    async fn a_client_that_keeps_none_closes_each() {
        let http = Http::new(Duration::from_secs(5), Duration::ZERO).expect("a client");
        let (url, mut told) = server(10).await;
        for _ in 0..2 {
            ask(&http, &url).await;
            assert_eq!((told.recv().await, told.recv().await), (Some("opened"), Some("closed")));
        }
    }

    #[tokio::test]
    async fn what_lies_idle_for_too_long_is_closed_though_nobody_asks() {
        let http = Http::new(Duration::from_secs(5), Duration::from_millis(50)).expect("a client");
        let (url, mut told) = server(10).await;
        ask(&http, &url).await;
        assert_eq!((told.recv().await, told.recv().await), (Some("opened"), Some("closed")));
    }
}
