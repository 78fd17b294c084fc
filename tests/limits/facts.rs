//! What happened to others, with the numbers of the field, through the whole gateway.

use crate::bed::Bed;
use crate::fixture::{Hand, SECOND, Store, answer, bed};

/// The order bug: 6,000 messages of one merchant in ten minutes. The shipped business plan gives it 120 and one a second, every refusal
/// knows when to come back, and nobody else notices.
#[tokio::test]
async fn a_merchant_with_a_bug_gets_its_plan_and_nobody_else_notices() {
    let clock = Hand::noon();
    let bed = bed(Store::Embedded, "[customers.merchant]\nplan = \"business\"\n", &clock).await;
    let (mut passed, mut others) = (0_u64, Vec::new());
    for i in 0..6_000_u64 {
        let elapsed = i * SECOND / 10;
        let reply = answer(bed.chat("merchant", "m-small", r#","max_tokens":16"#)).await;
        if reply.status == 200 {
            passed += 1;
            bed.quiet().await;
        } else {
            assert_eq!(
                (reply.outcome(), reply.limit("name").as_str()),
                ((429, "rate_limit_exceeded"), Some("messages")),
                "{reply:?}"
            );
            // 120 and one a second: the next one comes at the second after those that passed.
            let next = (passed + 1 - 120) * SECOND - elapsed;
            assert_eq!(reply.number("retry-after-ms"), next / 1_000, "{i}");
        }
        if i % 100 == 0 {
            let customer = format!("other-{i}");
            assert_eq!(answer(bed.chat(&customer, "m-small", r#","max_tokens":16"#)).await.status, 200, "{customer}");
            others.push(customer);
        }
        clock.pass(SECOND / 10);
    }
    assert_eq!(passed, 120 + 599);
    let mut customers: Vec<&str> = others.iter().map(String::as_str).collect();
    customers.push("merchant");
    bed.assert_books(&customers).await;
}

/// One bucket for all or one each: rate 3 a second, capacity 5; the abusive one comes first where both come at once.
#[tokio::test]
async fn a_bucket_each_protects_the_quiet_one() {
    const PLANS: &str = r#"
[plans.three]
messages = { rate = "3/s", burst = 5 }
rpm = "unlimited"
tpm = "unlimited"
spend = { day = 100.0 }
on_spend = []
on_provider = []
[customers.shared]
plan = "three"
[customers.normal]
plan = "three"
[customers.abusive]
plan = "three"
[customers.third]
plan = "three"
"#;
    for (shared, normal_right, abusive_right) in [(true, 31, 18), (false, 40, 19)] {
        let clock = Hand::noon();
        let bed = bed(Store::Embedded, PLANS, &clock).await;
        let mut arrivals: Vec<(u64, &str)> =
            (0..250).map(|i| (i * 20, "abusive")).chain((0..40).map(|i| (i * 500, "normal"))).collect();
        arrivals.sort_unstable(); // by time, and by name: the abusive one first
        let mut accepted = std::collections::HashMap::new();
        let mut now = 0;
        for (millis, who) in arrivals {
            clock.pass((millis - now) * 1_000);
            now = millis;
            let passes = ask(&bed, if shared { "shared" } else { who }).await;
            *accepted.entry(who).or_insert(0) += usize::from(passes);
        }
        assert_eq!((accepted["normal"], accepted["abusive"]), (normal_right, abusive_right), "shared: {shared}");
        let mut third = 0;
        for _ in 0..10 {
            third += usize::from(ask(&bed, "third").await);
        }
        assert_eq!(third, 5, "a third one who sends ten at one instant");
        bed.assert_books(&["shared", "normal", "abusive", "third"]).await;
    }
}

async fn ask(bed: &Bed, customer: &str) -> bool {
    answer(bed.chat(customer, "m-small", r#","max_tokens":16"#)).await.status == 200
}
