//! Work that stands back: done on a thread whose priority is low, so that it takes the cores that short requests leave.
//!
//! Counting a prompt of a megabyte keeps a core busy for some thirty milliseconds. On a thread like any other it has as good a claim to
//! that core as those that serve everybody else, who then wait for it: on two cores every other request.

use std::io;

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

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_thread_aside_stands_back() {
        let priority = || rustix::process::getpriority_process(None).expect("one's own");
        let before = priority();
        assert_eq!(aside(priority), Some((before + NICE).min(19)));
        assert_eq!(priority(), before);
    }
}
