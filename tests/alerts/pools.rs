//! Levels: told when they change and when an operator sets them, once over all gateways.

use crate::bed::Bed;
use crate::kit::{World, config};
use tollgate::alert::{About, Kind};
use tollgate::stack::levels::Pinned;

const POOL: &str = "[pools.small]\nupstream = \"openai\"\nmodels = [\"m-small\"]\nceiling = { rpm = 10 }\n";

#[tokio::test]
async fn a_level_that_rises_with_use_is_told_once_with_its_reason() {
    let world = World::of(2, &config("day = 9.0", POOL)).await;
    // Nine requests are 92 % of 97 % of ten.
    for turn in 0..9 {
        assert_eq!(world.ask(turn % 2, "acme").await, 200);
    }
    let level = |bed: &Bed| bed.gateway.levels.all().iter().map(|(_, standing, _)| standing.state.level).max();
    crate::kit::wait("the level", || world.beds.iter().all(|bed| level(bed) == Some(2))).await;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    let mut alerts = crate::kit::kept(&world.documents).await;
    while alerts.iter().all(|alert| alert.facts["to"] != 2) {
        assert!(tokio::time::Instant::now() < deadline, "never told: {alerts:#?}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await; // polling with a deadline
        alerts = crate::kit::kept(&world.documents).await;
    }
    // The gauge may have been looked at on the way up: each change is told once.
    let mut steps: Vec<_> = alerts.iter().map(|alert| (alert.facts["from"].as_u64(), alert.facts["to"].as_u64())).collect();
    steps.sort_unstable();
    assert!(steps.windows(2).all(|pair| pair[0].1 == pair[1].0), "{steps:?}");
    assert_eq!((steps.first().map(|step| &step.0), steps.last().map(|step| &step.1)), (Some(&Some(0)), Some(&Some(2))));
    let last = alerts.iter().find(|alert| alert.facts["to"] == 2).expect("told");
    assert_eq!(last.about, Some(About { what: "pool".into(), name: "small".into() }));
    assert_eq!(last.facts["used_permille"], 927);
    assert!(last.text.contains("92 % of its ceiling was used in the last minute, and level 2 begins at 85 %"), "{}", last.text);
    world.beds[1].quiet().await;
    world.bed().assert_books(&["acme"]).await;
}

#[tokio::test]
async fn a_pin_is_told_once_by_whom_and_until_when_and_so_is_its_end() {
    let world = World::of(2, &config("day = 9.0", POOL)).await;
    let until = tollgate::domain::Timestamp::from_secs(1_800_003_600).micros();
    let pin = Pinned { level: 2, until, by: "ada".into() };
    world.bed().gateway.levels.pin("small", Some(pin)).await.expect("kept");
    let alerts = world.until(Kind::LevelChanged, 1).await;
    assert_eq!(
        alerts[0].text,
        "ada has pinned pool small at level 2 until 2027-01-15T09:00:00Z, whatever its use is. To take it back: DELETE \
         http://127.0.0.1:0/admin/levels/small"
    );
    crate::kit::wait("both know", || world.beds.iter().all(|bed| bed.gateway.levels.level("small") == 2)).await;
    world.clock.pass(3_600);
    let alerts = world.until(Kind::LevelChanged, 2).await;
    assert_eq!(alerts.len(), 2, "{alerts:#?}");
    assert_eq!((alerts[1].good, &alerts[1].facts["pinned"]), (true, &false.into()));
    assert!(alerts[1].text.starts_with("The pin of pool small at level 2, set by ada, has ended"), "{}", alerts[1].text);
    world.bed().assert_books(&["acme"]).await;
}
