//! A relay between a gateway and Redis that can answer in its place, for errors that a real server gives only in rare states, and that
//! can hold its answers back, as a slow server does.

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// See the module. Dropping it closes the port and cuts every connection.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    error: Mutex<Option<&'static str>>,
    delay: Mutex<Duration>,
}

impl Relay {
    /// A relay to the server on this port.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::<Shared>::default();
        let own = shared.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(serve(client, port, own.clone()));
            }
        });
        Self { address, shared, accepting }
    }

    /// From now on every command is answered with this error; with `None` by the server.
    pub fn answer(&self, error: Option<&'static str>) {
        *self.shared.error.lock() = error;
    }

    /// From now on every answer comes this much later. All are held back as long, so they keep their order and do not add up.
    pub fn delay(&self, delay: Duration) {
        *self.shared.delay.lock() = delay;
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

/// Answers of one connection that are held back at once; far more than a test asks for.
const HELD: usize = 65_536;

async fn serve(client: TcpStream, port: u16, shared: Arc<Shared>) -> std::io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    let (mut client, back) = client.into_split();
    let (answers, held) = channel(HELD);
    let answer = |bytes: &[u8]| answers.try_send((Instant::now() + *shared.delay.lock(), bytes.to_vec())).is_ok();
    let mut answering = pin!(hand_over(back, held));
    let (mut asked, mut bytes, mut replies) = (Vec::new(), [0; 16_384], [0; 16_384]);
    loop {
        tokio::select! {
            done = &mut answering => return done,
            read = client.read(&mut bytes) => match read? {
                0 => return Ok(()),
                n => asked.extend_from_slice(&bytes[..n]),
            },
            read = server.read(&mut replies) => match read? {
                0 => return Ok(()),
                n => assert!(answer(&replies[..n]), "the other end is kept, and there is room"),
            },
        }
        while let Some(length) = command(&asked) {
            let command: Vec<u8> = asked.drain(..length).collect();
            let error = *shared.error.lock();
            match error {
                Some(error) => assert!(answer(format!("-{error}\r\n").as_bytes()), "the other end is kept, and there is room"),
                None => server.write_all(&command).await?,
            }
        }
    }
}

/// Writes each answer when its time has come.
async fn hand_over(mut back: OwnedWriteHalf, mut held: Receiver<(Instant, Vec<u8>)>) -> std::io::Result<()> {
    while let Some((due, bytes)) = held.recv().await {
        tokio::time::sleep_until(due).await;
        back.write_all(&bytes).await?;
    }
    Ok(())
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
