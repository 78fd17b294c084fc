//! What a limit refuses: rates, what can never pass, budgets.

use super::*;

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
