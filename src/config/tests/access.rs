//! Who may call, where secrets come from, and what the environment may set.

use super::super::hash_key;
use super::super::policy::{App, Auth, ForwardId, LimitKind, LostHold, Outage, RedisServers, StoreKind};
use super::{MINUTE, bucket, policy, problems, sound};
use crate::domain::{NanoUsd, Priority};
use crate::limit::{Bucket, LimitName, Measure};
use crate::wire::Dialect;
use std::time::Duration;

#[test]
fn passthrough_beyond_loopback_needs_to_know_its_callers() {
    let found = problems("[server]\nlisten = \"0.0.0.0:8080\"", &[]);
    assert!(found[0].starts_with("f:2: server.listen: 0.0.0.0:8080 is reachable from other machines"), "{found:?}");
    let found = problems("", &[("TOLLGATE_SERVER__LISTEN", "[::]:80")]);
    assert!(
        found[0].starts_with("environment variable TOLLGATE_SERVER__LISTEN: server.listen: [::]:80 is reachable"),
        "{found:?}"
    );
    let policy = policy("[server]\nlisten = \"0.0.0.0:8080\"\n[auth]\ntrusted_networks = [\"10.0.0.0/8\", \"192.168.1.7\"]");
    let Auth::Passthrough { trusted } = &policy.auth else { panic!("passthrough") };
    assert_eq!(trusted.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.0/8", "192.168.1.7/32"]);
}

#[test]
fn gateway_keys_become_apps_by_hash() {
    let hex = blake3::hash(b"another-long-random-key").to_hex();
    let text = format!(
        "[auth]\nmode = \"keys\"\n[keys.shop]\nkey = {{ env = \"TOLLGATE_SHOP\" }}\nplans = [\"business\"]\npriority = \"background\"\nmodels = [\"gpt-4o*\"]\ncustomers = [\"c_*\"]\nroutes = [\"/v1/chat*\"]\nnew_customers_per_hour = 5\nrpm = 9\nspend = {{ day = 5 }}\n[keys.other]\nhash = \"blake3:{hex}\""
    );
    let pool = "\n[pools.big]\nupstream = \"openai\"\nmodels = [\"gpt-4o*\"]";
    let pooled = text.replace("rpm = 9", "pools = [\"big\"]\nrpm = 9") + pool;
    let (policy, _) = sound(&pooled, &[("TOLLGATE_SHOP", "a-long-and-random-key\n"), ("OPENAI_API_KEY", "sk-1")]);
    let Auth::Keys { apps } = &policy.auth else { panic!("keys") };
    assert_eq!(apps.len(), 2);
    let App { name, limits, plans, priority, models, customers, routes, pools, new_customers } =
        &*apps[&hash_key("a-long-and-random-key")].clone();
    assert_eq!(
        (&**name, *priority, limits.rates.len(), limits.spend[0].1),
        ("shop", Priority::Background, 1, NanoUsd::new(5_000_000_000))
    );
    assert_eq!((&*plans[0], &*models[0], &*customers[0]), ("business", "gpt-4o*", "c_*"));
    assert_eq!((&*routes[0], &*pools[0], *new_customers), ("/v1/chat*", "big", Some(5)));
    assert_eq!(&*apps[&hash_key("another-long-random-key")].name, "other");
    assert_eq!(policy.upstreams["openai"].api_key.as_ref().map(|key| key.expose()), Some("sk-1"));
    assert!(policy.upstream_of("x", Dialect::Anthropic).is_none(), "no key, no upstream");
    let vars = [("TOLLGATE_SHOP", "a-long-and-random-key"), ("ANTHROPIC_API_KEY", "sk-2")];
    let anthropic = sound(&text, &vars).0.upstream_of("x", Dialect::Anthropic).and_then(|up| up.api_key.clone());
    assert_eq!(anthropic.as_ref().map(|key| key.expose()), Some("sk-2"));
    let found = problems(&text, &vars[..1]);
    assert!(found.len() == 1 && found[0].starts_with("f:1: no upstream"), "{found:?}");
}

#[test]
fn secrets_come_from_outside_and_never_show() {
    let keys = "[auth]\nmode = \"keys\"\n[keys.a]\n";
    let upstream = "[upstreams.openai]\napi_key = ";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "sk-from-a-file\n").expect("written");
    for (text, vars, right) in [
        (format!("{keys}key = \"hunter2\""), &[][..], "f:4: keys.a.key: is a secret written in the file itself"),
        (format!("{keys}key = {{ env = \"NOPE\" }}"), &[][..], "f:4: keys.a.key: the environment variable NOPE is not set"),
        (
            format!("{keys}key = {{ env = \"hunter-2\" }}"),
            &[][..],
            "f:4: keys.a.key.env: is not the name of an environment variable",
        ),
        (format!("{keys}key = {{ file = \"/no/such\" }}"), &[][..], "f:4: keys.a.key: the file /no/such cannot be read"),
        (format!("{keys}key = {{ env = \"K\" }}"), &[("K", " ")][..], "f:4: keys.a.key: the environment variable K is empty"),
        (
            format!("{keys}key = {{ env = \"K\" }}"),
            &[("K", "hunter2\nx")][..],
            "f:4: keys.a.key: the environment variable K holds more",
        ),
        (format!("{keys}hash = \"hunter2\""), &[][..], "f:4: keys.a.hash: is not the hash of a key"),
        (format!("{keys}rpm = 1"), &[][..], "f:3: keys.a: has neither hash nor key"),
        ("[auth]\nmode = \"keys\"".to_owned(), &[][..], "f:1: keys mode without a key"),
        (
            "[store]\nkind = \"redis\"\nurls = [\"redis://:hunter2@h:6379\"]".to_owned(),
            &[][..],
            "f:3: store.urls[0]: has credentials in the file itself",
        ),
        (
            "[store]\nkind = \"redis\"\nurls = [{ env = \"R\" }]".to_owned(),
            &[("R", "hunter2")][..],
            "f:3: store.urls[0]: is not the address",
        ),
        ("[store]\nkind = \"redis\"".to_owned(), &[][..], "f:1: store: `urls` is missing"),
        ("[store]\nlost_hold = \"forget\"".to_owned(), &[][..], "f:2: store.lost_hold: \"forget\" is unknown"),
        (
            "[store]\nkind = \"redis\"\nurls = [\"redis://a:1\"]\nlease = \"500ms\"".to_owned(),
            &[][..],
            "f:4: store.lease: is not between 1s and 1h",
        ),
    ] {
        let vars: Vec<_> = vars.iter().copied().chain([("OPENAI_API_KEY", "sk")]).collect();
        let found = problems(&text, &vars);
        assert_eq!(found.len(), 1, "{text}: {found:#?}");
        assert!(found[0].starts_with(right), "{text}\n  found {}\n  right {right}", found[0]);
        assert!(!found[0].contains("hunter"), "{}", found[0]);
    }
    let text = format!("{keys}key = {{ env = \"K\" }}\n{upstream}{{ file = {:?} }}", file.path());
    let (policy, _) = sound(&text, &[("K", "a-long-and-random-key")]);
    assert_eq!(policy.upstreams["openai"].api_key.as_ref().map(|key| key.expose()), Some("sk-from-a-file"));
    assert!(!format!("{policy:?}").contains("sk-from-a-file"));
    let redis = "[store]\nkind = \"redis\"\nurls = [{ env = \"R\" }]";
    let (policy, _) = sound(redis, &[("R", "redis://:p%40ss@h:6379/1")]);
    let StoreKind::Redis { servers: RedisServers::One(url), .. } = &policy.store else { panic!("{:?}", policy.store) };
    assert_eq!(url.expose(), "redis://:p%40ss@h:6379/1");
    assert!(!format!("{policy:?}").contains("p%40ss"));
    assert_eq!(policy.store.lease(), Duration::from_secs(120));
    assert!(matches!(policy.store, StoreKind::Redis { lost_hold: LostHold::Charge, .. }));
    servers_of_redis();
    let (policy, _) = sound(&format!("{redis}\nlease = \"30s\"\nlost_hold = \"release\""), &[("R", "redis://h")]);
    assert_eq!(policy.store.lease(), Duration::from_secs(30));
    assert!(matches!(policy.store, StoreKind::Redis { lost_hold: LostHold::Release, .. }));
    let (policy, _) = sound("[store]\nlost_hold = \"release\"", &[]);
    assert!(matches!(policy.store, StoreKind::Embedded { lost_hold: LostHold::Release, .. }));
    let (policy, _) = sound(redis, &[("R", "redis://h")]);
    assert!(matches!(&policy.store, StoreKind::Redis { outage, .. } if *outage == Outage::default()));
    let outage =
        "outage = { max = \"0s\", share = 0.025, failures = 5, probe = \"250ms\" }\njournal = \"/j\"\njournal_max = \"1MiB\"";
    let (policy, _) = sound(&format!("{redis}\n{outage}"), &[("R", "redis://h:6379")]);
    let right = Outage {
        max: Duration::ZERO,
        share: 25_000,
        failures: 5,
        probe: Duration::from_millis(250),
        journal: "/j".into(),
        journal_max: 1 << 20,
    };
    assert!(matches!(&policy.store, StoreKind::Redis { outage, .. } if *outage == right), "{:?}", policy.store);
    for (wrong, right) in
        [("share = 1.5", "store.outage.share"), ("failures = 0", "store.outage.failures"), ("probe = \"1m\"", "longer")]
    {
        let found = problems(&format!("{redis}\noutage = {{ {wrong} }}"), &[("R", "redis://h:6379")]);
        assert!(found.len() == 1 && found[0].contains(right), "{wrong}: {found:?}");
    }
    let hashed = "[identity]\nforward_id = { hashed_with = { env = \"S\" } }";
    assert!(
        matches!(&sound(hashed, &[("S", "salt")]).0.identity.forward, ForwardId::Hashed { secret } if secret.expose() == "salt")
    );
}

#[test]
fn variables_override_the_file() {
    let text = "[server]\nlisten = \"127.0.0.1:1\"\n[models.\"gpt-4.1\"]\noutput_floor = 1";
    let (policy, _) = sound(
        text,
        &[
            ("TOLLGATE_SERVER__LISTEN", "127.0.0.1:2"),
            ("TOLLGATE_MODELS__GPT_4_1__OUTPUT_FLOOR", "99"),
            ("TOLLGATE_AUTH__TRUSTED_NETWORKS", "10.0.0.0/8, ::1"),
            ("TOLLGATE_PLANS__INDIVIDUAL__USER", "{ rpm = 7 }"),
            ("TOLLGATE_PLANS__INDIVIDUAL__MESSAGES", "9/m"),
            ("TOLLGATE_LOG", "debug"),
            ("TOLLGATE_PORT", "tcp://10.0.0.1:8080"),
            ("TOLLGATE_SERVICE_HOST", "10.0.0.1"),
        ],
    );
    assert_eq!(policy.server.listen.port(), 2);
    assert_eq!(policy.models["gpt-4.1"].output_floor, Some(99));
    assert!(matches!(&policy.auth, Auth::Passthrough { trusted } if trusted.len() == 2));
    assert_eq!(policy.plans["individual"].user.rates, [bucket(LimitName::Rpm, Measure::Request, Bucket::new(7, 7, MINUTE))]);
    assert_eq!(
        policy.plans["individual"].limits.messages.map(|l| l.kind),
        Some(LimitKind::Bucket(Bucket::new(18, 9, MINUTE).expect("exact")))
    );
    for (name, right) in [
        ("TOLLGATE_", "environment variable TOLLGATE_: names no setting"),
        ("TOLLGATE_LISTEN", "environment variable TOLLGATE_LISTEN: listen: is not a setting"),
        ("TOLLGATE_SERVER__LISTEN__PORT", "environment variable TOLLGATE_SERVER__LISTEN__PORT: server.listen: is not a table"),
    ] {
        let found = problems(text, &[(name, "1")]);
        assert!(found[0].starts_with(right), "{name}: {found:?}");
    }
}

/// One server, a cluster, sentinels: what is meant, and what cannot be.
fn servers_of_redis() {
    let servers = |more: &str, vars: &[(&str, &str)]| {
        let (policy, _) = sound(&format!("[store]\nkind = \"redis\"\n{more}"), vars);
        let StoreKind::Redis { servers, .. } = policy.store else { panic!("redis") };
        servers
    };
    let nodes = |servers: RedisServers| match servers {
        RedisServers::Cluster(urls) => urls.iter().map(|url| url.expose().to_owned()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(nodes(servers("urls = [\"redis://a:1\", \"redis://b:1\"]", &[])), ["redis://a:1", "redis://b:1"]);
    assert_eq!(nodes(servers("urls = [\"redis://a:1\"]\ncluster = true", &[])), ["redis://a:1"]);
    assert!(matches!(servers("urls = [\"redis://a:1\"]\ncluster = false", &[]), RedisServers::One(_)));
    let sentinel = "sentinel = { master = \" mymaster\", urls = [\"redis://a:1\"], login = { env = \"R\" } }";
    match servers(sentinel, &[("R", "rediss://u:p@any/2")]) {
        RedisServers::Sentinel { master, sentinels, login } => {
            let urls = (sentinels[0].expose(), login.as_ref().map(|login| login.expose()));
            assert_eq!((master.as_str(), sentinels.len(), urls), ("mymaster", 1, ("redis://a:1", Some("rediss://u:p@any/2"))));
        }
        other => panic!("{other:?}"),
    }
    for (more, right) in [
        (
            "urls = [\"redis://a:1\", \"redis://b:1\"]\ncluster = false",
            "f:3: store.urls: names 2 servers, and `cluster` is false; name one server, or nodes of one cluster, or the sentinels in `sentinel`",
        ),
        ("urls = []", "f:1: store: `urls` is missing"),
        (
            "urls = [\"redis://a:1\", \"redis://b:1/3\"]",
            "f:3: store.urls[1]: names a database, and a cluster has only number 0; leave it out of the address",
        ),
        (
            "urls = [\"redis://a:1\", \"rediss://b:1\"]",
            "f:3: store.urls: names nodes of a cluster that differ in TLS, user or password; log in at all of them in the same way",
        ),
        (
            "urls = [\"redis://a:1\"]\nsentinel = { master = \"m\", urls = [\"redis://a:1\"] }",
            "f:3: store.urls: does not go with `sentinel`; leave it out: the sentinels say which server is the master",
        ),
        (
            "cluster = true\nsentinel = { master = \"m\", urls = [\"redis://a:1\"] }",
            "f:3: store.cluster: does not go with `sentinel`; leave it out: the sentinels say which server is the master",
        ),
        ("sentinel = { urls = [\"redis://a:1\"] }", "f:3: store.sentinel: `master` is missing"),
        ("sentinel = { master = \" \", urls = [\"redis://a:1\"] }", "f:3: store.sentinel.master: is empty"),
        ("sentinel = { master = \"m\" }", "f:3: store.sentinel: `urls` is missing"),
        ("sentinel = { master = \"m\", urls = [\"x\"] }", "f:3: store.sentinel.urls[0]: is not the address"),
    ] {
        let found = problems(&format!("[store]\nkind = \"redis\"\n{more}"), &[]);
        assert_eq!(found.len(), 1, "{more}: {found:#?}");
        assert!(found[0].starts_with(right), "{more}\n  found {}\n  right {right}", found[0]);
    }
}
