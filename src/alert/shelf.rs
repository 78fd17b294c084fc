//! The alerts of the last weeks, for whoever was not there.

use super::Kind;
use super::news::Alert;
use crate::store::StoreError;
use crate::store::documents::{Collection, Documents, Expected, MAX_PAGE, Page, Write};
use std::time::Duration;

/// Alerts that are kept at most; the oldest go first.
pub(super) const KEPT: usize = 1_000;

/// Larger than any time in microseconds that is written here, and exact in every store.
const LAST: u64 = (1 << 53) - 1;

/// Keeps an alert. The newest stand first in a listing.
pub(super) async fn keep(documents: &dyn Documents, alert: &Alert, keep: Duration) -> Result<(), StoreError> {
    let write = Write {
        collection: Collection::Alerts,
        id: alert.id.clone(),
        expected: Expected::Anything,
        value: Some(serde_json::to_vec(alert).unwrap_or_default().into()),
        keep: Some(keep),
        rank: LAST.saturating_sub(alert.at.micros()),
    };
    documents.put(&write, None).await.map(drop)
}

/// Forgets what is beyond [`KEPT`].
pub(super) async fn prune(documents: &dyn Documents) -> Result<(), StoreError> {
    let kept = documents.list(Collection::Alerts, &Page { limit: KEPT, ..Page::default() }, None).await?;
    let Some(last) = kept.last().filter(|_| kept.len() >= KEPT) else { return Ok(()) };
    let after = Some((last.rank, last.id.clone()));
    let beyond = documents.list(Collection::Alerts, &Page { after, limit: MAX_PAGE, ..Page::default() }, None).await?;
    for one in beyond {
        let write = Write {
            collection: Collection::Alerts,
            id: one.id,
            expected: Expected::Version(one.document.version),
            value: None,
            keep: None,
            rank: one.rank,
        };
        documents.put(&write, None).await?;
    }
    Ok(())
}

/// The newest alerts, of one kind if asked for.
pub(super) async fn read(documents: &dyn Documents, limit: usize, kind: Option<Kind>) -> Result<Vec<Alert>, StoreError> {
    let most = if kind.is_some() { KEPT } else { limit };
    let listed = documents.list(Collection::Alerts, &Page { limit: most, ..Page::default() }, None).await?;
    let alerts = listed.iter().filter_map(|one| serde_json::from_slice::<Alert>(&one.document.value).ok());
    Ok(alerts.filter(|alert| kind.is_none_or(|kind| alert.kind == kind)).take(limit).collect())
}
