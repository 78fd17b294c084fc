//! `[triage]` and `[admin]`.

use super::{policy, problems, sound};
use crate::config::policy::{Admin, Secret, Triage, Webhook};
use std::time::Duration;

const TOKEN: &str = "0123456789abcdef0123";

#[test]
fn what_is_left_out_is_shipped_and_what_is_written_counts() {
    assert_eq!(policy("").triage, Triage::default());
    assert_eq!(policy("").admin, None);
    assert_eq!(policy("[admin]").admin, Some(Admin { listen: ([127, 0, 0, 1], 8081).into(), token: None, tls: None }));
    let text = "[triage]\nkeep = \"30d\"\nlease = \"5m\"\nconversation = true\nconversation_max = \"64KiB\"\nopen_per_customer = 2\n\
                requests = false\nrequest_max = \"8KiB\"\nopen = 9\nwebhook = { url = \"https://x.example/a?b\", secret = { env = \"HOOK\" }, timeout = \"3s\", attempts = 7 }\n\
                [admin]\nlisten = \"0.0.0.0:9\"\ntoken = { env = \"TOKEN\" }\n";
    let (policy, _) = sound(text, &[("HOOK", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), ("TOKEN", TOKEN)]);
    let right = Triage {
        keep: Duration::from_secs(30 * 86_400),
        lease: Duration::from_secs(300),
        conversation: true,
        conversation_max: 64 << 10,
        requests: false,
        request_max: 8 << 10,
        open_per_customer: 2,
        open: 9,
        webhook: Some(Webhook {
            url: Secret::new("https://x.example/a?b"),
            secret: Some(Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
            timeout: Duration::from_secs(3),
            attempts: 7,
        }),
    };
    assert_eq!(policy.triage, right);
    assert_eq!(policy.admin, Some(Admin { listen: ([0, 0, 0, 0], 9).into(), token: Some(Secret::new(TOKEN)), tls: None }));
    assert!(!format!("{policy:?}").contains("x.example") && !format!("{policy:?}").contains(TOKEN), "no secret shows");
    let (hidden, _) = sound("[triage]\nwebhook = { url = { env = \"URL\" } }", &[("URL", "https://hooks.example/s3cret")]);
    assert_eq!(hidden.triage.webhook.map(|webhook| webhook.url), Some(Secret::new("https://hooks.example/s3cret")));
}

#[test]
fn what_cannot_be_used_is_refused_without_showing_secrets() {
    let environment = [("SHORT", "short-secret"), ("BAD", "whsec_no!base64-but-long-enough"), ("URL", "https://u:pw@x.example/")];
    for (text, right) in [
        (
            "[admin]\nlisten = \"0.0.0.0:8081\"",
            "f:2: admin.listen: 0.0.0.0:8081 is reachable from other machines, and without a token",
        ),
        ("[admin]\nlisten = \"[::]:8081\"", "f:2: admin.listen: [::]:8081 is reachable"),
        ("[admin]\nlisten = \"127.0.0.1:8080\"", "f:2: admin.listen: 127.0.0.1:8080 is the address of [server] as well"),
        ("[admin]\ntoken = { env = \"SHORT\" }", "f:2: admin.token: is a short token, which can be guessed"),
        ("[admin]\ntoken = \"in the file\"", "f:2: admin.token: is a secret written in the file itself"),
        ("[admin]\ntoken = { env = \"NONE\" }", "f:2: admin.token: the environment variable NONE is not set"),
        ("[triage]\nkeep = \"10s\"", "f:2: triage.keep: \"10s\" is not a time to keep something"),
        ("[triage]\nlease = \"0s\"", "f:2: triage.lease: is zero"),
        ("[triage]\nopen = 100_001", "f:2: triage.open: 100001 is out of range"),
        ("[triage]\nopen = 0", "f:2: triage.open: 0 is out of range"),
        ("[triage]\nopen_per_customer = 101", "f:2: triage.open_per_customer: 101 is out of range"),
        ("[triage]\nconversation_max = \"2MiB\"", "f:2: triage.conversation_max: is more than 1MiB"),
        ("[triage]\nrequest_max = \"2MiB\"", "f:2: triage.request_max: is more than 1MiB"),
        ("[triage]\nrequests = true", "f:2: triage.requests: is for auth.mode = \"keys\""),
        ("[triage]\nwebhook = { attempts = 0, url = \"https://x\" }", "f:2: triage.webhook.attempts: 0 is out of range"),
        ("[triage]\nwebhook = {}", "f:2: triage.webhook: `url` is missing"),
        ("[triage]\nwebhook = { url = \"ftp://x\" }", "f:2: triage.webhook.url: is not an http(s) URL"),
        ("[triage]\nwebhook = { url = \"a b\" }", "f:2: triage.webhook.url: is not a URL"),
        ("[triage]\nwebhook = { url = { env = \"URL\" } }", "f:2: triage.webhook.url: has credentials in it"),
        (
            "[triage]\nwebhook = { url = \"https://x\", secret = { env = \"BAD\" } }",
            "f:2: triage.webhook.secret: begins with whsec_, and the rest is not base64",
        ),
    ] {
        let found = problems(text, &environment);
        assert_eq!(found.len(), 1, "{text}: {found:#?}");
        assert!(found[0].starts_with(right), "{}\n{right}", found[0]);
        assert!(environment.iter().all(|(_, secret)| !found[0].contains(secret)), "{}", found[0]);
    }
    for (text, right) in [
        ("[triage]\nwebhook = { url = \"https://x\" }", "triage.webhook: has no secret"),
        ("[triage]\nwebhook = { url = \"http://x\", secret = { env = \"SHORT\" } }", "triage.webhook.url: is not encrypted"),
        (
            "[triage]\nwebhook = { url = \"http://[::1]:1\", secret = { env = \"SHORT\" } }",
            "triage.webhook.secret: is a short secret",
        ),
    ] {
        let warnings = sound(text, &environment).1;
        assert!(warnings.iter().any(|warning| warning.contains(right)), "{text}: {warnings:#?}");
    }
}
