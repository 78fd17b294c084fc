//! Markers: that somebody is at work on something, for as long as they say so.
//!
//! A marker is a document that forgets itself after the lease, by the store's clock, and is renewed three times in it. So two gateways
//! never work on the same thing while the store answers, whatever their own clocks say, and nothing stays marked when one of them dies.

use crate::store::StoreError;
use crate::store::documents::{Collection, Document, Documents, Expected, Write, Written};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// How long a marker stands without being renewed.
pub const LEASE: Duration = Duration::from_secs(15);

/// How often it is renewed.
const RENEWAL: Duration = Duration::from_secs(5);

/// How often the last word is tried to be written while the store does not answer, and the pause before the second time; it doubles.
const LAST_WORDS: u32 = 7;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// What came of taking a marker.
#[derive(Debug)]
pub enum Taken {
    /// It is ours.
    Ours(Marker),
    /// Something stands there.
    Found(Document),
}

/// Takes the marker `id`. `value` must be like no other marker's.
///
/// # Errors
/// [`StoreError`] when the store could not be asked. It may have written all the same: then the marker stands for one lease.
pub async fn take(documents: &Arc<dyn Documents>, id: String, value: Bytes) -> Result<Taken, StoreError> {
    let mut marker = Marker { documents: documents.clone(), id, value, version: 0 };
    let value = Some(marker.value.clone());
    match marker.put(Expected::Nothing, value, LEASE).await? {
        Written::Done(version) => {
            marker.version = version;
            Ok(Taken::Ours(marker))
        }
        Written::Found(Some(document)) => Ok(Taken::Found(document)),
        Written::Found(None) => Err(StoreError::Failed("a write that expects nothing found nothing, and failed".to_owned())),
    }
}

/// A marker of ours.
pub struct Marker {
    documents: Arc<dyn Documents>,
    id: String,
    value: Bytes,
    version: u64,
}

impl std::fmt::Debug for Marker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Marker").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Marker {
    /// Renews it, until it is no longer ours. Can be dropped at any point and begun again.
    pub async fn until_lost(&mut self) {
        loop {
            tokio::time::sleep(RENEWAL).await;
            match self.put(Expected::Version(self.version), Some(self.value.clone()), LEASE).await {
                Ok(Written::Done(version)) => self.version = version,
                // A renewal of ours whose answer was lost.
                Ok(Written::Found(Some(found))) if found.value == self.value => self.version = found.version,
                Ok(Written::Found(_)) => return,
                // It stands until its lease ends; the next renewal may come in time.
                Err(error) => tracing::debug!(%error, "a marker could not be renewed"),
            }
        }
    }

    /// Ends it: removed, or replaced by a value that is kept for a while. Somebody else's marker is left alone. False when it could not
    /// be told to the store; what stands there then ends with the lease.
    pub async fn end(mut self, last: Option<(Bytes, Duration)>) -> bool {
        let mut pause = FIRST_PAUSE;
        for attempt in 0..LAST_WORDS {
            if attempt > 0 {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            match self.try_end(&last).await {
                Ok(done) => return done,
                Err(error) => tracing::debug!(%error, "the end of a marker could not be stored"),
            }
        }
        tracing::warn!("the store did not take the end of a marked request; it can be repeated once its lease is over");
        false
    }

    async fn try_end(&mut self, last: &Option<(Bytes, Duration)>) -> Result<bool, StoreError> {
        let (value, keep) = match last {
            Some((value, keep)) => (Some(value.clone()), *keep),
            None => (None, LEASE),
        };
        let found = match self.put(Expected::Version(self.version), value.clone(), keep).await? {
            Written::Done(_) => return Ok(true),
            Written::Found(found) => found,
        };
        match found {
            None if value.is_none() => Ok(true),
            // Its lease was over, and nobody came since.
            None => Ok(matches!(self.put(Expected::Nothing, value, keep).await?, Written::Done(_))),
            Some(found) if Some(&found.value) == value.as_ref() => Ok(true),
            Some(found) if found.value == self.value => {
                self.version = found.version;
                Ok(matches!(self.put(Expected::Version(found.version), value, keep).await?, Written::Done(_)))
            }
            Some(_) => Ok(false),
        }
    }

    async fn put(&self, expected: Expected, value: Option<Bytes>, keep: Duration) -> Result<Written, StoreError> {
        let write = Write { collection: Collection::Replies, id: self.id.clone(), expected, value, keep: Some(keep), rank: 0 };
        self.documents.put(&write, None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Clock, Timestamp};
    use crate::store::documents::memory::MemoryDocuments;

    /// Follows tokio's clock, which the tests pause.
    struct Paused(tokio::time::Instant);

    impl Clock for Paused {
        fn now(&self) -> Timestamp {
            Timestamp(u64::try_from(self.0.elapsed().as_micros()).expect("a short test"))
        }
    }

    fn documents() -> Arc<dyn Documents> {
        Arc::new(MemoryDocuments::new(Arc::new(Paused(tokio::time::Instant::now()))))
    }

    async fn ours(documents: &Arc<dyn Documents>, value: &'static str) -> Marker {
        match take(documents, "m".to_owned(), Bytes::from_static(value.as_bytes())).await.expect("it answers") {
            Taken::Ours(marker) => marker,
            Taken::Found(found) => panic!("{found:?}"),
        }
    }

    async fn stands(documents: &Arc<dyn Documents>) -> Option<Bytes> {
        documents.get(Collection::Replies, "m", None).await.expect("it answers").map(|found| found.value)
    }

    #[tokio::test(start_paused = true)]
    async fn a_marker_stands_while_it_is_renewed_and_a_lease_longer() {
        let documents = documents();
        let mut marker = ours(&documents, "one").await;
        let hour = tokio::time::timeout(Duration::from_secs(3_600), marker.until_lost()).await;
        assert!(hour.is_err(), "never lost");
        let taken = take(&documents, "m".to_owned(), Bytes::from_static(b"two")).await.expect("it answers");
        assert!(matches!(taken, Taken::Found(found) if found.value == "one"));
        drop(marker); // as a gateway that dies
        tokio::time::advance(LEASE + Duration::from_micros(1)).await;
        let two = ours(&documents, "two").await;
        assert!(two.end(None).await);
        assert_eq!(stands(&documents).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn who_lost_its_marker_learns_it_and_overwrites_nothing() {
        let documents = documents();
        let mut late = ours(&documents, "late").await;
        tokio::time::advance(LEASE + Duration::from_micros(1)).await;
        let other = ours(&documents, "other").await;
        late.until_lost().await;
        assert!(!late.end(Some((Bytes::from_static(b"mine"), LEASE))).await);
        assert_eq!(stands(&documents).await.as_deref(), Some(&b"other"[..]));
        assert!(other.end(Some((Bytes::from_static(b"result"), LEASE))).await);
        assert_eq!(stands(&documents).await.as_deref(), Some(&b"result"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_that_comes_after_the_lease_is_kept_if_nobody_came_since() {
        let documents = documents();
        let late = ours(&documents, "late").await;
        tokio::time::advance(LEASE + Duration::from_micros(1)).await;
        assert!(late.end(Some((Bytes::from_static(b"result"), LEASE))).await);
        assert_eq!(stands(&documents).await.as_deref(), Some(&b"result"[..]));
    }
}
