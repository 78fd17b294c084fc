//! The audit of a Redis store, and what is said of it.

use super::{DIFFERS, NO_AUDIT, PRINTED, amount};
use crate::config::policy::RedisServers;
use crate::store::redis::RedisLedger;
use crate::store::redis::audit::{Audit, Difference};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// How long one call may take: an audit is in no hurry, and its largest calls read all that is in flight.
const DEADLINE: Duration = Duration::from_secs(5);

/// Audits these servers, and prints to stdout.
pub fn run(servers: &RedisServers) -> ExitCode {
    let runtime = match crate::cli::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return crate::cli::fail(&error.to_string(), NO_AUDIT),
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let found = runtime.block_on(async { RedisLedger::open(servers, DEADLINE)?.audit(None).await });
    match found {
        Ok(found) => match report(&found, &mut io::stdout().lock()) {
            Ok(()) if found.is_clean() => ExitCode::SUCCESS,
            // A reader that left has not seen a clean audit.
            _ => ExitCode::from(DIFFERS),
        },
        Err(error) => crate::cli::fail(&format!("no audit: {error}"), NO_AUDIT),
    }
}

/// Writes what an audit found.
fn report(found: &Audit, out: &mut impl Write) -> io::Result<()> {
    let Audit { balances, holds, customers, differences, more } = found;
    for difference in differences.iter().take(PRINTED) {
        match difference {
            Difference::Held { key, limit, period, stored, holds } => {
                let amount = |n: u64| amount(*limit, n);
                writeln!(out, "{key}, {}, period {period} ({}):", limit.as_str(), time(period.saturating_mul(1_000_000)))?;
                writeln!(out, "  stored as held    {}", stored.map_or_else(|| String::from("nothing"), amount))?;
                writeln!(out, "  sum of its holds  {}", amount(*holds))?;
            }
            Difference::Unreadable { key, field } => {
                writeln!(out, "{key}, {field:?}: not as a gateway writes it, so it counts as never seen")?;
            }
            Difference::Unindexed { key, due, looks: None } => {
                writeln!(out, "{key}: no lease is indexed; should its gateway die, what is due at {} stays held", time(*due))?;
            }
            Difference::Unindexed { key, due, looks: Some(looks) } => {
                writeln!(out, "{key}: due at {}, but nobody looks before {}", time(*due), time(*looks))?;
            }
            Difference::Unswept { key, customer, due } => {
                writeln!(out, "{key}, {customer:?}: due since {}, and no gateway has looked; does one run?", time(*due))?;
            }
        }
    }
    let all = differences.len() + more;
    if all > PRINTED {
        writeln!(out, "and {} more", all - PRINTED)?;
    }
    let verdict = match all {
        0 => String::from("clean"),
        1 => String::from("1 difference"),
        n => format!("{n} differences"),
    };
    writeln!(out, "{verdict}: {balances} balances, {holds} requests in flight of {customers} customers")
}

fn time(micros: u64) -> String {
    let time = i64::try_from(micros).ok().and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
    time.map_or_else(|| micros.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Period;
    use crate::limit::LimitName;

    #[test]
    fn differences_are_told_first_and_the_sum_last() {
        let text = |found: &Audit| {
            let mut out = Vec::new();
            report(found, &mut out).expect("memory takes everything");
            String::from_utf8(out).expect("UTF-8")
        };
        let clean = Audit { balances: 7, holds: 3, customers: 2, ..Audit::default() };
        assert_eq!(text(&clean), "clean: 7 balances, 3 requests in flight of 2 customers\n");
        let (key, due) = (String::from("tg1:{c:a}:holds"), 1_800_000_000_000_000);
        let held = |limit, stored| Difference::Held {
            key: String::from("tg1:{c:a}:limits"),
            limit,
            period: 1_799_971_200,
            stored,
            holds: 20_000_000,
        };
        let differences = vec![
            held(LimitName::Spend(Period::Day), Some(30_000_000)),
            held(LimitName::TokenQuota(Period::Day), None),
            Difference::Unreadable { key: key.clone(), field: "ab".into() },
            Difference::Unindexed { key: key.clone(), due, looks: None },
            Difference::Unindexed { key: key.clone(), due, looks: Some(due + 1_000_000) },
            Difference::Unswept { key: String::from("tg1:{shared}:leases"), customer: "a".into(), due },
        ];
        let told = text(&Audit { differences, ..clean.clone() });
        for line in [
            "tg1:{c:a}:limits, spend_day, period 1799971200 (2027-01-15T00:00:00Z):\n  stored as held    $0.03\n",
            "  sum of its holds  $0.02\n",
            "  stored as held    nothing\n  sum of its holds  20000000\n",
            "tg1:{c:a}:holds, \"ab\": not as a gateway writes it",
            "no lease is indexed; should its gateway die, what is due at 2027-01-15T08:00:00Z stays held",
            "due at 2027-01-15T08:00:00Z, but nobody looks before 2027-01-15T08:00:01Z",
            "\"a\": due since 2027-01-15T08:00:00Z, and no gateway has looked",
            "6 differences: 7 balances",
        ] {
            assert!(told.contains(line), "{line}\n{told}");
        }
        let many = vec![held(LimitName::Spend(Period::Day), None); PRINTED + 2];
        assert!(text(&Audit { differences: many, more: 5, ..clean }).contains("\nand 7 more\n27 differences: "));
    }
}
