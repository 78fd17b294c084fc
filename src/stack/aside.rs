//! Work that stands back: done on a thread whose priority is low, so that it takes the cores that short requests leave.
//!
//! Counting a prompt of a megabyte keeps a core busy for some thirty milliseconds. On a thread like any other it has as good a claim to
//! that core as those that serve everybody else, who then wait for it: on two cores every other request. What only goes over such a body
//! once (reading it, hashing it, copying it) takes a hundredth of that, but there is half a dozen of it, and whoever comes behind on the
//! thread waits for each.

use bytes::Bytes;
use std::io;
use tokio::sync::Semaphore;

/// The longest body that is gone over where one is: some ten microseconds each time.
pub(super) const QUICK: usize = 128 * 1024;

/// How far it stands back, as `nice` counts: against a busy thread it gets a tenth of a core. Not further: what is counted has somebody
/// who waits for it, too.
const NICE: i32 = 10;

/// Does the work on a thread of its own, and waits for it; so call it where waiting is allowed. Gives nothing where the work panicked.
///
/// Such a thread costs some ten microseconds. One that is kept could not be used for anything else: whoever has lowered its priority may
/// not raise it again.
pub(super) fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let run = || {
            // Where the system does not allow it, the work is still to be done.
            let _ = stand_back();
            work()
        };
        match std::thread::Builder::new().name("tollgate-aside".into()).spawn_scoped(scope, run) {
            Ok(thread) => thread.join().ok(),
            Err(error) => {
                tracing::warn!(%error, "no thread for a long prompt");
                None
            }
        }
    })
}

/// Does what takes the longer the longer a body is: at once for nearly all, aside for one above [`QUICK`], in its turn. Gives nothing where
/// the work panicked there.
pub(super) async fn over<T: Send + 'static>(
    body: &Bytes,
    turns: &Semaphore,
    work: impl FnOnce(&Bytes) -> T + Send + 'static,
) -> Option<T> {
    if body.len() <= QUICK {
        return Some(work(body));
    }
    let _turn = turns.acquire().await.ok()?;
    let body = body.clone();
    tokio::task::spawn_blocking(move || aside(|| work(&body))).await.ok().flatten()
}

/// Lowers the priority of the calling thread: Linux keeps it for each thread.
#[cfg(target_os = "linux")]
fn stand_back() -> io::Result<()> {
    rustix::process::nice(NICE)?;
    Ok(())
}

/// Elsewhere the priority is the whole process's.
#[cfg(not(target_os = "linux"))]
fn stand_back() -> io::Result<()> {
    let _ = NICE;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_aside_comes_back() {
        let text = String::from("borrowed");
        assert_eq!(aside(|| text.len()), Some(8));
        assert_eq!(aside(|| -> u8 { panic!("as tests do") }), None);
    }

    #[tokio::test]
    async fn a_large_body_is_gone_over_on_another_thread() {
        let turns = Semaphore::new(1);
        let here = std::thread::current().id();
        for (length, same) in [(0, true), (QUICK, true), (QUICK + 1, false), (8 * QUICK, false)] {
            let body = Bytes::from(vec![b' '; length]);
            let done = over(&body, &turns, |body| (std::thread::current().id(), body.len())).await;
            let (thread, seen) = done.expect("done");
            assert_eq!((thread == here, seen), (same, length));
        }
        let body = Bytes::from(vec![b' '; QUICK + 1]);
        assert_eq!(over(&body, &turns, |_| -> u8 { panic!("as tests do") }).await, None);
        assert_eq!(turns.available_permits(), 1, "whatever came of it");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_thread_aside_stands_back() {
        let priority = || rustix::process::getpriority_process(None).expect("one's own");
        let before = priority();
        assert_eq!(aside(priority), Some((before + NICE).min(19)));
        assert_eq!(priority(), before);
    }
}
