//! The audit: recomputes every balance from the ledger entries and compares.
//!
//! It reads a journal that no gateway has open and writes nothing into it. A period is compared as long as somebody may still settle in
//! it, and beyond that when the ledger reaches back to before it began; entries are pruned after a month and some days. Memory grows
//! with the number of entries, some 20 bytes each.

use super::disk::Journal;
use super::part::over_at;
use super::record::{BalanceKey, Booking, Entry, Kind};
use crate::domain::{ReservationId, Timestamp};
use crate::limit::{LimitName, ScopeKey};
use crate::store::StoreError;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// A balance may have left the journal this long before nobody settles in its period any more, seconds: the owner's second next period
/// began, on days of 23 hours.
const MAY_BE_GONE: u64 = 4 * 3_600;
/// Ledger entries told of a balance that differs.
const TOLD: usize = 5;

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Balances that were compared.
    pub balances: usize,
    /// Ledger entries they were recomputed from.
    pub entries: usize,
    /// Holds of requests that were in flight when the last gateway ended; the next start books them.
    pub holds: usize,
    /// Balances of periods long over, whose entries are pruned.
    pub skipped: usize,
    /// What does not add up: causes before the balances they spoil.
    pub differences: Vec<Difference>,
}

/// Something that does not add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Ledger entries are numbered without gaps, and these are missing.
    Missing {
        /// The first number missing.
        from: u64,
        /// The last.
        to: u64,
    },
    /// A reservation was booked more than once.
    Doubled {
        /// Which.
        reservation: ReservationId,
        /// The ledger entry that repeats an earlier one.
        number: u64,
    },
    /// A ledger entry says that its reservation is still in flight.
    Unended {
        /// Which.
        reservation: ReservationId,
        /// The ledger entry.
        number: u64,
    },
    /// A hold is kept of a reservation that ended; the next start would book it again.
    HeldAfterEnd {
        /// Which.
        reservation: ReservationId,
    },
    /// A balance is not the sum of its bookings.
    Balance(Box<Discrepancy>),
}

/// A balance that is not the sum of its bookings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discrepancy {
    /// Whose.
    pub scope: ScopeKey,
    /// Which limit.
    pub limit: LimitName,
    /// Start of the period, Unix seconds.
    pub period: u64,
    /// What the journal says is spent; `None` where it has no such balance.
    pub stored: Option<u64>,
    /// The sum of the bookings.
    pub recomputed: u64,
    /// What requests in flight hold of it.
    pub held: u64,
    /// The last bookings on it, newest first. Told only of the first balance that differs.
    pub last: Vec<Booked>,
}

/// One ledger entry as it touches one balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booked {
    /// Its number.
    pub number: u64,
    /// When it was booked.
    pub time: Timestamp,
    /// Which reservation.
    pub reservation: ReservationId,
    /// How it ended: `settled`, `lost, charged` or `lost, released`.
    pub how: &'static str,
    /// What was held.
    pub claimed: u64,
    /// What was booked.
    pub actual: u64,
}

/// Audits the journal in a directory, at a time.
///
/// # Errors
/// With the path and the reason when there is no journal, a gateway has it open, or it cannot be read.
pub fn audit(path: &Path, now: Timestamp) -> Result<Audit, StoreError> {
    // Opening would make an empty one where there is none, and call it clean.
    let files =
        std::fs::read_dir(path).map_err(|error| StoreError::Failed(format!("cannot read {}: {error}", path.display())))?;
    if !files.flatten().any(|file| file.path().extension().is_some_and(|extension| extension == "jnl")) {
        return Err(StoreError::Failed(format!("{} holds no journal of an embedded store", path.display())));
    }
    recompute(&Journal::open(path)?, now)
}

/// What the ledger and the holds say of one balance.
#[derive(Default)]
struct Sum {
    booked: u64,
    held: u64,
}

fn recompute(journal: &Journal, now: Timestamp) -> Result<Audit, StoreError> {
    let mut audit = Audit::default();
    let mut sums: HashMap<BalanceKey, Sum> = HashMap::new();
    // What the next start adds to the balances first.
    let (mark, mut behind) = (journal.mark()?, HashMap::<BalanceKey, u64>::new());
    let (mut ended, mut newer, mut oldest) = (HashSet::new(), None, now);
    for entry in journal.ledger()? {
        let (number, Entry { kind, time, reservation, lines, .. }) = entry?;
        audit.entries += 1;
        if let Some(newer) = newer.replace(number).filter(|newer| *newer != number + 1) {
            audit.differences.push(Difference::Missing { from: number + 1, to: newer - 1 });
        }
        if kind == Kind::Held {
            audit.differences.push(Difference::Unended { reservation, number });
        }
        if !ended.insert(reservation) {
            audit.differences.push(Difference::Doubled { reservation, number });
        }
        oldest = oldest.min(time);
        for Booking { balance, actual, .. } in lines {
            if number >= mark && actual > 0 {
                let behind = behind.entry(balance.clone()).or_default();
                *behind = behind.saturating_add(actual);
            }
            let sum = sums.entry(balance).or_default();
            sum.booked = sum.booked.saturating_add(actual);
        }
    }
    for hold in journal.holds()? {
        let (_, Entry { reservation, lines, .. }) = hold?;
        audit.holds += 1;
        if ended.contains(&reservation) {
            audit.differences.push(Difference::HeldAfterEnd { reservation });
        }
        for Booking { balance, claimed, .. } in lines {
            let sum = sums.entry(balance).or_default();
            sum.held = sum.held.saturating_add(claimed);
        }
    }
    drop(ended);

    let reaches = |key: &BalanceKey| now.secs() <= over_at(key.limit, key.period) || oldest.secs() <= key.period;
    let mut wrong = Vec::new();
    for balance in journal.balances()? {
        let (key, stored) = balance?;
        let stored = stored.saturating_add(behind.remove(&key).unwrap_or_default());
        let Sum { booked, held } = sums.remove(&key).unwrap_or_default();
        if !reaches(&key) {
            audit.skipped += 1;
            continue;
        }
        audit.balances += 1;
        if stored != booked {
            wrong.push((key, Some(stored), booked, held));
        }
    }
    // What is left was booked, and has no balance; unless the next start makes one.
    for (key, Sum { booked, held }) in sums {
        if behind.get(&key) == Some(&booked) {
            audit.balances += 1;
        } else if booked > 0 && now.secs() + MAY_BE_GONE < over_at(key.limit, key.period) {
            audit.balances += 1;
            wrong.push((key, None, booked, held));
        }
    }
    wrong.sort_by(|(a, ..), (b, ..)| order(a).cmp(&order(b)));
    for (nth, (key, stored, recomputed, held)) in wrong.into_iter().enumerate() {
        let last = if nth == 0 { last_bookings(journal, &key)? } else { Vec::new() };
        let BalanceKey { scope, limit, period } = key;
        let discrepancy = Discrepancy { scope, limit, period, stored, recomputed, held, last };
        audit.differences.push(Difference::Balance(Box::new(discrepancy)));
    }
    Ok(audit)
}

fn order(key: &BalanceKey) -> impl Ord + '_ {
    (key.scope.scope, &key.scope.owner, key.limit, key.period)
}

fn last_bookings(journal: &Journal, key: &BalanceKey) -> Result<Vec<Booked>, StoreError> {
    let mut last = Vec::new();
    for entry in journal.ledger()? {
        let (number, Entry { kind, time, reservation, lines, .. }) = entry?;
        let how = match kind {
            Kind::Held => "held",
            Kind::Settled => "settled",
            Kind::LostCharged => "lost, charged",
            Kind::LostReleased => "lost, released",
        };
        let of_it = lines.into_iter().filter(|line| line.balance == *key);
        last.extend(of_it.map(|Booking { claimed, actual, .. }| Booked { number, time, reservation, how, claimed, actual }));
        if last.len() >= TOLD {
            break;
        }
    }
    last.truncate(TOLD);
    Ok(last)
}

#[cfg(test)]
mod tests;
