//! `[alerts]`.

use super::{policy, problems, sound};
use crate::config::policy::{AlertKind, Alerts, Destination, Secret, Webhook};
use std::time::Duration;

#[test]
fn what_is_left_out_is_shipped_and_what_is_written_counts() {
    assert_eq!(policy("").alerts, Alerts::default());
    assert_eq!(&*policy("[admin]\nlisten = \"127.0.0.1:99\"").alerts.admin_url, "http://127.0.0.1:99");
    let text = "[alerts]\nspend = [90, 40, 90]\ndays_at_cap = 5\npool_percent = 70\npool_for = \"1m\"\nloop_per_minute = 0\n\
                quiet = [\"level_changed\", \"test\"]\nlog = false\nkeep = \"1d\"\nadmin_url = \"https://a.example/x/\"\n\
                [alerts.webhooks.ops]\nurl = { env = \"URL\" }\nsecret = { env = \"KEY\" }\nkinds = [\"spend_cap\"]\n\
                [alerts.webhooks.slack]\nurl = \"https://hooks.example/\"\nsecret = { env = \"KEY\" }\ntimeout = \"2s\"\nattempts = 3\n";
    let key = "a-secret-of-more-than-20-characters";
    let (policy, warnings) = sound(text, &[("URL", "https://ops.example/s3cret"), ("KEY", key)]);
    let webhook = |url: &str, timeout, attempts| Webhook {
        url: Secret::new(url),
        secret: Some(Secret::new(key)),
        timeout: Duration::from_secs(timeout),
        attempts,
    };
    let right = Alerts {
        spend: vec![40, 90],
        days_at_cap: 5,
        pool_percent: 70,
        pool_for: Duration::from_secs(60),
        loop_per_minute: 0,
        quiet: vec![AlertKind::LevelChanged, AlertKind::Test],
        log: false,
        keep: Duration::from_secs(86_400),
        admin_url: "https://a.example/x".into(),
        webhooks: vec![
            Destination {
                name: "ops".into(),
                webhook: webhook("https://ops.example/s3cret", 10, 5),
                kinds: vec![AlertKind::SpendCap],
            },
            Destination { name: "slack".into(), webhook: webhook("https://hooks.example/", 2, 3), kinds: Vec::new() },
        ],
    };
    assert_eq!(policy.alerts, right);
    assert!(!warnings.iter().any(|warning| warning.contains("alerts")), "{warnings:#?}");
    assert!(!format!("{policy:?}").contains("s3cret"), "no secret shows");
    let [ops, slack] = &policy.alerts.webhooks[..] else { panic!("two") };
    let wants = |one: &Destination| AlertKind::ALL.into_iter().filter(|kind| one.wants(*kind)).collect::<Vec<_>>();
    assert_eq!(wants(ops), [AlertKind::SpendCap, AlertKind::Test]);
    assert_eq!(wants(slack), AlertKind::ALL);
    assert!(!policy.alerts.tells(AlertKind::LevelChanged) && policy.alerts.tells(AlertKind::SpendCap));
}

#[test]
fn what_cannot_be_used_is_refused() {
    for (text, right) in [
        ("spend = [0]", "f:2: alerts.spend[0]: 0 is no part of a cap"),
        ("spend = [50, 101]", "f:2: alerts.spend[1]: 101 is no part of a cap"),
        ("spend = [1,2,3,4,5,6,7,8,9,10,11]", "f:2: alerts.spend: has 11 steps"),
        ("days_at_cap = 1", "f:2: alerts.days_at_cap: 1 is out of range"),
        ("pool_percent = 101", "f:2: alerts.pool_percent: 101 is out of range"),
        ("pool_for = \"0s\"", "f:2: alerts.pool_for: is zero"),
        ("loop_per_minute = 10_001", "f:2: alerts.loop_per_minute: 10001 is out of range"),
        ("quiet = [\"spend\"]", "f:2: alerts.quiet[0]: \"spend\" is unknown"),
        ("keep = \"1s\"", "f:2: alerts.keep: \"1s\" is not a time to keep something"),
        ("admin_url = \"ops.example\"", "f:2: alerts.admin_url: is not an http(s) URL"),
        ("admin_url = \"https://u:p@ops.example\"", "f:2: alerts.admin_url: is not an http(s) URL"),
        ("webhooks = { ops = {} }", "f:2: alerts.webhooks.ops: `url` is missing"),
        ("webhooks = { ops = { url = \"ftp://x\" } }", "f:2: alerts.webhooks.ops.url: is not an http(s) URL"),
        ("webhook = \"x\"", "f:2: alerts.webhook: is not a setting; did you mean `webhooks`?"),
    ] {
        let found = problems(&format!("[alerts]\n{text}"), &[]);
        assert_eq!(found.len(), 1, "{text}: {found:#?}");
        assert!(found[0].starts_with(right), "{}\n{right}", found[0]);
    }
    let (_, warnings) = sound("[alerts.webhooks.ops]\nurl = \"http://ops.example\"", &[]);
    for right in ["alerts.webhooks.ops: has no secret", "alerts.webhooks.ops.url: is not encrypted"] {
        assert!(warnings.iter().any(|warning| warning.contains(right)), "{warnings:#?}");
    }
}
