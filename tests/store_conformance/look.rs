//! Looking at the limits of a customer: told as an admission would tell it, and nothing is changed.

use crate::fixture::*;
use tollgate::domain::{NanoUsd, Timestamp};
use tollgate::limit::{Claim, LimitName, Outcome, Rule, Scope, ScopeKey};
use tollgate::store::{Look, Seen};

/// What another gateway sees of a customer at noon plus `micros`, asking for one of each.
async fn look(store: &Fixture, micros: u64, customer: ScopeKey, claims: &[Claim]) -> Seen {
    let claims = claims.iter().map(|claim| Claim { amount: 1, ..claim.clone() }).collect();
    store.peer.look(&Look { customer, claims }, Some(NOON.plus(micros))).await.expect("the store answers")
}

fn claims(amount: u64) -> Vec<Claim> {
    let window = Claim { rule: Rule::Window { limit: 3, max_wait: 0 }, ..per_minute(LimitName::Rpm, 1, 1) };
    vec![
        per_minute(LimitName::Messages, 4, 1),
        window,
        dollars(100, amount),
        of(Scope::User, "c/u", per_minute(LimitName::Tpm, 600, 60)),
    ]
}

/// Used, held, remaining and time to reset of each.
fn numbers(seen: &Seen) -> Vec<(u64, u64, u64, u64)> {
    seen.verdicts.iter().map(|verdict| (verdict.used, verdict.held, verdict.remaining, verdict.reset_in)).collect()
}

pub async fn a_look_tells_how_limits_stand_and_what_is_held(store: Fixture) {
    let first = store.ask(0, claims(30)).await;
    let second = store.ask(SECOND, claims(40)).await;
    let other = store.ask(SECOND, vec![of(Scope::Customer, "other", dollars(100, 9))]).await;
    assert!(first.decision.admitted && second.decision.admitted && other.decision.admitted);
    store.settle(2 * SECOND, &first, &[1, 1, 25, 50]).await;

    let seen = look(&store, 2 * SECOND, customer(), &claims(0)).await;
    assert_eq!(seen.at, NOON.plus(2 * SECOND));
    let noon_to_midnight = 12 * HOUR - 2 * SECOND;
    // The bucket of four earns one in 15 s; the user's 600 ten a second.
    let right = [(2, 0, 2, 28 * SECOND), (2, 0, 1, 60 * SECOND), (25, 40, 35, noon_to_midnight), (90, 0, 510, 9 * SECOND)];
    assert_eq!(numbers(&seen), right);
    assert!(seen.verdicts.iter().all(|verdict| verdict.outcome == Outcome::Fits), "{seen:?}");
    let [hold] = &seen.holds[..] else { panic!("one of this customer's is in flight: {seen:?}") };
    assert_eq!((hold.reservation, hold.money), (second.admission.reservation, NanoUsd::new(40)));
    let due = NOON.plus(SECOND + 10 * MINUTE);
    assert!(hold.until.is_none_or(|until: Timestamp| until == due), "{hold:?}");

    let third = store.ask(3 * SECOND, claims(30)).await;
    assert!(third.decision.admitted);
    let seen = look(&store, 4 * SECOND, customer(), &[claims(0)[1].clone(), dollars(25, 0), dollars(95, 0)]).await;
    let outcomes: Vec<_> = seen.verdicts.iter().map(|verdict| verdict.outcome).collect();
    assert_eq!(outcomes, [Outcome::Refused(57 * SECOND), Outcome::Exhausted, Outcome::InFlight], "what it would answer");
    assert_eq!(seen.holds.iter().map(|hold| hold.money.get()).sum::<u64>(), 70);
}

pub async fn a_look_changes_nothing(store: Fixture) {
    let asked = store.ask(0, claims(30)).await;
    for _ in 0..20 {
        look(&store, SECOND, customer(), &claims(0)).await;
        // Also not with what a new day would begin, or a rule of another kind would forget.
        look(&store, 25 * HOUR, customer(), &[dollars(100, 0)]).await;
        look(&store, SECOND, customer(), &[per_minute(LimitName::Rpm, 9, 0)]).await;
    }
    let seen = look(&store, SECOND, customer(), &claims(0)).await;
    assert_eq!(seen.verdicts[0].used, 1, "no message was spent");
    assert_eq!((seen.verdicts[1].used, seen.verdicts[2].held, seen.verdicts[3].used), (1, 30, 50));
    assert_eq!(seen.holds.len(), 1);
    store.settle(2 * SECOND, &asked, &[1, 1, 7, 60]).await;
    let balance = store.balance(&customer()).await;
    assert_eq!((balance.spent, balance.held), (7, 0));
    assert_eq!(look(&store, 2 * SECOND, customer(), &claims(0)).await.holds, []);
}

pub async fn a_look_at_nobody_finds_everything_free(store: Fixture) {
    let nobody = key(Scope::Customer, "nobody");
    let claims = [of(Scope::Customer, "nobody", per_minute(LimitName::Rpm, 5, 1)), of(Scope::Customer, "nobody", dollars(0, 1))];
    let seen = look(&store, 0, nobody.clone(), &claims).await;
    assert_eq!(numbers(&seen), [(0, 0, 5, 0), (0, 0, 0, 12 * HOUR)]);
    assert_eq!((seen.verdicts[0].outcome, seen.verdicts[1].outcome), (Outcome::Fits, Outcome::Exhausted), "a closed door");
    assert_eq!(seen.holds, []);
    assert_eq!(store.ledger.read(&nobody).await, Ok(vec![]), "and nobody it stays");
}
