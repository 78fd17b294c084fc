//! Webhooks: signed, repeated until they are taken, to whom they concern; and what the admin listener shows.

use crate::kit::{Receiver, World, config, look, only, percent};
use serde_json::json;
use std::io::Write as _;
use tollgate::alert::Kind;

const KEY: &str = "a-plain-secret-of-enough-length";

#[tokio::test]
async fn an_alert_is_signed_repeated_until_it_is_taken_and_goes_to_whom_it_concerns() {
    let (ops, money, levels) = (Receiver::start(&[500, 503]).await, Receiver::start(&[]).await, Receiver::start(&[]).await);
    let mut secret = tempfile::NamedTempFile::new().expect("a file");
    write!(secret, "{KEY}").expect("written");
    let hook = |name: &str, receiver: &Receiver, more: &str| {
        format!(
            "[alerts.webhooks.{name}]\nurl = \"http://{}/{name}\"\nsecret = {{ file = \"{}\" }}\n{more}\n",
            receiver.address,
            secret.path().display()
        )
    };
    let hooks = [
        hook("ops", &ops, ""),
        hook("money", &money, "kinds = [\"spend_cap\", \"first_at_cap\"]"),
        hook("levels", &levels, "kinds = [\"level_changed\"]"),
    ];
    let world = World::of(2, &config("day = 0.0002", &hooks.concat())).await;
    assert_eq!(world.ask(0, "acme").await, 200);
    let alerts = world.until(Kind::SpendCap, 1).await;
    let posts = ops.posts(3).await;
    let first = posts[0].verified(KEY.as_bytes());
    for post in &posts {
        assert_eq!((post.path.as_str(), post.header("content-type")), ("/ops", "application/json"));
        assert_eq!(post.header("webhook-id"), alerts[0].id, "the same for every attempt");
        assert_eq!(post.verified(KEY.as_bytes()), first);
    }
    assert_eq!(
        first,
        json!({ "text": alerts[0].text, "type": "alert.spend_cap", "timestamp": "2027-01-15T08:00:00Z", "data": alerts[0].view() })
    );
    assert_eq!(first["data"]["about"], json!({ "what": "customer", "name": "acme" }));
    assert_eq!(money.posts(1).await[0].verified(KEY.as_bytes()), first);

    // A model without a price concerns only those who want everything.
    let refused = world.beds[1].chat("acme", "unheard-of", "").send().await.expect("an answer");
    assert_eq!(refused.status(), 400);
    world.until(Kind::UnpricedModel, 1).await;
    let last = ops.posts(4).await[3].verified(KEY.as_bytes());
    assert_eq!((&last["type"], &last["data"]["about"]["name"]), (&json!("alert.unpriced_model"), &json!("unheard-of")));
    assert_eq!((money.so_far().len(), levels.so_far().len()), (1, 0));

    // Both gateways show both, the newest first.
    for bed in &world.beds {
        let (status, listing) = look(bed, "/admin/alerts").await;
        assert_eq!((status, &listing["complete"]), (200, &json!(true)));
        let kinds: Vec<_> = listing["alerts"].as_array().expect("a list").iter().map(|alert| alert["kind"].clone()).collect();
        assert_eq!(kinds.len(), 2, "{listing}");
        assert!(kinds.contains(&json!("spend_cap")) && kinds.contains(&json!("unpriced_model")), "{listing}");
        let (_, listing) = look(bed, "/admin/alerts?kind=spend_cap&limit=1").await;
        assert_eq!(listing, json!({ "alerts": [alerts[0].view()], "complete": true }));
    }
    for (query, said) in [
        ("kind=spend", "`kind` is one of spend_cap, "),
        ("limit=0", "`limit` is a number from 1 to 200."),
        ("limit=201", "`limit` is a number from 1 to 200."),
        ("since=1", "There is no such parameter; there is limit, kind."),
    ] {
        let (status, body) = look(world.bed(), &format!("/admin/alerts?{query}")).await;
        let message = body["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(status, 400, "{query}");
        assert!(message.starts_with(said), "{query}: {message}");
    }
    world.bed().assert_books(&["acme"]).await;
}

#[tokio::test]
async fn a_destination_that_takes_nothing_is_told_of_once_and_holds_up_nobody() {
    let (dead, well) = (Receiver::start(&[410, 410, 410, 410]).await, Receiver::start(&[]).await);
    let hooks = format!(
        "[alerts.webhooks.dead]\nurl = \"http://{}/dead\"\n[alerts.webhooks.well]\nurl = \"http://{}/well\"\n",
        dead.address, well.address
    );
    let world = World::of(1, &config("day = 0.0002", &hooks)).await;
    assert_eq!(world.ask(0, "acme").await, 200);
    let alerts = world.until(Kind::WebhookLost, 1).await;
    assert_eq!(alerts.len(), 2, "{alerts:#?}");
    let (posts, lost) = (well.posts(2).await, only(&alerts, Kind::WebhookLost));
    assert_eq!(posts[0].header("webhook-id"), percent(&alerts, 50).id);
    assert_eq!(posts[1].header("webhook-id"), lost.id);
    assert!(!posts[0].headers.contains_key("webhook-signature"), "without a secret there is none");
    assert!(lost.text.starts_with("1 webhooks of this gateway were given up"), "{}", lost.text);
    dead.posts(2).await;
    world.until(Kind::WebhookLost, 1).await;
    world.bed().assert_books(&["acme"]).await;
}
