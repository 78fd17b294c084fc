//! A provider that speaks HTTP/2 frame by frame, to say on purpose what a library says only by itself: which streams it took when it went
//! away, and which one it refuses.

use crate::statuses::JSON;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// The setting of how many streams may be open at once.
const MAX_STREAMS: u16 = 3;
/// `:status: 200` and `content-type: application/json`.
const HEAD: &[u8] = b"\x88\x0f\x10\x10application/json";

/// Reasons of a reset.
pub const INTERNAL_ERROR: u32 = 2;
pub const REFUSED_STREAM: u32 = 7;

/// What a connection hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A whole request: on the how manieth connection, the how manieth there (both from 1), on this stream.
    Request { connection: usize, nth: usize, stream: u32 },
    /// The caller has seen everything up to a [`Act::Ping`].
    Pong,
    /// The caller wants no answer on this stream any more.
    Left,
}

/// What a connection does then.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Processes the request on this stream, and answers.
    Answer(u32),
    /// Says that the connection ends, in good order, with this stream as the last that it took.
    GoAway(u32),
    /// Ends this stream without an answer, for this reason.
    Reset(u32, u32),
    /// Asks for a [`Heard::Pong`].
    Ping,
    /// Ends the connection.
    Close,
}

type Manner = Box<dyn FnMut(Heard) -> Vec<Act> + Send>;

/// See the module.
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    manner: Mutex<Manner>,
    at_once: u32,
    log: Mutex<Log>,
}

#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The connections over which HTTP/2 was spoken.
    pub connections: usize,
    /// The bodies of all requests, as they came.
    pub seen: Vec<String>,
    /// Those that were answered.
    pub processed: Vec<String>,
    /// The most streams that were open on one connection.
    pub most_open: usize,
}

impl Provider {
    /// One with `cert.pem` and `key.pem` of this directory that allows so many streams at once.
    pub async fn start(directory: &Path, at_once: u32, manner: impl FnMut(Heard) -> Vec<Act> + Send + 'static) -> Self {
        let chain = CertificateDer::pem_file_iter(directory.join("cert.pem")).expect("a file").collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_file(directory.join("key.pem")).expect("a key");
        let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions();
        let tls = tls.expect("versions").with_no_client_auth().with_single_cert(chain.expect("PEM"), key);
        let mut tls = tls.expect("a certificate with its key");
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared { manner: Mutex::new(Box::new(manner)), at_once, log: Mutex::default() });
        let serving = shared.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, shared) = (acceptor.clone(), serving.clone());
                connections.spawn(async move { Connection::serve(acceptor.accept(stream).await?, shared).await });
            }
        });
        Self { address, shared, accepting }
    }

    pub fn base_url(&self) -> String {
        format!("https://localhost:{}/v1", self.address.port())
    }

    pub fn log(&self) -> Log {
        self.shared.log.lock().clone()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct Connection {
    stream: TlsStream<TcpStream>,
    shared: Arc<Shared>,
    number: usize,
    requests: usize,
    /// What came on the streams that are open.
    open: HashMap<u32, Vec<u8>>,
}

impl Connection {
    async fn serve(mut stream: TlsStream<TcpStream>, shared: Arc<Shared>) -> io::Result<()> {
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).await?; // connections that were tried at the same time, and not needed, end here
        assert_eq!(preface, PREFACE);
        let number = {
            let mut log = shared.log.lock();
            log.connections += 1;
            log.connections
        };
        let mut connection = Self { stream, shared, number, requests: 0, open: HashMap::new() };
        let mut settings = MAX_STREAMS.to_be_bytes().to_vec();
        settings.extend_from_slice(&connection.shared.at_once.to_be_bytes());
        connection.write(SETTINGS, 0, 0, &settings).await?;
        loop {
            let Some(heard) = connection.hear().await? else { continue };
            let acts = (connection.shared.manner.lock())(heard);
            for act in acts {
                if matches!(act, Act::Close) {
                    return connection.stream.shutdown().await;
                }
                connection.act(act).await?;
            }
        }
    }

    /// Reads a frame.
    async fn hear(&mut self) -> io::Result<Option<Heard>> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let [l0, l1, l2, kind, flags, stream @ ..] = head;
        let stream = u32::from_be_bytes(stream);
        let mut payload = vec![0; u32::from_be_bytes([0, l0, l1, l2]) as usize];
        self.stream.read_exact(&mut payload).await?;
        match kind {
            HEADERS => {
                assert_eq!(flags & END_HEADERS, END_HEADERS, "the heads of these tests are short");
                self.open.insert(stream, Vec::new());
                let mut log = self.shared.log.lock();
                log.most_open = log.most_open.max(self.open.len());
            }
            DATA => {
                if !payload.is_empty() {
                    let came = u32::try_from(payload.len()).expect("a frame");
                    self.write(WINDOW_UPDATE, 0, 0, &came.to_be_bytes()).await?;
                }
                self.open.get_mut(&stream).expect("open").extend_from_slice(&payload);
            }
            SETTINGS if flags & ACK == 0 => self.write(SETTINGS, ACK, 0, &[]).await?,
            PING if flags & ACK == 0 => self.write(PING, ACK, 0, &payload).await?,
            PING => return Ok(Some(Heard::Pong)),
            RST_STREAM => {
                self.open.remove(&stream);
                return Ok(Some(Heard::Left));
            }
            _ => {}
        }
        let ends = matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0;
        Ok(ends.then(|| {
            self.requests += 1;
            self.shared.log.lock().seen.push(self.body(stream));
            Heard::Request { connection: self.number, nth: self.requests, stream }
        }))
    }

    async fn act(&mut self, act: Act) -> io::Result<()> {
        match act {
            Act::Answer(stream) => {
                self.shared.log.lock().processed.push(self.body(stream));
                self.open.remove(&stream);
                self.write(HEADERS, END_HEADERS, stream, HEAD).await?;
                self.write(DATA, END_STREAM, stream, JSON.as_bytes()).await
            }
            Act::GoAway(last) => {
                let mut payload = last.to_be_bytes().to_vec();
                payload.extend_from_slice(&[0; 4]); // NO_ERROR
                self.write(GOAWAY, 0, 0, &payload).await
            }
            Act::Reset(stream, reason) => {
                self.open.remove(&stream);
                self.write(RST_STREAM, 0, stream, &reason.to_be_bytes()).await
            }
            Act::Ping => self.write(PING, 0, 0, &[0; 8]).await,
            Act::Close => Ok(()),
        }
    }

    fn body(&self, stream: u32) -> String {
        String::from_utf8(self.open[&stream].clone()).expect("text")
    }

    async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).expect("a frame").to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).await?;
        self.stream.flush().await
    }
}
