//! Error bodies as the two providers write them.

use serde_json::{Value, json};

use crate::wire::Dialect;

/// An error of the stand-in provider.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub status: u16,
    /// The provider's `type`, in OpenAI's vocabulary; Anthropic's follows from the status.
    pub kind: &'static str,
    pub code: Option<&'static str>,
    pub param: Option<&'static str>,
    pub message: String,
    /// Seconds in `retry-after`, where the real provider would state them.
    pub retry_after: Option<u64>,
}

impl Problem {
    /// A request that is wrong in itself.
    pub(super) fn invalid(message: impl Into<String>, param: Option<&'static str>) -> Self {
        let kind = "invalid_request_error";
        Self { status: 400, kind, code: None, param, message: message.into(), retry_after: None }
    }

    /// What a provider says with this status.
    pub(super) fn of_status(status: u16, quota: bool, retry_after: Option<u64>) -> Self {
        let (kind, code, message) = match status {
            401 => ("invalid_request_error", Some("invalid_api_key"), "Incorrect API key provided."),
            403 => ("request_forbidden", None, "You may not use this resource."),
            404 => ("invalid_request_error", Some("model_not_found"), "The model does not exist or you may not use it."),
            413 => ("invalid_request_error", Some("request_too_large"), "The request is too large."),
            429 if quota => ("insufficient_quota", Some("insufficient_quota"), "You exceeded your current quota."),
            429 => {
                ("requests", Some("rate_limit_exceeded"), "Rate limit reached for requests per minute in organization org-demo.")
            }
            503 => {
                ("service_unavailable_error", Some("server_is_overloaded"), "The server is overloaded. Please try again later.")
            }
            500.. => ("server_error", None, "The server had an error while processing your request."),
            _ => ("invalid_request_error", None, "The request could not be processed."),
        };
        Self { status, kind, code, param: None, message: message.to_owned(), retry_after }
    }

    /// The body in a dialect's format.
    pub(super) fn body(&self, dialect: Dialect, request_id: &str) -> Value {
        match dialect {
            Dialect::OpenAi => json!({ "error": self.openai() }),
            Dialect::Anthropic => json!({ "type": "error", "error": self.anthropic(), "request_id": request_id }),
        }
    }

    /// The inner object, as OpenAI writes it.
    pub(super) fn openai(&self) -> Value {
        json!({ "message": self.message, "type": self.kind, "param": self.param, "code": self.code })
    }

    /// The inner object, as Anthropic writes it.
    pub(super) fn anthropic(&self) -> Value {
        let kind = match self.status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            409 => "conflict_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            504 => "timeout_error",
            503 | 529 => "overloaded_error",
            _ => "api_error",
        };
        let mut error = json!({ "type": kind, "message": self.message });
        if self.kind == "insufficient_quota" {
            error["details"] = json!({ "error_code": "enforced_spend_limit_reached" });
        }
        error
    }
}
