//! What the README promises of `serve` and `demo` as processes.

use super::child::{Running, run, tollgate};
use std::net::TcpListener;
use std::path::Path;

#[tokio::test]
async fn serve_needs_no_configuration_and_ends_in_order_on_sigterm() {
    let gateway = Running::serve(&[], &[]);
    assert_eq!(gateway.get("/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(gateway.get("/readyz").await, (200, "ready\n".to_owned()));
    let chat = "/v1/chat/completions";
    let body = r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hi"}]}"#;
    for (path, headers, status, code) in [
        (chat, &[("x-customer-id", "t")][..], 401, "invalid_api_key"),
        (chat, &[("authorization", "Bearer sk-1")], 400, "missing_customer_id"),
        (chat, &[("authorization", "Bearer sk-1"), ("x-customer-id", "a,b")], 400, "invalid_customer_id"),
        (
            chat,
            &[("authorization", "Bearer sk-1"), ("x-customer-id", "t"), ("x-customer-plan", "business")],
            403,
            "plan_not_allowed",
        ),
        ("/v1/v1/chat/completions", &[("authorization", "Bearer sk-1"), ("x-customer-id", "t")], 404, "route_not_found"),
    ] {
        let (got, _, answer) = gateway.post(path, headers, body).await;
        assert_eq!((got, answer["error"]["code"].as_str()), (status, Some(code)), "{path} {headers:?}");
        assert!(answer["error"]["message"].as_str().is_some_and(|message| message.ends_with('.')), "{answer}");
    }
    let (status, headers, _) = gateway.post("/v1/models", &[("authorization", "Bearer sk-1")], "{}").await;
    assert_eq!((status, headers["allow"].to_str().expect("text")), (405, "GET"));
    // Before the signal there is one line for each call, also where there is no route.
    let logged = gateway.access_log(6);
    assert_eq!(logged.iter().filter(|line| line["api"] == "chat").count(), 4, "{logged:#?}");
    let stray = logged.iter().filter(|line| line["api"] == "unknown");
    let stray: Vec<_> = stray.map(|line| (line["status"].as_u64(), line["cause"].as_str())).collect();
    assert_eq!(stray, [(Some(404), Some("route_not_found")), (Some(405), Some("method_not_allowed"))], "{logged:#?}");
    assert!(gateway.directory.path().join("tollgate-data").is_dir(), "the books are where the README says");
    let (status, _) = gateway.terminate();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn serve_says_what_is_wrong_and_starts_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("bound").to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |args: &[&str], variables: &[(&str, &str)]| {
        let output = tollgate(args, variables, directory.path()).output().expect("the program starts");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let (code, text) = refused(&["serve"], &[("TOLLGATE_SERVER__LISTEN", &taken)]);
    assert_eq!(code, Some(1), "{text}");
    let right = format!("tollgate: cannot listen on {taken}: Address already in use (os error 98)");
    assert!(text.contains(&format!("{right}; set server.listen or TOLLGATE_SERVER__LISTEN to another port")), "{text}");

    for (args, variables, right) in [
        (&["serve", "--config", "no-such.toml"][..], &[][..], "no-such.toml:1: the file cannot be read"),
        (&["serve"], &[("TOLLGATE_CONFIG", "no-such.toml")], "check the path given with --config or in TOLLGATE_CONFIG"),
        (&["serve"], &[("TOLLGATE_SERVER__LISTEN", "0.0.0.0:8080")], "set auth.trusted_networks"),
        (&["serve"], &[("TOLLGATE_SERVER__LISEN", "x")], "did you mean `listen`?"),
        (&["serve", "--log", "a=b=c"], &[("TOLLGATE_SERVER__LISTEN", "127.0.0.1:0")], "tollgate: cannot log: "),
    ] {
        let (code, text) = refused(args, variables);
        assert_eq!(code, Some(64), "{args:?}: {text}");
        assert!(text.contains(right), "{args:?}: {text}");
    }
}

#[tokio::test]
async fn the_demo_takes_another_port_and_says_so_and_where_to_go_on() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("bound");
    let mut demo = Running::spawn(&["demo", "--listen", &taken.to_string()], &[]);
    let port =
        demo.said(|line| line.strip_prefix(&format!("Port {} is taken; this demo uses ", taken.port())).map(str::to_owned));
    let port = port.trim_end_matches('.');
    assert_ne!(port, taken.port().to_string());
    demo.url = format!("http://127.0.0.1:{port}");
    demo.said(|line| line.starts_with(&format!("Tollgate is listening on {}", demo.url)).then_some(()));
    demo.said(|line| line.contains("second terminal").then_some(()));
    let pasted = demo.said(|line| line.starts_with("curl -sSi").then(|| line.to_owned()));
    let output = std::process::Command::new("bash").args(["-c", &pasted]).output().expect("bash and curl");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.starts_with("HTTP/1.1 200 OK"), "{printed}");
    assert_eq!(demo.terminate().0.code(), Some(0));
}

#[test]
fn each_demo_has_a_directory_of_its_own_and_removes_it() {
    let data = |directory: &Path| {
        let entries = std::fs::read_dir(directory).expect("the temporary directory");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    };
    let (first, second) = (Running::demo(&[]), Running::demo(&[]));
    let names: Vec<_> = [&first, &second].iter().flat_map(|demo| data(demo.directory.path())).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("tollgate-demo-")) && names[0] != names[1], "{names:?}");
    for demo in [first, second] {
        let (status, directory) = demo.terminate();
        assert_eq!(status.code(), Some(0));
        assert_eq!(data(directory.path()), Vec::<String>::new(), "nothing is left behind");
    }
}

#[test]
fn health_tells_ready_from_not_ready_from_nobody_there() {
    let gateway = Running::serve(&[], &[]);
    let away = [("TOLLGATE_STORE__KIND", "redis"), ("TOLLGATE_STORE__URLS", r#"["redis://127.0.0.1:1"]"#)];
    let outage = Running::serve(&[], &away);
    for (url, code, right) in [
        (format!("{}/readyz", gateway.url), 0, ""),
        (format!("{}/healthz", outage.url), 0, ""),
        (format!("{}/readyz", outage.url), 1, "not ready: 503 Service Unavailable: the store is away"),
        ("http://127.0.0.1:1/readyz".to_owned(), 1, "no answer from http://127.0.0.1:1/readyz; is the gateway running there?"),
        ("localhost".to_owned(), 64, "\"localhost\" is not a URL; write http://127.0.0.1:8080/readyz"),
    ] {
        let (got, out, err) = run(&["health", "--url", &url], &[]);
        assert_eq!((got, out.as_str()), (Some(code), ""), "{url}: {err}");
        assert!(if right.is_empty() { err.is_empty() } else { err.contains(right) }, "{url}: {err}");
    }
    assert_eq!(outage.terminate().0.code(), Some(0), "a store that is away does not keep the gateway from ending");
}
