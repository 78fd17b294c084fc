//! Limits of users, applications and the whole gateway: who is held back, and who learns what of it.

use crate::bed::Bed;
use crate::fixture::{Answer, Hand, Store, answer, bed, on_both_stores};

/// Two applications by the hash of their keys, three limits of each kind. A request costs less than 0.4 of a cent and more than 0.15.
fn config(limits: &str) -> String {
    let key = |name: &str| format!("[keys.{name}]\nhash = \"blake3:{}\"\n", blake3::hash(name.as_bytes()).to_hex());
    format!("[auth]\nmode = \"keys\"\n{}{}\n{limits}", key("beta"), key("alpha"))
}

on_both_stores!(each_scope_holds_back_its_own_and_names_itself);

struct Case {
    scope: &'static str,
    /// Lines of configuration. The key `alpha` is the last table before them, so bare lines belong to it.
    limits: &'static str,
    /// Requests that pass.
    passes: usize,
    status: u16,
    code: &'static str,
}

const CUSTOMER: &str = "[customers.a]\nplan = \"open\"\n[customers.b]\nplan = \"open\"\n";

const CASES: [Case; 12] = [
    Case { scope: "user", limits: "[customers.a.user]\nrpm = 2", passes: 2, status: 429, code: "rate_limit_exceeded" },
    Case { scope: "user", limits: "[customers.a.user]\ntpm = 50", passes: 2, status: 429, code: "rate_limit_exceeded" },
    Case {
        scope: "user",
        limits: "[customers.a.user]\nmessages = { rate = \"1/m\", burst = 2 }",
        passes: 2,
        status: 429,
        code: "rate_limit_exceeded",
    },
    Case {
        scope: "user",
        limits: "[customers.a.user]\nspend = { day = 0.006 }",
        passes: 2,
        status: 402,
        code: "spend_cap_exceeded",
    },
    Case {
        scope: "user",
        limits: "[customers.a.user]\nquota = { requests_week = 2 }",
        passes: 2,
        status: 429,
        code: "insufficient_quota",
    },
    Case { scope: "customer", limits: "[customers.a.spend]\nmonth = 0.006", passes: 2, status: 402, code: "spend_cap_exceeded" },
    Case { scope: "app", limits: "rpm = 2", passes: 2, status: 429, code: "rate_limit_exceeded" },
    Case { scope: "app", limits: "tpm = 50", passes: 2, status: 429, code: "rate_limit_exceeded" },
    Case { scope: "app", limits: "spend = { week = 0.006 }", passes: 2, status: 402, code: "spend_cap_exceeded" },
    Case { scope: "app", limits: "quota = { requests_day = 2 }", passes: 2, status: 429, code: "insufficient_quota" },
    Case { scope: "gateway", limits: "[gateway]\nspend = { month = 0.006 }", passes: 2, status: 402, code: "spend_cap_exceeded" },
    Case { scope: "", limits: "[gateway]\nrpm = 2", passes: 2, status: 503, code: "overloaded" },
];

async fn ask(bed: &Bed, key: &str, customer: &str, user: &str) -> Answer {
    let body = r#"{"model":"m-cent","max_tokens":16,"messages":[{"role":"user","content":"hi"}]}"#;
    let request = bed.client.post(bed.url("/v1/chat/completions")).header("content-type", "application/json");
    let request =
        request.header("authorization", format!("Bearer {key}")).header("x-customer-id", customer).header("x-user-id", user);
    answer(request.body(body)).await
}

async fn each_scope_holds_back_its_own_and_names_itself(store: Store) {
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), "sk-provider").expect("written");
    let upstream = format!("[upstreams.openai.api_key]\nfile = {:?}\n", secret.path());
    for Case { scope, limits, passes, status, code } in CASES {
        let model = "[models.m-cent]\nprice = { input = 0, output = 160.0 }\n";
        let of_customer = limits.starts_with("[customers");
        let customers = if of_customer { "" } else { CUSTOMER };
        let lines = format!("{limits}\n{customers}{model}{upstream}");
        let bed = bed(store, &config(&lines), &Hand::noon()).await;
        for _ in 0..passes {
            let passed = ask(&bed, "alpha", "a", "u").await;
            assert_eq!(passed.status, 200, "{limits}: {passed:?}");
            bed.quiet().await;
        }
        let refused = ask(&bed, "alpha", "a", "u").await;
        assert_eq!(refused.outcome(), (status, code), "{limits}: {refused:?}");
        assert_eq!(refused.limit("scope").as_str().unwrap_or_default(), scope, "{limits}");
        // The customer's own numbers are told, those made of others' use are not.
        let open = matches!(scope, "user" | "customer");
        for member in ["limit", "used", "asked"] {
            assert_eq!(refused.limit(member).is_null(), !open, "{limits}, {member}: {refused:?}");
        }
        let period = ["day", "week", "month"].iter().any(|period| limits.contains(period));
        assert_eq!(!refused.limit("resets_at").is_null(), open || period && !scope.is_empty(), "{limits}: {refused:?}");
        assert_eq!(refused.header("x-should-retry"), if period { "false" } else { "" }, "{limits}");
        // Somebody else of the same kind goes on; below the gateway's own limits nobody does.
        let other = match scope {
            "user" => ask(&bed, "alpha", "a", "v").await,
            "customer" => ask(&bed, "alpha", "b", "u").await,
            "app" => ask(&bed, "beta", "a", "u").await,
            _ => ask(&bed, "beta", "b", "v").await,
        };
        let right = if matches!(scope, "gateway" | "") { status } else { 200 };
        assert_eq!(other.status, right, "{limits}: {other:?}");
        bed.assert_books(&["a", "b"]).await;
    }
}
