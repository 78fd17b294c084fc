//! What is still to be written when the last request has ended: all of it at once, by one deadline.

use crate::stack::Gateway;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// What the last settlements get at least, however late it is.
const SETTLING: Duration = Duration::from_secs(1);

/// Has settlements, tickets, alerts, history, spans and records written, until `deadline`, or for a moment if that is over.
///
/// One that a store keeps waiting keeps no other waiting: a store that is frozen costs that moment once.
pub(super) async fn words(gateway: &Gateway, deadline: Instant) {
    let end = deadline.max(Instant::now() + SETTLING);
    let left = || end.saturating_duration_since(Instant::now());
    let tickets = async {
        let unwritten = gateway.triage.drain(left()).await;
        if unwritten > 0 {
            tracing::warn!(unwritten, "stopped with hand-offs that have no ticket, since the store did not take them");
        }
    };
    let books = async {
        let unsettled = gateway.settler.drain(left()).await;
        if unsettled > 0 {
            tracing::warn!(unsettled, "stopped with reservations that the store did not take; their holds end with their lease");
        }
        // After the settlements, which may have filled a cap.
        if !timeout(left(), gateway.alerts.drain(left())).await.unwrap_or(false) {
            tracing::warn!("stopped with alerts that were not delivered");
        }
    };
    let history = async {
        if !gateway.history.flush(left()).await {
            tracing::warn!("stopped with a part of the history that the store did not take");
        }
    };
    let spans = async {
        if let Some(otlp) = &gateway.otlp
            && !otlp.drain(left()).await
        {
            tracing::warn!("stopped with spans that the OpenTelemetry collector did not take");
        }
    };
    let records = async {
        if !gateway.records.drain(left()).await {
            tracing::warn!("stopped with records of requests that the store did not take");
        }
    };
    tokio::join!(tickets, books, history, spans, records);
}
