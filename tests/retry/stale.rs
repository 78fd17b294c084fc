//! Connections that the provider, or something between, has given up while they lay in the pool (G7).

use crate::bodies::USAGE_COST;
use crate::pace::Waits;
use crate::rig::{Rig, complete, config};
use crate::statuses::JSON;
use futures_util::future::join_all;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tollgate::telemetry::SystemClock;

/// How a connection ends that has answered once.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// Closed right behind the answer, without a word of it: the next request may or may not notice in time.
    Behind,
    /// Reset right behind the answer.
    ResetBehind,
    /// Silently, as behind a firewall that forgets: the next request on it is met by a reset, unread.
    OnReuse,
}

/// A provider whose connections answer one request each. Counts the requests it processed.
struct Fickle {
    address: SocketAddr,
    processed: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Fickle {
    /// `together`: the first so many requests are answered at the same time, so that each of them has a connection of its own.
    async fn start(ends: Ends, together: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (processed, barrier) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(together)));
        let count = processed.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, ends, count.clone(), (barrier.clone(), together)));
            }
        });
        Self { address, processed, accepting }
    }

    fn processed(&self) -> usize {
        self.processed.load(Ordering::SeqCst)
    }

    /// A gateway with the shipped retries and breaker before it.
    async fn gateway(&self) -> (Rig, Waits) {
        let waits = Waits::default();
        let text = config("", "").replace("{provider}", &format!("http://{}/v1", self.address));
        let text = text.replace("max = 0\nbreaker = { failures = 0 }\n", "");
        let text =
            text.replace("rpm = 60\ntpm = 10_000\nmax_in_flight = 4\n", "rpm = 1_000\ntpm = 1_000_000\nmax_in_flight = 100\n");
        let text = format!("{text}\n[concurrency]\nslots = 100\n");
        (Rig::paced(&text, Arc::new(SystemClock), Box::new(waits.clone())).await, waits)
    }
}

impl Drop for Fickle {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    ends: Ends,
    processed: Arc<AtomicUsize>,
    (barrier, together): (Arc<Barrier>, usize),
) -> std::io::Result<()> {
    let (mut asked, mut bytes) = (Vec::new(), [0; 4_096]);
    while !whole(&asked) {
        match stream.read(&mut bytes).await? {
            0 => return Ok(()),
            n => asked.extend_from_slice(&bytes[..n]),
        }
    }
    if processed.fetch_add(1, Ordering::SeqCst) < together {
        barrier.wait().await;
    }
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", JSON.len());
    stream.write_all(format!("{head}{JSON}").as_bytes()).await?;
    match ends {
        Ends::Behind => {}
        Ends::ResetBehind => stream.set_zero_linger()?,
        Ends::OnReuse => {
            stream.readable().await?;
            stream.set_zero_linger()?; // what came stays unread, and the end is a reset
        }
    }
    Ok(())
}

/// Whether a request with a `content-length` has come whole.
fn whole(asked: &[u8]) -> bool {
    let text = String::from_utf8_lossy(asked);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_died_in_the_pool_is_no_failure_of_the_request() {
    for ends in [Ends::Behind, Ends::ResetBehind, Ends::OnReuse] {
        let provider = Fickle::start(ends, 1).await;
        let (rig, _waits) = provider.gateway().await;
        for n in 1..=100 {
            let reply = rig.chat("").send().await.expect("an answer");
            assert_eq!(reply.status(), 200, "{ends:?} {n}");
            assert_eq!(reply.text().await.expect("a body"), JSON, "{ends:?} {n}");
            assert_eq!(provider.processed(), n, "{ends:?}: nothing is processed twice");
        }
        assert!(rig.outcomes(100).await.iter().all(|outcome| *outcome == complete(109, USAGE_COST)), "{ends:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_full_of_dead_connections_neither_fails_a_request_nor_opens_the_breaker() {
    let many = 40;
    let provider = Fickle::start(Ends::OnReuse, many).await;
    let (rig, _waits) = provider.gateway().await;
    for round in 1..=3 {
        let asking = (0..many).map(|_| async {
            let reply = rig.chat("").send().await.expect("an answer");
            (reply.status().as_u16(), reply.text().await.expect("a body"))
        });
        let answers = join_all(asking).await;
        assert!(answers.iter().all(|answer| *answer == (200, JSON.to_owned())), "round {round}: {answers:?}");
        assert_eq!(provider.processed(), round * many);
    }
    assert!(rig.outcomes(3 * many).await.iter().all(|outcome| *outcome == complete(109, USAGE_COST)));
    assert_eq!(rig.metric("tollgate_breaker_state", "openai"), 0);
}

/// Each retry of one request must not meet the next dead connection of the pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_gets_past_any_number_of_dead_connections() {
    let many = 20;
    let provider = Fickle::start(Ends::OnReuse, many).await;
    let (rig, waits) = provider.gateway().await;
    let asking = (0..many).map(|_| rig.chat("").send());
    assert!(join_all(asking).await.into_iter().all(|reply| reply.expect("an answer").status() == 200));
    assert_eq!(provider.processed(), many);
    waits.take();
    let reply = rig.chat("").send().await.expect("an answer");
    assert_eq!((reply.status().as_u16(), reply.text().await.expect("a body")), (200, JSON.to_owned()));
    assert_eq!(provider.processed(), many + 1);
    assert_eq!(waits.take().len(), 1, "one retry was enough");
    assert!(rig.outcomes(many + 1).await.iter().all(|outcome| *outcome == complete(109, USAGE_COST)));
}
