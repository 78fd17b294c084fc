use super::*;
use crate::config::policy::Limits;
use crate::domain::id::IdError;
use crate::domain::{Period, Timestamp};
use crate::limit::{LimitName, Measure, Refusal, Remedy, Scope};
use crate::reply::{Forbidden, Unauthenticated, UpstreamFault};
use http_body_util::BodyExt as _;
use serde_json::json;
use std::borrow::Cow;

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

#[test]
fn a_rate_is_429_with_the_exact_wait() {
    let rate =
        |scope, limit, measure, numbers, wait| Rejection::Limit(refusal(scope, limit, measure, numbers, Remedy::Wait(wait)));
    check(vec![
        Row {
            rejection: rate(Scope::Customer, LimitName::Messages, Measure::Message, [10, 10, 0, 1], 11_400_001),
            status: 429,
            openai: "requests",
            anthropic: "rate_limit_error",
            code: "rate_limit_exceeded",
            param: None,
            retry: ["12", "11401", ""],
            limit: json!({
                "name": "messages", "scope": "customer", "plan": "individual", "unit": "requests", "period": null,
                "limit": 10, "used": 10, "asked": 1, "resets_at": "2026-11-30T12:01:00Z",
            }),
            upgrade: true,
            message: "This customer's limit of 10 messages at once is reached: 10 used, 1 asked. Try again in 12 seconds.",
        },
        Row {
            rejection: rate(Scope::User, LimitName::Tpm, Measure::Tokens, [10_000, 11_000, 0, 1_000], 1),
            status: 429,
            openai: "tokens",
            anthropic: "rate_limit_error",
            code: "rate_limit_exceeded",
            param: None,
            retry: ["1", "1", ""],
            limit: json!({
                "name": "tpm", "scope": "user", "plan": "individual", "unit": "tokens", "period": "minute",
                "limit": 10_000, "used": 11_000, "asked": 1_000, "resets_at": "2026-11-30T12:01:00Z",
            }),
            upgrade: true,
            message: "This user's limit of 10000 tokens per minute is reached: 11000 used, 1000 asked. Try again in 1 second.",
        },
        // An SDK would not wait so long but call again at once, or sleep.
        Row {
            rejection: rate(Scope::Customer, LimitName::Rpm, Measure::Request, [60, 60, 0, 1], 60_000_001),
            status: 429,
            openai: "requests",
            anthropic: "rate_limit_error",
            code: "rate_limit_exceeded",
            param: None,
            retry: ["61", "", "false"],
            limit: json!({
                "name": "rpm", "scope": "customer", "plan": "individual", "unit": "requests", "period": "minute",
                "limit": 60, "used": 60, "asked": 1, "resets_at": "2026-11-30T12:01:00Z",
            }),
            upgrade: true,
            message: "This customer's limit of 60 requests per minute is reached: 60 used, 1 asked. Try again in 61 seconds.",
        },
        Row {
            rejection: rate(Scope::App, LimitName::Rpm, Measure::Request, [600, 600, 0, 1], SECOND),
            status: 429,
            openai: "requests",
            anthropic: "rate_limit_error",
            code: "rate_limit_exceeded",
            param: None,
            retry: ["1", "1000", ""],
            limit: json!({ "name": "rpm", "scope": "app", "unit": "requests", "period": "minute" }),
            upgrade: false,
            message: "This application's limit of requests per minute is reached. Try again in 1 second.",
        },
        Row {
            rejection: rate(Scope::Share, LimitName::InputTpm, Measure::Input, [60_000, 60_000, 0, 9], SECOND),
            status: 429,
            openai: "tokens",
            anthropic: "rate_limit_error",
            code: "rate_limit_exceeded",
            param: None,
            retry: ["1", "1000", ""],
            limit: json!({ "name": "input_tpm", "scope": "share", "unit": "tokens", "period": "minute" }),
            upgrade: false,
            message: "This priority's limit of input tokens per minute is reached. Try again in 1 second.",
        },
        Row {
            rejection: Rejection::Concurrent { limit: 4, in_flight: 4 },
            status: 429,
            openai: "concurrent_requests",
            anthropic: "rate_limit_error",
            code: "rate_limit_exceeded",
            param: None,
            retry: ["1", "1000", ""],
            limit: json!({
                "name": "max_in_flight", "scope": "customer", "plan": "individual", "unit": "requests", "period": null,
                "limit": 4, "used": 4, "asked": 1, "resets_at": null,
            }),
            upgrade: true,
            message: "Too many requests at once: 4 of 4 allowed are in flight. Try again when one has ended.",
        },
    ]);
}

#[test]
fn a_request_that_can_never_pass_is_told_so() {
    let never = |scope, limit, measure, numbers| Rejection::Limit(refusal(scope, limit, measure, numbers, Remedy::Never));
    check(vec![
        Row {
            rejection: never(Scope::Customer, LimitName::Tpm, Measure::Tokens, [10_000, 0, 0, 12_000]),
            status: 413,
            openai: "invalid_request_error",
            anthropic: "request_too_large",
            code: "request_exceeds_limit",
            param: None,
            retry: ["", "", "false"],
            limit: json!({
                "name": "tpm", "scope": "customer", "plan": "individual", "unit": "tokens", "period": "minute",
                "limit": 10_000, "used": 0, "asked": 12_000, "resets_at": null,
            }),
            upgrade: true,
            message: "This request needs 12000 tokens and exceeds this customer's limit of 10000 tokens per minute \
                      (12000 > 10000), so it can never pass. Send a shorter one.",
        },
        Row {
            rejection: never(Scope::Pool, LimitName::Tpm, Measure::Reserved, [400_000, 0, 0, 500_000]),
            status: 413,
            openai: "invalid_request_error",
            anthropic: "request_too_large",
            code: "request_exceeds_limit",
            param: None,
            retry: ["", "", "false"],
            limit: Value::Null,
            upgrade: false,
            message: "This request needs 500000 tokens and exceeds the provider's limit of tokens per minute, so it can never pass. \
                      Send a shorter one.",
        },
        // A quota refuses by the period, but this request is larger than the whole of it.
        Row {
            rejection: Rejection::Limit(refusal(
                Scope::Customer,
                LimitName::TokenQuota(Period::Month),
                Measure::Tokens,
                [5_000, 10, 0, 6_000],
                Remedy::NextPeriod(HALF_DAY),
            )),
            status: 413,
            openai: "invalid_request_error",
            anthropic: "request_too_large",
            code: "request_exceeds_limit",
            param: None,
            retry: ["", "", "false"],
            limit: json!({
                "name": "tokens_month", "scope": "customer", "plan": "individual", "unit": "tokens", "period": "month",
                "limit": 5_000, "used": 10, "held": 0, "asked": 6_000, "resets_at": null,
            }),
            upgrade: true,
            message: "This request needs 6000 tokens and exceeds this customer's monthly quota of 5000 tokens (6000 > 5000), \
                      so it can never pass. Send a shorter one.",
        },
        Row {
            rejection: never(Scope::Customer, LimitName::Rpm, Measure::Request, [0, 0, 0, 1]),
            status: 429,
            openai: "requests",
            anthropic: "rate_limit_error",
            code: "rate_limit_exceeded",
            param: None,
            retry: ["", "", "false"],
            limit: json!({
                "name": "rpm", "scope": "customer", "plan": "individual", "unit": "requests", "period": "minute",
                "limit": 0, "used": 0, "asked": 1, "resets_at": null,
            }),
            upgrade: true,
            message: "This customer's limit of 0 requests per minute allows no requests.",
        },
    ]);
}

#[test]
fn a_budget_is_in_flight_or_spent() {
    let of_cap = |used: Value, held: Value, asked: Value| {
        json!({
            "name": "spend_day", "scope": "customer", "plan": "individual", "unit": "usd", "period": "day",
            "limit": 0.5, "used": used, "held": held, "asked": asked, "resets_at": "2026-12-01T00:00:00Z",
        })
    };
    check(vec![
        Row {
            rejection: Rejection::Limit(spend(
                Scope::Customer,
                [500_000_000, 400_000_000, 90_000_000, 20_000_000],
                Remedy::InFlight(SECOND),
            )),
            status: 429,
            openai: "rate_limit_error",
            anthropic: "rate_limit_error",
            code: "budget_in_flight",
            param: None,
            retry: ["1", "1000", ""],
            limit: of_cap(json!(0.4), json!(0.09), json!(0.02)),
            upgrade: true,
            message: "Requests in flight hold the rest of this customer's daily spending cap of $0.50: $0.40 used, $0.09 held, \
                      up to $0.02 asked. Try again in 1 second.",
        },
        Row {
            rejection: Rejection::Limit(spend(
                Scope::Customer,
                [500_000_000, 498_500_000, 0, 21_300_750],
                Remedy::NextPeriod(HALF_DAY - 1),
            )),
            status: 402,
            openai: "insufficient_quota",
            anthropic: "billing_error",
            code: "spend_cap_exceeded",
            param: None,
            retry: ["43200", "", "false"],
            limit: of_cap(json!(0.4985), json!(0.0), json!(0.02130075)),
            upgrade: true,
            message: "This customer's daily spending cap of $0.50 is reached: $0.4985 used, up to $0.02130075 asked. \
                      It resets at 2026-12-01T00:00:00Z.",
        },
        Row {
            rejection: Rejection::OutputFloor {
                refusal: spend(Scope::Customer, [500_000_000, 499_000_000, 0, 600_000_000], Remedy::NextPeriod(HALF_DAY)),
                floor: 16,
                affordable: 3,
            },
            status: 402,
            openai: "insufficient_quota",
            anthropic: "billing_error",
            code: "spend_cap_exceeded",
            param: None,
            retry: ["43200", "", "false"],
            limit: of_cap(json!(0.499), json!(0.0), json!(0.6)),
            upgrade: true,
            message: "This customer's daily spending cap of $0.50 is reached: $0.499 used, up to $0.50 asked. \
                      It resets at 2026-12-01T00:00:00Z. What is left affords an answer of 3 tokens, and 16 are the least of use.",
        },
        // Dearer than the whole cap: the next day does not help.
        Row {
            rejection: Rejection::Limit(spend(Scope::Customer, [500_000_000, 0, 0, 600_000_000], Remedy::NextPeriod(HALF_DAY))),
            status: 402,
            openai: "insufficient_quota",
            anthropic: "billing_error",
            code: "spend_cap_exceeded",
            param: None,
            retry: ["", "", "false"],
            limit: of_cap(json!(0.0), json!(0.0), json!(0.6)),
            upgrade: true,
            message: "This request alone exceeds this customer's daily spending cap of $0.50: it may take up to $0.60. \
                      Send a shorter one.",
        },
        Row {
            rejection: Rejection::Limit(spend(Scope::Customer, [0, 0, 0, 1], Remedy::NextPeriod(HALF_DAY))),
            status: 402,
            openai: "insufficient_quota",
            anthropic: "billing_error",
            code: "spend_cap_exceeded",
            param: None,
            retry: ["", "", "false"],
            limit: json!({
                "name": "spend_day", "scope": "customer", "plan": "individual", "unit": "usd", "period": "day",
                "limit": 0.0, "used": 0.0, "held": 0.0, "asked": 1e-9, "resets_at": "2026-12-01T00:00:00Z",
            }),
            upgrade: true,
            message: "This customer's daily spending cap of $0.00 allows nothing.",
        },
        Row {
            rejection: Rejection::Suspended(spend(Scope::Customer, [0, 0, 0, 1], Remedy::NextPeriod(HALF_DAY))),
            status: 402,
            openai: "insufficient_quota",
            anthropic: "billing_error",
            code: "spend_cap_exceeded",
            param: None,
            retry: ["", "", "false"],
            limit: json!({
                "name": "spend_day", "scope": "customer", "plan": "individual", "unit": "usd", "period": "day",
                "limit": 0.0, "used": 0.0, "held": 0.0, "asked": 1e-9, "resets_at": "2026-12-01T00:00:00Z",
            }),
            upgrade: false,
            message: "This customer is suspended by its operator: nothing is served meanwhile.",
        },
        Row {
            rejection: Rejection::Limit(spend(
                Scope::Gateway,
                [9_000_000_000, 9_000_000_000, 0, 1_000],
                Remedy::NextPeriod(HALF_DAY),
            )),
            status: 402,
            openai: "insufficient_quota",
            anthropic: "billing_error",
            code: "spend_cap_exceeded",
            param: None,
            retry: ["43200", "", "false"],
            limit: json!({
                "name": "spend_day", "scope": "gateway", "unit": "usd", "period": "day", "resets_at": "2026-12-01T00:00:00Z",
            }),
            upgrade: false,
            message: "The gateway's daily spending cap is reached. It resets at 2026-12-01T00:00:00Z.",
        },
        Row {
            rejection: Rejection::Limit(refusal(
                Scope::Customer,
                LimitName::RequestQuota(Period::Day),
                Measure::Request,
                [100, 100, 0, 1],
                Remedy::NextPeriod(HALF_DAY),
            )),
            status: 429,
            openai: "insufficient_quota",
            anthropic: "rate_limit_error",
            code: "insufficient_quota",
            param: None,
            retry: ["43200", "", "false"],
            limit: json!({
                "name": "requests_day", "scope": "customer", "plan": "individual", "unit": "requests", "period": "day",
                "limit": 100, "used": 100, "held": 0, "asked": 1, "resets_at": "2026-12-01T00:00:00Z",
            }),
            upgrade: true,
            message: "This customer's daily quota of 100 requests is reached: 100 requests used, up to 1 request asked. \
                      It resets at 2026-12-01T00:00:00Z.",
        },
    ]);
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
fn what_is_wrong_with_a_request_is_said() {
    const BAD: (u16, &str, &str) = (400, "invalid_request_error", "invalid_request_error");
    const AUTH: (u16, &str, &str) = (401, "authentication_error", "authentication_error");
    const DENIED: (u16, &str, &str) = (403, "request_forbidden", "permission_error");
    check(vec![
        plain(
            Rejection::InvalidCustomerId(IdError::TooLong),
            BAD,
            "invalid_customer_id",
            None,
            "X-Customer-Id is longer than 512 bytes.",
        ),
        plain(
            Rejection::ConflictingCustomerIds,
            BAD,
            "invalid_customer_id",
            None,
            "The request names two different customers; send one X-Customer-Id.",
        ),
        plain(
            Rejection::MissingCustomerId,
            BAD,
            "missing_customer_id",
            None,
            "The request does not say whose it is; send the customer's id in the header X-Customer-Id.",
        ),
        plain(
            Rejection::InvalidHeader { name: "X-Priority", problem: "must be live, internal or background".into() },
            BAD,
            "invalid_header",
            None,
            "X-Priority must be live, internal or background.",
        ),
        plain(
            Rejection::Unauthenticated(Unauthenticated::Missing),
            AUTH,
            "invalid_api_key",
            None,
            "The request has no key; send one as \"Authorization: Bearer KEY\" or in the header x-api-key.",
        ),
        plain(
            Rejection::Unauthenticated(Unauthenticated::Unknown),
            AUTH,
            "invalid_api_key",
            None,
            "The key is not one of this gateway's.",
        ),
        plain(
            Rejection::Forbidden(Forbidden::Plan),
            DENIED,
            "plan_not_allowed",
            None,
            "This key may not set this plan in X-Customer-Plan.",
        ),
        plain(
            Rejection::Body { code: "invalid_type", param: Some(Cow::Borrowed("n")), message: "`n` must be an integer.".into() },
            BAD,
            "invalid_type",
            Some("n"),
            "`n` must be an integer.",
        ),
        plain(
            Rejection::BodyTooLarge { max: 33_554_432 },
            (413, "invalid_request_error", "request_too_large"),
            "request_too_large",
            None,
            "The request body is too large: at most 33554432 bytes are allowed.",
        ),
        plain(
            Rejection::BodyTimeout,
            (408, "invalid_request_error", "timeout_error"),
            "request_timeout",
            None,
            "The request body did not arrive in time.",
        ),
        plain(
            Rejection::UnsupportedEncoding,
            (415, "invalid_request_error", "invalid_request_error"),
            "unsupported_content_encoding",
            None,
            "The Content-Encoding is not supported; send gzip, deflate, br, zstd or no encoding.",
        ),
        plain(
            Rejection::UnsupportedMediaType,
            (415, "invalid_request_error", "invalid_request_error"),
            "unsupported_media_type",
            None,
            "The Content-Type must be application/json.",
        ),
        plain(
            Rejection::NotFound { path: "/v1/nothing".into() },
            (404, "invalid_request_error", "not_found_error"),
            "route_not_found",
            None,
            "There is no route /v1/nothing.",
        ),
        plain(
            Rejection::NoUpstream { dialect: Dialect::Anthropic },
            (404, "invalid_request_error", "not_found_error"),
            "upstream_not_configured",
            None,
            "No upstream that speaks Anthropic's format is configured for this model, and requests are not translated.",
        ),
        plain(
            Rejection::MethodNotAllowed { allow: "POST" },
            (405, "invalid_request_error", "invalid_request_error"),
            "method_not_allowed",
            None,
            "The route does not take this method; it takes POST.",
        ),
        plain(
            Rejection::ModelNotPriced { model: "M-BIG".into() },
            BAD,
            "model_not_priced",
            Some("model"),
            "The model \"M-BIG\" is unknown or has no price here, so it cannot be used.",
        ),
        plain(
            Rejection::ModelNotAllowed { model: "m-big".into() },
            DENIED,
            "model_not_allowed",
            Some("model"),
            "This key may not use the model \"m-big\".",
        ),
        plain(
            Rejection::ServiceTierNotPriced { tier: "priority".into() },
            BAD,
            "service_tier_not_priced",
            Some("service_tier"),
            "The service tier \"priority\" has no price for this model; leave service_tier out.",
        ),
        plain(
            Rejection::BackgroundNotSupported,
            BAD,
            "background_not_supported",
            Some("background"),
            "Background mode is not supported, since its cost cannot be bounded; leave background out.",
        ),
        plain(
            Rejection::UnboundedFeature { param: "previous_response_id".into() },
            BAD,
            "unbounded_feature",
            Some("previous_response_id"),
            "previous_response_id is not allowed here, since its cost cannot be bounded.",
        ),
    ]);
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
