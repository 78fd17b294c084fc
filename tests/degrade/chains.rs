//! Every cause with every chain, class, priority, route: which answer it gives.

use crate::bed::Bed;
use crate::scene::{Answer, ROUTES, Route, SENTENCE, config, models_seen};
use std::sync::Arc;
use tollgate::demo::provider::Script;
use tollgate::demo::{Provider, ProviderOptions};
use tollgate::store::embedded::EmbeddedLedger;
use tollgate::telemetry::SystemClock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Spend,
    Tokens,
    Provider,
}

const CHAINS: [&[&str]; 5] = [&[], &["cheaper"], &["handoff"], &["cheaper", "handoff"], &["wait", "cheaper", "handoff"]];

/// A plan that runs into this cause: a day's budget that the dear model does not fit into and the cheap one does; one request a minute.
fn plan(cause: Cause, chain: &[&str]) -> String {
    let mut chains = [("on_spend", "[]".to_owned()), ("on_tokens", "[]".to_owned()), ("on_provider", "[]".to_owned())];
    let at = match cause {
        Cause::Spend => 0,
        Cause::Tokens => 1,
        Cause::Provider => 2,
    };
    chains[at].1 = format!("{chain:?}");
    let chains: String = chains.iter().map(|(key, steps)| format!("{key} = {steps}\n")).collect();
    let limits = match cause {
        Cause::Spend => "rpm = 60\nspend = { day = 0.005 }",
        Cause::Tokens => "rpm = 1\nspend = { day = 1.0 }",
        Cause::Provider => "rpm = 60\nspend = { day = 1.0 }",
    };
    format!("messages = {{ rate = \"1/h\", burst = 50 }}\ntpm = 100_000\nmax_output_tokens = 1_000\n{limits}\n{chains}")
}

fn name(cause: Cause, chain: usize) -> String {
    format!("{cause:?}-{chain}").to_lowercase()
}

#[derive(Debug, PartialEq, Eq)]
enum Right {
    Cheaper,
    Handoff,
    Refused,
}

/// The rules, said once more.
fn right(cause: Cause, chain: &[&str], class: Option<&str>, priority: &str) -> Right {
    // A request that its own customer's RPM stops is stopped with any model.
    let cheaper = chain.contains(&"cheaper") && class == Some("general") && cause != Cause::Tokens;
    match () {
        () if cheaper => Right::Cheaper,
        () if chain.contains(&"handoff") && priority != "background" => Right::Handoff,
        () => Right::Refused,
    }
}

#[tokio::test]
async fn every_chain_gives_the_answer_that_its_rules_say() {
    let causes = [Cause::Spend, Cause::Tokens, Cause::Provider];
    let plans =
        causes.iter().flat_map(|cause| CHAINS.iter().enumerate().map(|(at, chain)| (name(*cause, at), plan(*cause, chain))));
    let plans: Vec<_> = plans.collect();
    let provider =
        Arc::new(Provider::start(ProviderOptions { keep: 100_000, ..ProviderOptions::default() }).await.expect("a port"));
    let ledger = Arc::new(EmbeddedLedger::in_memory(Arc::new(SystemClock)));
    let bed = Bed::on(&config(&plans, "[triage]\nopen = 100_000"), provider, ledger).await;
    let mut customers = Vec::new();
    for cause in causes {
        for (at, chain) in CHAINS.iter().enumerate() {
            for class in [Some("general"), Some("strict"), Some("unheard-of"), None] {
                for priority in ["live", "internal", "background"] {
                    for route in ROUTES {
                        let customer = format!("c{}", customers.len());
                        let case = format!("{cause:?} {chain:?} {class:?} {priority} {route:?}");
                        let send = || {
                            let mut request = bed.post(route.path, &customer, route.body(""));
                            request = request.header("x-customer-plan", name(cause, at)).header("x-priority", priority);
                            class.iter().fold(request, |request, class| request.header("x-request-class", *class))
                        };
                        if cause == Cause::Tokens {
                            let first = Answer::of(send()).await;
                            assert_eq!((first.status, first.header("x-tollgate-degraded")), (200, ""), "{case}");
                            assert_eq!(first.header("x-tollgate-model"), route.models().0, "{case}");
                        }
                        if cause == Cause::Provider {
                            bed.provider.script(Script::json(500, r#"{"error":{"message":"theirs","type":"server_error"}}"#));
                        }
                        let answer = Answer::of(send()).await;
                        check(&answer, cause, &right(cause, chain, class, priority), route, &case);
                        customers.push(customer);
                    }
                }
            }
        }
    }
    assert_eq!(customers.len(), 3 * 5 * 4 * 3 * 6);
    assert_eq!(bed.provider.scripts_left(), 0);
    let customers: Vec<&str> = customers.iter().map(String::as_str).collect();
    bed.assert_books(&customers).await;
    let seen = models_seen(&bed);
    let count = |name: &str| seen.iter().filter(|model| *model == name).count();
    // Of each cause but tokens: three chains with `cheaper`, one class of four, three priorities.
    assert_eq!((count("m-small"), count("c-small")), (2 * 3 * 3 * 4, 2 * 3 * 3 * 2));
    assert_eq!(count("m-big") + count("c-big"), 2 * 5 * 4 * 3 * 6, "once for each request of the causes tokens and provider");
}

fn check(answer: &Answer, cause: Cause, right: &Right, route: Route, case: &str) {
    let (big, small) = route.models();
    let why = format!("{cause:?}").to_lowercase();
    let degraded = answer.header("x-tollgate-degraded");
    match right {
        Right::Cheaper => {
            assert_eq!((answer.status, degraded), (200, &*format!("cheaper;cause={why}")), "{case}: {}", answer.body);
            assert_eq!((answer.header("x-tollgate-model"), &*answer.model()), (small, small), "{case}");
            assert!(answer.text().starts_with("Thank you for writing in."), "{case}: {}", answer.body);
            assert_eq!(answer.header("x-tollgate-ticket"), "", "{case}");
        }
        Right::Handoff => {
            assert_eq!((answer.status, degraded), (200, &*format!("handoff;cause={why}")), "{case}: {}", answer.body);
            assert_eq!((answer.header("x-tollgate-model"), &*answer.model()), ("human-triage", "human-triage"), "{case}");
            assert_eq!(answer.text(), SENTENCE, "{case}");
            let ticket = answer.header("x-tollgate-ticket");
            assert_eq!(answer.header("x-tollgate-ticket-url"), format!("/v1/triage/{ticket}"), "{case}");
            let kind = if route.stream { "text/event-stream; charset=utf-8" } else { "application/json" };
            assert_eq!(answer.header("content-type"), kind, "{case}");
        }
        Right::Refused => {
            let (status, code, by) = match cause {
                Cause::Spend => (402, "spend_cap_exceeded", "tollgate"),
                Cause::Tokens => (429, "rate_limit_exceeded", "tollgate"),
                Cause::Provider => (500, "", "provider"),
            };
            assert_eq!((answer.status, answer.header("x-tollgate-refused-by")), (status, by), "{case}: {}", answer.body);
            assert_eq!(answer.code(), code, "{case}");
            assert_eq!((degraded, answer.header("x-tollgate-model")), ("", ""), "{case}");
            if cause == Cause::Spend {
                assert!(answer.body.contains(&format!("{}", 0.005)), "{case}: the original refusal: {}", answer.body);
            }
            if cause == Cause::Provider {
                assert_eq!(answer.json()["error"]["message"], "theirs", "{case}: the provider's own error, whole");
            }
        }
    }
    // The message is spent once and the request counted at most once, whatever was tried.
    let messages = if cause == Cause::Tokens { 48 } else { 49 };
    assert_eq!(answer.remaining("messages"), Some(messages), "{case}: {:?}", answer.headers);
    let requests = match (cause, right) {
        (Cause::Tokens, _) => 0,
        (Cause::Spend, Right::Cheaper) | (Cause::Provider, _) => 59,
        (Cause::Spend, _) => 60,
    };
    assert_eq!(answer.remaining("rpm"), Some(requests), "{case}: {:?}", answer.headers);
    let _ = big;
}
