//! `tollgate alerts test`.

use crate::kit::Receiver;
use std::io::Write as _;
use std::process::Output;

const KEY: &str = "a-plain-secret-of-enough-length";

async fn run(config: &str, args: &[&str]) -> Output {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    write!(file, "{config}").expect("written");
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(["alerts", "test", "--config"]).arg(file.path()).args(args).env_clear().env("HOOK_KEY", KEY);
    command.output().await.expect("it runs")
}

fn hook(name: &str, receiver: &Receiver, more: &str) -> String {
    format!("[alerts.webhooks.{name}]\nurl = \"http://{}/{name}\"\nsecret = {{ env = \"HOOK_KEY\" }}\n{more}\n", receiver.address)
}

#[tokio::test]
async fn every_destination_is_tried_once_and_the_exit_code_says_whether_all_took_it() {
    let (well, ill, picky) = (Receiver::start(&[]).await, Receiver::start(&[500]).await, Receiver::start(&[]).await);
    let config = hook("well", &well, "") + &hook("picky", &picky, "kinds = [\"spend_cap\"]");
    let done = run(&config, &[]).await;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!((done.status.code(), &*err), (Some(0), ""), "{out}");
    let lines: Vec<_> = out.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>()).collect();
    assert_eq!(lines, [["well", "delivered"], ["picky", "delivered"]]);
    let said = well.so_far()[0].verified(KEY.as_bytes());
    assert_eq!((&said["type"], &said["data"]["facts"]["test"]), (&"alert.test".into(), &true.into()));
    assert!(said["text"].as_str().expect("a text").starts_with("This is a test of Tollgate's alerts"));

    let done = run(&config, &["--kind", "prompt_loop"]).await;
    let out = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{out}");
    assert!(
        out.lines().nth(1).is_some_and(|line| line.starts_with("picky") && line.ends_with("not sent: wants other kinds")),
        "{out}"
    );
    assert_eq!(well.so_far()[1].verified(KEY.as_bytes())["type"], "alert.prompt_loop");
    assert_eq!((well.so_far().len(), picky.so_far().len()), (2, 1));

    let done = run(&(config + &hook("ill", &ill, "")), &[]).await;
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "{out}");
    let last = out.lines().last().unwrap_or_default();
    assert!(last.starts_with("ill") && last.ends_with(": the receiver answered 500 Internal Server Error"), "{out}");
    assert_eq!(err, "tollgate: 1 of 3 destinations did not take it\n");
    assert_eq!(ill.so_far().len(), 1, "one attempt");

    let picky_only = hook("picky", &picky, "kinds = [\"spend_cap\"]");
    assert_eq!(run(&picky_only, &["--kind", "level_changed"]).await.status.code(), Some(1), "nobody wants it");
    let none = run("", &[]).await;
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is no [alerts.webhooks.NAME]"));
    assert_eq!(run("[alerts]\nquiet = [\"x\"]", &[]).await.status.code(), Some(64));
    assert_eq!(run("", &["--kind", "x"]).await.status.code(), Some(2), "no such kind");
}
