//! The same desk on the stores that survive: several desks on one Redis, and a desk that is opened again on its directory.

use crate::kit::{new, of};
use crate::redis_server::RedisServer;
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tollgate::config::policy::Triage;
use tollgate::store::documents::Documents;
use tollgate::store::documents::embedded::EmbeddedDocuments;
use tollgate::store::redis::RedisDocuments;
use tollgate::telemetry::SystemClock;
use tollgate::triage::{Conflict, Desk, Query, Standing, Trouble};

fn desk(documents: Arc<dyn Documents>) -> Desk {
    Desk::start(documents, &Triage::default(), Arc::new(SystemClock), Arc::default()).expect("no webhook")
}

async fn written(desks: &[Desk]) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while desks.iter().any(|desk| desk.unwritten() > 0) {
        assert!(tokio::time::Instant::now() < deadline, "never written");
        tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_gateways_on_one_redis_open_one_ticket_and_give_it_to_one_agent() {
    let server = RedisServer::start();
    let desks = [0, 1].map(|_| {
        let url = server.url();
        desk(Arc::new(RedisDocuments::connect(&[&url], Duration::from_secs(5)).expect("a client")))
    });
    let given = join_all((0..12).map(|n| desks[n % 2].hand_off(of("t", "c")))).await;
    written(&desks).await;
    let listed = desks[0].list(&Query { limit: 10, ..Query::default() }).await.expect("it answers").tickets;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    assert_eq!(listed[0].requests.len(), 12);
    for id in given.iter().map(|ticket| ticket.id).collect::<BTreeSet<_>>() {
        assert_eq!(desks[1].ticket(id).await.expect("found").ticket.id, listed[0].id);
    }

    let agents: Vec<String> = (0..8).map(|n| format!("agent-{n}")).collect();
    let claims = join_all(agents.iter().enumerate().map(|(n, agent)| desks[n % 2].claim(listed[0].id, agent))).await;
    assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1, "{claims:?}");
    let held = |claim: &Result<_, Trouble>| matches!(claim, Ok(_) | Err(Trouble::Conflict(Conflict::Held { .. })));
    assert!(claims.iter().all(held), "{claims:?}");

    // And the cap of a customer holds over both.
    join_all((0..20).map(|n| desks[n % 2].hand_off(new("busy")))).await;
    written(&desks).await;
    let of_busy = Query { customer: Some("busy".to_owned()), limit: 100, ..Query::default() };
    assert_eq!(desks[1].list(&of_busy).await.expect("it answers").tickets.len(), Triage::default().open_per_customer);
}

#[tokio::test]
async fn tickets_and_answers_survive_a_restart_of_the_embedded_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || EmbeddedDocuments::open(directory.path(), Arc::new(SystemClock)).expect("opens");
    let documents = Arc::new(open());
    let first = desk(documents.clone());
    let (waits, answered) = (first.hand_off(of("t", "c1")).await.id, first.hand_off(of("t", "c2")).await.id);
    first.answer(answered, "ann", "Done.").await.expect("it is open");
    assert_eq!(first.drain(Duration::from_secs(10)).await, 0);
    drop(first);
    Arc::into_inner(documents).expect("nobody else has it").close();

    let second = desk(Arc::new(open()));
    let now = second.now();
    assert_eq!(second.ticket(waits).await.expect("found").ticket.standing(now), Standing::Open);
    assert_eq!(second.ticket(answered).await.expect("found").ticket.standing(now), Standing::Answered);
    assert_eq!(second.hand_off(of("t", "c1")).await.id, waits, "the conversation goes on");
    assert_ne!(second.hand_off(of("t", "c2")).await.id, answered);
}
