//! Room for so many connections, a number that may change while they are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How often whoever waits looks whether there has come to be more room without anybody leaving.
const LOOK: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Room(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    taken: AtomicUsize,
    left: Notify,
}

/// A place, free again when dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Shared>);

impl Room {
    /// Waits for a place among `most`. Where they have become fewer than are taken, until enough have left. One waits at a time.
    pub(super) async fn place(&self, most: impl Fn() -> usize) -> Place {
        loop {
            // Only whoever waits here adds to them, so nobody can come in between.
            if self.0.taken.load(Ordering::Acquire) < most() {
                self.0.taken.fetch_add(1, Ordering::AcqRel);
                return Place(self.0.clone());
            }
            let _ = timeout(LOOK, self.0.left.notified()).await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test(start_paused = true)]
    async fn there_is_room_for_as_many_as_there_may_be_now() {
        let (room, most) = (Room::default(), AtomicUsize::new(2));
        let place = || room.place(|| most.load(Ordering::Relaxed));
        let (first, second) = (place().await, place().await);
        assert!(place().now_or_never().is_none(), "two are two");
        most.store(3, Ordering::Relaxed);
        let third = place().await;
        most.store(1, Ordering::Relaxed);
        drop((first, second));
        assert!(place().now_or_never().is_none(), "one is left, and one there may be");
        drop(third);
        place().await;
        let waiting = place();
        assert_eq!(room.0.taken.load(Ordering::Relaxed), 0);
        drop(waiting.await);
    }
}
