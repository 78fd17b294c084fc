//! What keys cost the store: nothing on the way to the provider, and one call at a time for any number of wrong ones.

use crate::mortal_redis::MortalRedis;
use crate::rig::{chat, make, ok, on_redis, operator, post, provider, refused};
use reqwest::Method;
use serde_json::json;
use std::sync::atomic::Ordering;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_with_a_key_made_at_run_time_costs_no_call_more() {
    let (server, provider) = (MortalRedis::awake(), provider().await);
    let (a, b) = (on_redis(&server, &provider, "").await, on_redis(&server, &provider, "").await);
    let key = make(&a, "shop", json!({})).await;
    let calls = || (b.ledger.admits.load(Ordering::SeqCst), b.ledger.told.load(Ordering::SeqCst));
    assert_eq!(chat(&b, &key, "acme", "m-big").await, ok());
    assert_eq!(calls(), (1, 1), "it was not known here, so the store was asked");
    for _ in 0..3 {
        assert_eq!(chat(&b, &key, "acme", "m-big").await, ok());
    }
    assert_eq!(calls(), (4, 1), "known");
    operator(&a, Method::DELETE, "/admin/keys/shop?by=ann", None).await;
    assert_eq!(chat(&b, &key, "acme", "m-big").await, refused(401, "api_key_revoked"));
    assert_eq!(calls(), (5, 1), "found out by the call that every request makes");
    b.quiet().await;
    a.assert_books(&["acme"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_make_the_same_key_at_once_one_does() {
    let (server, provider) = (MortalRedis::awake(), provider().await);
    let (a, b) = (on_redis(&server, &provider, "").await, on_redis(&server, &provider, "").await);
    let wish = || json!({ "name": "shop", "by": "ann" });
    let all =
        futures_util::future::join_all((0..24).map(|n| post(if n % 2 == 0 { &a } else { &b }, "/admin/keys", wish()))).await;
    let made: Vec<_> = all.iter().filter(|(status, _)| *status == 201).collect();
    assert_eq!((made.len(), all.iter().filter(|(status, _)| *status == 409).count()), (1, 23));
    let key = made[0].1["secret"].as_str().expect("shown once");
    for bed in [&a, &b] {
        assert_eq!(chat(bed, key, "acme", "m-big").await, ok());
    }
    // Revoked while it is used by many: who comes after the operator was answered is refused, on both.
    let (revoked, _) = tokio::join!(
        operator(&a, Method::DELETE, "/admin/keys/shop?by=ann", None),
        futures_util::future::join_all((0..40).map(|n| chat(if n % 2 == 0 { &a } else { &b }, key, "acme", "m-big")))
    );
    assert_eq!(revoked.0, 200);
    let after =
        futures_util::future::join_all((0..40).map(|n| chat(if n % 2 == 0 { &a } else { &b }, key, "acme", "m-big"))).await;
    assert!(after.iter().all(|told| *told == refused(401, "api_key_revoked")), "{after:?}");
    b.quiet().await;
    a.assert_books(&["acme"]).await;
}
