//! Certificates that change while connections are open.

use crate::certificates::Authority;
use crate::child::Running;
use crate::{CHAT, bed, chat, config, directory, in_days};
use tollgate::config::Env;
use tollgate::demo::provider::{Gate, Script};
use tollgate::reload::{Outcome, Reloader};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_is_shown_to_new_connections_and_open_ones_go_on() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let directory = directory(&old);
    let bed = bed(directory.path(), "").await;
    let path = directory.path().join("tollgate.toml");
    let text = config(directory.path(), "").replace("{provider}", &bed.provider.base_url());
    std::fs::write(&path, text).expect("written");
    let reloader = Reloader::new(bed.gateway.clone(), Some(path), Env::default());
    let reload = async || {
        let reloader = reloader.clone();
        tokio::task::spawn_blocking(move || reloader.reload()).await.expect("no panic")
    };
    let expires = || {
        let metrics = bed.gateway.metrics.render();
        let line =
            metrics.lines().find_map(|line| line.strip_prefix("tollgate_tls_certificate_expires_seconds{listener=\"server\"} "));
        line.expect("a line").parse::<u64>().expect("a number")
    };
    assert!(expires().abs_diff(in_days(365).secs()) < 3_600);

    let gate = Gate::new();
    let piece = |text: &str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    bed.provider.script(Script::sse().send(piece("one")).until(&gate).send(piece("two")).send("data: [DONE]\n\n"));
    let client = old.client().build().expect("a client");
    let mut stream = chat(&client, &bed, &CHAT.replacen('{', "{\"stream\":true,", 1)).send().await.expect("an answer");
    assert!(stream.chunk().await.expect("a piece").is_some());

    // A certificate without its key: nothing changes, and who comes anew sees the old one.
    let issued = new.issue("localhost", 90);
    std::fs::write(directory.path().join("cert.pem"), &issued.cert).expect("written");
    let Outcome::Refused { problems } = reload().await else { panic!("that pair matches nobody") };
    let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert!(
        said.len() == 1
            && said[0].contains("server.tls.key: the key in ")
            && said[0].contains(" is not that of the certificate in "),
        "{said:?}"
    );
    assert!(chat(&old.client().build().expect("a client"), &bed, CHAT).send().await.is_ok_and(|reply| reply.status() == 200));

    issued.write(directory.path());
    assert_eq!(reload().await, Outcome::Applied { changes: 2 });
    assert!(expires().abs_diff(in_days(90).secs()) < 3_600);
    assert!(chat(&new.client().build().expect("a client"), &bed, CHAT).send().await.is_ok_and(|reply| reply.status() == 200));
    assert!(chat(&old.client().build().expect("a client"), &bed, CHAT).send().await.is_err_and(|error| error.is_connect()));
    // The open connection is one that goes on, for what it carries and for what comes next.
    assert_eq!(chat(&client, &bed, CHAT).send().await.expect("an answer").status(), 200);
    gate.open();
    assert!(stream.text().await.expect("to its end").ends_with("data: [DONE]\n\n"));
    bed.quiet().await;
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_takes_a_renewed_certificate_by_itself_and_health_asks_it() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let directory = directory(&old);
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, old.pem()).expect("written");
    let path = directory.path().join("tollgate.toml");
    std::fs::write(&path, config(directory.path(), "").replace("{provider}", "http://127.0.0.1:9")).expect("written");
    let running = Running::serve(&["--config", path.to_str().expect("text")], &[]);
    let url = running.url.replace("http://", "https://") + "/readyz";
    let health = async |more: &[&str]| {
        let (args, url) = (more.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>(), url.clone());
        let run = move || {
            let args: Vec<&str> = ["health", "--url", &url].into_iter().chain(args.iter().map(String::as_str)).collect();
            crate::child::run(&args, &[]).0
        };
        tokio::task::spawn_blocking(run).await.expect("no panic")
    };
    let ca = ca.to_str().expect("text");
    assert_eq!([health(&["--ca", ca]).await, health(&["--insecure"]).await, health(&[]).await], [Some(0), Some(0), Some(1)]);

    new.issue("localhost", 365).write(directory.path());
    running.logged(|line| line.contains("server.tls.cert: the content of").then_some(()));
    running.logged(|line| line.contains("a changed configuration is in force").then_some(()));
    assert_eq!(health(&["--ca", ca]).await, Some(1), "it shows the new one");
    std::fs::write(ca, new.pem()).expect("written");
    assert_eq!(health(&["--ca", ca]).await, Some(0));
    assert!(running.terminate().0.success());
}
