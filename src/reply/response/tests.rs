use super::*;
use crate::config::policy::Limits;
use crate::domain::id::IdError;
use crate::domain::{Period, Timestamp};
use crate::limit::{LimitName, Measure, Refusal, Remedy, Scope};
use crate::reply::{Forbidden, Unauthenticated, UpstreamFault};
use http_body_util::BodyExt as _;
use serde_json::json;
use std::borrow::Cow;

mod limits;
mod requests;

const SECOND: u64 = 1_000_000;
/// 2026-11-30T12:00:00Z.
const NOON: Timestamp = Timestamp::from_secs(1_796_040_000);
/// Until midnight of that day.
const HALF_DAY: u64 = 43_200 * SECOND;

fn plan() -> Plan {
    Plan {
        name: "individual".into(),
        limits: Limits::default(),
        user: Limits::default(),
        max_output_tokens: None,
        max_in_flight: None,
        upgrade_url: Some("https://example.com/upgrade".into()),
        on_spend: Vec::new(),
        on_tokens: Vec::new(),
        on_provider: Vec::new(),
        suspended: false,
    }
}

fn refusal(scope: Scope, limit: LimitName, measure: Measure, numbers: [u64; 4], remedy: Remedy) -> Refusal {
    let [max, used, held, asked] = numbers;
    let resets_at = NOON.plus(if limit.period().is_some() { HALF_DAY } else { 60 * SECOND });
    Refusal { scope, limit, measure, max, used, held, asked, remedy, resets_at }
}

/// Of the numbers max, used, held, asked.
fn spend(scope: Scope, numbers: [u64; 4], remedy: Remedy) -> Refusal {
    refusal(scope, LimitName::Spend(Period::Day), Measure::Money, numbers, remedy)
}

/// Everything about one answer that depends on the cause.
struct Row {
    rejection: Rejection,
    status: u16,
    openai: &'static str,
    anthropic: &'static str,
    code: &'static str,
    param: Option<&'static str>,
    /// `retry-after`, `retry-after-ms`, `x-should-retry`.
    retry: [&'static str; 3],
    limit: Value,
    upgrade: bool,
    message: &'static str,
}

fn body(rejection: &Rejection, context: &Context<'_>) -> (Response<()>, Value) {
    let (parts, body) = reject(rejection, context).into_parts();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let bytes = runtime.block_on(body.collect()).expect("a body in memory").to_bytes();
    (Response::from_parts(parts, ()), serde_json::from_slice(&bytes).expect("JSON"))
}

fn check(rows: Vec<Row>) {
    let plan = plan();
    for row in rows {
        for (dialect, kind) in [(Dialect::OpenAi, row.openai), (Dialect::Anthropic, row.anthropic)] {
            let context =
                Context { dialect, customer: Some("cust_42"), plan: Some(&plan), request_id: RequestId::new(7), standing: None };
            let what = format!("{:?} {dialect:?}", row.rejection);
            let (response, body) = body(&row.rejection, &context);
            let header = |name: &str| response.headers().get(name).map_or("", |value| value.to_str().expect("ASCII")).to_owned();

            assert_eq!(response.status().as_u16(), row.status, "{what}");
            assert_eq!(row.rejection.status().as_u16(), row.status, "{what}");
            assert_eq!(row.rejection.cause(), row.code, "{what}");
            assert_eq!(["retry-after", "retry-after-ms", "x-should-retry"].map(header), row.retry, "{what}");
            assert_eq!(header("x-tollgate-refused-by"), "tollgate");
            assert_eq!(header("content-type"), "application/json");
            assert_eq!(header("cache-control"), "no-store");
            let id = "tg_00000000000000000000000000000007";
            assert_eq!(header("x-tollgate-request-id"), id);
            assert_eq!(header(if dialect == Dialect::OpenAi { "x-request-id" } else { "request-id" }), id);

            // Each format has its own place for what it has no member for.
            let mut error = match dialect {
                Dialect::OpenAi => json!({ "code": row.code, "param": row.param, "request_id": id }),
                Dialect::Anthropic if row.param.is_none() => json!({ "details": { "error_code": row.code } }),
                Dialect::Anthropic => json!({ "details": { "error_code": row.code, "param": row.param } }),
            };
            error["type"] = kind.into();
            error["message"] = row.message.into();
            error["customer_id"] = "cust_42".into();
            if !row.limit.is_null() {
                error["limit"] = row.limit.clone();
            }
            if row.upgrade {
                error["upgrade_url"] = "https://example.com/upgrade".into();
            }
            let right = match dialect {
                Dialect::OpenAi => json!({ "error": error }),
                Dialect::Anthropic => json!({ "type": "error", "error": error, "request_id": id }),
            };
            assert_eq!(body, right, "{what}");
            assert!(row.message.len() < 1_000);
        }
    }
}

/// A rejection that no limit of the customer's caused.
fn plain(
    rejection: Rejection,
    (status, openai, anthropic): (u16, &'static str, &'static str),
    code: &'static str,
    param: Option<&'static str>,
    message: &'static str,
) -> Row {
    let retry = ["", "", ""];
    Row { rejection, status, openai, anthropic, code, param, retry, limit: Value::Null, upgrade: false, message }
}

#[test]
fn what_is_nobodys_fault_is_503_without_others_numbers() {
    const BUSY: (u16, &str, &str) = (503, "service_unavailable_error", "overloaded_error");
    let wait = |scope, limit| {
        let us = 2 * SECOND + 1;
        Rejection::Limit(refusal(scope, limit, Measure::Reserved, [400_000, 399_000, 0, 2_000], Remedy::Wait(us)))
    };
    let capacity = "The service is at its capacity at the moment. Try again in 3 seconds.";
    let overloaded = |rejection| Row { retry: ["3", "2001", ""], ..plain(rejection, BUSY, "overloaded", None, capacity) };
    check(vec![
        overloaded(wait(Scope::Pool, LimitName::Tpm)),
        overloaded(wait(Scope::Gateway, LimitName::Rpm)),
        overloaded(Rejection::Overloaded { retry_in: 2_000_001 }),
        Row {
            retry: ["60", "60000", ""],
            ..plain(
                Rejection::BackgroundPaused { retry_in: 60 * SECOND },
                BUSY,
                "background_paused",
                None,
                "Background work is paused while live work needs all of the capacity. Try again in 60 seconds.",
            )
        },
        Row {
            retry: ["1", "1000", ""],
            ..plain(
                Rejection::LimitsUnavailable,
                BUSY,
                "limits_unavailable",
                None,
                "Limits cannot be checked at the moment. Try again in a moment.",
            )
        },
    ]);
}

#[test]
fn too_many_new_customers_say_what_to_do() {
    const MANY: (u16, &str, &str) = (429, "rate_limit_error", "rate_limit_error");
    let rejection = Rejection::TooManyNewCustomers { limit: 100, retry_in: 1_500 * SECOND };
    let message = "This application has named 100 new customers within the hour, as many as it may; customers it named before are \
                   served. Try again in 25 minutes. The application should send the same opaque X-Customer-Id for a customer every \
                   time; for more new ones raise new_customers_per_hour, or configure the customer.";
    check(vec![Row { retry: ["1500", "", "false"], ..plain(rejection, MANY, "too_many_new_customers", None, message) }]);
}

#[test]
fn a_failing_provider_or_gateway_is_not_the_customers_fault() {
    check(vec![
        plain(
            Rejection::Upstream(UpstreamFault::Connect),
            (502, "server_error", "api_error"),
            "upstream_unreachable",
            None,
            "The model's provider cannot be reached.",
        ),
        plain(
            Rejection::Upstream(UpstreamFault::Broken),
            (502, "server_error", "api_error"),
            "upstream_broken",
            None,
            "The model's provider broke off its answer.",
        ),
        plain(
            Rejection::Upstream(UpstreamFault::Timeout),
            (504, "server_error", "timeout_error"),
            "upstream_timeout",
            None,
            "The model's provider did not answer in time.",
        ),
        plain(
            Rejection::Internal,
            (500, "server_error", "api_error"),
            "internal_error",
            None,
            "The gateway failed on this request; the request id helps to find out why.",
        ),
    ]);
}

#[test]
fn some_statuses_bring_a_header_of_their_own() {
    let context = Context { dialect: Dialect::OpenAi, customer: None, plan: None, request_id: RequestId::new(1), standing: None };
    for (rejection, name, right) in [
        (Rejection::MethodNotAllowed { allow: "GET, HEAD" }, "allow", "GET, HEAD"),
        (Rejection::Unauthenticated(Unauthenticated::Missing), "www-authenticate", "Bearer"),
        (Rejection::UnsupportedEncoding, "accept-encoding", "gzip, deflate, br, zstd"),
    ] {
        assert_eq!(reject(&rejection, &context).headers()[name], right);
    }
    let (_, body) = body(&Rejection::MissingCustomerId, &context);
    assert_eq!(body["error"].get("customer_id"), None, "nobody is known yet");
}

#[test]
fn what_a_client_sent_is_never_repeated_at_length() {
    let context = Context { dialect: Dialect::OpenAi, customer: None, plan: None, request_id: RequestId::new(1), standing: None };
    let long: Box<str> = "\u{10ffff}\n".repeat(100_000).into();
    for rejection in [
        Rejection::ModelNotPriced { model: long.clone() },
        Rejection::ModelNotAllowed { model: long.clone() },
        Rejection::ServiceTierNotPriced { tier: long.clone() },
        Rejection::NotFound { path: long.clone() },
    ] {
        let (_, body) = body(&rejection, &context);
        let message = body["error"]["message"].as_str().expect("a text");
        assert!(message.len() < 1_000 && message.is_ascii() && !message.contains('\n'), "{message}");
    }
}

#[test]
fn the_providers_refusal_is_told_from_ours() {
    let mut headers = HeaderMap::new();
    mark_provider(&mut headers);
    assert_eq!(headers["x-tollgate-refused-by"], "provider");
}
