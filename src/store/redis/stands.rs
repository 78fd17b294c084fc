//! How limits stood after each request of a call that was decided or ended over sums (see [`super::sums`]): worked out from how they stand
//! after all of them, which is what the script answers.

use super::call::{Ask, MAX_SECOND};
use super::reply::{Answers, Decided, Settled, of_bucket, of_budget};
use super::sums::totals;
use super::told::Told;
use crate::domain::Timestamp;
use crate::limit::bucket::MAX_EXACT;
use crate::limit::{BucketState, Decision, Line, Outcome, Rule};
use crate::store::StoreError;
use redis::Value;

/// Begins the answer to admissions that were decided so, behind the time, and to ends.
const ADMITTED: i64 = 3;
const ENDED: i64 = 5;

/// How one limit stands.
#[derive(Clone, Copy, Default)]
struct Stands {
    /// Units in a bucket, or what is spent of a budget.
    left: i64,
    held: u64,
    generation: u64,
}

/// What was decided so; `None` where it was not.
pub(super) fn decided(reply: &Value, told: &Told<'_>, asks: &[Ask<'_>]) -> Result<Option<Vec<Decided>>, StoreError> {
    let mut answers = Answers::of("admit", reply)?;
    let at = Timestamp(answers.natural()?);
    if answers.next()? != ADMITTED {
        return Ok(None);
    }
    let beyond = || StoreError::Failed(String::from("admit says that a limit stands as it cannot"));
    // How they stand after all of them, and so how they stood before.
    let mut limits = Vec::with_capacity(told.count());
    for (limit, total) in told.limits().iter().zip(totals(told, asks)) {
        limits.push(if limit.claim.is_budget() {
            let [spent, held, generation] = [answers.natural()?, answers.natural()?, answers.natural()?];
            Stands { left: spent.cast_signed(), held: held.checked_sub(total).ok_or_else(beyond)?, generation }
        } else {
            let before = answers.natural()?.checked_add(total).and_then(|left| i64::try_from(left).ok());
            Stands { left: before.ok_or_else(beyond)?, ..Stands::default() }
        });
    }
    answers.end()?;
    let mut places = told.in_order();
    let mut one = |ask: &Ask<'_>| {
        let (mut verdicts, mut generations) = (Vec::new(), Vec::new());
        for (claim, place) in ask.claims().zip(&mut places) {
            let (stands, amount) = (&mut limits[place - 1], ask.amount(claim));
            verdicts.push(match claim.rule {
                Rule::Bucket { bucket, .. } => {
                    stands.left -= (amount * bucket.unit()).cast_signed();
                    of_bucket(Outcome::Fits, bucket, BucketState::of(stands.left, at, bucket.unit()), at)
                }
                Rule::Budget { cap, boundaries } => {
                    stands.held += amount;
                    let start = boundaries.at(at).0.min(MAX_SECOND);
                    of_budget(Outcome::Fits, cap, boundaries, [stands.left.unsigned_abs(), stands.held, start], at)
                }
                Rule::Window { .. } => unreachable!("no call with a window is summed"),
            });
            generations.push(stands.generation);
        }
        let decision = Decision { at, admitted: true, start_in: 0, granted: None, verdicts };
        Decided { decision, generations, repaired: 0 }
    };
    Ok(Some(asks.iter().map(&mut one).collect()))
}

/// What was ended so; `None` where it was not.
pub(super) fn settled<'a, L>(
    reply: &Value,
    told: &Told<'_>,
    ends: impl Iterator<Item = L> + Clone,
) -> Result<Option<Vec<Settled>>, StoreError>
where
    L: Iterator<Item = &'a Line>,
{
    let mut answers = Answers::of("settle", reply)?;
    if answers.next()? != ENDED {
        return Ok(None);
    }
    let mut limits = vec![Stands::default(); told.count()];
    for (stands, limit) in limits.iter_mut().zip(told.limits()) {
        if limit.claim.is_budget() {
            let [spent, generation] = [answers.natural()?, answers.natural()?];
            *stands = Stands { left: spent.cast_signed(), held: 0, generation };
        }
    }
    answers.end()?;
    for (line, place) in ends.clone().flatten().zip(told.in_order()).filter(|(line, _)| line.claim.is_budget()) {
        limits[place - 1].left -= line.actual.min(MAX_EXACT).cast_signed();
    }
    if limits.iter().any(|stands| stands.left < 0) {
        return Err(StoreError::Failed(String::from("settle says that less is spent than was")));
    }
    let mut places = told.in_order();
    let mut one = |lines: L| {
        let mut left = Vec::new();
        for (line, place) in lines.zip(&mut places).filter(|(line, _)| line.claim.is_budget()) {
            let stands = &mut limits[place - 1];
            stands.left += line.actual.min(MAX_EXACT).cast_signed();
            left.push([stands.left.unsigned_abs(), stands.generation]);
        }
        Settled { known: !left.is_empty(), repaired: 0, left }
    };
    Ok(Some(ends.map(&mut one).collect()))
}

#[cfg(test)]
mod tests {
    use super::super::call;
    use super::super::floor::Floors;
    use super::super::slots::Group;
    use super::*;
    use crate::domain::{Boundaries, Period, ReservationId};
    use crate::limit::{Admission, Bucket, Claim, LimitName, Measure, Scope, ScopeKey, Settlement};

    fn customer() -> ScopeKey {
        ScopeKey { scope: Scope::Customer, owner: "c".into() }
    }

    /// Of ten a minute, and of a budget of a hundred.
    fn claims(tokens: u64, money: u64) -> Vec<Claim> {
        let bucket = Bucket::new(10, 60_000_000, 60_000_000).expect("exact");
        let rule = Rule::Bucket { bucket, max_wait: 0, forgive: true, mirrors: false };
        let rpm = Claim { scope: customer(), limit: LimitName::Rpm, rule, measure: Measure::Request, amount: tokens };
        let rule = Rule::Budget { cap: 100, boundaries: Boundaries([0, 100, 200, 300]) };
        vec![rpm.clone(), Claim { limit: LimitName::Spend(Period::Day), rule, measure: Measure::Money, amount: money, ..rpm }]
    }

    fn packed(numbers: &[i32]) -> Value {
        Value::BulkString(numbers.iter().flat_map(|number| f64::from(*number).to_le_bytes()).collect())
    }

    #[test]
    fn how_limits_stand_after_each_is_told_from_how_they_stand_after_all() {
        let admission = |id, tokens, money| Admission {
            reservation: ReservationId::new(id),
            customer: customer(),
            claims: claims(tokens, money),
            elastic: None,
            lease: 60,
        };
        let admissions = [admission(1, 2, 30), admission(2, 3, 20)];
        let asks = admissions.each_ref().map(|admission| Ask::all(admission, Group::Whole));
        let (_, told) = call::admit("SHA", &asks, &Floors::new(9), None);
        let decided = |numbers: &[i32]| {
            let all = decided(&packed(numbers), &told, &asks).map(Option::unwrap_or_default)?;
            let of = |one: Decided| one.decision.verdicts.iter().map(|v| (v.used, v.held, v.remaining)).collect::<Vec<_>>();
            Ok::<_, StoreError>(all.into_iter().map(of).collect::<Vec<_>>())
        };
        // Before them were nine tokens, twelve spent and five held.
        let right = vec![vec![(3, 0, 7), (12, 35, 53)], vec![(6, 0, 4), (12, 55, 33)]];
        assert_eq!(decided(&[9, 3, 4, 12, 55, 1]), Ok(right));
        assert_eq!(decided(&[9, 1, 0]), Ok(vec![]), "decided one by one");
        for strange in [&[9, 3, 4, 12, 49, 1][..], &[9, 3, -1, 12, 55, 1], &[9, 3, 4, 12, 55], &[9, 3, 4, 12, 55, 1, 0]] {
            assert!(decided(strange).is_err(), "{strange:?}");
        }
    }

    #[test]
    fn what_is_spent_after_each_end_is_told_from_what_is_spent_after_all() {
        let line = |actual| claims(2, 30).into_iter().map(move |claim| Line { claim, actual, booked: 0 });
        let end =
            |id, actual| Settlement { reservation: ReservationId::new(id), customer: customer(), lines: line(actual).collect() };
        let ends = [end(1, 4), end(2, 5)];
        let (_, told) = call::settle("SHA", Group::Whole, &[(&ends[0], true), (&ends[1], true)], &Floors::new(9), None);
        let settled = |numbers: &[i32]| {
            let all = settled(&packed(numbers), &told, ends.iter().map(|end| end.lines.iter()));
            all.map(|all| all.map(|all| all.into_iter().map(|one| (one.known, one.repaired, one.left)).collect::<Vec<_>>()))
        };
        let right = vec![(true, 0, vec![[10, 7]]), (true, 0, vec![[15, 7]])];
        assert_eq!(settled(&[5, 15, 7]), Ok(Some(right)));
        assert_eq!(settled(&[1, 0, 15, 7]), Ok(None), "ended one by one");
        for strange in [&[5, 8, 7][..], &[5, 15], &[5, 15, 7, 0]] {
            assert!(settled(strange).is_err(), "{strange:?}");
        }
    }
}
