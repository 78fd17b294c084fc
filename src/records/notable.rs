//! What is remembered with a customer of a request that was not served as it was asked.

use crate::degrade::Degraded;
use crate::telemetry::record::{Ended, Facts, words};
use crate::telemetry::spelled;
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
    pub fn of(ended: &Ended) -> Option<Self> {
        let facts = &ended.facts;
        let outcome = outcome(facts)?;
        let cut = |text: &str| spelled::cut(text).to_owned();
        Some(Self {
            request_id: ended.id.to_string(),
            time: spelled::instant(ended.at),
            outcome,
            status: facts.status,
            code: facts.cause.map(str::to_owned),
            scope: facts.refused_by.map(|(scope, _)| scope.to_owned()),
            limit: facts.refused_by.map(|(_, limit)| limit.to_owned()),
            degraded: words(&facts.degraded, Degraded::kind),
            degraded_cause: words(&facts.degraded, Degraded::cause),
            model: facts.model.as_deref().map(cut),
            app: facts.app.as_deref().map(cut),
            user: facts.user.as_ref().map(|user| cut(user.as_str())),
            plan: facts.plan.as_ref().map(|plan| cut(&plan.name)),
            ticket: facts.ticket.as_deref().map(cut),
        })
    }
}

fn outcome(facts: &Facts) -> Option<Outcome> {
    let handed_off = facts.degraded.iter().any(|degraded| matches!(degraded, Degraded::Handoff(_)));
    match facts.status {
        _ if handed_off => Some(Outcome::HandedOff),
        500.. => Some(Outcome::Failed),
        400.. if facts.refused_by.is_some() || facts.attempts == 0 => facts.cause.map(|_| Outcome::Refused),
        400.. => facts.cause.map(|_| Outcome::Failed),
        _ => (!facts.degraded.is_empty()).then_some(Outcome::Degraded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::degrade::chain::Cause;

    #[test]
    fn only_what_was_not_served_as_asked_is_noted() {
        let tpm = Some(("customer", "tpm"));
        let (cheaper, handoff) = (Degraded::Cheaper(Cause::Spend), Degraded::Handoff(Cause::Spend));
        for (status, cause, refused_by, degraded, attempts, right) in [
            (200, None, None, vec![], 1, None),
            (402, Some("spend_cap_exceeded"), Some(("customer", "spend_day")), vec![], 0, Some(Outcome::Refused)),
            (400, Some("model_not_priced"), None, vec![], 0, Some(Outcome::Refused)),
            (429, Some("upstream_rate_limited"), tpm, vec![], 1, Some(Outcome::Refused)),
            (429, Some("upstream_rate_limited"), None, vec![], 2, Some(Outcome::Failed)),
            (502, Some("upstream_unreachable"), None, vec![], 1, Some(Outcome::Failed)),
            (200, None, None, vec![cheaper], 1, Some(Outcome::Degraded)),
            (200, None, None, vec![Degraded::Short, handoff], 0, Some(Outcome::HandedOff)),
            (400, None, None, vec![], 1, None),
            (499, None, None, vec![], 1, None),
        ] {
            let facts = Facts { status, cause, refused_by, degraded, attempts, ..Facts::default() };
            assert_eq!(outcome(&facts), right, "{facts:?}");
        }
    }
}
