//! The calls of the scripts, argument by argument. Their contracts stand at the top of each, in `lua/`.
//!
//! Numbers go straight into the command's buffer. Those above 2⁵³ are clamped to it: no limit is larger, so an amount that large is
//! refused either way.

use super::floor::{Floor, Floors};
use super::keys::{Key, KeySet, Shelf};
use super::slots::Group;
use crate::config::policy::LostHold;
use crate::domain::{ReservationId, Timestamp};
use crate::limit::bucket::MAX_EXACT;
use crate::limit::{Admission, Claim, Elastic, LimitName, Line, Measure, Rule, ScopeKey, Settlement};
use crate::store::{Known, Renewal};
use redis::Cmd;
use std::time::Duration;

/// The latest boundary of a period that still is an exact number of microseconds, in seconds (the year 2255).
const MAX_SECOND: u64 = 9_000_000_000;

/// What becomes of claims that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// They are taken.
    Take,
    /// They are taken for now: unless the hold is confirmed it is given back when its lease is over.
    Provisional,
    /// Another group refused the request: nothing is taken but the message, and the answer says how it stands here.
    Refused,
}

/// One call of `admit.lua`: what an admission asks of one group of books.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    /// The whole admission.
    pub(super) admission: &'a Admission,
    /// Which of its claims.
    pub(super) group: Group,
    /// What becomes of them.
    pub(super) mode: Mode,
    /// Microseconds until the hold is taken for lost.
    pub(super) lease: u64,
    /// Microseconds for which the request waits for limits of another group.
    pub(super) waits: u64,
    /// The output cap that another group granted, where it is smaller than the one wanted.
    pub(super) granted: Option<u64>,
}

impl<'a> Ask<'a> {
    /// Takes everything an admission asks of this group.
    pub(super) const fn all(admission: &'a Admission, group: Group) -> Self {
        Self { admission, group, mode: Mode::Take, lease: admission.lease, waits: 0, granted: None }
    }

    /// Its claims, in the order of the admission.
    pub(super) fn claims(&self) -> impl Iterator<Item = &'a Claim> + Clone + use<'a> {
        let group = self.group;
        self.admission.claims.iter().filter(move |claim| group.keeps(claim.scope.scope))
    }

    /// `EVALSHA` of `admit.lua`.
    pub(super) fn command(&self, sha: &str, floors: &Floors, now: Option<Timestamp>) -> Cmd {
        let keys = KeySet::new(self.group, &self.admission.customer, &[Shelf::Holds, Shelf::Leases], self.claims().map(limit_of));
        let mut call = Call::begin(sha, &keys, 11 + 15 * self.admission.claims.len());
        call.now(now);
        call.admission(&keys, self, floors);
        call.0
    }

    /// `EVALSHA` of `admit.lua` behind `known.lua`, on one server.
    pub(super) fn command_known(&self, sha: &str, known: &Known, floors: &Floors, now: Option<Timestamp>) -> Cmd {
        let customer = &self.admission.customer;
        let last = known_keys(customer, self.group);
        let keys = KeySet::new(self.group, customer, &[Shelf::Holds, Shelf::Leases], self.claims().map(limit_of)).with(&last);
        let mut call = Call::begin(sha, &keys, 13 + 15 * self.admission.claims.len());
        call.now(now);
        call.admission(&keys, self, floors);
        call.number(known.customer);
        call.number(known.plans);
        call.0
    }
}

/// Where the numbers stand that must be known: of the customer's overrides, of the plans.
pub(super) const fn known_keys(customer: &ScopeKey, group: Group) -> [Key<'_>; 2] {
    [Key { scope: customer, shelf: Shelf::Said, group }, Key { scope: customer, shelf: Shelf::Plans, group }]
}

/// `EVALSHA` of `replace.lua`: takes what is asked in the place of the lines that lie in the same group.
pub(super) fn replace(sha: &str, old: &Settlement, ask: &Ask<'_>, floors: &Floors, now: Option<Timestamp>) -> Cmd {
    const FIXED: [Shelf; 5] = [Shelf::Holds, Shelf::EvenEnds, Shelf::OddEnds, Shelf::Lost, Shelf::Leases];
    let limits = lines_in(ask.group, old).map(|line| &line.claim).chain(ask.claims()).map(limit_of);
    let keys = KeySet::new(ask.group, &old.customer, &FIXED, limits);
    let mut call = Call::begin(sha, &keys, 13 + 15 * (old.lines.len() + ask.admission.claims.len()));
    call.now(now);
    call.end(&keys, ask.group, old, floors);
    call.admission(&keys, ask, floors);
    call.0
}

/// `SET` of what must be known of a customer, or of the plans.
pub(super) fn tell(key: Key<'_>, number: u64, keep: Option<Duration>) -> Cmd {
    let mut call = redis::cmd("SET");
    call.arg(key).arg(number.min(MAX_EXACT));
    if let Some(keep) = keep {
        call.arg("EX").arg(keep.as_secs().clamp(1, MAX_SECOND));
    }
    call
}

/// `EVALSHA` of `settle.lua`, about the lines that lie in this group. `charged`: as far as other groups know, its rates were.
pub(super) fn settle(
    sha: &str,
    group: Group,
    settlement: &Settlement,
    charged: bool,
    floors: &Floors,
    now: Option<Timestamp>,
) -> Cmd {
    const FIXED: [Shelf; 4] = [Shelf::Holds, Shelf::EvenEnds, Shelf::OddEnds, Shelf::Lost];
    let (keys, mut call) = correct(sha, group, &FIXED, settlement, now);
    call.flag(charged);
    call.end(&keys, group, settlement, floors);
    call.0
}

/// `EVALSHA` of `lower.lua`: takes claims of this group back, down to what the lines give as used.
pub(super) fn lower(sha: &str, group: Group, lines: &Settlement, floors: &Floors, now: Option<Timestamp>) -> Cmd {
    let (keys, mut call) = correct(sha, group, &[Shelf::Holds], lines, now);
    call.end(&keys, group, lines, floors);
    call.0
}

fn correct<'a>(
    sha: &str,
    group: Group,
    fixed: &[Shelf],
    settlement: &'a Settlement,
    now: Option<Timestamp>,
) -> (KeySet<'a>, Call) {
    let limits = lines_in(group, settlement).map(|line| limit_of(&line.claim));
    let keys = KeySet::new(group, &settlement.customer, fixed, limits);
    let mut call = Call::begin(sha, &keys, 4 + 15 * settlement.lines.len());
    call.now(now);
    (keys, call)
}

/// The lines of a settlement that lie in a group.
pub(super) fn lines_in(group: Group, settlement: &Settlement) -> impl Iterator<Item = &Line> + Clone {
    settlement.lines.iter().filter(move |line| group.keeps(line.claim.scope.scope))
}

/// `EVALSHA` of `renew.lua`.
pub(super) fn renew(sha: &str, group: Group, renewal: &Renewal, now: Option<Timestamp>) -> Cmd {
    let Renewal { reservation, customer, lease, metered } = renewal;
    let keys = KeySet::new(group, customer, &[Shelf::Holds, Shelf::Leases], std::iter::empty());
    let mut call = Call::begin(sha, &keys, 5);
    call.now(now);
    call.id(*reservation);
    call.text(&customer.owner);
    call.number(*lease);
    call.number(*metered);
    call.0
}

/// One call of `sweep.lua`.
#[derive(Clone, Copy)]
pub(super) struct Sweep<'a> {
    /// Whose holds.
    pub(super) customer: &'a ScopeKey,
    /// Of which group.
    pub(super) group: Group,
    /// What becomes of them.
    pub(super) lost_hold: LostHold,
    /// How many of them at most.
    pub(super) most: u64,
    /// Further hashes that their records name; in a cluster only records whose hashes are declared are booked.
    pub(super) named: &'a [String],
}

impl Sweep<'_> {
    /// `EVALSHA` of `sweep.lua`.
    pub(super) fn command(&self, sha: &str, now: Option<Timestamp>) -> Cmd {
        let Self { customer, group, lost_hold, most, named } = *self;
        let clustered = group != Group::Whole;
        let own = [Shelf::Holds, Shelf::Leases, Shelf::Lost].map(|shelf| Key { scope: customer, shelf, group });
        let mut keys: Vec<String> = own.iter().map(ToString::to_string).collect();
        if group == Group::Customer {
            keys.push(Key { scope: customer, shelf: Shelf::Budgets, group }.to_string());
        }
        let more: Vec<_> = named.iter().filter(|key| !keys.contains(key)).cloned().collect();
        keys.extend(more);
        let mut call = Call(redis::cmd("EVALSHA"));
        call.0.arg(sha).arg(keys.len()).arg(keys);
        call.now(now);
        call.text(&customer.owner);
        call.flag(lost_hold == LostHold::Charge);
        call.number(most);
        call.flag(clustered);
        call.0
    }
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
    fn admission(&mut self, keys: &KeySet<'_>, ask: &Ask<'_>, floors: &Floors) {
        let Ask { admission, group: _, mode, lease, waits, granted } = *ask;
        self.id(admission.reservation);
        self.text(&admission.customer.owner);
        self.number(lease);
        self.text(match mode {
            Mode::Take => "t",
            Mode::Provisional => "p",
            Mode::Refused => "r",
        });
        self.number(waits);
        let elastic = |e: &Elastic| (e.fixed, e.per_token, granted.unwrap_or(e.wanted), e.floor);
        let (fixed, per_token, wanted, floor) = admission.elastic.as_ref().map_or((0, 0, 0, 0), elastic);
        let lowered = admission.cost_of(granted);
        for n in [fixed, per_token, wanted, floor, ask.claims().count() as u64] {
            self.number(n);
        }
        for claim in ask.claims() {
            let (scope, limit) = limit_of(claim);
            self.number(keys.index(scope, limit) as u64);
            self.text(limit.as_str());
            self.text(match claim.measure {
                Measure::Message => "m",
                Measure::Money => "$",
                Measure::Request | Measure::Tokens | Measure::Input | Measure::Output | Measure::Reserved => "-",
            });
            self.flag(claim.is_ceiling());
            self.number(lowered.filter(|_| claim.measure == Measure::Money).unwrap_or(claim.amount));
            self.number(match claim.rule {
                Rule::Bucket { max_wait, .. } | Rule::Window { max_wait, .. } => max_wait,
                Rule::Budget { .. } => 0,
            });
            self.rule(claim, floors);
        }
    }

    /// The end of a reservation as `ends.lua` reads it.
    fn end(&mut self, keys: &KeySet<'_>, group: Group, settlement: &Settlement, floors: &Floors) {
        self.id(settlement.reservation);
        self.number(lines_in(group, settlement).count() as u64);
        for line in lines_in(group, settlement) {
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
            Rule::Bucket { bucket, mirrors, .. } => {
                self.text("b");
                for n in [bucket.capacity(), bucket.gain(), bucket.unit()] {
                    self.number(n);
                }
                self.flag(*mirrors);
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
    use crate::limit::{Bucket, Scope};

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
        let rpm = Rule::Bucket { bucket, max_wait: 5, forgive: true, mirrors: false };
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
            words(&Ask::all(&admission, Group::Whole).command("SHA", &Floors::new(9), Some(Timestamp(9)))),
            "EVALSHA SHA 4 tg1:{c:c}:holds tg1:{shared}:leases tg1:{c:c}:rates tg1:{c:c}:budgets \
             9 000000000000000000000000000000ff c 60 t 0 0 0 0 0 2 3 rpm - 0 1 5 b 10 1 6000000 0 4 spend_day $ 0 7 0 m 9007199254740992 1 2 3 9000000000 0 0 0"
        );
    }

    #[test]
    fn a_settlement_is_spelled_as_the_script_reads_it() {
        let lines = claims().into_iter().map(|claim| Line { claim, actual: 4, booked: 2 }).collect::<Vec<_>>();
        let customer = lines[0].claim.scope.clone();
        let settlement = Settlement { reservation: ReservationId::new(1), customer, lines };
        assert_eq!(
            words(&settle("SHA", Group::Whole, &settlement, true, &Floors::new(9), None)),
            "EVALSHA SHA 6 tg1:{c:c}:holds tg1:{c:c}:ends0 tg1:{c:c}:ends1 tg1:{c:c}:lost tg1:{c:c}:rates tg1:{c:c}:budgets \
             0 1 00000000000000000000000000000001 2 5 rpm 1 4 2 1 b 10 1 6000000 0 6 spend_day 7 4 2 0 m 9007199254740992 1 2 3 9000000000 0 0 0"
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
            words(&replace("SHA", &old, &Ask::all(&admission, Group::Whole), &Floors::new(9), Some(Timestamp(9)))),
            "EVALSHA SHA 7 tg1:{c:c}:holds tg1:{c:c}:ends0 tg1:{c:c}:ends1 tg1:{c:c}:lost tg1:{shared}:leases tg1:{c:c}:budgets \
             tg1:{c:c}:rates 9 00000000000000000000000000000001 1 6 spend_day 7 4 2 0 m 9007199254740992 1 2 3 9000000000 0 0 0 \
             000000000000000000000000000000ff c 60 t 0 0 0 0 0 1 7 rpm - 0 1 5 b 10 1 6000000 0"
        );
    }

    #[test]
    fn a_renewal_and_a_sweep_are_spelled_as_the_scripts_read_them() {
        let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
        let renewal = Renewal { reservation: ReservationId::new(255), customer: customer.clone(), lease: 60, metered: 7 };
        assert_eq!(
            words(&renew("SHA", Group::Whole, &renewal, Some(Timestamp(9)))),
            "EVALSHA SHA 2 tg1:{c:c}:holds tg1:{shared}:leases 9 000000000000000000000000000000ff c 60 7"
        );
        for (lost_hold, word) in [(LostHold::Charge, 1), (LostHold::Release, 0)] {
            assert_eq!(
                words(&Sweep { customer: &customer, group: Group::Whole, lost_hold, most: 16, named: &[] }.command("SHA", None)),
                format!("EVALSHA SHA 3 tg1:{{c:c}}:holds tg1:{{shared}}:leases tg1:{{c:c}}:lost 0 c {word} 16 0")
            );
        }
    }

    #[test]
    fn in_a_cluster_a_call_is_about_one_group_only() {
        let mut claims = claims();
        let customer = claims[0].scope.clone();
        let app = ScopeKey { scope: Scope::App, owner: "shop".into() };
        claims.push(Claim { scope: app, ..claims[1].clone() });
        let elastic = Elastic::new(1_000, 500, 12, 2);
        let admission =
            Admission { reservation: ReservationId::new(255), customer: customer.clone(), claims, elastic, lease: 60 };
        let part = super::super::slots::Tag::of("c");
        let first = Ask { mode: Mode::Provisional, lease: 5, ..Ask::all(&admission, Group::Customer) };
        assert_eq!(
            words(&first.command("SHA", &Floors::new(9), None)),
            format!(
                "EVALSHA SHA 4 tg1:{part}:c:c:holds tg1:{part}:leases tg1:{part}:c:c:rates tg1:{part}:c:c:budgets \
                 0 000000000000000000000000000000ff c 5 p 0 1000 500 12 2 2 3 rpm - 0 1 5 b 10 1 6000000 0 4 spend_day $ 0 7 0 m \
                 9007199254740992 1 2 3 9000000000 0 0 0"
            )
        );
        let second = Ask { waits: 7, granted: Some(4), ..Ask::all(&admission, Group::Shared) };
        assert_eq!(
            words(&second.command("SHA", &Floors::new(9), None)),
            "EVALSHA SHA 3 tg1:{shared}:c:c:holds tg1:{shared}:leases tg1:{shared}:app:shop:budgets \
             0 000000000000000000000000000000ff c 60 t 7 1000 500 4 2 1 3 spend_day $ 0 3 0 m 9007199254740992 1 2 3 9000000000 0 0 0"
        );
        let named = [format!("tg1:{part}:c:c:user:u:budgets"), format!("tg1:{part}:c:c:budgets")];
        let sweep = Sweep { customer: &customer, group: Group::Customer, lost_hold: LostHold::Charge, most: 16, named: &named };
        assert_eq!(
            words(&sweep.command("SHA", None)),
            format!(
                "EVALSHA SHA 5 tg1:{part}:c:c:holds tg1:{part}:leases tg1:{part}:c:c:lost tg1:{part}:c:c:budgets \
                 tg1:{part}:c:c:user:u:budgets 0 c 1 16 1"
            )
        );
    }
}
