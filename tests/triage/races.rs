//! Several gateways and many hands at once.

use crate::bed::CONFIG;
use crate::kit::{ADMIN, World, by, new, of};
use futures_util::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_claim_at_once_one_gets_it() {
    let world = World::of(2, &format!("{CONFIG}\n{ADMIN}\n[triage]\nopen_per_customer = 100")).await;
    for round in 0..20 {
        let id = world.hand_off(new("t")).await;
        let path = format!("/admin/triage/{id}/claim");
        let claims = join_all((0..8).map(|n| world.act(n % 2, &path, by(&format!("agent-{n}"))))).await;
        let winners: Vec<_> = claims.iter().filter(|(status, _)| *status == 200).collect();
        assert_eq!(winners.len(), 1, "round {round}: {claims:?}");
        let winner = &winners[0].1["claimed_by"]["agent"];
        for (status, body) in claims.iter().filter(|(status, _)| *status != 200) {
            assert_eq!((*status, &body["error"]["held_by"]), (409, winner), "everybody else is told who has it");
        }
        assert_eq!(&world.look(1, &format!("/admin/triage/{id}")).await.1["claimed_by"]["agent"], winner);
    }
    assert_eq!(world.events("claimed"), 20);
    world.assert_books(&["t"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_answers_at_once_the_customer_gets_one() {
    let world = World::of(2, &format!("{CONFIG}\n{ADMIN}\n[triage]\nopen_per_customer = 100")).await;
    for _ in 0..20 {
        let id = world.hand_off(new("t")).await;
        let path = format!("/admin/triage/{id}/answer");
        let answer = |n: usize| world.act(n % 2, &path, json!({ "agent": format!("agent-{n}"), "text": format!("answer {n}") }));
        let answers = join_all((0..8).map(answer)).await;
        let given: Vec<_> =
            answers.iter().filter(|(status, _)| *status == 200).map(|(_, body)| &body["answer"]["text"]).collect();
        assert_eq!(given.len(), 1, "{answers:?}");
        assert_eq!(&world.poll("t", &id).await.1["answer"]["text"], given[0]);
    }
    assert_eq!(world.events("answered"), 20);
    world.assert_books(&["t"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_conversation_that_arrives_at_two_gateways_at_once_is_one_ticket_under_every_id_given() {
    let world = World::of(2, &format!("{CONFIG}\n{ADMIN}")).await;
    let hand_off = |n: usize| {
        let desk = &world.beds[n % 2].gateway.triage;
        async move { desk.hand_off(of("t", "c")).await.id.to_string() }
    };
    let given: BTreeSet<String> = join_all((0..15).map(hand_off)).await.into_iter().collect();
    world.written().await;
    let open = world.ids("").await;
    assert_eq!(open.len(), 1);
    let (_, ticket) = world.look(0, &format!("/admin/triage/{}", open[0])).await;
    assert_eq!((&ticket["requests"], ticket["asked"].as_array().map(Vec::len)), (&json!(15), Some(15)), "every request is in it");
    assert_eq!((world.events("opened"), world.events("appended")), (1, 14));
    assert!(given.contains(&open[0]));
    let answer = json!({ "agent": "ann", "text": "One answer." });
    let any = given.iter().next_back().expect("an id");
    assert_eq!(world.act(1, &format!("/admin/triage/{any}/answer"), answer).await.0, 200, "the desk knows it by any id");
    for id in &given {
        let (status, told) = world.poll("t", id).await;
        assert_eq!((status, &told["id"], &told["answer"]["text"]), (200, &json!(id), &json!("One answer.")));
    }
    world.assert_books(&["t"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_customers_cap_holds_over_two_gateways() {
    let world = World::of(2, &format!("{CONFIG}\n{ADMIN}\n[triage]\nopen_per_customer = 3")).await;
    join_all((0..40).map(|n| world.beds[n % 2].gateway.triage.hand_off(new("t")))).await;
    world.written().await;
    assert_eq!(world.ids("customer=t").await.len(), 3);
    assert_eq!((world.events("opened"), world.dropped("customer_full")), (3, 37));
    world.assert_books(&["t"]).await;
}
