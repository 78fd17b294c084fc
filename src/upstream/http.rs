//! The HTTP client behind [`super::Client`]: connections, TLS, the pool. No redirects, no proxies, no cookies, nothing added to a request
//! but `Host` and, where the client of the gateway sent none, `Accept`.
//!
//! hyper's own client, and not the one that wraps it for convenience: on the path of every request that one parses the URL twice and
//! passes through layers for what is never wanted here: some 4 % of the gateway's time in profiles. What has no TLS goes through a
//! [`super::pool`] of our own, over [`super::http1`], which keeps next to nothing for a reply that streams.

use super::pool::{self, IDLE, Pool};
use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyDataStream, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::io::{ReaderStream, StreamReader};
use tower::Service;

/// How long a connection is silent before the system asks whether the other side is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Sends requests over kept connections. Clones share them.
#[derive(Clone, Debug)]
pub struct Http {
    /// For addresses with TLS.
    secured: legacy::Client<Timely, Full<Bytes>>,
    /// For those without.
    plain: Pool,
}

/// Why there is no reply.
#[derive(Debug)]
pub struct NoAnswer {
    /// Whether the request had no connection at all.
    pub unconnected: bool,
    /// Whether the provider surely did not process the request.
    pub unprocessed: bool,
    cause: Box<dyn Error + Send + Sync>,
}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.cause.fmt(f)
    }
}

impl Error for NoAnswer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

impl From<legacy::Error> for NoAnswer {
    fn from(error: legacy::Error) -> Self {
        Self { unconnected: error.is_connect(), unprocessed: unprocessed(&error), cause: error.into() }
    }
}

impl From<pool::NoAnswer> for NoAnswer {
    fn from(error: pool::NoAnswer) -> Self {
        let (unconnected, cause) = match error {
            pool::NoAnswer::Connect(cause) => (true, cause),
            pool::NoAnswer::Broke(error) => (false, error.into()),
        };
        Self { unconnected, unprocessed: false, cause }
    }
}

impl Http {
    /// A client that gives up connecting (name, TCP and TLS together) after `connect` and forgets connections idle for `idle`; with an
    /// `idle` of zero it keeps none.
    ///
    /// # Errors
    /// When the system's certificates cannot be used.
    pub fn new(connect: Duration, idle: Duration) -> Result<Self, rustls::Error> {
        // Where two TLS providers are compiled in, whoever names none needs a default; a second naming keeps the first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let tls = tls.with_platform_verifier()?.with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_all_versions().wrap_connector(tcp);
        let connector = Timely { connector, most: connect };
        let secured = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(idle)
            .pool_max_idle_per_host(if idle.is_zero() { 0 } else { IDLE })
            .build(connector.clone());
        Ok(Self { secured, plain: Pool::new(connector, idle) })
    }

    /// Sends a request and waits for the reply's headers.
    ///
    /// # Errors
    /// When there is no reply.
    pub async fn send(&self, mut request: Request<Bytes>) -> Result<Response<reqwest::Body>, NoAnswer> {
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        if request.uri().scheme() == Some(&Scheme::HTTP) {
            return Ok(legible(self.plain.send(request).await?));
        }
        // Boxed: the future of that client is large, and nothing of it is on the other way.
        Ok(legible(Box::pin(self.secured.request(request.map(Full::new))).await?))
    }
}

/// The reply, its body as it reads.
fn legible<B>(reply: Response<B>) -> Response<reqwest::Body>
where
    B: Body<Data = Bytes> + Send + Sync + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (mut head, body) = reply.into_parts();
    let body = match encoding(&head.headers) {
        None => reqwest::Body::wrap(body),
        Some(encoding) => {
            head.headers.remove(CONTENT_ENCODING);
            head.headers.remove(CONTENT_LENGTH);
            reqwest::Body::wrap_stream(ReaderStream::new(decoded(encoding, body)))
        }
    };
    Response::from_parts(head, body)
}

/// Whether the provider surely did not process the request that got no reply, by HTTP/2's own word (RFC 9113, 8.7): it refused the stream,
/// or the stream lies above the last one it took before it went away; or the request still waited for a stream of such a connection.
fn unprocessed(error: &legacy::Error) -> bool {
    let Some(error) = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>()) else { return false };
    let Some(said) = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>()) else {
        // "Dispatch task is gone": what ends a connection leaves the one request behind whose stream is not open yet. hyper has no
        // other name for it than that of errors made by its caller, and of those a whole body over a client of ours has none.
        return error.is_user();
    };
    let refused = said.is_reset() && said.reason() == Some(h2::Reason::REFUSED_STREAM);
    // Streams up to the last one it took do not end with this error: they go on, or break.
    said.is_remote() && (refused || said.is_go_away())
}

/// Connects within a time: the name, TCP and TLS together.
#[derive(Clone, Debug)]
pub(super) struct Timely {
    connector: HttpsConnector<HttpConnector>,
    most: Duration,
}

impl Service<Uri> for Timely {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (connecting, most) = (self.connector.call(to), self.most);
        let late = move |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {most:?}"));
        Box::pin(async move { timeout(most, connecting).await.map_err(late)? })
    }
}

/// How a reply is compressed although nobody asked for it: some servers in front of providers do so all the same.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

fn encoding(headers: &HeaderMap) -> Option<Encoding> {
    match headers.get(CONTENT_ENCODING)?.as_bytes() {
        b"gzip" | b"x-gzip" => Some(Encoding::Gzip),
        b"deflate" => Some(Encoding::Deflate),
        b"br" => Some(Encoding::Brotli),
        b"zstd" => Some(Encoding::Zstd),
        _ => None,
    }
}

fn decoded<B>(encoding: Encoding, body: B) -> Pin<Box<dyn AsyncRead + Send>>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let reader = StreamReader::new(BodyDataStream::new(body).map_err(io::Error::other));
    match encoding {
        Encoding::Gzip => Box::pin(GzipDecoder::new(reader)),
        Encoding::Deflate => Box::pin(ZlibDecoder::new(reader)),
        Encoding::Brotli => Box::pin(BrotliDecoder::new(reader)),
        Encoding::Zstd => Box::pin(ZstdDecoder::new(reader)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// A server that answers once, with this body under this encoding.
    async fn answers(encoding: &'static str, body: Vec<u8>) -> Uri {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(stream.read_u8().await.expect("a head"));
            }
            assert!(String::from_utf8_lossy(&asked).contains("accept: */*"));
            let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).await.expect("written");
            stream.write_all(&body).await.expect("written");
        });
        format!("http://{address}/v1/models").parse().expect("a URI")
    }

    #[tokio::test]
    async fn a_reply_that_is_compressed_unasked_is_read_all_the_same() {
        let plain = br#"{"usage":{"prompt_tokens":7}}"#;
        macro_rules! encoded {
            ($encoder:ident) => {{
                let mut encoder = $encoder::new(Vec::new());
                encoder.write_all(plain).await.expect("into memory");
                encoder.shutdown().await.expect("into memory");
                encoder.into_inner()
            }};
        }
        let http = Http::new(Duration::from_secs(5), Duration::from_secs(5)).expect("a client");
        for (encoding, body) in [
            ("gzip", encoded!(GzipEncoder)),
            ("x-gzip", encoded!(GzipEncoder)),
            ("deflate", encoded!(ZlibEncoder)),
            ("br", encoded!(BrotliEncoder)),
            ("zstd", encoded!(ZstdEncoder)),
        ] {
            let mut request = Request::new(Bytes::new());
            *request.uri_mut() = answers(encoding, body).await;
            let reply = http.send(request).await.expect(encoding);
            for gone in [CONTENT_ENCODING, CONTENT_LENGTH] {
                assert!(!reply.headers().contains_key(&gone), "{encoding}: {gone}");
            }
            let read = reply.into_body().collect().await.expect(encoding).to_bytes();
            assert_eq!(&read[..], plain, "{encoding}");
        }
    }
}
