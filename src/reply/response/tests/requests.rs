//! What is wrong with a request itself.

use super::*;

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
