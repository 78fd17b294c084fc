use super::*;
use crate::domain::{Boundaries, Period, ReservationId};
use crate::limit::{Bucket, Elastic, LimitName, Rule, Scope};
use crate::store::redis::stored;

/// The arguments of a command: numbers where they are packed ones, text where not.
fn words(cmd: &Cmd) -> Vec<String> {
    let word = |arg| match arg {
        redis::Arg::Simple(bytes) => match stored::unpacked(bytes) {
            Some(numbers) if !numbers.is_empty() => numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" "),
            _ => String::from_utf8_lossy(bytes).into_owned(),
        },
        _ => String::from("?"),
    };
    cmd.args_iter().map(word).collect()
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

const ID: &str = "000000000000000000000000000000ff";
/// Both claims as `call.lua` reads them: two rules, two limits, none of them twice.
const TOLD: &str = "2 2 0 98 5 0 0 1 10 1 6000000 0 109 0 2 0 0 9007199254740992 1 2 3 9000000000 1 2 1 1 8 2 0 0 0";

/// Both, and their rules, as `together.lua` reads them.
const SORTS: &str = "25090 60000000 1 6000000 0 1 27912 9007199254740992 1 2 3 9000000000";
/// What stands behind the limits there.
const END: &str = "0 0 0 0";

#[test]
fn an_admission_is_packed_as_the_script_reads_it() {
    let claims = claims();
    let customer = claims[0].scope.clone();
    let admission = Admission { reservation: ReservationId::new(255), customer, claims, elastic: None, lease: 60 };
    let known = Some(Known { customer: 8, plans: 6 });
    let ask = Ask { known, ..Ask::all(&admission, Group::Whole) };
    let plain = Ask { known: None, ..ask };
    let asked = "4 5 0 60 0 0 0 0 0 2 1 1 2 7";
    let numbers = format!("9 1 3 2 {TOLD} 2 3 8 6 {asked} 0 0 0 0 {asked}");
    let record = "|tg1:{c:c}:limits spend_day 1 7";
    let sums = format!("9 1 3 2 5 60 0 2 4 4 8 6 {SORTS} 1 1 12000000 1 2 14 1 0 0 0 {END}");
    let right = [
        &["EVALSHA", "SHA", "5", "tg1:{c:c}:limits", "tg1:{c:c}:said", "tg1:{shared}:plans"][..],
        &["tg1:{c:c}:holds", "tg1:{shared}:leases", &numbers, ID, "c", ID, "c", record, record, &sums],
    ];
    assert_eq!(words(&admit("SHA", &[ask, plain], &Floors::new(9), Some(Timestamp(9))).0), right.concat());
}

#[test]
fn a_limit_is_told_once_and_twice_under_two_rules() {
    let claims = claims();
    let customer = claims[0].scope.clone();
    let of = |id, claims: Vec<Claim>| Admission {
        reservation: ReservationId::new(id),
        customer: customer.clone(),
        claims,
        elastic: None,
        lease: 60,
    };
    let wider = Claim { rule: Rule::Window { limit: 7, max_wait: 0 }, ..claims[0].clone() };
    let other = ScopeKey { scope: Scope::User, owner: "c/u".into() };
    let alike = Claim { scope: other, ..claims[0].clone() };
    let admissions = [of(1, claims.clone()), of(2, vec![wider, alike]), of(3, claims)];
    let asks: Vec<_> = admissions.iter().map(|admission| Ask::all(admission, Group::Whole)).collect();
    let numbers = words(&admit("SHA", &asks, &Floors::new(9), None).0);
    assert_eq!(numbers.last().map(String::as_str), Some(""), "windows, and limits under two rules, are not summed");
    let numbers: Vec<_> = numbers[7].split(' ').skip(4).collect();
    // Three rules; of four limits, in the order of the keys, the first is there twice.
    assert_eq!(numbers[..3].join(" "), "3 4 1");
    let limits = numbers[3 + 9 + 10 + 6..].join(" ");
    assert!(limits.starts_with("1 2 1 1 2 3 1 8 2 0 0 0 2 2 1 0 0 0 0"), "{limits}");
    assert!(limits.ends_with("2 1 1 3 7 0 0 0 0 3 4 0 60 0 0 0 0 0 2 2 1 4 1 0 0 0 0 3 4 0 60 0 0 0 0 0 2 1 1 3 7"), "{limits}");
}

#[test]
fn a_settlement_is_packed_as_the_script_reads_it() {
    let lines = claims().into_iter().map(|claim| Line { claim, actual: 4, booked: 2 }).collect::<Vec<_>>();
    let customer = lines[0].claim.scope.clone();
    let end = Settlement { reservation: ReservationId::new(255), customer, lines };
    let numbers = format!("0 1 1 {TOLD} 2 3 4 1 2 1 1 4 2 2 7 4 2");
    let sums = format!("0 1 1 2 2 3 4 {SORTS} 1 1 0 -18000000 1 2 7 4 2 0 0 0 {END}");
    let short = String::from_utf8_lossy(&255_u128.to_be_bytes()).into_owned();
    let right = [
        &["EVALSHA", "SHA", "4", "tg1:{c:c}:limits", "tg1:{c:c}:holds", "tg1:{shared}:ends:0", "tg1:{c:c}:lost"][..],
        &[&numbers, ID, &short, "|tg1:{c:c}:limits spend_day 2 7", &sums],
    ];
    assert_eq!(words(&settle("SHA", Group::Whole, &[(&end, true)], &Floors::new(9), None).0), right.concat());
    for ends in [&[(&end, false)][..], &[(&end, true), (&end, true)]] {
        let words = words(&settle("SHA", Group::Whole, ends, &Floors::new(9), None).0);
        assert_eq!(words.last().map(String::as_str), Some(""), "not summed: not charged, or there twice");
    }
}

#[test]
fn a_sweep_declares_what_it_is_told_to_once() {
    let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
    let named = ["tg1:{x}:limits".to_owned(), "tg1:{c:c}:holds".to_owned()];
    let sweep = Sweep { customer: &customer, group: Group::Whole, lost_hold: LostHold::Charge, most: 16, named: &named };
    let right = [
        &["EVALSHA", "SHA", "4", "tg1:{c:c}:holds", "tg1:{shared}:leases", "tg1:{c:c}:lost", "tg1:{x}:limits"][..],
        &["0 1 16 0", "c"],
    ];
    assert_eq!(words(&sweep.command("SHA", None)), right.concat());
}

#[test]
fn renewals_and_sweeps_name_the_holds() {
    let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
    let renewal = Renewal { reservation: ReservationId::new(255), customer: customer.clone(), lease: 60, metered: 7 };
    let right = ["EVALSHA", "SHA", "2", "tg1:{c:c}:holds", "tg1:{shared}:leases", "9 60 7", ID, "c"];
    assert_eq!(words(&renew("SHA", Group::Whole, &renewal, Some(Timestamp(9)))), right);
    let sweep = Sweep { customer: &customer, group: Group::Whole, lost_hold: LostHold::Release, most: 16, named: &[] };
    let right = ["EVALSHA", "SHA", "3", "tg1:{c:c}:holds", "tg1:{shared}:leases", "tg1:{c:c}:lost", "0 0 16 0", "c"];
    assert_eq!(words(&sweep.command("SHA", None)), right);
}

#[test]
fn in_a_cluster_a_call_is_about_one_group_only() {
    let mut claims = claims();
    let customer = claims[0].scope.clone();
    claims.push(Claim { scope: ScopeKey { scope: Scope::App, owner: "shop".into() }, ..claims[1].clone() });
    let elastic = Elastic::new(1_000, 500, 12, 2);
    let admission = Admission { reservation: ReservationId::new(255), customer: customer.clone(), claims, elastic, lease: 60 };
    let part = crate::store::redis::slots::Tag::of("c");
    let own = |shelf: &str| format!("tg1:{part}:c:c:{shelf}");
    let first = Ask { mode: Mode::Provisional, lease: 5, ..Ask::all(&admission, Group::Customer) };
    let numbers = format!("0 1 1 1 {TOLD} 0 0 0 0 2 3 1 5 0 1000 500 12 2 2 1 1 2 7");
    let keys = [own("limits"), own("holds"), format!("tg1:{part}:leases")];
    let record = format!("|{} spend_day 1 7", own("limits"));
    let sums = format!("0 1 1 1 3 5 1 2 2 {SORTS} 1 1 6000000 1 2 7 1 0 0 0 {END}");
    let rest = [&numbers, ID, "c", &record, &sums].map(String::from);
    assert_eq!(words(&admit("SHA", &[first], &Floors::new(9), None).0)[3..], [&keys[..], &rest].concat());

    let second = Ask { waits: 7, granted: Some(4), ..Ask::all(&admission, Group::Shared) };
    let told = "1 1 0 109 0 2 0 0 9007199254740992 1 2 3 9000000000 1 8 1 0 0 0";
    let numbers = format!("0 1 1 1 {told} 0 0 0 0 2 3 0 60 7 1000 500 4 2 1 1 3");
    let record = "|tg1:{shared}:app:shop:limits spend_day 1 3";
    let sums = format!("0 1 1 1 3 60 0 1 2 27912 9007199254740992 1 2 3 9000000000 1 1 3 1 0 0 0 {END}");
    let right =
        ["tg1:{shared}:app:shop:limits", "tg1:{shared}:c:c:holds", "tg1:{shared}:leases", &numbers, ID, "c", record, &sums];
    assert_eq!(words(&admit("SHA", &[second], &Floors::new(9), None).0)[3..], right);

    let named = [own("user:u:limits"), own("limits")];
    let sweep = Sweep { customer: &customer, group: Group::Customer, lost_hold: LostHold::Charge, most: 16, named: &named };
    let keys = [own("holds"), format!("tg1:{part}:leases"), own("lost"), own("limits"), own("user:u:limits")];
    let right = [&keys[..], &["0 1 16 1", "c"].map(String::from)].concat();
    assert_eq!(words(&sweep.command("SHA", None))[3..], right);
}
