//! A real process: SIGHUP, and files that change as editors, deployments and Kubernetes change them.

use crate::child::Running;
use std::os::unix::fs::symlink;
use std::path::Path;
use tollgate::demo::provider::{Gate, Provider, ProviderOptions, Script};

const CHAT: &str = r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hi"}]}"#;

fn config(provider: &Provider, rpm: u64) -> String {
    format!(
        "[upstreams.openai]\nbase_url = \"{}\"\n[plans.individual]\nmessages = \"unlimited\"\nrpm = {rpm}\n[handoff]\nmessage = \"x\"\n",
        provider.base_url()
    )
}

/// The log's line about this change of a setting.
fn changed(running: &Running, change: &str) {
    running.logged(|line| (line.contains("a setting has changed") && line.contains(change)).then_some(()));
}

/// What the file of the gateway says is put in its place whole, as editors do.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).expect("written");
    std::fs::rename(&beside, path).expect("renamed");
}

/// How many requests a minute the gateway allows now.
async fn rpm(running: &Running) -> String {
    let (status, headers, body) =
        running.post("/v1/chat/completions", &[("x-customer-id", "a"), ("authorization", "Bearer k")], CHAT).await;
    assert_eq!(status, 200, "{body}");
    headers["x-ratelimit-limit-requests"].to_str().expect("text").to_owned()
}

async fn metric(running: &Running, line: &str) -> bool {
    running.get("/metrics").await.1.lines().any(|metric| metric == line)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_read_again_at_a_hangup_and_when_it_changes_and_a_stream_goes_on() {
    let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("tollgate.toml");
    std::fs::write(&path, config(&provider, 601)).expect("written");
    let running =
        Running::serve(&["--config", path.to_str().expect("text")], &[("TOLLGATE_HANDOFF__MESSAGE", "said-by-the-environment")]);
    assert_eq!(rpm(&running).await, "601");

    let gate = Gate::new();
    let piece = |text: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    provider.script(Script::sse().send(piece("one")).until(&gate).send(piece("two")).send("data: [DONE]\n\n"));
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let stream = client.post(format!("{}/v1/chat/completions", running.url)).header("x-customer-id", "a").bearer_auth("k");
    let stream = stream.header("content-type", "application/json").body(CHAT.replace('{', "{\"stream\":true,").replacen(
        "{\"stream\":true,\"role\"",
        "{\"role\"",
        1,
    ));
    let mut stream = stream.send().await.expect("an answer");
    assert_eq!(stream.status(), 200);
    assert!(stream.chunk().await.expect("a piece").is_some());

    // By hand, at once.
    std::fs::write(&path, config(&provider, 602)).expect("written");
    running.signal("HUP");
    changed(&running, "plans.individual.rpm: 601 -> 602");
    assert_eq!(rpm(&running).await, "602");

    // By itself: in place, renamed into its place.
    std::fs::write(&path, config(&provider, 603)).expect("written");
    changed(&running, "plans.individual.rpm: 602 -> 603");
    replace(&path, &config(&provider, 604));
    changed(&running, "plans.individual.rpm: 603 -> 604");
    assert_eq!(rpm(&running).await, "604");

    // A bad one: all that is wrong, and nothing changes.
    replace(&path, &config(&provider, 605).replace("[handoff]", "[handof]\n[retry]\nmax = 99"));
    for problem in ["handof: is not a setting; did you mean `handoff`?", "retry.max: is more than 10"] {
        running.logged(|line| (line.contains("cannot be put in force") && line.contains(problem)).then_some(()));
    }
    assert_eq!(rpm(&running).await, "604");
    assert_eq!(running.get("/readyz").await.0, 200);
    running.logged(|line| line.contains("nothing was changed").then_some(()));
    assert!(
        metric(&running, "tollgate_config_refused 1").await
            && metric(&running, "tollgate_config_reloads_total{result=\"refused\"} 1").await
    );

    // As Kubernetes mounts a ConfigMap: the file is a link through a link, and that one is swapped.
    let version = |name: &str, rpm| {
        std::fs::create_dir(directory.path().join(name)).expect("a directory");
        std::fs::write(directory.path().join(name).join("tollgate.toml"), config(&provider, rpm)).expect("written");
        symlink(name, directory.path().join("..tmp")).expect("a link");
        std::fs::rename(directory.path().join("..tmp"), directory.path().join("..data")).expect("renamed");
    };
    version("..1", 606);
    symlink("..data/tollgate.toml", directory.path().join("link")).expect("a link");
    std::fs::rename(directory.path().join("link"), &path).expect("renamed");
    changed(&running, "plans.individual.rpm: 604 -> 606");
    version("..2", 607);
    changed(&running, "plans.individual.rpm: 606 -> 607");
    assert_eq!(rpm(&running).await, "607");
    assert!(metric(&running, "tollgate_config_refused 0").await);

    gate.open();
    let rest = stream.text().await.expect("to its end");
    assert!(rest.contains("two") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
    assert!(
        !running.log().iter().any(|line| line.contains("said-by-the-environment")),
        "values of the environment are not logged"
    );
    assert!(running.terminate().0.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_a_restart_is_refused_whole_and_a_rotated_key_is_used() {
    let provider = Provider::start(ProviderOptions::default()).await.expect("a loopback port");
    let directory = tempfile::tempdir().expect("a directory");
    let (path, key) = (directory.path().join("tollgate.toml"), directory.path().join("key"));
    std::fs::write(&key, "sk-old-0123456789").expect("written");
    let text = |rpm: u64| config(&provider, rpm).replace("[plans", &format!("api_key = {{ file = {key:?} }}\n[plans"));
    let keys = "[auth]\nmode = \"keys\"\n[keys.app]\nhash = \"HASH\"\n";
    let hash: String = tollgate::config::hash_key("k").iter().map(|byte| format!("{byte:02x}")).collect();
    let keys = keys.replace("HASH", &format!("blake3:{hash}"));
    std::fs::write(&path, format!("{}{keys}", text(601))).expect("written");
    let running = Running::serve(&["--config", path.to_str().expect("text")], &[]);
    assert_eq!(rpm(&running).await, "601");
    replace(&path, &format!("{}{keys}[store]\npath = \"b\"\n", text(602)));
    running.signal("HUP");
    running.logged(|line| {
        line.contains("store.path: the store cannot change while the gateway runs: not set -> \\\"b\\\"").then_some(())
    });
    assert_eq!(rpm(&running).await, "601");
    replace(&path, &format!("{}{keys}", text(602)));
    changed(&running, "plans.individual.rpm: 601 -> 602");
    std::fs::write(&key, "sk-new-0123456789").expect("written");
    changed(&running, "upstreams.openai.api_key: the content of ");
    assert_eq!(rpm(&running).await, "602");
    let shown: Vec<_> = provider.log().iter().map(|seen| seen.header("authorization").to_owned()).collect();
    assert_eq!(shown, ["Bearer sk-old-0123456789", "Bearer sk-old-0123456789", "Bearer sk-new-0123456789"]);
    assert!(!running.log().iter().any(|line| line.contains("sk-old") || line.contains("sk-new")), "no secret is logged");
    assert!(running.terminate().0.success());
}
