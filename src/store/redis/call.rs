//! The calls of the scripts, argument by argument. Their contracts stand at the top of each, in `lua/`.
//!
//! Numbers go straight into the command's buffer. Those above 2⁵³ are clamped to it: no limit is larger, so an amount that large is
//! refused either way.

use super::floor::{Floor, Floors};
use super::keys::{Key, KeySet, Shelf};
use crate::config::policy::LostHold;
use crate::domain::{ReservationId, Timestamp};
use crate::limit::bucket::MAX_EXACT;
use crate::limit::{Admission, Claim, LimitName, Measure, Rule, Scope, ScopeKey, Settlement};
use crate::store::{Known, Renewal};
use redis::Cmd;
use std::time::Duration;

/// The latest boundary of a period that still is an exact number of microseconds, in seconds (the year 2255).
const MAX_SECOND: u64 = 9_000_000_000;

/// `EVALSHA` of `admit.lua`.
pub(super) fn admit(sha: &str, admission: &Admission, floors: &Floors, now: Option<Timestamp>) -> Cmd {
    let Admission { customer, claims, .. } = admission;
    let fixed = [Shelf::Holds, Shelf::Leases].map(|shelf| Key { scope: customer, shelf });
    let keys = KeySet::new(&fixed, claims.iter().map(limit_of));
    let mut call = Call::begin(sha, &keys, 9 + 15 * claims.len());
    call.now(now);
    call.admission(&keys, admission, floors);
    call.0
}

/// `EVALSHA` of `admit.lua` behind `known.lua`.
pub(super) fn admit_known(sha: &str, admission: &Admission, known: &Known, floors: &Floors, now: Option<Timestamp>) -> Cmd {
    let Admission { customer, claims, .. } = admission;
    let fixed = [Shelf::Holds, Shelf::Leases].map(|shelf| Key { scope: customer, shelf });
    let last = [Shelf::Said, Shelf::Plans].map(|shelf| Key { scope: customer, shelf });
    let keys = KeySet::new(&fixed, claims.iter().map(limit_of)).with(&last);
    let mut call = Call::begin(sha, &keys, 11 + 15 * claims.len());
    call.now(now);
    call.admission(&keys, admission, floors);
    call.number(known.customer);
    call.number(known.plans);
    call.0
}

/// `SET` of what must be known of a customer, or of the plans.
pub(super) fn tell(customer: Option<&ScopeKey>, number: u64, keep: Option<Duration>) -> Cmd {
    let nobody = ScopeKey { scope: Scope::Customer, owner: "".into() };
    let mut call = redis::cmd("SET");
    match customer {
        Some(customer) => call.arg(Key { scope: customer, shelf: Shelf::Said }),
        None => call.arg(Key { scope: &nobody, shelf: Shelf::Plans }),
    };
    call.arg(number.min(MAX_EXACT));
    if let Some(keep) = keep {
        call.arg("EX").arg(keep.as_secs().clamp(1, MAX_SECOND));
    }
    call
}

/// `EVALSHA` of `replace.lua`.
pub(super) fn replace(sha: &str, old: &Settlement, admission: &Admission, floors: &Floors, now: Option<Timestamp>) -> Cmd {
    let Settlement { customer, lines, .. } = old;
    let fixed = [Shelf::Holds, Shelf::EvenEnds, Shelf::OddEnds, Shelf::Lost, Shelf::Leases];
    let fixed = fixed.map(|shelf| Key { scope: customer, shelf });
    let limits = lines.iter().map(|line| &line.claim).chain(&admission.claims).map(limit_of);
    let keys = KeySet::new(&fixed, limits);
    let mut call = Call::begin(sha, &keys, 11 + 15 * (lines.len() + admission.claims.len()));
    call.now(now);
    call.end(&keys, old, floors);
    call.admission(&keys, admission, floors);
    call.0
}

/// `EVALSHA` of `settle.lua`.
pub(super) fn settle(sha: &str, settlement: &Settlement, floors: &Floors, now: Option<Timestamp>) -> Cmd {
    let Settlement { customer, lines, .. } = settlement;
    let fixed = [Shelf::Holds, Shelf::EvenEnds, Shelf::OddEnds, Shelf::Lost].map(|shelf| Key { scope: customer, shelf });
    let keys = KeySet::new(&fixed, lines.iter().map(|line| limit_of(&line.claim)));
    let mut call = Call::begin(sha, &keys, 3 + 15 * lines.len());
    call.now(now);
    call.end(&keys, settlement, floors);
    call.0
}

/// `EVALSHA` of `renew.lua`.
pub(super) fn renew(sha: &str, renewal: &Renewal, now: Option<Timestamp>) -> Cmd {
    let Renewal { reservation, customer, lease, metered } = renewal;
    let fixed = [Shelf::Holds, Shelf::Leases].map(|shelf| Key { scope: customer, shelf });
    let mut call = Call::begin(sha, &KeySet::new(&fixed, std::iter::empty()), 5);
    call.now(now);
    call.id(*reservation);
    call.text(&customer.owner);
    call.number(*lease);
    call.number(*metered);
    call.0
}

/// `EVALSHA` of `sweep.lua`.
pub(super) fn sweep(sha: &str, customer: &ScopeKey, lost_hold: LostHold, most: u64, now: Option<Timestamp>) -> Cmd {
    let fixed = [Shelf::Holds, Shelf::Leases, Shelf::Lost].map(|shelf| Key { scope: customer, shelf });
    let mut call = Call::begin(sha, &KeySet::new(&fixed, std::iter::empty()), 4);
    call.now(now);
    call.text(&customer.owner);
    call.flag(lost_hold == LostHold::Charge);
    call.number(most);
    call.0
}

fn limit_of(claim: &Claim) -> (&ScopeKey, LimitName) {
    (&claim.scope, claim.limit)
}

/// A command under construction.
struct Call(Cmd);

impl Call {
    fn begin(sha: &str, keys: &KeySet<'_>, args: usize) -> Self {
        let keys = keys.keys();
        let mut cmd = Cmd::with_capacity(3 + keys.len() + args, 64 + 48 * keys.len() + 8 * args);
        cmd.arg("EVALSHA").arg(sha).arg(keys.len()).arg(keys);
        Self(cmd)
    }

    /// The argument that all scripts begin with. Zero stands for the server's own time.
    fn now(&mut self, now: Option<Timestamp>) {
        self.number(now.map_or(0, Timestamp::micros));
    }

    fn id(&mut self, reservation: ReservationId) {
        self.0.arg(Hex(reservation));
    }

    /// An admission as `claims.lua` reads it.
    fn admission(&mut self, keys: &KeySet<'_>, admission: &Admission, floors: &Floors) {
        let Admission { reservation, customer, claims, elastic, lease } = admission;
        self.id(*reservation);
        self.text(&customer.owner);
        self.number(*lease);
        let (fixed, per_token, wanted, floor) = elastic.map_or((0, 0, 0, 0), |e| (e.fixed, e.per_token, e.wanted, e.floor));
        for n in [fixed, per_token, wanted, floor, claims.len() as u64] {
            self.number(n);
        }
        for claim in claims {
            let (scope, limit) = limit_of(claim);
            self.number(keys.index(scope, limit) as u64);
            self.text(limit.as_str());
            self.text(match claim.measure {
                Measure::Message => "m",
                Measure::Money => "$",
                Measure::Request | Measure::Tokens | Measure::Input | Measure::Output | Measure::Reserved => "-",
            });
            self.flag(claim.is_ceiling());
            self.number(claim.amount);
            self.number(match claim.rule {
                Rule::Bucket { max_wait, .. } | Rule::Window { max_wait, .. } => max_wait,
                Rule::Budget { .. } => 0,
            });
            self.rule(claim, floors);
        }
    }

    /// The end of a reservation as `ends.lua` reads it.
    fn end(&mut self, keys: &KeySet<'_>, settlement: &Settlement, floors: &Floors) {
        self.id(settlement.reservation);
        self.number(settlement.lines.len() as u64);
        for line in &settlement.lines {
            let (scope, limit) = limit_of(&line.claim);
            self.number(keys.index(scope, limit) as u64);
            self.text(limit.as_str());
            self.number(line.claim.amount);
            self.number(line.actual);
            self.number(line.booked);
            self.flag(matches!(line.claim.rule, Rule::Bucket { forgive: true, .. }));
            self.rule(&line.claim, floors);
        }
    }

    fn number(&mut self, n: u64) {
        self.0.arg(n.min(MAX_EXACT));
    }

    fn text(&mut self, text: &str) {
        self.0.arg(text);
    }

    fn flag(&mut self, on: bool) {
        self.text(if on { "1" } else { "0" });
    }

    fn rule(&mut self, claim: &Claim, floors: &Floors) {
        match &claim.rule {
            Rule::Bucket { bucket, .. } => {
                self.text("b");
                for n in [bucket.capacity(), bucket.gain(), bucket.unit()] {
                    self.number(n);
                }
            }
            Rule::Window { limit, .. } => {
                self.text("w");
                self.number(*limit);
            }
            Rule::Budget { cap, boundaries } => {
                self.text("m");
                self.number(*cap);
                for start in boundaries.0 {
                    self.number(start.min(MAX_SECOND));
                }
                let Floor { period, generation, spent } = floors.of(&claim.scope, claim.limit);
                for n in [period, generation, spent] {
                    self.number(n);
                }
            }
        }
    }
}

/// A reservation id as the scripts know it: 32 hexadecimal digits.
struct Hex(ReservationId);

impl redis::ToRedisArgs for Hex {
    fn write_redis_args<W: ?Sized + redis::RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Boundaries, Period};
    use crate::limit::{Bucket, Line};

    fn words(cmd: &Cmd) -> String {
        let word = |arg| match arg {
            redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::from("?"),
        };
        cmd.args_iter().map(word).collect::<Vec<_>>().join(" ")
    }

    fn claims() -> Vec<Claim> {
        let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
        let bucket = Bucket::new(10, 10, 60_000_000).expect("exact");
        let rpm = Rule::Bucket { bucket, max_wait: 5, forgive: true };
        let day = Rule::Budget { cap: u64::MAX, boundaries: Boundaries([1, 2, 3, u64::MAX]) };
        vec![
            Claim { scope: customer.clone(), limit: LimitName::Rpm, rule: rpm, measure: Measure::Request, amount: 1 },
            Claim { scope: customer, limit: LimitName::Spend(Period::Day), rule: day, measure: Measure::Money, amount: 7 },
        ]
    }

    #[test]
    fn an_admission_is_spelled_as_the_script_reads_it() {
        let claims = claims();
        let customer = claims[0].scope.clone();
        let admission = Admission { reservation: ReservationId::new(255), customer, claims, elastic: None, lease: 60 };
        assert_eq!(
            words(&admit("SHA", &admission, &Floors::new(9), Some(Timestamp(9)))),
            "EVALSHA SHA 4 tg1:{c:c}:holds tg1:{shared}:leases tg1:{c:c}:rates tg1:{c:c}:budgets \
             9 000000000000000000000000000000ff c 60 0 0 0 0 2 3 rpm - 0 1 5 b 10 1 6000000 4 spend_day $ 0 7 0 m 9007199254740992 1 2 3 9000000000 0 0 0"
        );
    }

    #[test]
    fn a_settlement_is_spelled_as_the_script_reads_it() {
        let lines = claims().into_iter().map(|claim| Line { claim, actual: 4, booked: 2 }).collect::<Vec<_>>();
        let customer = lines[0].claim.scope.clone();
        let settlement = Settlement { reservation: ReservationId::new(1), customer, lines };
        assert_eq!(
            words(&settle("SHA", &settlement, &Floors::new(9), None)),
            "EVALSHA SHA 6 tg1:{c:c}:holds tg1:{c:c}:ends0 tg1:{c:c}:ends1 tg1:{c:c}:lost tg1:{c:c}:rates tg1:{c:c}:budgets \
             0 00000000000000000000000000000001 2 5 rpm 1 4 2 1 b 10 1 6000000 6 spend_day 7 4 2 0 m 9007199254740992 1 2 3 9000000000 0 0 0"
        );
    }

    #[test]
    fn a_replacement_is_an_end_and_an_admission_over_one_set_of_keys() {
        let mut claims = claims();
        let lines = vec![Line { claim: claims.remove(1), actual: 4, booked: 2 }];
        let customer = lines[0].claim.scope.clone();
        let old = Settlement { reservation: ReservationId::new(1), customer: customer.clone(), lines };
        let admission = Admission { reservation: ReservationId::new(255), customer, claims, elastic: None, lease: 60 };
        assert_eq!(
            words(&replace("SHA", &old, &admission, &Floors::new(9), Some(Timestamp(9)))),
            "EVALSHA SHA 7 tg1:{c:c}:holds tg1:{c:c}:ends0 tg1:{c:c}:ends1 tg1:{c:c}:lost tg1:{shared}:leases tg1:{c:c}:budgets \
             tg1:{c:c}:rates 9 00000000000000000000000000000001 1 6 spend_day 7 4 2 0 m 9007199254740992 1 2 3 9000000000 0 0 0 \
             000000000000000000000000000000ff c 60 0 0 0 0 1 7 rpm - 0 1 5 b 10 1 6000000"
        );
    }

    #[test]
    fn a_renewal_and_a_sweep_are_spelled_as_the_scripts_read_them() {
        let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
        let renewal = Renewal { reservation: ReservationId::new(255), customer: customer.clone(), lease: 60, metered: 7 };
        assert_eq!(
            words(&renew("SHA", &renewal, Some(Timestamp(9)))),
            "EVALSHA SHA 2 tg1:{c:c}:holds tg1:{shared}:leases 9 000000000000000000000000000000ff c 60 7"
        );
        for (lost_hold, word) in [(LostHold::Charge, 1), (LostHold::Release, 0)] {
            assert_eq!(
                words(&sweep("SHA", &customer, lost_hold, 16, None)),
                format!("EVALSHA SHA 3 tg1:{{c:c}}:holds tg1:{{shared}}:leases tg1:{{c:c}}:lost 0 c {word} 16")
            );
        }
    }
}
