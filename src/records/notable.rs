//! What is remembered with a customer of a request that was not served as it was asked.

use super::Entry;
use serde::{Deserialize, Serialize};

/// How such a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// One of our limits or rules refused it.
    Refused,
    /// A person answers instead.
    HandedOff,
    /// A cheaper model or a shorter answer took the place of what was asked.
    Degraded,
    /// The provider, or the gateway, failed.
    Failed,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Refused, Self::HandedOff, Self::Degraded, Self::Failed];

    /// The word used everywhere.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::HandedOff => "handed_off",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

/// One such request; the whole record is found by its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Notable {
    /// Our id of it.
    pub request_id: String,
    /// When it arrived, RFC 3339.
    pub time: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The HTTP status of the answer; 499 when the client left before there was one.
    pub status: u16,
    /// The code of the refusal or failure, see docs/errors.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Whose limit refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Which limit refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// What was given up (`short`, `cheaper`, `handoff`), and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Why it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded_cause: Option<String>,
    /// The model that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The application that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The person inside the customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The plan it was decided by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The ticket under which a person answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

impl Notable {
    /// Of a request that has ended; `None` of one that was served as asked, or whose client just left.
    #[must_use]
    pub fn of(entry: &Entry) -> Option<Self> {
        let handed_off = entry.degraded.as_deref().is_some_and(|words| words.split(',').any(|word| word == "handoff"));
        let outcome = match entry.status {
            _ if handed_off => Outcome::HandedOff,
            500.. => Outcome::Failed,
            400.. if entry.refused_limit.is_some() || entry.attempts == 0 => {
                entry.cause.as_ref()?;
                Outcome::Refused
            }
            400.. => {
                entry.cause.as_ref()?;
                Outcome::Failed
            }
            _ if entry.degraded.is_some() => Outcome::Degraded,
            _ => return None,
        };
        Some(Self {
            request_id: entry.request_id.clone(),
            time: entry.time.clone(),
            outcome,
            status: entry.status,
            code: entry.cause.clone(),
            scope: entry.refused_scope.clone(),
            limit: entry.refused_limit.clone(),
            degraded: entry.degraded.clone(),
            degraded_cause: entry.degraded_cause.clone(),
            model: entry.model.clone(),
            app: entry.app.clone(),
            user: entry.user.clone(),
            plan: entry.plan.clone(),
            ticket: entry.ticket.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_served_as_asked_is_noted() {
        let some = |word: &str| Some(word.to_owned());
        for (status, cause, limit, degraded, attempts, right) in [
            (200, None, None, None, 1, None),
            (402, some("spend_cap_exceeded"), some("spend_day"), None, 0, Some(Outcome::Refused)),
            (400, some("model_not_priced"), None, None, 0, Some(Outcome::Refused)),
            (429, some("upstream_rate_limited"), some("tpm"), None, 1, Some(Outcome::Refused)),
            (429, some("upstream_rate_limited"), None, None, 2, Some(Outcome::Failed)),
            (502, some("upstream_unreachable"), None, None, 1, Some(Outcome::Failed)),
            (200, None, None, some("cheaper"), 1, Some(Outcome::Degraded)),
            (200, None, None, some("short,handoff"), 0, Some(Outcome::HandedOff)),
            (400, None, None, None, 1, None),
            (499, None, None, None, 1, None),
        ] {
            let entry = Entry { status, cause, refused_limit: limit, degraded, attempts, ..Entry::default() };
            assert_eq!(Notable::of(&entry).map(|noted| noted.outcome), right, "{entry:?}");
        }
    }
}
