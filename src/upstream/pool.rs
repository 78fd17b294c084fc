//! Connections without TLS, kept between requests: to a model server beside the gateway, or to a proxy of the same cluster.
//!
//! There nothing is negotiated, so a connection speaks HTTP/1.1 and carries one request at a time; all that a pool has to do is to lay it
//! aside and take it up again. What speaks TLS, and so perhaps HTTP/2, goes through hyper-util's client, which costs a request some
//! 10,000 instructions more: it hashes the address three times, and has a new connection race against one that becomes free.

use super::http::Timely;
use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::{Arc, Once, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Id};
use tower::{Service, ServiceExt};

/// Idle connections kept to one address.
pub(super) const IDLE: usize = 1_024;

type Sender = SendRequest<Full<Bytes>>;

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
    idle: Vec<(Instant, Sender)>,
}

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// There is no connection: the request was not sent.
    Connect(Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke.
    Broke(hyper::Error),
}

impl Pool {
    /// Of connections that this one makes.
    pub(super) fn new(connector: Timely, idle: Duration) -> Self {
        Self(Arc::new(Shared { connector, idle, hosts: Mutex::default(), tidied: Once::new() }))
    }

    /// Sends a request and waits for the reply's headers. One that the connection taken up cannot take any more goes over another.
    pub(super) async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Kept>, NoAnswer> {
        let whole = std::mem::take(request.uri_mut());
        let authority = whole.authority().cloned().ok_or_else(|| NoAnswer::Connect("the URL names no host".into()))?;
        let path = whole.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
        if !request.headers().contains_key(HOST) {
            // Without user and password, which have no place there.
            let host = authority.as_str().rsplit('@').next().unwrap_or_default();
            let host = HeaderValue::from_str(host).map_err(|error| NoAnswer::Connect(error.into()))?;
            request.headers_mut().insert(HOST, host);
        }
        while let Some(mut sender) = self.0.take(&authority) {
            match sender.try_send_request(request).await {
                Ok(reply) => return Ok(self.kept(reply, authority, sender)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(NoAnswer::Broke(error.into_error())),
                },
            }
        }
        let mut sender = self.connect(whole).await.map_err(NoAnswer::Connect)?;
        let reply = sender.send_request(request).await.map_err(NoAnswer::Broke)?;
        Ok(self.kept(reply, authority, sender))
    }

    async fn connect(&self, to: Uri) -> Result<Sender, Box<dyn std::error::Error + Send + Sync>> {
        let mut connector = self.0.connector.clone();
        let stream = connector.ready().await?.call(to).await?;
        let (sender, connection) = http1::handshake(stream).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a provider ended badly");
            }
        });
        Ok(sender)
    }

    fn kept(&self, reply: Response<Incoming>, authority: Authority, sender: Sender) -> Response<Kept> {
        let back = Back { shared: self.0.clone(), authority, runtime: Handle::current().id(), sender };
        reply.map(|body| {
            let mut kept = Kept { body, back: Some(back) };
            kept.lay_aside();
            kept
        })
    }
}

impl Shared {
    /// Takes up the connection that was laid aside last, of those that can take a request.
    fn take(&self, authority: &Authority) -> Option<Sender> {
        let here = Handle::current().id();
        let mut hosts = self.hosts.lock();
        let idle = &mut hosts.iter_mut().find(|host| host.runtime == here && host.authority == *authority)?.idle;
        while idle.last().is_some_and(|(_, sender)| sender.is_closed()) {
            idle.pop();
        }
        // One that is not ready was closed, or is so new here that it has yet to notice that its reply is over.
        let at = idle.iter().rposition(|(_, sender)| sender.is_ready())?;
        let (since, sender) = idle.remove(at);
        (since.elapsed() < self.idle).then_some(sender)
    }

    /// Closes what has lain idle for too long, until the pool is gone.
    async fn tidy(shared: Weak<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let Some(shared) = shared.upgrade() else { return };
            for host in &mut *shared.hosts.lock() {
                host.idle.retain(|(since, sender)| since.elapsed() < shared.idle && !sender.is_closed());
            }
        }
    }

    fn put(self: &Arc<Self>, authority: Authority, runtime: Id, sender: Sender) {
        if self.idle.is_zero() || sender.is_closed() {
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
            idle.push((Instant::now(), sender));
        }
    }
}

/// A reply's body, whose connection is laid aside at its end. Dropped before that, it takes the connection along.
#[derive(Debug)]
pub(super) struct Kept {
    body: Incoming,
    back: Option<Back>,
}

#[derive(Debug)]
struct Back {
    shared: Arc<Shared>,
    authority: Authority,
    /// Where the connection was made.
    runtime: Id,
    sender: Sender,
}

impl Kept {
    fn lay_aside(&mut self) {
        if self.body.is_end_stream()
            && let Some(Back { shared, authority, runtime, sender }) = self.back.take()
        {
            shared.put(authority, runtime, sender);
        }
    }
}

impl Body for Kept {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let poll = Pin::new(&mut self.body).poll_frame(cx);
        match &poll {
            Poll::Ready(Some(Err(_))) => self.back = None,
            Poll::Ready(_) => self.lay_aside(),
            Poll::Pending => {}
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
    use http::Request;
    use http_body_util::{BodyExt, Full};
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
        let mut request = Request::new(Full::default());
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
