//! Numbers as the scripts read and write them, and what they store: packed as little-endian doubles, which hold every integer up to 2⁵³
//! and cost a script a tenth of the time of digits. The layout stands at the top of `lua/states.lua`.

use crate::limit::LimitName;
use crate::limit::bucket::MAX_EXACT;

/// Kinds of states and of rules: their letters.
pub(super) const BUCKET: u8 = b'b';
pub(super) const WINDOW: u8 = b'w';
pub(super) const BUDGET: u8 = b'm';

/// What a stored string begins with.
const VERSION: u8 = 1;
/// The version, and until when it is kept.
const HEAD: usize = 9;
/// Bytes of a number.
const NUMBER: usize = 8;
/// Numbers of a bucket and of a budget.
const OF_BUCKET: usize = 4;
const OF_BUDGET: usize = 7;

/// The number of a limit: its place in `LIMITS` of `lua/states.lua`, which counts from one.
pub(super) const fn limit_number(limit: LimitName) -> u8 {
    limit.ordinal() + 1
}

/// The limit of this number.
pub(super) fn limit_numbered(number: u8) -> Option<LimitName> {
    LimitName::ALL.get(usize::from(number.checked_sub(1)?)).copied()
}

/// Numbers for a script.
pub(super) struct Packed(Vec<u8>);

impl Packed {
    /// None yet, with room for so many.
    pub(super) fn with_capacity(numbers: usize) -> Self {
        Self(Vec::with_capacity(NUMBER * numbers))
    }

    /// One more. What is above 2⁵³ is clamped to it: no limit is larger, so an amount that large is refused either way.
    #[expect(clippy::cast_precision_loss, reason = "clamped to what a double holds exactly")]
    pub(super) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&(number.min(MAX_EXACT) as f64).to_le_bytes());
    }

    /// One more that may be negative.
    #[expect(clippy::cast_precision_loss, reason = "clamped to what a double holds exactly")]
    pub(super) fn change(&mut self, change: i64) {
        let exact = MAX_EXACT.cast_signed();
        self.0.extend_from_slice(&(change.clamp(-exact, exact) as f64).to_le_bytes());
    }

    /// One more, of a place or a count.
    pub(super) fn place(&mut self, place: usize) {
        self.number(place as u64);
    }

    /// The argument.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The integers that are packed in these bytes; `None` where they are anything else.
pub(super) fn unpacked(bytes: &[u8]) -> Option<Vec<i64>> {
    let (numbers, []) = bytes.as_chunks::<NUMBER>() else { return None };
    numbers.iter().map(|number| integer(*number)).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "compared with what it came from")]
fn integer(bytes: [u8; NUMBER]) -> Option<i64> {
    let number = f64::from_le_bytes(bytes);
    let integer = number as i64;
    (integer as f64).eq(&number).then_some(integer)
}

/// A budget as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredBudget {
    /// Which.
    pub(super) limit: LimitName,
    /// Start, spent and held of the present period, then of the one before it.
    pub(super) periods: [(u64, u64, u64); 2],
    /// How often what is spent was lowered on purpose.
    pub(super) generation: u64,
}

/// The budgets in a stored string, each by its number where it is not as a gateway writes it. `None`: the whole string is not.
pub(super) fn budgets(stored: &[u8]) -> Option<Vec<Result<StoredBudget, u8>>> {
    let (head, mut rest) = stored.split_at_checked(HEAD)?;
    if head[0] != VERSION {
        return None;
    }
    let mut budgets = Vec::new();
    while let [limit, kind, numbers @ ..] = rest {
        let count = match *kind {
            BUCKET => OF_BUCKET,
            BUDGET => OF_BUDGET,
            WINDOW => {
                let slots = unpacked(numbers.get(..NUMBER)?)?;
                usize::try_from(slots[0]).ok()?.checked_mul(2)?.checked_add(2)?
            }
            _ => return None,
        };
        let (numbers, behind) = numbers.split_at_checked(count.checked_mul(NUMBER)?)?;
        if *kind == BUDGET {
            budgets.push(budget(*limit, numbers).ok_or(*limit));
        }
        rest = behind;
    }
    rest.is_empty().then_some(budgets)
}

fn budget(limit: u8, numbers: &[u8]) -> Option<StoredBudget> {
    let limit = limit_numbered(limit)?;
    limit.period()?;
    let numbers = unpacked(numbers)?;
    let numbers = numbers.into_iter().map(|number| u64::try_from(number).ok()).collect::<Option<Vec<_>>>()?;
    let [a, b, c, d, e, f, generation] = numbers[..] else { return None };
    numbers.iter().all(|number| *number <= MAX_EXACT).then_some(StoredBudget {
        limit,
        periods: [(a, b, c), (d, e, f)],
        generation,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::Period;

    /// A stored string with one budget, as `states.lua` packs it.
    pub(in crate::store::redis) fn stored(limit: LimitName, numbers: [f64; 7]) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&0_f64.to_le_bytes());
        bytes.extend_from_slice(&[limit_number(limit), BUDGET]);
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }

    #[test]
    fn limits_have_the_numbers_that_the_scripts_know() {
        let script = include_str!("../../../lua/states.lua");
        let names = script.split_once("local LIMITS = {").and_then(|(_, rest)| rest.split_once('}')).expect("the list").0;
        let names: Vec<_> = names.split(',').map(|name| name.trim().trim_matches('\'')).collect();
        assert_eq!(names, LimitName::ALL.map(LimitName::as_str));
        for (n, limit) in (1..).zip(LimitName::ALL) {
            assert_eq!((limit_number(limit), limit_numbered(n)), (n, Some(limit)));
        }
    }

    #[test]
    fn numbers_travel_exactly_and_nothing_else_is_one() {
        let mut packed = Packed::with_capacity(3);
        for number in [0, MAX_EXACT - 1, u64::MAX] {
            packed.number(number);
        }
        let exact = i64::try_from(MAX_EXACT).expect("fits");
        assert_eq!(unpacked(packed.bytes()), Some(vec![0, exact - 1, exact]));
        assert_eq!(unpacked(&[1, 2, 3]), None);
        for odd in [0.5, f64::NAN, f64::INFINITY] {
            assert_eq!(unpacked(&odd.to_le_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn budgets_are_read_and_what_is_not_one_is_told() {
        let day = LimitName::Spend(Period::Day);
        let right = StoredBudget { limit: day, periods: [(9, 5, 2), (8, 1, 0)], generation: 3 };
        let mut bytes = stored(day, [9.0, 5.0, 2.0, 8.0, 1.0, 0.0, 3.0]);
        assert_eq!(budgets(&bytes), Some(vec![Ok(right)]));
        bytes.extend_from_slice(&[limit_number(LimitName::Rpm), BUCKET]);
        bytes.extend_from_slice(&[0; 32]);
        bytes.extend_from_slice(&[limit_number(LimitName::Tpm), WINDOW]);
        bytes.extend([1.0, 7.0, 60.0, 5.0].iter().flat_map(|number: &f64| number.to_le_bytes()));
        assert_eq!(budgets(&bytes), Some(vec![Ok(right)]), "beside other limits");
        assert_eq!(budgets(&bytes[..bytes.len() - 1]), None);
        assert_eq!(budgets(&stored(day, [9.0, -5.0, 2.0, 8.0, 1.0, 0.0, 3.0])), Some(vec![Err(8)]));
        assert_eq!(budgets(&stored(LimitName::Rpm, [0.0; 7])), Some(vec![Err(2)]));
        for strange in [&b""[..], b"x", b"9 5 2 8 1 0 3", b"\x02\0\0\0\0\0\0\0\0"] {
            assert_eq!(budgets(strange), None, "{strange:?}");
        }
    }
}
