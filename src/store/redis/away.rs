//! A server of documents that gives no reply: whether it is asked at all.

use crate::store::StoreError;
use redis::Value;
use std::time::Duration;
use tokio::time::Instant;

/// Calls that get no reply, one after the other, until the server is taken for away.
const SILENT_CALLS: u32 = 3;
/// How long it is not asked then; at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// Whether the server is asked at all. While it is away one call at a time finds out whether it is back, and the others fail at once.
#[derive(Debug, Default)]
pub(super) struct Away {
    silent: u32,
    pause: Duration,
    ask_at: Option<Instant>,
}

impl Away {
    /// Before a call.
    ///
    /// # Errors
    /// [`StoreError::Away`] where it is not to be made.
    pub(super) fn ask(&mut self, now: Instant) -> Result<(), StoreError> {
        let Some(ask_at) = self.ask_at else { return Ok(()) };
        if now < ask_at {
            return Err(StoreError::Away("redis gave no reply to several calls"));
        }
        // This call finds out; those that come meanwhile do not wait with it.
        self.ask_at = Some(now + self.pause);
        Ok(())
    }

    /// After a call.
    pub(super) fn heard(&mut self, replies: &Result<Vec<Value>, StoreError>, now: Instant) {
        if !matches!(replies, Err(StoreError::Unreachable(_))) {
            *self = Self::default();
            return;
        }
        self.silent = self.silent.saturating_add(1);
        if self.silent >= SILENT_CALLS {
            let [first, most] = PAUSES;
            self.pause = (self.pause * 2).clamp(first, most);
            self.ask_at = Some(now + self.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_asked_by_one_call_at_a_time() {
        let (mut away, start) = (Away::default(), Instant::now());
        let silence = Err(StoreError::Unreachable("no reply".into()));
        for _ in 0..SILENT_CALLS {
            assert_eq!(away.ask(start), Ok(()));
            away.heard(&silence, start);
        }
        assert!(matches!(away.ask(start), Err(StoreError::Away(_))));
        let later = start + PAUSES[0];
        assert_eq!(away.ask(later), Ok(()), "this one finds out");
        assert!(away.ask(later).is_err(), "the others do not wait with it");
        away.heard(&silence, later);
        assert!(away.ask(later + PAUSES[0]).is_err(), "the pause grows");
        assert_eq!(away.ask(later + 2 * PAUSES[0]), Ok(()));
        away.heard(&Err(StoreError::Failed("LOADING".into())), later);
        assert_eq!(away.ask(later), Ok(()), "it speaks");
    }
}
