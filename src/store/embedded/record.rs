//! What the journal holds, byte for byte. The only file that knows the format.
//!
//! Four key spaces. `balances`: scope, owner, limit and period -> what is spent. `holds`: reservation and part -> an [`Entry`] that
//! is still open. `ledger`: a running number -> the [`Entry`] of every reservation that ended, from which every balance can be
//! recomputed. `mark`: the first of these numbers that the balances do not reflect yet. Numbers in keys are big-endian, so that keys sort by them; numbers in values are LEB128. Every value starts with
//! [`VERSION`].

use crate::domain::{Period, ReservationId, Timestamp};
use crate::limit::{LimitName, Scope, ScopeKey};
use std::sync::Arc;

/// The format written; a reader refuses any other.
const VERSION: u8 = 1;

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Written by another version of the program.
    #[error("has format version {0}, this program reads version 1")]
    Version(u8),
    /// Cut short, or with a code that does not exist.
    #[error("is damaged")]
    Damaged,
}

/// A balance: one budget or quota of one scope in one period.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BalanceKey {
    /// Whose.
    pub scope: ScopeKey,
    /// Which.
    pub limit: LimitName,
    /// Start of the period, Unix seconds.
    pub period: u64,
}

/// What became of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is in flight; the entry's time is its deadline and nothing is booked yet.
    Held,
    /// It was settled.
    Settled,
    /// Its process died; what it held was charged.
    LostCharged,
    /// Its process died; what it held was given back.
    LostReleased,
}

/// A reservation's bookings: open in `holds`, final in `ledger`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What became of it.
    pub kind: Kind,
    /// When; of a hold the deadline.
    pub time: Timestamp,
    /// Which reservation.
    pub reservation: ReservationId,
    /// The customer it was kept with.
    pub customer: ScopeKey,
    /// One per budget or quota it claimed; buckets and windows are not journaled.
    pub lines: Vec<Booking>,
}

/// One budget or quota of an [`Entry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Where it is booked.
    pub balance: BalanceKey,
    /// What was held: nano-dollars, tokens or requests.
    pub claimed: u64,
    /// What was spent instead; zero while it is held.
    pub actual: u64,
}

// === keys and values of the four spaces ===

/// The key of the mark.
pub const MARK: &[u8] = b"balances";

/// The value of the mark: the number of a ledger entry.
pub fn mark_value(number: u64) -> Vec<u8> {
    balance_value(number)
}

/// Reads the value of the mark.
pub fn read_mark_value(bytes: &[u8]) -> Result<u64, RecordError> {
    read_balance_value(bytes)
}

/// The key of a balance.
pub fn balance_key(key: &BalanceKey) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.scope.owner.len() + 12);
    put_scope(&mut bytes, &key.scope);
    bytes.push(limit_code(key.limit));
    bytes.extend(key.period.to_be_bytes());
    bytes
}

/// Reads the key of a balance.
pub fn read_balance_key(bytes: &[u8]) -> Result<BalanceKey, RecordError> {
    let mut reader = Reader(bytes);
    let (scope, limit) = (reader.scope()?, reader.limit()?);
    Ok(BalanceKey { scope, limit, period: u64::from_be_bytes(reader.array()?) })
}

/// The value of a balance.
pub fn balance_value(spent: u64) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    put_number(&mut bytes, spent);
    bytes
}

/// Reads the value of a balance.
pub fn read_balance_value(bytes: &[u8]) -> Result<u64, RecordError> {
    Reader::versioned(bytes)?.number()
}

/// The key of a hold: a reservation that claims money twice has two parts.
pub fn hold_key(reservation: ReservationId, part: u8) -> Vec<u8> {
    let mut bytes = reservation.bits().to_be_bytes().to_vec();
    bytes.push(part);
    bytes
}

/// The key of a ledger entry.
pub fn ledger_key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Reads the key of a ledger entry.
pub fn read_ledger_key(bytes: &[u8]) -> Result<u64, RecordError> {
    Ok(u64::from_be_bytes(Reader(bytes).array()?))
}

/// The value of a hold or a ledger entry.
pub fn entry_value(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + 48 * entry.lines.len());
    bytes.push(VERSION);
    bytes.push(match entry.kind {
        Kind::Held => 0,
        Kind::Settled => 1,
        Kind::LostCharged => 2,
        Kind::LostReleased => 3,
    });
    put_number(&mut bytes, entry.time.micros());
    bytes.extend(entry.reservation.bits().to_be_bytes());
    put_scope(&mut bytes, &entry.customer);
    put_number(&mut bytes, entry.lines.len() as u64);
    for Booking { balance, claimed, actual } in &entry.lines {
        put_scope(&mut bytes, &balance.scope);
        bytes.push(limit_code(balance.limit));
        for number in [balance.period, *claimed, *actual] {
            put_number(&mut bytes, number);
        }
    }
    bytes
}

/// Reads the value of a hold or a ledger entry.
pub fn read_entry_value(bytes: &[u8]) -> Result<Entry, RecordError> {
    let mut reader = Reader::versioned(bytes)?;
    let kind = match reader.byte()? {
        0 => Kind::Held,
        1 => Kind::Settled,
        2 => Kind::LostCharged,
        3 => Kind::LostReleased,
        _ => return Err(RecordError::Damaged),
    };
    let time = Timestamp(reader.number()?);
    let reservation = ReservationId::new(u128::from_be_bytes(reader.array()?));
    let customer = reader.scope()?;
    // No capacity from a number that may be damaged: the lines end with the bytes.
    let lines = (0..reader.number()?).map(|_| reader.booking()).collect::<Result<_, _>>()?;
    Ok(Entry { kind, time, reservation, customer, lines })
}

// === the alphabet ===

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn put_scope(bytes: &mut Vec<u8>, scope: &ScopeKey) {
    bytes.push(match scope.scope {
        Scope::User => 0,
        Scope::Customer => 1,
        Scope::App => 2,
        Scope::Share => 3,
        Scope::Pool => 4,
        Scope::Gateway => 5,
    });
    put_number(bytes, scope.owner.len() as u64);
    bytes.extend(scope.owner.as_bytes());
}

const fn limit_code(limit: LimitName) -> u8 {
    const fn of(period: Period) -> u8 {
        match period {
            Period::Day => 0,
            Period::Week => 1,
            Period::Month => 2,
        }
    }
    match limit {
        LimitName::Messages => 0,
        LimitName::Rpm => 1,
        LimitName::Tpm => 2,
        LimitName::InputTpm => 3,
        LimitName::OutputTpm => 4,
        LimitName::Rpd => 5,
        LimitName::Tpd => 6,
        LimitName::Spend(period) => 16 + of(period),
        LimitName::RequestQuota(period) => 32 + of(period),
        LimitName::TokenQuota(period) => 48 + of(period),
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn versioned(bytes: &'a [u8]) -> Result<Self, RecordError> {
        match bytes {
            [VERSION, rest @ ..] => Ok(Self(rest)),
            [other, ..] => Err(RecordError::Version(*other)),
            [] => Err(RecordError::Damaged),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(RecordError::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        self.take(N)?.try_into().map_err(|_| RecordError::Damaged)
    }

    fn byte(&mut self) -> Result<u8, RecordError> {
        self.array().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u64, RecordError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(RecordError::Damaged)
    }

    fn scope(&mut self) -> Result<ScopeKey, RecordError> {
        let scope = match self.byte()? {
            0 => Scope::User,
            1 => Scope::Customer,
            2 => Scope::App,
            3 => Scope::Share,
            4 => Scope::Pool,
            5 => Scope::Gateway,
            _ => return Err(RecordError::Damaged),
        };
        let length = usize::try_from(self.number()?).map_err(|_| RecordError::Damaged)?;
        let owner = std::str::from_utf8(self.take(length)?).map_err(|_| RecordError::Damaged)?;
        Ok(ScopeKey { scope, owner: Arc::from(owner) })
    }

    fn limit(&mut self) -> Result<LimitName, RecordError> {
        let code = self.byte()?;
        let period = || Period::ALL.get(usize::from(code & 15)).copied().ok_or(RecordError::Damaged);
        Ok(match code {
            0 => LimitName::Messages,
            1 => LimitName::Rpm,
            2 => LimitName::Tpm,
            3 => LimitName::InputTpm,
            4 => LimitName::OutputTpm,
            5 => LimitName::Rpd,
            6 => LimitName::Tpd,
            16..32 => LimitName::Spend(period()?),
            32..48 => LimitName::RequestQuota(period()?),
            48..64 => LimitName::TokenQuota(period()?),
            _ => return Err(RecordError::Damaged),
        })
    }

    fn booking(&mut self) -> Result<Booking, RecordError> {
        let (scope, limit) = (self.scope()?, self.limit()?);
        let balance = BalanceKey { scope, limit, period: self.number()? };
        Ok(Booking { balance, claimed: self.number()?, actual: self.number()? })
    }
}

#[cfg(test)]
mod damaged;

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(scope: Scope, owner: &str) -> ScopeKey {
        ScopeKey { scope, owner: owner.into() }
    }

    fn entry() -> Entry {
        let line = |s, limit, n| Booking { balance: BalanceKey { scope: s, limit, period: n }, claimed: n, actual: n / 3 };
        Entry {
            kind: Kind::Settled,
            time: Timestamp(1_800_000_000_123_456),
            reservation: ReservationId::new(u128::MAX - 7),
            customer: scope(Scope::Customer, "#0123"),
            lines: vec![
                line(scope(Scope::User, "a/b"), LimitName::Spend(Period::Day), 0),
                line(scope(Scope::Gateway, ""), LimitName::TokenQuota(Period::Month), u64::MAX),
                line(scope(Scope::App, &"y".repeat(200)), LimitName::RequestQuota(Period::Week), 128),
            ],
        }
    }

    #[test]
    fn an_entry_reads_back_and_no_part_of_it_does() {
        let bytes = entry_value(&entry());
        assert_eq!(read_entry_value(&bytes), Ok(entry()));
        for cut in 1..bytes.len() {
            assert_eq!(read_entry_value(&bytes[..cut]), Err(RecordError::Damaged), "cut at {cut}");
        }
        assert_eq!(read_entry_value(&[9, 0]), Err(RecordError::Version(9)));
        assert_eq!(read_balance_value(&[]), Err(RecordError::Damaged));
        assert_eq!(read_balance_value(&balance_value(9_000_000_000_000_000)), Ok(9_000_000_000_000_000));
    }

    #[test]
    fn every_limit_has_a_code_of_its_own_and_balances_sort_by_period() {
        let periods = Period::ALL;
        let limits = [LimitName::Messages, LimitName::Rpm, LimitName::Tpm, LimitName::InputTpm, LimitName::OutputTpm]
            .into_iter()
            .chain([LimitName::Rpd, LimitName::Tpd])
            .chain(periods.map(LimitName::Spend))
            .chain(periods.map(LimitName::RequestQuota))
            .chain(periods.map(LimitName::TokenQuota));
        for limit in limits {
            let key = |period| BalanceKey { scope: scope(Scope::Customer, "c"), limit, period };
            assert_eq!(read_balance_key(&balance_key(&key(86_400))), Ok(key(86_400)), "{limit:?}");
            assert!(balance_key(&key(255)) < balance_key(&key(256)));
        }
    }
}
