//! Start-up: balances are brought up to the end of the ledger, what the last process left in flight is booked as lost, then the balances are
//! read.

use super::books::Books;
use super::disk::{Disk, Journal, Space, Writes};
use super::known::REMEMBERED;
use super::part::over_at;
use super::record::{self, BalanceKey, Kind};
use crate::config::policy::LostHold;
use crate::domain::{NanoUsd, Timestamp};
use crate::limit::LimitName;
use crate::store::StoreError;
use std::collections::HashMap;

/// Writes per batch.
const BATCH: usize = 4_096;

/// Books lost holds, fills the books, and gives the number of the next ledger entry.
///
/// # Errors
/// When the journal cannot be read or written.
pub fn load(journal: &mut Journal, books: &Books, lost_hold: LostHold) -> Result<u64, StoreError> {
    let now = books.now();
    let next = catch_up(journal)?;
    let next = book_lost(journal, next, now, lost_hold)?;
    load_balances(journal, books, now)?;
    let mut ended = Vec::new();
    for entry in journal.ledger()? {
        let (_, entry) = entry?;
        if now.since(entry.time) > REMEMBERED {
            break;
        }
        ended.push((entry.reservation, entry.time));
    }
    ended.into_iter().rev().for_each(|(reservation, time)| books.load_ended(reservation, time));
    Ok(next)
}

/// Adds to the balances what the ledger entries behind the mark say, and gives the number of the next entry.
fn catch_up(journal: &mut Journal) -> Result<u64, StoreError> {
    let (mark, next) = (journal.mark()?, journal.next()?);
    let mut moved: HashMap<BalanceKey, u64> = HashMap::new();
    for entry in journal.since(mark)? {
        for line in entry?.1.lines.into_iter().filter(|line| line.actual > 0) {
            let sum = moved.entry(line.balance).or_default();
            *sum = sum.saturating_add(line.actual);
        }
    }
    let mut writes = raised(journal, moved)?;
    writes.insert((Space::Mark, record::MARK.to_vec()), Some(record::mark_value(next)));
    journal.commit(&writes)?;
    Ok(next)
}

/// Balances and what was spent of them besides, as they are to be written.
fn raised(journal: &Journal, by: HashMap<BalanceKey, u64>) -> Result<Writes, StoreError> {
    let raise = |(key, amount): (BalanceKey, u64)| {
        let spent = journal.balance(&key)?.saturating_add(amount);
        Ok(((Space::Balances, record::balance_key(&key)), Some(record::balance_value(spent))))
    };
    by.into_iter().map(raise).collect()
}

/// Turns every hold into a ledger entry, in one batch with the balances it changes, so that a second crash books nothing twice.
fn book_lost(journal: &mut Journal, mut next: u64, now: Timestamp, lost_hold: LostHold) -> Result<u64, StoreError> {
    let (mut holds, mut dollars) = (0_u64, NanoUsd::ZERO);
    loop {
        let mut writes = Writes::new();
        let mut charged: HashMap<BalanceKey, u64> = HashMap::new();
        for hold in journal.holds()?.take(BATCH / 8) {
            let (key, mut entry) = hold?;
            (entry.kind, entry.time) = match lost_hold {
                LostHold::Charge => (Kind::LostCharged, now),
                LostHold::Release => (Kind::LostReleased, now),
            };
            for line in &mut entry.lines {
                if lost_hold == LostHold::Charge {
                    line.actual = line.claimed;
                    let sum = charged.entry(line.balance.clone()).or_default();
                    *sum = sum.saturating_add(line.claimed);
                }
            }
            holds += 1;
            // One request is held by several budgets; the largest of its lines is what it could have cost.
            let dollar = |line: &&record::Booking| matches!(line.balance.limit, LimitName::Spend(_));
            let most = entry.lines.iter().filter(dollar).map(|line| line.claimed).max().unwrap_or(0);
            dollars = dollars.saturating_add(NanoUsd::new(most));
            writes.insert((Space::Ledger, record::ledger_key(next)), Some(record::entry_value(&entry)));
            writes.insert((Space::Holds, key), None);
            next += 1;
        }
        if writes.is_empty() {
            break;
        }
        writes.extend(raised(journal, charged)?);
        writes.insert((Space::Mark, record::MARK.to_vec()), Some(record::mark_value(next)));
        journal.commit(&writes)?;
    }
    if holds > 0 {
        journal.finish()?;
        tracing::warn!(holds, %dollars, ?lost_hold, "requests were in flight when the last process ended; their holds are booked");
    }
    Ok(next)
}

/// Fills the books; balances of periods long over are removed instead.
fn load_balances(journal: &mut Journal, books: &Books, now: Timestamp) -> Result<(), StoreError> {
    let mut over = Vec::new();
    for balance in journal.balances()? {
        let (key, spent) = balance?;
        if over_at(key.limit, key.period) < now.secs() {
            over.push(((Space::Balances, record::balance_key(&key)), None));
        } else {
            books.load(&key, spent);
        }
    }
    while !over.is_empty() {
        let rest = over.len().saturating_sub(BATCH);
        journal.commit(&over.split_off(rest).into_iter().collect())?;
    }
    Ok(())
}
