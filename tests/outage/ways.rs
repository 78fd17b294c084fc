//! The ways of being away.

use crate::mortal_redis::MortalRedis;
use crate::relay::Relay;
use crate::scene::{DEADLINE, RECOVERY, Scene};
use std::time::Duration;
use tokio::time::Instant;
use tollgate::domain::NanoUsd;
use tollgate::store::outage::Remote as _;
use tollgate::store::redis::RedisLedger;

fn run(redis: &MortalRedis, commands: &[&[&str]]) {
    let mut connection = redis.connection();
    for words in commands {
        redis::cmd(words[0]).arg(&words[1..]).exec(&mut connection).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }
}

/// What an outage is to the customers, from the request before it to the books after it.
async fn lived_through(way: &str, scene: &Scene, away: impl AsyncFnOnce(), back: impl AsyncFnOnce() -> bool) {
    let (known, stranger) = (format!("known-{way}"), format!("stranger-{way}"));
    assert_eq!(scene.ask(&known).await.0, 200, "{way}");
    assert_eq!(scene.ready().await, (200, "ready\n".to_owned()), "{way}");
    let (gate, early) = scene.in_flight(&known).await;

    away().await;
    for _ in 0..6 {
        assert_eq!(scene.ask(&known).await, (200, String::new()), "{way}: alone");
        assert_eq!(scene.ask(&stranger).await, (503, "limits_unavailable".to_owned()), "{way}");
    }
    scene.gone().await;
    let (status, text) = scene.ready().await;
    assert!(status == 200 && text.contains("degraded") && text.contains("deciding alone until 20"), "{way}: {status} {text}");
    gate.open();
    assert_eq!(early.await.expect("it ended"), 200, "{way}: what was in flight ends as if nothing were");
    scene.bed.quiet().await;
    let status = scene.guarded.status();
    assert_eq!((status.alone, status.refused_alone, status.outages), (6, 6, 1), "{way}");
    assert!(status.waiting >= 1, "{way}: {status:?}");

    let forgets = back().await;
    scene.back().await;
    assert_eq!(scene.ready().await, (200, "ready\n".to_owned()), "{way}");
    let status = scene.guarded.status();
    assert!(status.replayed >= 1 && status.stale == 0 && status.outages == 1, "{way}: {status:?}");
    // What a server forgets that a gateway has seen is put back.
    scene.bed.assert_books(&[&known]).await;
    assert_eq!(status.repaired > 0, forgets, "{way}: {status:?}");
    assert_eq!(scene.bed.spent(&stranger).await, NanoUsd::ZERO, "{way}");
    assert_eq!(scene.ask(&stranger).await.0, 200, "{way}");
    let metrics = scene.bed.client.get(scene.bed.url("/metrics")).send().await.expect("an answer").text().await.expect("text");
    for line in ["tollgate_store_admitted_alone_total 6", "tollgate_store_refused_alone_total 6", "tollgate_store_away 0"] {
        assert!(metrics.contains(line), "{way}: {line} in\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_is_gone_without() {
    let redis = MortalRedis::awake();
    let full: &[&[&str]] = &[&["CONFIG", "SET", "maxmemory", "1"]];
    let roomy: &[&[&str]] = &[&["CONFIG", "SET", "maxmemory", "0"]];
    let replica: &[&[&str]] = &[&["REPLICAOF", "127.0.0.1", "1"]];
    let master: &[&[&str]] = &[&["REPLICAOF", "NO", "ONE"]];
    for (way, away, back) in [("oom", full, roomy), ("readonly", replica, master)] {
        let scene = Scene::on(&redis.url()).await;
        let mend = async || {
            run(&redis, back);
            false
        };
        lived_through(way, &scene, async || run(&redis, away), mend).await;
    }
    // A password that the gateway does not know; the connection that sets it stays logged in.
    let scene = Scene::on(&redis.url()).await;
    let mut inside = redis.connection();
    let inside = parking_lot::Mutex::new(&mut inside);
    let tell = |words: &[&str]| redis::cmd(words[0]).arg(&words[1..]).exec(*inside.lock()).expect("logged in");
    let lock = async || {
        tell(&["CONFIG", "SET", "requirepass", "secret"]);
        tell(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    };
    let unlock = async || {
        tell(&["CONFIG", "SET", "requirepass", ""]);
        false
    };
    lived_through("noauth", &scene, lock, unlock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_with_these_errors_is_gone_without() {
    let redis = MortalRedis::awake();
    for (way, error) in [
        ("busy", "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
        ("misconf", "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."),
        ("clusterdown", "CLUSTERDOWN The cluster is down"),
        ("noperm", "NOPERM User default has no permissions to run the 'evalsha' command"),
        ("wrongpass", "WRONGPASS invalid username-password pair or user is disabled."),
    ] {
        let relay = Relay::to(redis.port()).await;
        let scene = Scene::on(&relay.url()).await;
        let away = async || relay.answer(Some(error));
        let back = async || {
            relay.answer(None);
            false
        };
        lived_through(way, &scene, away, back).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_slow_is_not_away() {
    let redis = MortalRedis::awake();
    let relay = Relay::to(redis.port()).await;
    let scene = Scene::on(&relay.url()).await;
    assert_eq!(scene.ask("early").await.0, 200);
    relay.delay(DEADLINE + DEADLINE / 2);
    // More in a row than open the breaker, of customers whom nobody has seen: each is decided by the store.
    let asked = futures_util::future::join_all((0..8).map(|n| scene.ask(["a", "b", "c", "d"][n % 4]))).await;
    assert_eq!(asked, vec![(200, String::new()); 8]);
    let status = scene.guarded.status();
    assert_eq!((status.outages, status.alone, status.refused_alone, status.away), (0, 0, 0, false), "{status:?}");
    // Two of them were asked for alone, the others share what came behind.
    assert!(status.late >= 3, "{status:?}");
    relay.delay(Duration::ZERO);
    scene.bed.quiet().await;
    let mut spent = 0;
    for customer in ["early", "a", "b", "c", "d"] {
        spent += scene.bed.spent(customer).await.get();
    }
    assert_eq!(spent, scene.bed.provider_cost().get(), "each booked once");
    // Silence is another thing: whoever was never seen is refused in time, and it is over by itself.
    relay.delay(8 * DEADLINE);
    assert_eq!(scene.ask("stranger").await, (503, "limits_unavailable".to_owned()));
    assert_eq!(scene.guarded.status().outages, 1);
    relay.delay(Duration::ZERO);
    scene.back().await;
    assert_eq!(scene.ask("stranger").await.0, 200);
    scene.bed.quiet().await;
    assert_eq!(scene.bed.spent("stranger").await.get() + spent, scene.bed.provider_cost().get());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_is_gone_without() {
    for (way, forgets) in [("killed", false), ("killed and empty", true)] {
        let redis = parking_lot::Mutex::new(MortalRedis::awake());
        let url = redis.lock().url();
        let scene = Scene::on(&url).await;
        let back = async || {
            let mut redis = redis.lock();
            if forgets {
                redis.forget();
            }
            redis.wake();
            forgets
        };
        lived_through(&way.replace(' ', "-"), &scene, async || redis.lock().kill(), back).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_loading_is_gone_without() {
    let redis = parking_lot::Mutex::new(MortalRedis::awake());
    let url = redis.lock().url();
    redis.lock().fill();
    let scene = Scene::on(&url).await;
    let away = async || {
        redis.lock().kill();
        redis.lock().wake_loading();
    };
    let back = async || {
        redis.lock().loaded();
        false
    };
    lived_through("loading", &scene, away, back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_freezes_is_gone_without() {
    let redis = MortalRedis::awake();
    let scene = Scene::on(&redis.url()).await;
    let back = async || {
        redis.thaw();
        false
    };
    lived_through("frozen", &scene, async || redis.freeze(), back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_starts_without_its_store_and_serves_once_that_is_there() {
    let mut redis = MortalRedis::asleep();
    let scene = Scene::on(&redis.url()).await;
    assert_eq!(scene.ask("a").await, (503, "limits_unavailable".to_owned()));
    scene.gone().await;
    let (status, text) = scene.ready().await;
    assert!(status == 503 && text.contains("away"), "{status} {text}");
    redis.wake();
    scene.back().await;
    assert_eq!(scene.ready().await.0, 200);
    assert_eq!(scene.ask("a").await.0, 200);
    scene.bed.assert_books(&["a"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_that_live_divide_the_share_and_beyond_it_is_503() {
    let mut redis = MortalRedis::awake();
    let ledger = RedisLedger::connect(&[&redis.url()], Duration::from_secs(2)).expect("well-formed");
    assert_eq!(ledger.beat(7, 15).await, Ok(1));
    run(&redis, &[&["ZADD", "tg1:{shared}:gateways", "1", "one that died long ago"]]);
    let scene = Scene::on(&redis.url()).await;
    let ask = async || {
        let reply = scene.bed.chat("t", "m-small", r#","max_tokens":16"#).send().await.expect("an answer");
        let (status, retry) = (reply.status().as_u16(), reply.headers().contains_key("retry-after"));
        (status, retry, reply.text().await.expect("text").contains("limits_unavailable"))
    };
    assert_eq!(ask().await, (200, false, false));
    scene.bed.quiet().await;
    assert_eq!(scene.guarded.status().gateways, 2, "the one that died is not counted");
    redis.kill();
    // Of 60 requests a minute a tenth, of that the half: three now, and one in twenty seconds.
    let answers = [ask().await, ask().await, ask().await, ask().await, ask().await];
    assert_eq!(answers[..3], [(200, false, false); 3]);
    assert_eq!(answers[3..], [(503, true, true); 2], "neither 429 nor 402: the customer did nothing wrong");
    redis.wake();
    scene.back().await;
    assert_eq!(ask().await, (200, false, false));
    scene.bed.assert_books(&["t"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_and_data_that_are_flushed_are_no_outage() {
    let redis = MortalRedis::awake();
    let scene = Scene::on(&redis.url()).await;
    let (gate, early) = scene.in_flight("a").await;
    run(&redis, &[&["SCRIPT", "FLUSH"]]);
    let all = (0..100).map(|_| scene.bed.chat("a", "m-small", "").send());
    for reply in futures_util::future::join_all(all).await {
        assert_eq!(reply.expect("an answer").status(), 200);
    }
    run(&redis, &[&["SCRIPT", "FLUSH"]]);
    gate.open();
    assert_eq!(early.await.expect("it ended"), 200);
    scene.bed.assert_books(&["a"]).await;
    let (gate, early) = scene.in_flight("a").await;
    run(&redis, &[&["FLUSHALL"]]);
    assert_eq!(scene.ask("a").await.0, 200);
    gate.open();
    assert_eq!(early.await.expect("it ended"), 200);
    scene.bed.assert_books(&["a"]).await;
    let status = scene.guarded.status();
    assert_eq!((status.outages, status.repaired), (0, 1), "an alarm, and nothing spent twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thawed_server_answers_nobody_with_the_reply_of_another() {
    let redis = MortalRedis::awake();
    let scene = Scene::on(&redis.url()).await;
    // Each customer asks for answers of its own length, so that its spending tells whose requests were booked.
    let ask = |n: u64| {
        let body = format!(r#"{{"model":"m-small","messages":[{{"role":"user","content":"[{} tokens]"}}]}}"#, 10 + n);
        scene.bed.post("/v1/chat/completions", &format!("c{n}"), body)
    };
    for n in 0..10 {
        assert_eq!(ask(n).send().await.expect("an answer").status(), 200);
    }
    scene.bed.quiet().await;
    redis.freeze();
    let strangers = (0..50).map(|n| {
        let request = scene.bed.chat(&format!("stranger{}", n % 10), "m-small", "").send();
        tokio::time::timeout(Duration::from_millis(10 + n * 5), request) // its client leaves
    });
    let known = (0..100).map(|n| async move {
        let began = Instant::now();
        let status = ask(n % 10).send().await.expect("an answer").status().as_u16();
        (status, began.elapsed())
    });
    let (known, strangers) = tokio::join!(futures_util::future::join_all(known), futures_util::future::join_all(strangers));
    assert!(known.iter().all(|(status, _)| *status == 200), "{known:?}");
    assert!(known.iter().all(|(_, took)| *took < Duration::from_secs(5)), "{known:?}");
    assert!(strangers.iter().flatten().all(|reply| reply.as_ref().is_ok_and(|reply| reply.status() == 503)), "{strangers:?}");
    redis.thaw();
    scene.back().await;
    let after = futures_util::future::join_all((0..100).map(|n| ask(n % 10).send())).await;
    assert!(after.iter().all(|reply| reply.as_ref().is_ok_and(|reply| reply.status() == 200)));
    let policy = scene.bed.gateway.policy.load();
    for n in 0..10 {
        let own = scene.bed.provider.log().into_iter().filter_map(|seen| seen.usage).filter(|usage| usage.output == 10 + n);
        let costs: Vec<u64> = own.map(|usage| policy.prices.get("m-small").expect("priced").cost(&usage, None).get()).collect();
        assert_eq!(costs.len(), 1 + 10 + 10, "c{n}");
        assert_eq!(scene.bed.spent(&format!("c{n}")).await.get(), costs.iter().sum::<u64>(), "c{n}");
    }
    // What the server did for callers who had left is given back as well.
    let deadline = Instant::now() + RECOVERY;
    for n in 0..10 {
        let customer = format!("stranger{n}");
        while scene.bed.balances(&customer).await.iter().any(|balance| balance.held > 0) {
            assert!(Instant::now() < deadline, "{customer} still holds");
            tokio::time::sleep(Duration::from_millis(5)).await; // polling with a deadline
        }
        assert_eq!(scene.bed.spent(&customer).await, NanoUsd::ZERO, "{customer}");
    }
}
