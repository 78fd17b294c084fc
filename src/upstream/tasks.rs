//! Work that outlives its request: replies that are read to their end after the client has left, since only the end tells what they cost.

use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of one gateway. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    cut: CancellationToken,
}

impl Tasks {
    /// Starts one. When the time of [`Tasks::end`] runs out it is dropped where it stands, so what it owns has to settle on drop.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        self.tracker.spawn(async move { cut.run_until_cancelled(work).await });
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Waits for all of them, at most `patience`; then drops those that are left. True when none had to be.
    pub async fn end(&self, patience: Duration) -> bool {
        self.tracker.close();
        let in_time = timeout(patience, self.tracker.wait()).await.is_ok();
        self.cut.cancel();
        // They end at their next step, and so does what their end may still start.
        self.tracker.wait().await;
        in_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts its drop, and starts another task as a reply does that is read on.
    struct Owned(Arc<AtomicUsize>, Option<Tasks>);

    impl Drop for Owned {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            if let Some(tasks) = self.1.take() {
                let next = Self(self.0.clone(), None);
                tasks.spawn(async move {
                    let _next = next;
                    std::future::pending::<()>().await;
                });
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_what_ends_in_time_and_drops_the_rest() {
        let (tasks, dropped) = (Tasks::default(), Arc::new(AtomicUsize::new(0)));
        let owned = Owned(dropped.clone(), None);
        tasks.spawn(async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            drop(owned);
        });
        assert!(tasks.end(Duration::from_secs(5)).await, "it had the time");
        assert_eq!(dropped.load(Ordering::SeqCst), 1);

        let (tasks, dropped) = (Tasks::default(), Arc::new(AtomicUsize::new(0)));
        let owned = Owned(dropped.clone(), Some(tasks.clone()));
        tasks.spawn(async move {
            let _owned = owned;
            std::future::pending::<()>().await;
        });
        assert!(!tasks.end(Duration::from_secs(5)).await, "it had not");
        assert_eq!(dropped.load(Ordering::SeqCst), 2, "itself, and what its drop started");
    }
}
