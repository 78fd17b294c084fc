//! Spend caps: each part once a period over all gateways, the first time at a cap, days in a row.

use crate::bed::Bed;
use crate::kit::{COST, Hand, World, answer, answer_of, config, kept, only, percent, raised, settled, wait};
use crate::mortal_redis::MortalRedis;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tollgate::alert::{About, Kind};
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::Stores;
use tollgate::store::documents::Documents;
use tollgate::store::embedded::LostHold;
use tollgate::store::redis::{RedisDocuments, RedisLedger};
use tollgate::telemetry::SystemClock;

/// Tells of the alert of a model without a price, which comes behind everything that was seen before.
async fn barrier(bed: &Bed, documents: &Arc<dyn Documents>, app: &str) {
    bed.quiet().await;
    let refused = bed.chat("acme", &format!("unheard-of-{app}"), "").send().await.expect("an answer");
    assert_eq!(refused.status(), 400);
    wait("the barrier", || raised(std::slice::from_ref(bed), Kind::UnpricedModel) == 1).await;
    settled(std::slice::from_ref(bed), documents).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_gateways_on_one_redis_tell_80_percent_once_and_so_does_the_next_one() {
    const DEADLINE: Duration = Duration::from_secs(5);
    let redis = MortalRedis::awake();
    let url = redis.url();
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let documents: Arc<dyn Documents> = Arc::new(RedisDocuments::connect(&[&url], DEADLINE).expect("a client"));
    // 200 answers come to 86 %, and so does what is held for them. Four fifths are passed by the 187th.
    let config = config("day = 0.28", "[alerts]\nspend = [80]\n").replace("max_output_tokens = 200", "max_output_tokens = 2_000");
    let open = || async {
        let stores = Stores {
            ledger: Arc::new(RedisLedger::connect(&[&url], DEADLINE).expect("a client")),
            documents: Arc::new(RedisDocuments::connect(&[&url], DEADLINE).expect("a client")),
        };
        Bed::over(&config, provider.clone(), stores, Arc::new(SystemClock)).await
    };
    let beds = vec![open().await, open().await];
    for _ in 0..200 {
        provider.script(answer_of(2_000));
    }
    let asked = join_all((0..200).map(|n| beds[n % 2].chat("acme", "m-small", "").send())).await;
    let statuses: Vec<u16> = asked.into_iter().map(|reply| reply.expect("an answer").status().as_u16()).collect();
    assert_eq!(statuses, [200; 200]);
    beds[1].quiet().await;
    assert_eq!(beds[0].spent("acme").await.get(), 200 * 1_201_200);
    wait("80 %", || raised(&beds, Kind::SpendCap) > 0).await;
    // Whoever is the second to see it sees it with its next request at the latest.
    for bed in &beds {
        provider.script(answer());
        assert_eq!(bed.chat("acme", "m-small", "").send().await.expect("an answer").status(), 200);
    }
    barrier(&beds[0], &documents, "a").await;
    settled(&beds, &documents).await;
    let caps: Vec<_> = kept(&documents).await.into_iter().filter(|alert| alert.kind == Kind::SpendCap).collect();
    assert_eq!((caps.len(), raised(&beds, Kind::SpendCap)), (1, 1), "{caps:#?}");
    assert_eq!((&caps[0].facts["percent"], &caps[0].facts["cap_nano_usd"]), (&80.into(), &280_000_000.into()));
    assert!(caps[0].facts["spent_nano_usd"].as_u64() >= Some(224_000_000), "{caps:#?}");
    beds[1].quiet().await;
    beds[0].assert_books(&["acme"]).await;
    for bed in beds {
        bed.stop().await;
    }

    let started = open().await;
    provider.script(answer());
    assert_eq!(started.chat("acme", "m-small", "").send().await.expect("an answer").status(), 200);
    started.quiet().await;
    // Its last look is that of its end.
    let metrics = started.gateway.metrics.clone();
    started.stop().await;
    assert!(!metrics.render().contains("tollgate_alerts_total{"), "a restart repeats nothing: {}", metrics.render());
    let mut kinds: Vec<_> = kept(&documents).await.into_iter().map(|alert| alert.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [Kind::SpendCap, Kind::PromptLoop, Kind::UnpricedModel], "200 times the same is a loop, told once as well");
}

#[tokio::test]
async fn each_part_is_told_in_its_period_and_again_in_the_next() {
    // An answer is 30 % of the cap.
    let world = World::of(2, &config("day = 0.000404", "[alerts]\ndays_at_cap = 2\nadmin_url = \"https://ops.example\"\n")).await;
    assert_eq!(world.ask(0, "acme").await, 200);
    assert_eq!(world.ask(1, "acme").await, 200);
    let alerts = world.until(Kind::SpendCap, 1).await;
    assert_eq!((alerts.len(), percent(&alerts, 50).kind), (1, Kind::SpendCap), "{alerts:#?}");
    assert_eq!(world.ask(0, "acme").await, 200);
    let alerts = world.until(Kind::SpendCap, 2).await;
    let told = percent(&alerts, 80);
    assert_eq!(told.about, Some(About { what: "customer".into(), name: "acme".into() }));
    assert_eq!(
        told.text,
        "Customer acme (plan capped) has spent 80 % of its cap of this day: $0.0003636 of $0.000404 since 2027-01-15T00:00:00Z, resets \
         2027-01-16T00:00:00Z. More for this period: POST https://ops.example/admin/customers/acme/credits; another cap, or 0 to suspend: \
         PUT https://ops.example/admin/customers/acme/override"
    );
    assert_eq!(world.ask(1, "acme").await, 402, "what is left does not do");
    let alerts = world.until(Kind::SpendCap, 3).await;
    let told = percent(&alerts, 100);
    assert_eq!(told.facts["refused"], true);
    assert!(told.text.contains("is at its cap of this day, and requests are refused for it"), "{}", told.text);
    let alerts = world.until(Kind::FirstAtCap, 1).await;
    assert_eq!(alerts.len(), 4, "{alerts:#?}");
    assert_eq!(world.ask(0, "acme").await, 402);
    assert_eq!(world.ask(1, "acme").await, 402);
    world.until(Kind::SpendCap, 3).await;

    world.clock.pass(86_400);
    for (gateway, told) in [(0, 3), (1, 4), (0, 5)] {
        assert_eq!(world.ask(gateway, "acme").await, 200);
        world.until(Kind::SpendCap, told).await;
    }
    assert_eq!(world.ask(1, "acme").await, 402);
    let alerts = world.until(Kind::DaysAtCap, 1).await;
    let days = only(&alerts, Kind::DaysAtCap);
    assert_eq!((&days.facts["days"], days.since.map(|since| since.secs())), (&2.into(), Some(1_799_971_200)));
    assert!(
        days.text.starts_with("Customer acme (plan capped) has been at its spend cap of the day on 2 days in a row"),
        "{}",
        days.text
    );
    world.until(Kind::SpendCap, 6).await;
    world.until(Kind::FirstAtCap, 1).await;
    world.beds[1].quiet().await;
    assert_eq!(world.bed().spent("acme").await.get(), 3 * COST, "today");
}

#[tokio::test]
async fn a_request_that_passes_several_parts_tells_the_highest_of_them() {
    let world = World::of(2, &config("day = 0.00015", "")).await;
    assert_eq!(world.ask(0, "acme").await, 200);
    let alerts = world.until(Kind::SpendCap, 1).await;
    assert_eq!((alerts.len(), &alerts[0].facts["percent"]), (1, &80.into()), "{alerts:#?}");
    // The other gateway sees the same and knows that 50 % is said by it.
    assert_eq!(world.ask(1, "acme").await, 402);
    let alerts = world.until(Kind::SpendCap, 2).await;
    assert_eq!(
        alerts.iter().filter(|alert| alert.kind == Kind::SpendCap && alert.facts["percent"] == 50).count(),
        0,
        "{alerts:#?}"
    );
    world.beds[1].quiet().await;
    world.bed().assert_books(&["acme"]).await;
}

#[tokio::test]
async fn caps_of_the_gateway_and_of_longer_periods_are_watched_and_a_closed_door_is_no_news() {
    let more = "[gateway]\nspend = { month = 0.0002 }\n[plans.closed]\nspend = { day = 0 }\non_spend = []\n[customers.shut]\nplan = \"closed\"\n";
    let world = World::of(1, &config("week = 0.5", more)).await;
    assert_eq!(world.ask(0, "shut").await, 402);
    assert_eq!(world.ask(0, "acme").await, 200);
    let alerts = world.until(Kind::SpendCap, 1).await;
    assert_eq!(alerts.len(), 1, "{alerts:#?}");
    assert_eq!(alerts[0].about, Some(About { what: "gateway".into(), name: "all".into() }));
    assert_eq!(
        (&alerts[0].facts["limit"], &alerts[0].facts["resets_at"]),
        (&"spend_month".into(), &"2027-02-01T00:00:00Z".into())
    );
    assert_eq!(world.bed().spent("acme").await.get(), 0, "no cap a day, so none is booked");
}

#[tokio::test]
async fn quiet_kinds_are_not_told_counted_or_kept() {
    let world = World::of(1, &config("day = 0.00015", "[alerts]\nquiet = [\"spend_cap\"]\n")).await;
    assert_eq!(world.ask(0, "acme").await, 200);
    assert_eq!(world.ask(0, "acme").await, 402);
    let alerts = world.until(Kind::FirstAtCap, 1).await;
    assert_eq!((alerts.len(), world.raised(Kind::SpendCap)), (1, 0), "{alerts:#?}");
    world.bed().assert_books(&["acme"]).await;
}

#[tokio::test]
async fn the_embedded_store_remembers_over_a_restart_what_was_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Hand::new();
    let config = config("day = 0.000404", "");
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a loopback port"));
    let mut told = Vec::new();
    for asked in [2, 1] {
        // The tasks of the one before may need a moment to let go.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        let stores = loop {
            match Stores::embedded(directory.path(), clock.clone(), LostHold::Charge) {
                Ok(stores) => break stores,
                Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
        };
        let documents = stores.documents.clone();
        let bed = Bed::over(&config, provider.clone(), stores, clock.clone()).await;
        for _ in 0..asked {
            provider.script(answer());
            assert_eq!(bed.chat("acme", "m-small", "").send().await.expect("an answer").status(), 200);
        }
        bed.assert_books(&["acme"]).await;
        let metrics = bed.gateway.metrics.clone();
        bed.stop().await;
        let metrics = metrics.render();
        assert!(metrics.contains("tollgate_alerts_total{kind=\"spend_cap\"} 1\n"), "{metrics}");
        let alerts = kept(&documents).await;
        let mut percents: Vec<_> = alerts.iter().filter_map(|alert| alert.facts["percent"].as_u64()).collect();
        percents.sort_unstable();
        told.push(percents);
    }
    assert_eq!(told, [vec![50], vec![50, 80]]);
}
