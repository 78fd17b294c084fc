//! Whose fault an error is that came without a status of its own: an error event, or an error object where an answer should be.

use super::read::is_used_up;
use crate::wire::meter::ReplyError;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The caller's: the same request fails again.
    Caller,
    /// A rate that a wait cures.
    Rate,
    /// A quota or the account's money is used up.
    UsedUp,
    /// The provider's own.
    Provider,
}

impl ReplyError {
    /// Whose fault it is, by code and type, never by prose. What nobody has heard of is the provider's: it began an answer, so the request
    /// was one it takes.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let words = [&self.code, &self.kind].into_iter().flatten().map(String::as_str);
        if words.clone().any(is_used_up) {
            return Verdict::UsedUp;
        }
        words.filter_map(of_word).next().unwrap_or(Verdict::Provider)
    }
}

fn of_word(word: &str) -> Option<Verdict> {
    const RATES: [&str; 6] = ["rate_limit_exceeded", "rate_limit_error", "slow_down", "too_many_requests", "requests", "tokens"];
    const CALLERS: [&str; 9] = [
        "authentication_error",
        "permission_error",
        "billing_error",
        "not_found_error",
        "model_not_found",
        "request_too_large",
        "context_length_exceeded",
        "content_filter",
        "bio_policy",
    ];
    if let Ok(status) = word.parse::<u16>() {
        return match status {
            429 => Some(Verdict::Rate),
            408 | 409 | 500..=599 => Some(Verdict::Provider),
            400..=499 => Some(Verdict::Caller),
            _ => None,
        };
    }
    if RATES.contains(&word) {
        return Some(Verdict::Rate);
    }
    let is_callers = CALLERS.contains(&word)
        || ["invalid_", "image_too_", "unsupported_"].iter().any(|start| word.starts_with(start))
        || ["_violation", "_mismatch"].iter().any(|end| word.ends_with(end));
    is_callers.then_some(Verdict::Caller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_tells_whose_fault_it_is_and_then_the_type() {
        for (code, kind, right) in [
            (None, Some("overloaded_error"), Verdict::Provider),
            (None, Some("api_error"), Verdict::Provider),
            (Some("server_error"), None, Verdict::Provider),
            (Some("server_is_overloaded"), Some("service_unavailable_error"), Verdict::Provider),
            (Some("502"), None, Verdict::Provider),
            (None, None, Verdict::Provider),
            (Some("vector_store_timeout"), None, Verdict::Provider),
            (Some("rate_limit_exceeded"), Some("tokens"), Verdict::Rate),
            (None, Some("rate_limit_error"), Verdict::Rate),
            (Some("slow_down"), None, Verdict::Rate),
            (Some("429"), None, Verdict::Rate),
            (Some("insufficient_quota"), Some("insufficient_quota"), Verdict::UsedUp),
            (None, Some("invalid_request_error"), Verdict::Caller),
            (Some("invalid_prompt"), None, Verdict::Caller),
            (Some("context_length_exceeded"), Some("invalid_request_error"), Verdict::Caller),
            (Some("misalignment_policy_violation"), None, Verdict::Caller),
            (Some("image_too_large"), None, Verdict::Caller),
            (Some("404"), None, Verdict::Caller),
        ] {
            let error = ReplyError { code: code.map(Into::into), kind: kind.map(Into::into) };
            assert_eq!(error.verdict(), right, "{code:?} {kind:?}");
        }
    }
}
