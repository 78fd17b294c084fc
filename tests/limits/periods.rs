//! When a budget comes back: at midnight where the operator lives, be the day 23 or 25 hours long.

use crate::fixture::{Hand, SECOND, Store, answer, bed, on_both_stores, used};

/// A request claims and uses 0.16 cents.
fn plans(zone: &str, spend: &str) -> String {
    format!(
        r#"
[budget]
zone = "{zone}"
[models.m-cent]
price = {{ input = 0, output = 100.0 }}
[models.c-cent]
price = {{ input = 0, output = 100.0 }}
[plans.cents]
messages = "unlimited"
rpm = "unlimited"
tpm = "unlimited"
spend = {{ {spend} }}
on_spend = []
on_provider = []
[customers.c]
plan = "cents"
"#
    )
}

on_both_stores!(a_budget_comes_back_at_local_midnight);

async fn a_budget_comes_back_at_local_midnight(store: Store) {
    for (zone, spend, now, seconds) in [
        ("America/New_York", "day = 0.002", "2026-03-08T05:00:00Z", 23 * 3_600),
        ("America/New_York", "day = 0.002", "2026-03-08T06:59:59Z", 21 * 3_600 + 1),
        ("America/New_York", "day = 0.002", "2026-11-01T04:00:00Z", 25 * 3_600),
        ("America/New_York", "day = 0.002", "2026-11-01T05:30:00Z", 23 * 3_600 + 1_800),
        ("Asia/Tokyo", "day = 0.002", "2026-12-31T14:59:59Z", 1),
        ("UTC", "day = 0.002", "2026-12-31T00:00:00Z", 86_400),
        ("UTC", "week = 0.002", "2026-12-31T00:00:00Z", 4 * 86_400),
        ("Asia/Tokyo", "month = 0.002", "2026-12-31T14:00:00Z", 3_600),
    ] {
        let start: jiff::Timestamp = now.parse().expect("RFC 3339");
        let clock = Hand::at(u64::try_from(start.as_second()).expect("after 1970"));
        let bed = bed(store, &plans(zone, spend), &clock).await;
        let ask = || bed.chat("c", "m-cent", r#","max_tokens":16"#);
        let message =
            || bed.post("/v1/messages", "c", r#"{"model":"c-cent","max_tokens":16,"messages":[{"role":"user","content":"hi"}]}"#);
        bed.provider.script(used(0, 16));
        assert_eq!(answer(ask()).await.status, 200);
        bed.quiet().await;
        let resets_at = (start + jiff::SignedDuration::from_secs(seconds)).to_string();
        for refused in [answer(ask()).await, answer(message()).await] {
            assert_eq!(refused.outcome(), (402, "spend_cap_exceeded"), "{zone} {now}: {refused:?}");
            assert_eq!(refused.header("retry-after"), seconds.to_string(), "{zone} {now}");
            assert_eq!((refused.header("x-should-retry"), refused.header("retry-after-ms")), ("false", ""));
            assert_eq!(refused.limit("resets_at").as_str(), Some(resets_at.as_str()));
            let kind = refused.json["error"]["type"].as_str();
            assert!(matches!(kind, Some("insufficient_quota" | "billing_error")), "{refused:?}");
        }
        clock.pass(seconds.cast_unsigned() * SECOND - 1);
        assert_eq!(answer(ask()).await.status, 402, "{zone} {now}: a microsecond early");
        clock.pass(1);
        bed.provider.script(used(0, 16));
        assert_eq!(answer(ask()).await.status, 200, "{zone} {now}: a new period");
        bed.quiet().await;
        assert_eq!(bed.balances("c").await[0].spent, 1_600_000, "counted from zero");
    }
}
