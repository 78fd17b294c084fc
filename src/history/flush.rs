//! Flushing: what was gathered becomes rows, and rows go to the store until it has them.
//!
//! One batch after the other, each with a number, so that one which is sent again is not added again. While the store is away the batch
//! at hand is repeated and everything else goes on being gathered.

use super::Order;
use super::counts::{CAUSE, Count, ModelCount, PLAN, Peaks, SHADOW, in_hour, plain};
use super::day::Day;
use super::gather::{Cell, Gather, Gathered};
use crate::config::policy::History as Settings;
use crate::domain::Clock;
use crate::store::StoreError;
use crate::store::documents::Documents;
use crate::store::series::{Addition, Batch, Kind, Peak, RowKey};
use crate::telemetry::Metrics;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// Rows in one batch.
const ROWS: usize = 4_096;
/// Between the first failure and the next attempt; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often a batch is tried that the store answers with an error of its own.
const MOST_ATTEMPTS: u32 = 8;

/// See the module.
pub struct Flusher {
    gather: Arc<Gather>,
    documents: Arc<dyn Documents>,
    settings: Settings,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// No other process has it: restarts must not be taken for repetitions.
    gateway: u64,
    number: u64,
}

impl Flusher {
    pub fn new(
        gather: Arc<Gather>,
        documents: Arc<dyn Documents>,
        settings: Settings,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Self {
        // 53 bits, since scripts compare numbers as doubles.
        let gateway = fastrand::u64(1..1 << 53);
        Self { gather, documents, settings, clock, metrics, gateway, number: 0 }
    }

    /// Flushes at intervals and when told, until nobody can tell anything any more.
    pub async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut due = Instant::now() + self.settings.flush;
        loop {
            let order = timeout_at(due, orders.recv()).await;
            let ends = matches!(order, Ok(None));
            let mut acks = Vec::new();
            let mut next = order.ok().flatten();
            while let Some(order) = next {
                if let Order::Now(ack) = order {
                    acks.push(ack);
                }
                next = orders.try_recv().ok();
            }
            let flushed = self.flush(&orders).await;
            due = Instant::now() + self.settings.flush;
            if flushed {
                for ack in acks {
                    let _ = ack.send(()); // whoever asked may have lost patience
                }
            }
            if ends {
                return;
            }
        }
    }

    /// Whether everything gathered is in the store.
    async fn flush(&mut self, orders: &mpsc::Receiver<Order>) -> bool {
        let gathered = self.gather.take();
        if gathered.is_empty() || self.settings.days == 0 {
            return true;
        }
        let additions = additions(gathered, self.settings);
        let mut all = true;
        for some in additions.chunks(ROWS) {
            self.number += 1;
            let today = Day::of(self.clock.now()).0;
            let batch = Batch { gateway: self.gateway, number: self.number, today, additions: some.to_vec() };
            if !self.add(&batch, orders).await {
                self.metrics.history_dropped.inc_by(some.len() as u64);
                all = false;
            }
        }
        all
    }

    /// Whether the store has it. While it is away it is asked again, unless nobody waits for anything any more.
    async fn add(&self, batch: &Batch, orders: &mpsc::Receiver<Order>) -> bool {
        let (mut pause, mut attempts) = (FIRST_PAUSE, 0);
        loop {
            match self.documents.series().add(batch).await {
                Ok(()) => return true,
                Err(error @ StoreError::Failed(_)) => {
                    attempts += 1;
                    if attempts == MOST_ATTEMPTS {
                        tracing::warn!(%error, rows = batch.additions.len(), "a part of the history is dropped");
                        return false;
                    }
                }
                Err(StoreError::Unreachable(_) | StoreError::Away(_)) if orders.is_closed() => return false,
                Err(StoreError::Unreachable(_) | StoreError::Away(_)) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// A customer's day: all of it, and each hour.
type DayOfHours = (Cell, Vec<(u32, Cell)>);

/// The rows that something gathered adds to.
pub fn additions(gathered: Gathered, settings: Settings) -> Vec<Addition> {
    let Gathered { cells, rest, models } = gathered;
    let mut totals: BTreeMap<u32, Cell> = rest.into_iter().collect();
    let mut days: BTreeMap<(String, u32), DayOfHours> = BTreeMap::new();
    for ((customer, hour), cell) in cells {
        totals.entry(hour).or_default().merge(&cell);
        let (day, hours) = days.entry((customer.as_str().to_owned(), hour / 24)).or_default();
        day.merge(&cell);
        hours.push((hour, cell));
    }
    let mut everybody: BTreeMap<u32, (Cell, Vec<(u32, Cell)>)> = BTreeMap::new();
    for (hour, cell) in totals {
        let (day, hours) = everybody.entry(hour / 24).or_default();
        day.merge(&cell);
        hours.push((hour, cell));
    }
    let mut additions = Vec::new();
    for ((id, day), (cell, hours)) in days {
        add(&mut additions, settings, [Kind::CustomerDay, Kind::CustomerHours], (&id, day), (&cell, &hours));
    }
    for (day, (cell, hours)) in everybody {
        add(&mut additions, settings, [Kind::TotalDay, Kind::TotalHours], ("", day), (&cell, &hours));
    }
    for ((model, day), sums) in models {
        let id = [&model.upstream, &model.asked, &model.served].map(|name| plain(name)).join("\t");
        let sums = ModelCount::ALL.iter().map(|count| (count.as_str().into(), sums[*count as usize])).filter(|(_, n)| *n > 0);
        let key = RowKey { kind: Kind::ModelDay, day, id };
        additions.push(Addition { key, sums: sums.collect(), peaks: Vec::new(), keep: settings.days });
    }
    merge_same_names(additions)
}

/// A day's row and that of its hours.
fn add(
    additions: &mut Vec<Addition>,
    settings: Settings,
    [of_day, of_hours]: [Kind; 2],
    (id, day): (&str, u32),
    (cell, hours): (&Cell, &[(u32, Cell)]),
) {
    let key = |kind| RowKey { kind, day, id: id.to_owned() };
    let mut sums: Vec<_> = counters(cell).map(|(name, n)| (name.into(), n)).collect();
    sums.extend(cell.plans.iter().map(|(plan, n)| (format!("{PLAN}{}", plain(plan)).into(), *n)));
    let mut peaks = Vec::new();
    for (minute, amounts) in &cell.minutes {
        let present = Peaks::ALL.iter().filter(|peak| amounts[**peak as usize] > 0);
        peaks.extend(present.map(|peak| Peak { name: peak.as_str().into(), minute: *minute, amount: amounts[*peak as usize] }));
    }
    additions.push(Addition { key: key(of_day), sums, peaks, keep: settings.days });
    if settings.hours > 0 {
        let sums = hours.iter().flat_map(|(hour, cell)| counters(cell).map(|(name, n)| (in_hour(*hour, &name), n)));
        additions.push(Addition { key: key(of_hours), sums: sums.collect(), peaks: Vec::new(), keep: settings.hours });
    }
}

/// The counters of a cell that are not zero.
fn counters(cell: &Cell) -> impl Iterator<Item = (String, u64)> {
    let counts = Count::ALL.iter().map(|count| (count.as_str().to_owned(), cell.counts[*count as usize]));
    let causes = cell.causes.iter().map(|(cause, n)| (format!("{CAUSE}{}", cause.name()), *n));
    let shadows = cell.shadows.iter().map(|(cause, n)| (format!("{SHADOW}{}", cause.name()), *n));
    counts.chain(causes).chain(shadows).filter(|(_, n)| *n > 0)
}

/// Different names of models may be the same once they are fit to be kept; a row is added to once in a batch.
fn merge_same_names(additions: Vec<Addition>) -> Vec<Addition> {
    let mut merged: BTreeMap<RowKey, Addition> = BTreeMap::new();
    for addition in additions {
        match merged.get_mut(&addition.key) {
            Some(known) => known.sums.extend(addition.sums),
            None => {
                merged.insert(addition.key.clone(), addition);
            }
        }
    }
    merged.into_values().collect()
}
