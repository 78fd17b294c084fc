//! What makes an alert one alert: a mark in the store that only one gateway sets.
//!
//! A mark is a document that is written only where there is none, and that ends with its period. Whose id stands in it tells. A write
//! of which nobody knows whether it arrived is simply repeated: found with the alert's own id it had arrived.
//!
//! The mark comes first and the telling second. A gateway that dies between the two has told nobody: at most once, for which
//! the moment between them is short.

use super::news::Alert;
use crate::domain::Timestamp;
use crate::store::StoreError;
use crate::store::documents::{Collection, Documents, Expected, MAX_ID, Write, Written};
use std::collections::HashMap;
use std::time::Duration;

/// Marks that a gateway remembers, so that it does not ask the store for what it knows.
const REMEMBERED: usize = 10_000;

/// Says what is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) id: String,
    /// How long nobody tells it again.
    pub(super) keep: Duration,
}

impl Mark {
    /// A mark of this name.
    pub(super) fn new(id: String, keep: Duration) -> Self {
        // Names are made of ids that may be as long as an id may be; a long one is hashed.
        let id = if id.len() <= MAX_ID { id } else { format!("h:{}", blake3::hash(id.as_bytes()).to_hex()) };
        Self { id, keep }
    }
}

/// An alert that is told if nobody did yet.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) mark: Mark,
    /// `None` only sets the mark: what is said by another alert.
    pub(super) alert: Option<Alert>,
    pub(super) at: Timestamp,
}

/// Whether it is this gateway that tells it.
///
/// # Errors
/// [`StoreError`] when the store could not be asked; to be repeated.
pub(super) async fn claim(documents: &dyn Documents, claim: &Claim) -> Result<bool, StoreError> {
    let name = claim.alert.as_ref().map_or("-", |alert| alert.id.as_str());
    let write = Write {
        collection: Collection::AlertMarks,
        id: claim.mark.id.clone(),
        expected: Expected::Nothing,
        value: Some(name.to_owned().into()),
        keep: Some(claim.mark.keep),
        rank: 0,
    };
    Ok(match documents.put(&write, None).await? {
        Written::Done(_) => true,
        Written::Found(found) => found.is_some_and(|found| found.value == name.as_bytes()),
    })
}

/// Marks that are known to be set.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<String, Timestamp>);

impl Known {
    /// Whether it is known that this is told, until its mark ends. From now on it is.
    pub(super) fn insert(&mut self, mark: &Mark, now: Timestamp) -> bool {
        if self.0.get(&mark.id).is_some_and(|until| now < *until) {
            return true;
        }
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, until| now < *until);
        }
        if self.0.len() >= REMEMBERED {
            self.0.clear(); // the store knows them all
        }
        self.0.insert(mark.id.clone(), now.plus(u64::try_from(mark.keep.as_micros()).unwrap_or(u64::MAX)));
        false
    }

    /// It is not told after all.
    pub(super) fn remove(&mut self, mark: &Mark) {
        self.0.remove(&mark.id);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use crate::domain::Clock;
    use crate::store::documents::memory::MemoryDocuments;
    use std::sync::Arc;

    struct Noon;

    impl Clock for Noon {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(1_800_000_000)
        }
    }

    #[tokio::test]
    async fn the_first_tells_it_and_hears_so_again_when_it_asks_again() {
        let documents = MemoryDocuments::new(Arc::new(Noon));
        let of = |id: &str| Claim {
            mark: Mark::new(id.to_owned(), Duration::from_secs(60)),
            alert: Some(Alert::new(Kind::Test, Noon.now(), "x")),
            at: Noon.now(),
        };
        let (one, two) = (of("a"), of("a"));
        assert_eq!(claim(&documents, &one).await, Ok(true));
        assert_eq!(claim(&documents, &two).await, Ok(false));
        assert_eq!(claim(&documents, &one).await, Ok(true), "a repeated write of its own");
        let silent = Claim { alert: None, ..of("b") };
        assert_eq!(claim(&documents, &silent).await, Ok(true));
        assert_eq!(claim(&documents, &of("b")).await, Ok(false));
        let long = of(&"x".repeat(2_000));
        assert_eq!(claim(&documents, &long).await, Ok(true), "{}", long.mark.id);
    }

    #[test]
    fn what_is_known_ends_with_its_mark_and_is_bounded() {
        let mut known = Known::default();
        let mark = |id: usize| Mark::new(id.to_string(), Duration::from_secs(60));
        let at = Timestamp::from_secs;
        assert!(!known.insert(&mark(0), at(100)));
        assert!(known.insert(&mark(0), at(159)));
        assert!(!known.insert(&mark(0), at(160)));
        known.remove(&mark(0));
        assert!(!known.insert(&mark(0), at(161)));
        for id in 0..3 * REMEMBERED {
            known.insert(&mark(id), at(200));
        }
        assert!(known.0.len() <= REMEMBERED);
    }
}
