//! A relay between a gateway and Redis that can answer in its place, for errors that a real server gives only in rare states.

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// See the module. Dropping it closes the port and cuts every connection.
pub struct Relay {
    address: SocketAddr,
    error: Arc<Mutex<Option<&'static str>>>,
    accepting: JoinHandle<()>,
}

impl Relay {
    /// A relay to the server on this port.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let error: Arc<Mutex<Option<&'static str>>> = Arc::default();
        let shared = error.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(serve(client, port, shared.clone()));
            }
        });
        Self { address, error, accepting }
    }

    /// From now on every command is answered with this error; with `None` by the server.
    pub fn answer(&self, error: Option<&'static str>) {
        *self.error.lock() = error;
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut client: TcpStream, port: u16, error: Arc<Mutex<Option<&'static str>>>) -> std::io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut asked, mut bytes, mut replies) = (Vec::new(), [0; 16_384], [0; 16_384]);
    loop {
        tokio::select! {
            read = client.read(&mut bytes) => match read? {
                0 => return Ok(()),
                n => asked.extend_from_slice(&bytes[..n]),
            },
            read = server.read(&mut replies) => match read? {
                0 => return Ok(()),
                n => client.write_all(&replies[..n]).await?,
            },
        }
        while let Some(length) = command(&asked) {
            let command: Vec<u8> = asked.drain(..length).collect();
            let error = *error.lock();
            match error {
                Some(error) => client.write_all(format!("-{error}\r\n").as_bytes()).await?,
                None => server.write_all(&command).await?,
            }
        }
    }
}

/// The length of the first whole command: an array of bulk strings.
fn command(bytes: &[u8]) -> Option<usize> {
    let (mut at, arguments) = number(bytes, 0, b'*')?;
    for _ in 0..arguments {
        let (start, length) = number(bytes, at, b'$')?;
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some(at)
}

/// The number in the line at `at`, and where the next line begins.
fn number(bytes: &[u8], at: usize, mark: u8) -> Option<(usize, usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    assert_eq!(rest[0], mark, "a command of the Redis protocol");
    let number = std::str::from_utf8(&rest[1..end]).ok()?.parse().ok()?;
    Some((at + end + 2, number))
}
