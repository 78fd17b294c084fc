//! `tollgate audit`: recomputes the books and says where they differ.
//!
//! Of the embedded store every balance, from its ledger, while no gateway has it open; of Redis what is held, from the requests in
//! flight, at any time.

mod redis;

use super::{BAD_CONFIG, out};
use crate::config::policy::{RedisServers, StoreKind};
use crate::config::{Env, Policy};
use crate::domain::{Clock, NanoUsd};
use crate::limit::LimitName;
use crate::store::embedded::{Audit, Difference, Discrepancy, audit};
use crate::telemetry::SystemClock;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit code when something does not add up.
pub const DIFFERS: u8 = 1;
/// The exit code when nothing could be said: no journal, or a gateway has it open, or Redis is away.
pub const NO_AUDIT: u8 = 2;

/// Differences that are printed; more are counted.
const PRINTED: usize = 20;

/// Audits a data directory, or the store of the configuration (none = the shipped one), and prints to stdout.
pub fn run(config: Option<&Path>, data: Option<PathBuf>) -> ExitCode {
    let directory = match data.map_or_else(|| configured(config), |path| Ok(Store::Embedded(path))) {
        Ok(Store::Embedded(directory)) => directory,
        Ok(Store::Redis(servers)) => return redis::run(&servers),
        Err(code) => return code,
    };
    match audit(&directory, SystemClock.now()) {
        Ok(found) => match report(&found, &mut io::stdout().lock()) {
            Ok(()) if found.differences.is_empty() => ExitCode::SUCCESS,
            // A reader that left has not seen a clean audit.
            _ => ExitCode::from(DIFFERS),
        },
        Err(error) => super::fail(&format!("no audit: {error}"), NO_AUDIT),
    }
}

/// What is audited.
enum Store {
    Embedded(PathBuf),
    Redis(RedisServers),
}

fn configured(config: Option<&Path>) -> Result<Store, ExitCode> {
    match Policy::load(config, &Env::of_process()) {
        Ok((policy, _)) => match policy.store {
            StoreKind::Embedded { path, .. } => Ok(Store::Embedded(path)),
            StoreKind::Redis { servers, .. } => Ok(Store::Redis(servers)),
        },
        Err(problems) => {
            problems.iter().for_each(|problem| out::complain(&problem.to_string()));
            Err(super::fail("the configuration cannot be used; --data names the directory without one", BAD_CONFIG))
        }
    }
}

/// Writes what an audit found.
fn report(found: &Audit, out: &mut impl Write) -> io::Result<()> {
    let Audit { balances, entries, holds, skipped, differences } = found;
    for difference in differences.iter().take(PRINTED) {
        match difference {
            Difference::Missing { from, to } if from == to => writeln!(out, "ledger entry {from} is missing")?,
            Difference::Missing { from, to } => writeln!(out, "ledger entries {from} to {to} are missing")?,
            Difference::Doubled { reservation, number } => {
                writeln!(out, "reservation {reservation} is booked more than once, by ledger entry {number} and a later one")?;
            }
            Difference::Unended { reservation, number } => {
                writeln!(out, "ledger entry {number} says that reservation {reservation} is still in flight")?;
            }
            Difference::HeldAfterEnd { reservation } => {
                writeln!(out, "reservation {reservation} ended and is still held; the next start would book it again")?;
            }
            Difference::Balance(balance) => write_balance(balance, out)?,
        }
    }
    if differences.len() > PRINTED {
        writeln!(out, "and {} more", differences.len() - PRINTED)?;
    }
    let verdict = match differences.len() {
        0 => "clean".to_owned(),
        1 => "1 difference".to_owned(),
        n => format!("{n} differences"),
    };
    write!(out, "{verdict}: {balances} balances, {entries} entries")?;
    if *holds > 0 {
        write!(out, ", {holds} holds in flight that the next start books")?;
    }
    if *skipped > 0 {
        write!(out, "; {skipped} balances of periods long over were not compared, their entries are pruned")?;
    }
    writeln!(out)
}

fn write_balance(balance: &Discrepancy, out: &mut impl Write) -> io::Result<()> {
    let Discrepancy { scope, limit, period, stored, recomputed, held, last } = balance;
    let amount = |n: u64| amount(*limit, n);
    let start = i64::try_from(*period).ok().and_then(|secs| jiff::Timestamp::from_second(secs).ok());
    let start = start.map_or_else(String::new, |start| format!(" ({start})"));
    writeln!(out, "{} {:?}, {}, period {period}{start}:", scope.scope.as_str(), scope.owner, limit.as_str())?;
    writeln!(out, "  stored      {}", stored.map_or_else(|| "nothing".to_owned(), amount))?;
    writeln!(out, "  recomputed  {}", amount(*recomputed))?;
    if *held > 0 {
        writeln!(out, "  in flight   {}", amount(*held))?;
    }
    for booked in last {
        let time = i64::try_from(booked.time.micros()).ok().and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
        let time = time.map_or_else(|| booked.time.micros().to_string(), |time| time.to_string());
        let (number, reservation, how) = (booked.number, booked.reservation, booked.how);
        let (claimed, actual) = (amount(booked.claimed), amount(booked.actual));
        writeln!(out, "  entry {number}  {time}  {reservation}  {how}: held {claimed}, booked {actual}")?;
    }
    Ok(())
}

fn amount(limit: LimitName, n: u64) -> String {
    if matches!(limit, LimitName::Spend(_)) { NanoUsd::new(n).to_string() } else { n.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Period, ReservationId, Timestamp};
    use crate::limit::{Scope, ScopeKey};
    use crate::store::embedded::Booked;

    fn text(found: &Audit) -> String {
        let mut out = Vec::new();
        report(found, &mut out).expect("memory takes everything");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_clean_audit_is_one_line() {
        let found = Audit { balances: 7, entries: 200, ..Audit::default() };
        assert_eq!(text(&found), "clean: 7 balances, 200 entries\n");
        let more = text(&Audit { holds: 3, skipped: 2, ..found });
        assert!(more.starts_with("clean: 7 balances, 200 entries, 3 holds in flight"), "{more}");
        assert!(more.contains("; 2 balances of periods long over were not compared"), "{more}");
    }

    #[test]
    fn a_difference_is_told_with_all_it_takes_to_find_it() {
        let reservation = ReservationId::new(0xabc);
        let time = Timestamp::from_secs(1_800_000_000);
        let booked = Booked { number: 41, time, reservation, how: "settled", claimed: 30_000_000, actual: 20_000_000 };
        let balance = Discrepancy {
            scope: ScopeKey { scope: Scope::Customer, owner: "acme".into() },
            limit: LimitName::Spend(Period::Day),
            period: 1_799_971_200,
            stored: Some(1_250_000_000),
            recomputed: 1_230_000_000,
            held: 500_000_000,
            last: vec![booked],
        };
        let quota = Discrepancy {
            limit: LimitName::TokenQuota(Period::Month),
            stored: None,
            held: 0,
            last: Vec::new(),
            ..balance.clone()
        };
        let differences = vec![
            Difference::Missing { from: 7, to: 9 },
            Difference::Doubled { reservation, number: 12 },
            Difference::Balance(Box::new(balance)),
            Difference::Balance(Box::new(quota)),
        ];
        let right = "\
ledger entries 7 to 9 are missing
reservation 00000000000000000000000000000abc is booked more than once, by ledger entry 12 and a later one
customer \"acme\", spend_day, period 1799971200 (2027-01-15T00:00:00Z):
  stored      $1.25
  recomputed  $1.23
  in flight   $0.50
  entry 41  2027-01-15T08:00:00Z  00000000000000000000000000000abc  settled: held $0.03, booked $0.02
customer \"acme\", tokens_month, period 1799971200 (2027-01-15T00:00:00Z):
  stored      nothing
  recomputed  1230000000
4 differences: 2 balances, 5 entries
";
        assert_eq!(text(&Audit { balances: 2, entries: 5, differences, ..Audit::default() }), right);
    }

    #[test]
    fn many_differences_are_counted_not_printed() {
        let differences = (0..50).map(|n| Difference::Missing { from: 2 * n, to: 2 * n }).collect();
        let text = text(&Audit { differences, ..Audit::default() });
        assert_eq!(text.lines().count(), PRINTED + 2);
        assert!(text.contains("and 30 more\n50 differences: "), "{text}");
    }
}
