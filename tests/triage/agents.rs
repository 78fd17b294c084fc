//! The desk over HTTP: who gets which ticket, and what is said to whoever does not.

use crate::bed::CONFIG;
use crate::kit::{ADMIN, World, by, new, of};
use serde_json::{Value, json};
use std::io::Write as _;
use std::time::Duration;
use tollgate::domain::Priority;
use tollgate::triage::NewTicket;

#[tokio::test]
async fn a_ticket_is_claimed_by_one_answered_once_and_its_answer_reaches_the_app() {
    let world = World::new("").await;
    let id = world.hand_off(of("t", "c")).await;
    let path = |what: &str| format!("/admin/triage/{id}{what}");
    let (status, claimed) = world.act(0, &path("/claim"), by("ann")).await;
    assert_eq!((status, &claimed["status"]), (200, &json!("claimed")));
    assert_eq!(claimed["claimed_by"], json!({ "agent": "ann", "until": "2027-01-15T08:15:00Z" }));
    assert_eq!(world.poll("t", &id).await.1["status"], "claimed");

    let held = json!({ "error": {
        "code": "ticket_claimed", "message": "ann has claimed the ticket until 2027-01-15T08:15:00Z.",
        "held_by": "ann", "until": "2027-01-15T08:15:00Z",
    }});
    let answer = json!({ "agent": "bob", "text": "No." });
    for (what, body) in [("/claim", by("bob")), ("/answer", answer), ("/release", by("bob")), ("/expire", by("bob"))] {
        assert_eq!(world.act(0, &path(what), body).await, (409, held.clone()), "{what}");
    }

    world.clock.pass(Duration::from_secs(60));
    let answer = json!({ "agent": "ann", "text": "It left this morning. <b>é</b>" });
    for _ in 0..2 {
        let (status, answered) = world.act(0, &path("/answer"), answer.clone()).await;
        assert_eq!((status, &answered["status"]), (200, &json!("answered")), "once or twice");
    }
    assert_eq!(world.events("answered"), 1);
    let (status, other) = world.act(0, &path("/answer"), json!({ "agent": "ann", "text": "Something else." })).await;
    let ended = json!({ "code": "ticket_ended", "message": "The ticket is answered already, by ann.", "status": "answered", "ended_by": "ann" });
    assert_eq!((status, &other["error"]), (409, &ended));

    let right = json!({
        "id": id, "object": "triage.ticket", "status": "answered", "position": null,
        "opened_at": "2027-01-15T08:00:00Z", "expires_at": "2027-01-22T08:00:00Z",
        "answer": { "text": "It left this morning. <b>é</b>", "answered_at": "2027-01-15T08:01:00Z" },
    });
    assert_eq!(world.poll("t", &id).await, (200, right), "and not who answered");
    let history = world.look(0, &path("")).await.1["history"].clone();
    let what: Vec<_> = history.as_array().expect("a list").iter().map(|entry| (&entry["who"], &entry["what"])).collect();
    assert_eq!(what, [(&Value::Null, &json!("opened")), (&json!("ann"), &json!("claimed")), (&json!("ann"), &json!("answered"))]);
    assert_eq!(world.ids("").await, Vec::<String>::new());
    assert_eq!(world.ids("state=answered").await, [id]);
    world.assert_books(&["t"]).await;
}

#[tokio::test]
async fn a_lease_that_ends_and_a_ticket_handed_back_go_to_the_next_one_at_their_old_place() {
    let world = World::new("[triage]\nlease = \"5m\"").await;
    let first = world.hand_off(new("a")).await;
    world.clock.pass(Duration::from_secs(1));
    let second = world.hand_off(new("b")).await;
    let claim = format!("/admin/triage/{first}/claim");
    assert_eq!(world.act(0, &claim, by("ann")).await.0, 200);
    assert_eq!(world.ids("state=open").await, [second.as_str()]);
    assert_eq!(world.ids("state=claimed").await, [first.as_str()]);
    world.clock.pass(Duration::from_secs(299));
    assert_eq!(world.act(0, &claim, by("ann")).await.0, 200, "for another five minutes");
    world.clock.pass(Duration::from_secs(299));
    assert_eq!(world.act(0, &claim, by("bob")).await.0, 409);
    world.clock.pass(Duration::from_secs(1));
    assert_eq!(world.ids("state=open").await, [first.as_str(), second.as_str()], "in its old place");
    assert_eq!(world.events("lease_ended"), 1);
    assert_eq!(world.act(0, &claim, by("bob")).await.0, 200);
    assert_eq!(world.act(0, &format!("/admin/triage/{first}/release"), by("bob")).await.0, 200);
    assert_eq!(world.act(0, &format!("/admin/triage/{first}/release"), by("bob")).await.0, 200, "twice is once");
    assert_eq!(world.events("released"), 1);
    assert_eq!(world.ids("state=open").await, [first, second]);
    world.assert_books(&["a", "b"]).await;
}

#[tokio::test]
async fn the_queue_is_listed_by_priority_and_age_filtered_and_in_pages() {
    let world = World::new("").await;
    let mut by_priority = Vec::new();
    for (n, priority) in [Priority::Internal, Priority::Live, Priority::Internal, Priority::Live].into_iter().enumerate() {
        let class = (n % 2 == 1).then(|| "billing".into());
        by_priority.push(world.hand_off(NewTicket { priority, class, ..new(&format!("c{n}")) }).await);
        world.clock.pass(Duration::from_secs(1));
    }
    let order: Vec<String> = [1, 3, 0, 2].map(|n| by_priority[n].clone()).to_vec();
    assert_eq!(world.ids("").await, order);
    assert_eq!(world.ids("queue=billing").await, [order[0].clone(), order[1].clone()]);
    assert_eq!(world.ids("queue=general").await, [order[2].clone(), order[3].clone()]);
    assert_eq!(world.ids("customer=c2").await, [order[3].clone()]);
    assert_eq!(world.ids("state=claimed").await, Vec::<String>::new());
    for (n, id) in order.iter().enumerate() {
        assert_eq!(world.poll(["c1", "c3", "c0", "c2"][n], id).await.1["position"], n + 1);
    }
    let (mut paged, mut after) = (Vec::new(), String::new());
    for page in 0.. {
        assert!(page < 6, "the pages end");
        let (status, listing) = world.look(0, &format!("/admin/triage?limit=1{after}")).await;
        assert_eq!(status, 200);
        paged.extend(
            listing["tickets"].as_array().expect("a list").iter().map(|ticket| ticket["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = listing["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(paged, order);
    world.assert_books(&["c0", "c1", "c2", "c3"]).await;
}

#[tokio::test]
async fn what_makes_no_sense_is_said_and_changes_nothing() {
    let world = World::new("").await;
    let id = world.hand_off(new("t")).await;
    let unknown = "tt_00000000000000000000000000000000";
    for (path, status, code) in [
        ("/admin/triage?state=lost".to_owned(), 400, "invalid_request"),
        ("/admin/triage?limit=0".to_owned(), 400, "invalid_request"),
        ("/admin/triage?limit=201".to_owned(), 400, "invalid_request"),
        ("/admin/triage?after=1".to_owned(), 400, "invalid_request"),
        ("/admin/triage?sate=open".to_owned(), 400, "invalid_request"),
        ("/admin/triage?state=open&state=open".to_owned(), 400, "invalid_request"),
        (format!("/admin/triage/{unknown}"), 404, "ticket_not_found"),
        ("/admin/triage/c%2Ft".to_owned(), 404, "ticket_not_found"),
        ("/admin/triag".to_owned(), 404, "route_not_found"),
        ("/nothing".to_owned(), 404, "route_not_found"),
        ("/v1/chat/completions".to_owned(), 404, "route_not_found"),
        (format!("/admin/triage/{id}/claim"), 405, "method_not_allowed"),
    ] {
        let (got, body) = world.look(0, &path).await;
        assert_eq!((got, body["error"]["code"].as_str()), (status, Some(code)), "{path}: {body}");
    }
    let claim = format!("/admin/triage/{id}/claim");
    for (path, body, status, code) in [
        (claim.clone(), json!({}), 400, "invalid_request"),
        (claim.clone(), json!({ "agent": "" }), 400, "invalid_request"),
        (claim.clone(), json!({ "agent": "  " }), 400, "invalid_request"),
        (claim.clone(), json!({ "agent": "a\nb" }), 400, "invalid_request"),
        (claim.clone(), json!({ "agent": "\u{202e}nna" }), 400, "invalid_request"),
        (claim.clone(), json!({ "agent": "a".repeat(129) }), 400, "invalid_request"),
        (claim.clone(), json!({ "agent": "ann", "force": true }), 400, "invalid_request"),
        (claim.clone(), json!(7), 400, "invalid_request"),
        (format!("/admin/triage/{id}/answer"), json!({ "agent": "ann" }), 400, "invalid_request"),
        (format!("/admin/triage/{id}/answer"), json!({ "agent": "ann", "text": " " }), 400, "invalid_request"),
        (
            format!("/admin/triage/{id}/answer"),
            json!({ "agent": "ann", "text": "x".repeat((16 << 10) + 1) }),
            400,
            "invalid_request",
        ),
        (
            format!("/admin/triage/{id}/answer"),
            json!({ "agent": "ann", "text": "x".repeat(256 << 10) }),
            413,
            "request_too_large",
        ),
        (format!("/admin/triage/{unknown}/claim"), by("ann"), 404, "ticket_not_found"),
        ("/admin/triage".to_owned(), by("ann"), 405, "method_not_allowed"),
    ] {
        let (got, answer) = world.act(0, &path, body.clone()).await;
        assert_eq!((got, answer["error"]["code"].as_str()), (status, Some(code)), "{path} {body:.80}: {answer}");
    }
    // What a form on some page could send.
    let bed = world.bed();
    for kind in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"] {
        let url = format!("http://{}{claim}", bed.admin.expect("an admin listener"));
        let reply =
            bed.client.post(url).header("content-type", kind).body(by("ann").to_string()).send().await.expect("an answer");
        assert_eq!(reply.status(), 415, "{kind}");
    }
    assert_eq!(world.look(0, &format!("/admin/triage/{id}")).await.1["status"], "open");
    world.assert_books(&["t"]).await;
}

#[tokio::test]
async fn the_listener_is_there_when_configured_and_asks_for_its_token() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "0123456789abcdef0123").expect("written");
    let token = format!("{CONFIG}\n{ADMIN}token = {{ file = \"{}\" }}\n", file.path().display());
    let world = World::of(1, &token).await;
    let bed = world.bed();
    let url = format!("http://{}/admin/triage", bed.admin.expect("an admin listener"));
    for (shown, origin, right) in [
        (None, None, (401, "unauthorized")),
        (Some("Bearer 0123456789abcdef0124"), None, (401, "unauthorized")),
        (Some("Bearer sk-test"), None, (401, "unauthorized")),
        (Some("Bearer 0123456789abcdef0123"), Some("https://evil.example"), (403, "origin_not_allowed")),
        (Some("Bearer 0123456789abcdef0123"), None, (200, "")),
    ] {
        let mut request = bed.client.get(&url);
        if let Some(shown) = shown {
            request = request.header("authorization", shown);
        }
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let reply = request.send().await.expect("an answer");
        let (status, headers) = (reply.status().as_u16(), reply.headers().clone());
        let body: Value = serde_json::from_slice(&reply.bytes().await.expect("a body")).expect("JSON");
        assert_eq!((status, body["error"]["code"].as_str().unwrap_or_default()), right, "{shown:?} {origin:?}");
        assert_eq!(headers.get("www-authenticate").is_some(), status == 401);
        assert_eq!(
            (headers["cache-control"].as_bytes(), headers["x-content-type-options"].as_bytes()),
            (&b"no-store"[..], &b"nosniff"[..])
        );
    }
    // Operators' routes are not on the public listener, nor the public ones here.
    let public = bed.client.get(bed.url("/admin/triage")).header("authorization", "Bearer 0123456789abcdef0123").send().await;
    assert_eq!(public.expect("an answer").status(), 404);
    assert_eq!(World::of(1, CONFIG).await.bed().admin, None);
    // A name that some page made resolve to this machine.
    let open = World::new("").await;
    let url = format!("http://{}/admin/triage", open.bed().admin.expect("an admin listener"));
    let reply = open.bed().client.get(url).header("host", "evil.example").send().await.expect("an answer");
    assert_eq!(reply.status(), 403);
    world.assert_books(&[]).await;
}
