//! What is wrong with certificates is found when the configuration is checked.

use crate::certificates::Authority;
use crate::{bed, directory, handshakes};
use tollgate::config::{Env, Policy};

fn check(text: &str) -> Result<Vec<String>, Vec<String>> {
    let said = |findings: Vec<tollgate::config::Finding>| findings.iter().map(ToString::to_string).collect::<Vec<_>>();
    Policy::parse(text, "t.toml", &Env::default()).map(|(_, warnings)| said(warnings)).map_err(said)
}

#[test]
fn what_cannot_be_served_is_a_problem_and_what_soon_cannot_is_a_warning() {
    let authority = Authority::new("ours");
    let directory = directory(&authority);
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        format!("{path:?}")
    };
    let issued = authority.issue("localhost", 365);
    let (cert, key, ca) = (file("c", &issued.cert), file("k", &issued.key), file("ca", &authority.pem()));
    let (soon, ended) = (authority.issue("localhost", 20), authority.issue("localhost", -1));
    let (soon, soon_key) = (file("soon", &soon.cert), file("soon_key", &soon.key));
    let (ended, ended_key) = (file("ended", &ended.cert), file("ended_key", &ended.key));
    let (other_key, nothing) = (file("other", &authority.issue("x", 1).key), file("nothing", "no PEM in here\n"));
    let broken = file("broken", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    for (tls, problem) in [
        (format!("cert = {cert}\nkey = {key}"), None),
        (format!("cert = {cert}\nkey = {key}\nclient_ca = {ca}\nclient_auth = \"optional\""), None),
        (format!("key = {key}"), Some("t.toml:1: server.tls: `cert` is missing")),
        (format!("cert = {cert}"), Some("t.toml:1: server.tls: `key` is missing")),
        (format!("cert = {cert}\nkey = {other_key}"), Some("t.toml:3: server.tls.key: the key in ")),
        (format!("cert = {cert}\nkey = {cert}"), Some("t.toml:3: server.tls.key: the file ")),
        (format!("cert = {nothing}\nkey = {key}"), Some("t.toml:2: server.tls.cert: the file ")),
        (format!("cert = {broken}\nkey = {key}"), Some("t.toml:2: server.tls.cert: holds a certificate that cannot be read")),
        (
            format!("cert = \"/nowhere/c.pem\"\nkey = {key}"),
            Some("t.toml:2: server.tls.cert: the file /nowhere/c.pem cannot be read"),
        ),
        (
            format!("cert = {cert}\nkey = {key}\nclient_auth = \"required\""),
            Some("t.toml:4: server.tls.client_auth: asks clients"),
        ),
        (
            format!("cert = {cert}\nkey = {key}\nclient_auth = \"maybe\"\nclient_ca = {ca}"),
            Some("t.toml:4: server.tls.client_auth: "),
        ),
        (format!("cert = {cert}\nkey = {key}\nclient_ca = {nothing}"), Some("t.toml:4: server.tls.client_ca: the file ")),
    ] {
        let said = check(&format!("[server.tls]\n{tls}\n")).err();
        assert_eq!(said.as_ref().map(Vec::len), problem.map(|_| 1), "{tls}: {said:#?}");
        assert!(problem.is_none_or(|problem| said.is_some_and(|said| said[0].starts_with(problem))), "{tls}: {problem:?}");
    }
    for (cert, key, warning) in [
        (&soon, &soon_key, Some(("has a certificate that ends on ", ", in 20 days; renew it"))),
        (&ended, &ended_key, Some(("has a certificate that ended on ", "; renew it: clients refuse it"))),
        (&cert, &key, None),
    ] {
        let said = check(&format!("[server.tls]\ncert = {cert}\nkey = {key}\n")).expect("sound");
        let found: Vec<_> = said.iter().filter(|warning| warning.contains("certificate")).collect();
        assert_eq!(found.len(), usize::from(warning.is_some()), "{said:#?}");
        if let Some((begin, end)) = warning {
            assert!(found[0].starts_with(&format!("t.toml:2: server.tls.cert: {begin}")) && found[0].ends_with(end), "{found:?}");
        }
    }
    let admin = "[admin]\nlisten = \"0.0.0.0:8081\"\ntoken = { env = \"T\" }\n";
    let env: Env = [("T", "0123456789abcdef0123")].into_iter().collect();
    let warned = |text: &str| {
        let warnings = Policy::parse(text, "t.toml", &env).expect("sound").1;
        warnings.iter().any(|warning| {
            warning.to_string().starts_with("t.toml:2: admin.listen: 0.0.0.0:8081 is reachable from other machines without TLS")
        })
    };
    assert!(warned(admin));
    assert!(!warned(&format!("{admin}[admin.tls]\ncert = {cert}\nkey = {key}\n")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_listener_has_a_certificate_of_its_own() {
    let (public, private) = (Authority::new("public"), Authority::new("private"));
    let (directory, own) = (directory(&public), directory(&private));
    let (cert, key) = (own.path().join("cert.pem"), own.path().join("key.pem"));
    let admin = format!("[admin]\nlisten = \"127.0.0.1:0\"\n[admin.tls]\ncert = {cert:?}\nkey = {key:?}\n");
    let bed = bed(directory.path(), &admin).await;
    let url = format!("https://localhost:{}/admin/levels", bed.admin.expect("it listens").port());
    let reply = private.client().build().expect("a client").get(&url).send().await.expect("an answer");
    assert_eq!(reply.status(), 200);
    assert!(public.client().build().expect("a client").get(&url).send().await.is_err_and(|error| error.is_connect()));
    handshakes(&bed, "admin", "ok", 1).await;
    bed.stop().await;
}
