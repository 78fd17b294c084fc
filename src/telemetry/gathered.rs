//! Where log lines go: access lines, of which every request writes one, gather for a moment and are written many at once by a thread of
//! their own, so that no request waits for a disk, or for whoever reads our standard error, to write its line. Any other line is written
//! at once, and waited for, behind those that have gathered, so that lines stand in the order in which they came.
//!
//! What has gathered when the process is killed (`kill -9`) is lost: ten milliseconds of access lines, of which the records of requests
//! tell as well. When it ends in any other way it is written.

use parking_lot::{Condvar, Mutex};
use std::io::{self, Write};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

/// The target of access lines.
pub(super) const ACCESS: &str = "access";
/// How long access lines gather.
const GATHER: Duration = Duration::from_millis(10);
/// Bytes at which they are written without waiting for more.
const MANY: usize = 64 << 10;
/// Bytes that may wait while nothing can be written; further access lines are dropped, and counted.
const MOST: usize = 4 << 20;

/// The end of the log: dropping it writes what has gathered.
#[must_use = "dropped, it ends the log"]
pub struct Log {
    gathered: Arc<Gathered>,
    thread: Option<JoinHandle<()>>,
}

/// Lines on their way to one output. Clones lead to the same.
#[derive(Clone)]
pub(super) struct Output(Arc<Gathered>);

struct Gathered {
    out: Mutex<Box<dyn Write + Send>>,
    waiting: Mutex<Waiting>,
    /// There is something to write, or nothing more will come.
    some: Condvar,
    /// There is much to write, or nothing more will come.
    much: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    dropped: u64,
    ended: bool,
}

/// Writes one line.
pub(super) struct Line<'a> {
    gathered: &'a Gathered,
    at_once: bool,
}

impl Log {
    /// A log into this output, and where its lines are to be written.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(super) fn into(out: impl Write + Send + 'static) -> io::Result<(Self, Output)> {
        let gathered = Arc::new(Gathered {
            out: Mutex::new(Box::new(out)),
            waiting: Mutex::default(),
            some: Condvar::new(),
            much: Condvar::new(),
        });
        let writes = Arc::clone(&gathered);
        let thread = std::thread::Builder::new().name("tollgate-log".into()).spawn(move || writes.run())?;
        Ok((Self { gathered: Arc::clone(&gathered), thread: Some(thread) }, Output(gathered)))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.gathered.waiting.lock().ended = true;
        self.gathered.some.notify_all();
        self.gathered.much.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it has no way to panic that would not be told on standard error
        }
    }
}

impl Gathered {
    /// Writes whatever gathers, until nothing more will come. (Lines that come later still are written at once.)
    fn run(&self) {
        loop {
            let mut waiting = self.waiting.lock();
            while waiting.lines.is_empty() && !waiting.ended {
                self.some.wait(&mut waiting);
            }
            if waiting.lines.len() < MANY && !waiting.ended {
                self.much.wait_for(&mut waiting, GATHER);
            }
            let (ended, dropped) = (waiting.ended, std::mem::take(&mut waiting.dropped));
            drop(waiting);
            self.write();
            if dropped > 0 {
                tracing::warn!(lines = dropped, "access lines were dropped: the log is not written as fast as requests end");
            }
            if ended {
                return;
            }
        }
    }

    /// Writes what has gathered. What the output does not take is lost: there is nowhere to say so.
    fn write(&self) {
        let mut out = self.out.lock();
        let lines = {
            let mut waiting = self.waiting.lock();
            let room = Vec::with_capacity(waiting.lines.len().min(MANY));
            std::mem::replace(&mut waiting.lines, room)
        };
        let _ = out.write_all(&lines).and_then(|()| out.flush());
    }

    fn gather(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.lines.len() + line.len() > MOST {
            waiting.dropped += 1;
            return;
        }
        let (before, after) = (waiting.lines.len(), waiting.lines.len() + line.len());
        waiting.lines.extend_from_slice(line);
        let ended = waiting.ended;
        drop(waiting);
        if ended {
            self.write();
        } else if before == 0 {
            self.some.notify_one();
        } else if before < MANY && after >= MANY {
            self.much.notify_one();
        }
    }
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { gathered: &self.0, at_once: true }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Line<'a> {
        Line { gathered: &self.0, at_once: meta.target() != ACCESS }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.at_once {
            // Not bounded, but whoever writes it waits until it is out.
            self.gathered.waiting.lock().lines.extend_from_slice(line);
            self.gathered.write();
        } else {
            self.gathered.gather(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
