//! Flushing the journal to the medium while the writer goes on writing.
//!
//! Going through the database would hold its journal lock for as long as the disk takes, and every admission of that time would wait
//! with it. Flushing is a matter of the file, not of who wrote it, so a thread of its own opens the same file and flushes that.

use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// Flushes the journal of one directory when asked. Ends when dropped.
pub struct Syncer {
    ask: SyncSender<()>,
    failed: Arc<Mutex<Option<io::Error>>>,
}

impl Syncer {
    /// Starts its thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(directory: &Path) -> io::Result<Self> {
        // One asked for beside one under way: that one flushes everything written before it starts.
        let (ask, asked) = sync_channel(1);
        let failed: Arc<Mutex<Option<io::Error>>> = Arc::default();
        let (directory, report) = (directory.to_path_buf(), Arc::clone(&failed));
        let run = move || {
            while asked.recv().is_ok() {
                if let Err(error) = sync(&directory) {
                    *report.lock() = Some(error);
                }
            }
        };
        std::thread::Builder::new().name("tollgate-sync".into()).spawn(run)?;
        Ok(Self { ask, failed })
    }

    /// Asks for a flush, without waiting for it.
    ///
    /// # Errors
    /// When an earlier one failed, or none is possible any more.
    pub fn ask(&self) -> io::Result<()> {
        if let Some(error) = self.failed.lock().take() {
            return Err(error);
        }
        match self.ask.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => Ok(()),
            Err(TrySendError::Disconnected(())) => Err(io::Error::other("the flushing thread has ended")),
        }
    }
}

/// Flushes the newest journal file. Older ones were flushed when they were sealed.
fn sync(directory: &Path) -> io::Result<()> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for file in std::fs::read_dir(directory)? {
        let path = file?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        if let Some(number) = number.filter(|number| newest.as_ref().is_none_or(|(most, _)| number > most)) {
            newest = Some((number, path));
        }
    }
    let (_, path) = newest.ok_or_else(|| io::Error::other("the directory holds no journal file"))?;
    match File::open(path) {
        Ok(file) => file.sync_data(),
        // Sealed, flushed and removed since it was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_that_fails_is_reported_by_a_later_one() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(sync(directory.path()).is_err(), "no journal there");
        std::fs::write(directory.path().join("9.jnl"), b"old").expect("writable");
        std::fs::write(directory.path().join("10.jnl"), b"new").expect("writable");
        assert!(sync(directory.path()).is_ok());
        let syncer = Syncer::start(&directory.path().join("missing")).expect("a thread");
        let error = loop {
            if let Err(error) = syncer.ask() {
                break error;
            }
            std::thread::yield_now();
        };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
