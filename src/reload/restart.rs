//! What cannot change while the gateway runs. A configuration that changes any of it is refused whole: half of a file in force would be
//! a state that no file describes, and that a restart would silently leave.
//!
//! A setting that is read only at the start belongs here.

use crate::config::problem::{Findings, Place, Source};
use crate::config::settings::What;
use crate::config::{Policy, Problem};

const ADVICE: &str = "restart the gateway, or set it back; nothing else of the file is in force";

/// Every change that takes a restart. `places` are those for settlements; `file` is named where a setting is no longer written.
pub fn needed(before: &Policy, after: &Policy, places: usize, file: &Source) -> Vec<Problem> {
    let mut findings = Findings::default();
    let mut refuse = |key: &str, reason: String| {
        let source = after.settings.source(key).unwrap_or(file).clone();
        findings.problem(&Place { source, key: key.into() }, reason, ADVICE);
    };
    if before.server.listen != after.server.listen {
        refuse("server.listen", moves(before.server.listen, after.server.listen));
    }
    match (&before.admin, &after.admin) {
        (Some(before), Some(after)) if before.listen != after.listen => {
            refuse("admin.listen", moves(before.listen, after.listen))
        }
        (Some(_), None) => refuse("admin", "is gone, and its listener cannot be closed while the gateway runs".to_owned()),
        (None, Some(_)) => refuse("admin", "is new, and its listener cannot be opened while the gateway runs".to_owned()),
        _ => {}
    }
    if before.store != after.store {
        let written = before.settings.changes(&after.settings).into_iter();
        let written = written.filter(|change| change.key.starts_with("store.")).collect::<Vec<_>>();
        for change in &written {
            let how = match &change.what {
                What::Value { before, after } => {
                    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
                    format!("{} -> {}", text(before), text(after))
                }
                What::Content(path) => format!("the content of {}", path.display()),
            };
            refuse(&change.key, format!("the store cannot change while the gateway runs: {how}"));
        }
        if written.is_empty() {
            refuse("store", "the store cannot change while the gateway runs".to_owned());
        }
    }
    if before.history != after.history {
        refuse("history.days", "what is kept of use over time cannot change while the gateway runs".to_owned());
    }
    if before.telemetry.otlp != after.telemetry.otlp {
        let key = after.settings.source("telemetry.otlp.endpoint").map_or("telemetry.otlp", |_| "telemetry.otlp.endpoint");
        refuse(key, "what goes to the OpenTelemetry collector cannot change while the gateway runs".to_owned());
    }
    let most = after.concurrency.slots.saturating_add(after.concurrency.queue);
    if most > places {
        let reason = format!("slots and queue come to {most} requests, and at its start the gateway made room for {places}");
        refuse("concurrency", reason);
    }
    findings.problems
}

fn moves(before: std::net::SocketAddr, after: std::net::SocketAddr) -> String {
    format!("the listener cannot move from {before} to {after} while the gateway runs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Env;

    fn policy(text: &str) -> Policy {
        Policy::parse(text, "t.toml", &Env::default()).unwrap_or_else(|problems| panic!("{problems:#?}")).0
    }

    #[test]
    fn what_is_bound_at_the_start_is_named_with_its_line() {
        let file = Source::File { name: "t.toml".into(), line: 1 };
        for (before, after, expected) in [
            ("", "[server]\nlisten = \"127.0.0.1:8080\"\n", &[][..]),
            ("[plans.a]\nrpm = 1\n", "[plans.b]\nrpm = 2\n[concurrency]\nslots = 4000\n[retry]\nmax = 1\n", &[]),
            (
                "",
                "[server]\nlisten = \"127.0.0.1:81\"\n",
                &["t.toml:2: server.listen: the listener cannot move from 127.0.0.1:8080 to 127.0.0.1:81"],
            ),
            ("", "\n[admin]\n", &["t.toml:2: admin: is new"]),
            ("[admin]\n", "", &["t.toml:1: admin: is gone"]),
            (
                "[admin]\nlisten = \"127.0.0.1:9\"",
                "[admin]\n",
                &["t.toml:1: admin.listen: the listener cannot move from 127.0.0.1:9 to 127.0.0.1:8081"],
            ),
            (
                "[store]\npath = \"a\"\n",
                "[store]\nlost_hold = \"release\"\npath = \"b\"\n",
                &[
                    "t.toml:2: store.lost_hold: the store cannot change while the gateway runs: not set -> \"release\"",
                    "t.toml:3: store.path: the store cannot change while the gateway runs: \"a\" -> \"b\"",
                ],
            ),
            ("", "[history]\ndays = \"300d\"\n", &["t.toml:2: history.days: what is kept of use over time cannot change"]),
            (
                "",
                "[telemetry.otlp]\nendpoint = \"http://127.0.0.1:4318\"\n",
                &["t.toml:2: telemetry.otlp.endpoint: what goes to the OpenTelemetry collector cannot change"],
            ),
            ("", "[telemetry]\npropagate = true\n", &[]),
            ("", "[identity]\nnew_customers_per_hour = 5\n", &[]),
            ("", "[concurrency]\nqueue = 5000\n", &["t.toml:1: concurrency: slots and queue come to 5032"]),
        ] {
            let said: Vec<_> = needed(&policy(before), &policy(after), 5_000, &file).iter().map(ToString::to_string).collect();
            assert_eq!(said.len(), expected.len(), "{said:?}");
            assert!(said.iter().zip(expected).all(|(said, expected)| said.starts_with(expected)), "{said:?}");
        }
    }
}
