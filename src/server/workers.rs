//! Threads that serve: each with a runtime of its own, and with connections that stay on it.
//!
//! On one runtime for all threads, requests wander between them: the thread that a request waits on wakes another one, which looks for
//! work in the first one's queue, and what one allocated the other frees. Measured with two threads that was a quarter of a request's
//! time. The price is that nobody helps a thread that is busy, so nothing may keep one busy for long: what does is done aside, see
//! `stack::aside`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// See the module. Dropping them ends their threads, and whatever is still on those.
#[derive(Debug, Default)]
pub(super) struct Workers {
    all: Vec<Worker>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// Present until the end.
    thread: Option<JoinHandle<()>>,
}

/// Counts as a connection of its worker while it exists.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts so many threads.
    ///
    /// # Errors
    /// When the system gives no thread, or no way to wait for its sockets.
    pub(super) fn start(count: usize) -> io::Result<Self> {
        let mut workers = Self { all: Vec::with_capacity(count), stop: CancellationToken::new() };
        for n in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (handle, stop) = (runtime.handle().clone(), workers.stop.clone());
            let thread = std::thread::Builder::new().name(format!("tollgate-{n}"));
            // What is left on the runtime is dropped with it, on its own thread.
            let thread = thread.spawn(move || runtime.block_on(stop.cancelled()))?;
            workers.all.push(Worker { runtime: handle, connections: Arc::default(), thread: Some(thread) });
        }
        Ok(workers)
    }

    /// Serves a connection on the thread that has the fewest; on the present runtime where there are no threads.
    pub(super) fn serve<F>(
        &self,
        connections: &TaskTracker,
        stream: TcpStream,
        serve: impl FnOnce(TcpStream) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(worker) = self.all.iter().min_by_key(|worker| worker.connections.load(Ordering::Relaxed)) else {
            connections.spawn(serve(stream));
            return;
        };
        worker.connections.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(worker.connections.clone());
        let connection = async move {
            // A socket is waited for by the runtime that made it; this one is to wait for it itself.
            match stream.into_std().and_then(TcpStream::from_std) {
                // Boxed, as it was made: it is the whole connection.
                Ok(stream) => Box::pin(serve(stream)).await,
                Err(error) => tracing::warn!(%error, "a connection could not be handed to a thread"),
            }
            drop(counted);
        };
        connections.spawn_on(connection, &worker.runtime);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.cancel();
        for worker in &mut self.all {
            if let Some(thread) = worker.thread.take()
                && thread.join().is_err()
            {
                tracing::error!("a thread that serves connections panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::ThreadId;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    async fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let address = listener.local_addr().expect("its address");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.expect("connected"), accepted.expect("accepted").0)
    }

    /// Answers each byte, and tells on which thread.
    async fn echo(mut stream: TcpStream, told: mpsc::Sender<ThreadId>) {
        while let Ok(byte) = stream.read_u8().await {
            let _ = told.send(std::thread::current().id()).await;
            let _ = stream.write_u8(byte).await;
        }
    }

    #[tokio::test]
    async fn connections_are_shared_out_and_stay_where_they_are() {
        let (workers, connections) = (Workers::start(2).expect("threads"), TaskTracker::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (tell, mut told) = mpsc::channel(64);
        let mut clients = Vec::new();
        for _ in 0..4 {
            let (client, stream) = pair(&listener).await;
            let tell = tell.clone();
            workers.serve(&connections, stream, move |stream| echo(stream, tell));
            clients.push(client);
        }
        let mut threads = Vec::new();
        for _ in 0..3 {
            for (n, client) in clients.iter_mut().enumerate() {
                client.write_u8(7).await.expect("written");
                let thread = told.recv().await.expect("told");
                assert_eq!(client.read_u8().await.expect("answered"), 7);
                if threads.len() < 4 {
                    threads.push(thread);
                }
                assert_eq!(threads[n], thread, "it stays");
            }
        }
        assert_eq!((threads[0], threads[1]), (threads[2], threads[3]), "two each");
        assert!(threads[0] != threads[1] && !threads.contains(&std::thread::current().id()));
        // The first thread's leave; the next one takes their place.
        let (third, _) = (clients.remove(2), clients.remove(0));
        drop(third);
        while workers.all[0].connections.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        let (_client, stream) = pair(&listener).await;
        workers.serve(&connections, stream, move |stream| echo(stream, tell));
        assert_eq!(workers.all[0].connections.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn without_threads_they_are_served_here() {
        let (workers, connections) = (Workers::default(), TaskTracker::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (tell, mut told) = mpsc::channel(1);
        let (mut client, stream) = pair(&listener).await;
        workers.serve(&connections, stream, move |stream| echo(stream, tell));
        client.write_u8(7).await.expect("written");
        assert_eq!(told.recv().await, Some(std::thread::current().id()));
        drop(client);
        connections.close();
        connections.wait().await;
    }
}
