//! So many tickets and no more, and each only for its time.

use crate::kit::{World, by, new, of};
use futures_util::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

#[tokio::test]
async fn ten_thousand_hand_offs_leave_no_more_tickets_than_allowed_and_every_other_is_counted() {
    let world = World::new("[triage]\nopen = 30\nopen_per_customer = 2").await;
    let desk = &world.bed().gateway.triage;
    let mut given = BTreeSet::new();
    for round in 0..20 {
        let hand_off = |n: usize| desk.hand_off(new(&format!("c{}", (round * 500 + n) % 20)));
        let tickets = join_all((0..500).map(hand_off)).await;
        given.extend(tickets.into_iter().map(|ticket| ticket.id));
        world.written().await;
    }
    assert_eq!(given.len(), 10_000, "everybody was given an id");
    let open = world.ids("limit=200").await;
    assert_eq!(open.len(), 30);
    assert_eq!(world.events("opened"), 30);
    let dropped = ["customer_full", "full"].map(|reason| world.dropped(reason));
    assert_eq!(dropped.iter().sum::<u64>(), 9_970, "{dropped:?}");
    assert!(dropped.iter().all(|count| *count > 0), "{dropped:?}");
    let (_, listing) = world.look(0, "/admin/triage?limit=200").await;
    let noted: u64 = listing["tickets"].as_array().expect("a list").iter().filter_map(|t| t["without_ticket"].as_u64()).sum();
    // Those of a customer that has a ticket stand on its oldest one; customers without any are only counted.
    let customers: BTreeSet<_> =
        listing["tickets"].as_array().expect("a list").iter().map(|ticket| ticket["customer"].to_string()).collect();
    assert_eq!(noted, customers.len() as u64 * 500 - 30, "of {} customers", customers.len());
    world.assert_books(&[]).await;
}

#[tokio::test]
async fn a_customer_at_its_cap_has_the_rest_noted_on_its_oldest_ticket_until_one_ends() {
    let world = World::new("[triage]\nopen_per_customer = 2").await;
    let first = world.hand_off(of("t", "c1")).await;
    world.clock.pass(Duration::from_secs(1));
    let second = world.hand_off(of("t", "c2")).await;
    world.clock.pass(Duration::from_secs(1));
    let third = world.hand_off(of("t", "c3")).await;
    assert_eq!(world.hand_off(of("t", "c2")).await, second, "what has a ticket goes on");
    assert_eq!(world.hand_off(new("other")).await, world.ids("customer=other").await[0], "others are not concerned");
    assert_eq!(world.ids("customer=t").await, [first.as_str(), second.as_str()]);
    assert_eq!(world.look(0, &format!("/admin/triage/{first}")).await.1["without_ticket"], 1);
    assert_eq!(world.dropped("customer_full"), 1);
    let (status, refused) = world.poll("t", &third).await;
    assert_eq!((status, &refused["error"]["code"]), (404, &json!("ticket_not_found")));

    assert_eq!(world.act(0, &format!("/admin/triage/{first}/expire"), by("ann")).await.0, 200);
    let fourth = world.hand_off(of("t", "c3")).await;
    assert_eq!(world.ids("customer=t").await, [second, fourth]);
    world.assert_books(&["t", "other"]).await;
}

#[tokio::test]
async fn when_all_places_are_taken_one_that_ends_makes_room() {
    let world = World::new("[triage]\nopen = 2").await;
    let first = world.hand_off(new("a")).await;
    world.hand_off(new("b")).await;
    world.hand_off(new("c")).await;
    assert_eq!((world.ids("").await.len(), world.dropped("full")), (2, 1));
    let answer = json!({ "agent": "ann", "text": "Done." });
    assert_eq!(world.act(0, &format!("/admin/triage/{first}/answer"), answer).await.0, 200);
    world.clock.pass(Duration::from_secs(2)); // a count that refuses is at most so old
    let third = world.hand_off(new("c")).await;
    assert_eq!(world.ids("customer=c").await, [third]);
    assert_eq!(world.dropped("full"), 1);
    world.assert_books(&["a", "b", "c"]).await;
}

#[tokio::test]
async fn a_ticket_that_nobody_answers_expires_and_frees_its_place() {
    let world = World::new("[triage]\nkeep = \"1h\"\nopen_per_customer = 1").await;
    let first = world.hand_off(of("t", "c")).await;
    world.clock.pass(Duration::from_secs(3_599));
    assert_eq!(world.poll("t", &first).await.1["status"], "open");
    world.clock.pass(Duration::from_secs(1));
    assert_eq!(world.poll("t", &first).await.1["status"], "expired");
    let (status, refused) = world.act(0, &format!("/admin/triage/{first}/claim"), by("ann")).await;
    assert_eq!(
        (status, &refused["error"]["code"], &refused["error"]["status"]),
        (409, &json!("ticket_ended"), &json!("expired"))
    );
    let second = world.hand_off(of("t", "c")).await;
    assert_ne!(second, first);
    world.clock.pass(Duration::from_secs(2));
    assert_eq!(world.ids("").await, [second.as_str()]);
    assert_eq!(world.ids("state=expired").await, [first.as_str()]);
    assert_eq!(world.events("expired"), 1, "logged and counted once");
    // And nothing is kept for ever.
    world.clock.pass(Duration::from_secs(3 * 86_400));
    assert_eq!(world.poll("t", &first).await.0, 404);
    assert_eq!(world.poll("t", &second).await.0, 404);
    assert_eq!(world.ids("state=expired").await, Vec::<String>::new());
    world.assert_books(&["t"]).await;
}
