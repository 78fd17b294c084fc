//! The record of one request, as it is kept and shown: the fields of the access log under the same names, and when it began.

use serde::{Deserialize, Serialize};

/// See the module. Absent is what was not known; times are microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = RequestRecord)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are those of the access log, described in docs/metrics.md")]
pub struct Entry {
    pub request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_request_id: Option<String>,
    /// When it arrived, RFC 3339.
    pub time: String,
    pub api: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    pub priority: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The model that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_model: Option<String>,
    /// The fallback, where it was asked instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_level: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded_cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    pub stream: bool,
    pub status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_limit: Option<String>,
    /// The limit itself: tokens, requests or nano-dollars, as the three below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_max: Option<u64>,
    /// What was used of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_used: Option<u64>,
    /// What requests in flight held of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_held: Option<u64>,
    /// What was asked of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_asked: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow_refused: Option<String>,
    pub attempts: u32,
    pub estimated_input_tokens: u64,
    pub output_cap: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    pub usage_estimated: bool,
    pub cost_nano_usd: u64,
    /// Microseconds since 1970 by the store's clock: when the limits decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_at_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted_us: Option<u64>,
    pub waited_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
    pub duration_us: u64,
    pub ending: String,
    /// What came of the idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
    /// The asynchronous request it was a run of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The agent of the desk who asked a ticket's request again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resubmitted_by: Option<String>,
}
