//! A queue that fails, hangs or is ended in the middle: the reply is not concerned, and nothing is lost in silence.

use crate::bed::CONFIG;
use crate::kit::{ADMIN, FAILS, FINE, HANGS, Hand, Moody, World, new, of};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tollgate::config::policy::Triage;
use tollgate::store::documents::{Collection, Documents as _};
use tollgate::telemetry::Metrics;
use tollgate::telemetry::triage::ReasonLabels;
use tollgate::triage::{Desk, LOOK, QUEUE};

fn desk(documents: &Arc<Moody>, clock: &Arc<Hand>) -> (Desk, Arc<Metrics>) {
    let metrics = Arc::<Metrics>::default();
    let desk = Desk::start(documents.clone(), &Triage::default(), clock.clone(), metrics.clone()).expect("no webhook");
    (desk, metrics)
}

fn dropped(metrics: &Metrics, reason: &'static str) -> u64 {
    metrics.triage.dropped.get_or_create(&ReasonLabels { reason }).get()
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_delays_a_hand_off_by_no_more_than_the_bound() {
    let clock = Hand::new();
    let documents = Moody::new(clock.clone());
    documents.be(HANGS);
    let (desk, metrics) = desk(&documents, &clock);
    let before = Instant::now();
    desk.hand_off(new("t")).await;
    assert_eq!(before.elapsed(), Duration::ZERO, "without a conversation there is nothing to look for");
    let first = desk.hand_off(of("t", "c")).await;
    assert_eq!(before.elapsed(), LOOK);
    assert_eq!(desk.hand_off(of("t", "c")).await, first, "known here, before any store knows it");
    assert_eq!(before.elapsed(), LOOK);

    // The queue is bounded; who finds no place in it gets an id all the same.
    for _ in 0..QUEUE + 7 {
        desk.hand_off(new("t")).await;
    }
    assert_eq!(desk.unwritten(), QUEUE);
    assert_eq!(dropped(&metrics, "queue_full"), 3 + 7);
    // The end of the gateway waits for them as long as it was told, and says what is lost.
    let before = Instant::now();
    assert_eq!(desk.drain(Duration::from_secs(2)).await, QUEUE);
    assert_eq!(before.elapsed(), Duration::from_secs(2));
    assert_eq!(dropped(&metrics, "shutdown"), QUEUE as u64);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_moment_gets_the_ticket_after_it_and_one_that_stays_away_costs_it() {
    let clock = Hand::new();
    let documents = Moody::new(clock.clone());
    let (desk, metrics) = desk(&documents, &clock);
    documents.be(FAILS);
    let kept = desk.hand_off(of("t", "c1")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    documents.be(FINE);
    assert_eq!(desk.drain(Duration::from_secs(60)).await, 0);
    let found = documents.get(Collection::Tickets, &kept.id.to_string(), None).await.expect("it answers");
    assert!(found.is_some(), "written when the store was back");

    let (desk, second) = self::desk(&documents, &clock);
    documents.be(FAILS);
    let before = Instant::now();
    desk.hand_off(of("t", "c2")).await;
    assert_eq!(before.elapsed(), Duration::ZERO, "a failure is an answer");
    assert_eq!(desk.drain(Duration::from_secs(60)).await, 0, "given up before");
    assert_eq!((dropped(&metrics, "store"), dropped(&second, "store")), (0, 1));
}

#[tokio::test]
async fn sigterm_writes_what_was_handed_off() {
    let world = World::of(1, &format!("{CONFIG}\n{ADMIN}")).await;
    let mut ids = Vec::new();
    for n in 0..50 {
        ids.push(world.bed().gateway.triage.hand_off(new(&format!("c{n}"))).await.id.to_string());
    }
    let World { beds, documents, .. } = world;
    for bed in beds {
        bed.stop().await;
    }
    for id in ids {
        let found = documents.get(Collection::Tickets, &id, None).await.expect("it answers");
        assert!(found.is_some(), "{id}");
    }
}

#[tokio::test]
async fn a_hand_off_is_open_to_its_own_app_before_it_is_written() {
    let world = World::new("").await;
    world.documents.be(HANGS);
    let id = world.bed().gateway.triage.hand_off(new("t")).await.id.to_string();
    let (status, told) = world.poll("t", &id).await;
    assert_eq!((status, &told["status"]), (200, &"open".into()));
    assert_eq!(world.poll("other", &id).await.0, 404);
    world.assert_books(&["t"]).await;
}
