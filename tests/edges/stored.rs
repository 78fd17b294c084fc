//! Ids as they come to lie in Redis: each under its own keys, opaque, and not for ever.

use crate::bed::Bed;
use crate::kit::{Answer, MESSAGES, config, messages_left};
use crate::redis_server::RedisServer;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::redis::RedisLedger;

fn keys(redis: &mut redis::Connection) -> BTreeSet<Vec<u8>> {
    redis::cmd("KEYS").arg("*").query(redis).expect("the keys")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_in_redis_are_opaque_and_every_key_expires() {
    let server = RedisServer::start();
    let ledger = RedisLedger::connect(&[&server.url()], Duration::from_secs(5)).expect("an address");
    let provider = Arc::new(Provider::start(ProviderOptions::default()).await.expect("a port"));
    let bed = Bed::on(&config(""), provider, Arc::new(ledger)).await;
    let mut redis = server.connection();
    messages_left(&bed, "warm").await;
    bed.quiet().await;
    // Refused ids leave nothing.
    let before = keys(&mut redis);
    for id in ["", "t, 1", "t, 2", "a b", &"x".repeat(513)] {
        let status = Answer::to(bed.chat(id, "m-small", "")).await.status;
        assert_eq!(status, 400, "{id}");
    }
    assert_eq!(keys(&mut redis), before, "no keys for ids that are none");
    let long = "x".repeat(512);
    let ids = ["*", "?", "[a-z]", "\"..os.exit()..\"", "%00", "../t", "a:b", "{a}", "}{", "null", "t", "T", &long];
    for id in ids {
        let before = keys(&mut redis);
        assert_eq!(messages_left(&bed, id).await, MESSAGES - 1, "{id} has a bucket of its own");
        bed.quiet().await;
        let after = keys(&mut redis);
        assert!(after.is_superset(&before) && after.len() > before.len(), "{id}: only its own keys change");
    }
    for n in 0..50 {
        messages_left(&bed, &format!("random-{n}")).await;
    }
    bed.quiet().await;
    let all = keys(&mut redis);
    assert!(all.len() > 50, "{}", all.len());
    for key in &all {
        let ttl: i64 = redis::cmd("TTL").arg(key).query(&mut redis).expect("a TTL");
        assert!(ttl > 0, "{} expires, not {ttl}", String::from_utf8_lossy(key));
        assert!(key.len() < 400, "a long id is not a long key: {}", String::from_utf8_lossy(key));
        assert!(!String::from_utf8_lossy(key).contains("null:") || ids.contains(&"null"), "no key for nobody");
    }
    let pwn: Option<String> = redis::cmd("GET").arg("pwn").query(&mut redis).expect("an answer");
    assert_eq!(pwn, None);
    let mut customers: Vec<String> = (0..50).map(|n| format!("random-{n}")).collect();
    customers.extend(ids.iter().map(|id| (*id).to_owned()).chain(["warm".to_owned()]));
    bed.assert_books(&customers.iter().map(String::as_str).collect::<Vec<_>>()).await;
}
