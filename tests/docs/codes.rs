//! The tables of error codes name every code there is, with its status.

use super::markdown::{code, document, rows};
use std::collections::{BTreeMap, BTreeSet};
use tollgate::admin::Fault;
use tollgate::domain::Period;
use tollgate::domain::Timestamp;
use tollgate::domain::id::IdError;
use tollgate::limit::{LimitName, Measure, Refusal, Remedy, Scope};
use tollgate::reply::{Forbidden, Rejection, Unauthenticated, UpstreamFault};
use tollgate::triage::Standing;
use tollgate::wire::Dialect;

fn refusal(scope: Scope, limit: LimitName, measure: Measure, remedy: Remedy, asked: u64) -> Refusal {
    Refusal { scope, limit, measure, max: 10, used: 10, held: 0, asked, remedy, resets_at: Timestamp(0) }
}

/// One of each kind. A new kind of rejection does not compile here until it is listed, and then fails until it is documented.
fn rejections() -> Vec<Rejection> {
    let day = Period::Day;
    let all = vec![
        Rejection::Limit(refusal(Scope::Customer, LimitName::Rpm, Measure::Request, Remedy::Wait(1), 1)),
        Rejection::Limit(refusal(Scope::Pool, LimitName::Rpm, Measure::Request, Remedy::Wait(1), 1)),
        Rejection::Limit(refusal(Scope::Customer, LimitName::Spend(day), Measure::Money, Remedy::InFlight(1), 1)),
        Rejection::Limit(refusal(Scope::Customer, LimitName::Spend(day), Measure::Money, Remedy::NextPeriod(1), 1)),
        Rejection::Limit(refusal(Scope::Customer, LimitName::TokenQuota(day), Measure::Tokens, Remedy::NextPeriod(1), 1)),
        Rejection::Limit(refusal(Scope::Customer, LimitName::Tpm, Measure::Tokens, Remedy::Never, 11)),
        Rejection::Suspended(refusal(Scope::Customer, LimitName::Spend(day), Measure::Money, Remedy::NextPeriod(1), 1)),
        Rejection::OutputFloor {
            refusal: refusal(Scope::Customer, LimitName::Spend(day), Measure::Money, Remedy::NextPeriod(1), 1),
            floor: 16,
            affordable: 3,
        },
        Rejection::Concurrent { limit: 4, in_flight: 4 },
        Rejection::Overloaded { retry_in: 1 },
        Rejection::BackgroundPaused { retry_in: 1 },
        Rejection::LimitsUnavailable,
        Rejection::InvalidCustomerId(IdError::Email),
        Rejection::ConflictingCustomerIds,
        Rejection::MissingCustomerId,
        Rejection::InvalidHeader { name: "X-Priority", problem: "is odd".into() },
        Rejection::Unauthenticated(Unauthenticated::Missing),
        Rejection::Unauthenticated(Unauthenticated::Unknown),
        Rejection::Unauthenticated(Unauthenticated::Expired),
        Rejection::Unauthenticated(Unauthenticated::Replaced),
        Rejection::Unauthenticated(Unauthenticated::Revoked),
        Rejection::Forbidden(Forbidden::Plan),
        Rejection::Forbidden(Forbidden::Customer),
        Rejection::Forbidden(Forbidden::UnknownCustomer),
        Rejection::Forbidden(Forbidden::Network),
        Rejection::Forbidden(Forbidden::Route),
        Rejection::Body { code: "invalid_body", param: None, message: "m".into() },
        Rejection::Body { code: "thinking_budget_too_large", param: None, message: "m".into() },
        Rejection::BodyTooLarge { max: 1 },
        Rejection::BodyTimeout,
        Rejection::UnsupportedEncoding,
        Rejection::UnsupportedMediaType,
        Rejection::NotFound { path: "/".into() },
        Rejection::NoUpstream { dialect: Dialect::Anthropic },
        Rejection::TicketNotFound,
        Rejection::TriageUnavailable,
        Rejection::MethodNotAllowed { allow: "GET" },
        Rejection::ModelNotPriced { model: "m".into() },
        Rejection::ModelNotAllowed { model: "m".into() },
        Rejection::ServiceTierNotPriced { tier: "t".into() },
        Rejection::BackgroundNotSupported,
        Rejection::UnboundedFeature { param: "p".into() },
        Rejection::IdempotencyInProgress,
        Rejection::IdempotencyKeyReused,
        Rejection::ReplyNotKept { max: 1 },
        Rejection::JobNotFound,
        Rejection::JobExpired,
        Rejection::TooManyJobs { limit: 1 },
        Rejection::TooManyNewCustomers { limit: 1, retry_in: 1 },
        Rejection::Upstream(UpstreamFault::Connect),
        Rejection::Upstream(UpstreamFault::Timeout),
        Rejection::Upstream(UpstreamFault::Broken),
        Rejection::Internal,
    ];
    all.iter().for_each(listed);
    all
}

/// Says nothing; stops compiling when there is a kind that the list above may lack.
fn listed(rejection: &Rejection) {
    match rejection {
        Rejection::Unauthenticated(
            Unauthenticated::Missing
            | Unauthenticated::Unknown
            | Unauthenticated::Expired
            | Unauthenticated::Replaced
            | Unauthenticated::Revoked,
        )
        | Rejection::Forbidden(
            Forbidden::Plan | Forbidden::Customer | Forbidden::UnknownCustomer | Forbidden::Network | Forbidden::Route,
        )
        | Rejection::Upstream(UpstreamFault::Connect | UpstreamFault::Timeout | UpstreamFault::Broken)
        | Rejection::Limit(_)
        | Rejection::Suspended(_)
        | Rejection::OutputFloor { .. }
        | Rejection::Concurrent { .. }
        | Rejection::Overloaded { .. }
        | Rejection::BackgroundPaused { .. }
        | Rejection::LimitsUnavailable
        | Rejection::InvalidCustomerId(_)
        | Rejection::ConflictingCustomerIds
        | Rejection::MissingCustomerId
        | Rejection::InvalidHeader { .. }
        | Rejection::Body { .. }
        | Rejection::BodyTooLarge { .. }
        | Rejection::BodyTimeout
        | Rejection::UnsupportedEncoding
        | Rejection::UnsupportedMediaType
        | Rejection::NotFound { .. }
        | Rejection::NoUpstream { .. }
        | Rejection::TicketNotFound
        | Rejection::TriageUnavailable
        | Rejection::MethodNotAllowed { .. }
        | Rejection::ModelNotPriced { .. }
        | Rejection::ModelNotAllowed { .. }
        | Rejection::ServiceTierNotPriced { .. }
        | Rejection::BackgroundNotSupported
        | Rejection::UnboundedFeature { .. }
        | Rejection::IdempotencyInProgress
        | Rejection::IdempotencyKeyReused
        | Rejection::ReplyNotKept { .. }
        | Rejection::JobNotFound
        | Rejection::JobExpired
        | Rejection::TooManyJobs { .. }
        | Rejection::TooManyNewCustomers { .. }
        | Rejection::Internal => {}
    }
}

/// The codes of bodies that do not parse, from the one function that gives them.
fn body_codes() -> Vec<String> {
    let source = document("src/wire/request/error.rs");
    let function = source.split("pub const fn code(").nth(1).and_then(|rest| rest.split("\n    }\n").next()).expect("fn code");
    let codes: Vec<String> = function.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(codes.len() >= 10, "{codes:?}");
    codes
}

#[test]
fn the_tables_of_errors_name_every_code_with_its_status() {
    let mut right: BTreeMap<String, u16> = body_codes().into_iter().map(|code| (code, 400)).collect();
    right.extend(rejections().iter().map(|rejection| (rejection.cause().to_owned(), rejection.status().as_u16())));

    let (errors, mut documented) = (document("docs/errors.md"), BTreeMap::new());
    for heading in ["Limits", "Who calls", "What is asked", "Repeats and jobs", "The provider, and us"] {
        for row in rows(&errors, heading).iter().filter(|row| row[0].parse::<u16>().is_ok()) {
            for code in code(&row[1]) {
                let again = documented.insert(code.clone(), row[0].parse::<u16>().expect("a status"));
                assert_eq!(again, None, "{code} stands in the tables twice");
            }
        }
    }
    assert_eq!(documented, right);

    // The short table of the README agrees with it.
    let mut short = 0;
    for row in rows(&document("README.md"), "When a request is refused") {
        for code in code(&row[2]).iter().filter(|code| *code != "error.code") {
            assert_eq!(Some(row[1].as_str()), right.get(code).map(u16::to_string).as_deref(), "{code}");
            short += 1;
        }
    }
    assert_eq!(short, 7);
}

#[test]
fn the_table_of_the_admin_listener_names_every_code_with_its_status() {
    let source = document("src/admin/fault.rs");
    let shape = source.split("pub const fn shape(").nth(1).and_then(|rest| rest.split("\n    }\n").next()).expect("fn shape");
    let arms = shape.lines().filter(|line| line.contains("=> (StatusCode::"));
    let code_of = |arm: &str| arm.split('"').nth(1).expect("a code").to_owned();
    let right: BTreeSet<String> = arms.map(code_of).collect();
    assert!(right.len() >= 13, "{right:?}");

    let errors = document("docs/errors.md");
    let mut documented = BTreeMap::new();
    for row in rows(&errors, "The admin listener").iter().filter(|row| row[0].parse::<u16>().is_ok()) {
        documented.insert(code(&row[1]).remove(0), row[0].clone());
    }
    assert_eq!(documented.keys().cloned().collect::<BTreeSet<_>>(), right);
    for fault in [
        Fault::Unauthorized,
        Fault::HostNotAllowed,
        Fault::OriginNotAllowed,
        Fault::RouteNotFound,
        Fault::MethodNotAllowed,
        Fault::UnsupportedMediaType,
        Fault::RequestTooLarge,
        Fault::RequestTimeout,
        Fault::InvalidRequest(String::new()),
        Fault::PlanInUse { customers: Vec::new(), more: false },
        Fault::KeyNotFound,
        Fault::KeyRefused(String::new()),
        Fault::Internal,
        Fault::TicketNotFound,
        Fault::TicketClaimed { agent: "a".into(), until: Timestamp(0) },
        Fault::TicketEnded { standing: Standing::Expired, agent: None },
        Fault::StoreUnavailable,
    ] {
        let (status, code) = fault.shape();
        assert_eq!(documented[code], status.as_u16().to_string(), "{code}");
    }
}
