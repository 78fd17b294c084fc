//! The record of one request, as it is kept and shown: the fields of the access log under the same names, and when it began.

use crate::degrade::Degraded;
use crate::domain::{CustomerId, UserId};
use crate::telemetry::record::{Ended, Facts, micros, words};
use crate::telemetry::spelled::{self, instant};
use crate::wire::Usage;
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

impl Entry {
    /// Of a request that has ended: what its JSON reads as.
    #[must_use]
    pub fn of(ended: &Ended) -> Self {
        let Ended { id, api, at, keep: _, took, facts, members: _ } = ended;
        // Named one by one, so that a new fact is not forgotten here.
        let Facts {
            app,
            customer,
            user,
            plan,
            priority,
            class,
            model,
            model_is_known: _,
            fallback_model,
            served_model,
            stream,
            estimated_input,
            output_cap,
            degraded,
            pool_level,
            ticket,
            usage,
            usage_estimated,
            cost,
            cause,
            refused_by,
            refused_at,
            shadow_refused,
            status,
            provider_request_id,
            attempts,
            admitted,
            waited,
            attempting: _,
            first_byte,
            ending,
            repeat,
            job,
            resubmitted_by,
        } = facts;
        let usage = usage.as_ref();
        Self {
            request_id: id.to_string(),
            provider_request_id: provider_request_id.as_deref().map(cut),
            time: instant(*at),
            api: api.as_str().to_owned(),
            app: app.as_deref().map(cut),
            customer: customer.as_ref().map(CustomerId::as_str).map(cut),
            user: user.as_ref().map(UserId::as_str).map(cut),
            plan: plan.as_ref().map(|plan| cut(&plan.name)),
            priority: priority.as_str().to_owned(),
            class: class.as_deref().map(cut),
            model: model.as_deref().map(cut),
            served_model: served_model.as_deref().map(cut),
            fallback_model: fallback_model.as_deref().map(cut),
            pool_level: *pool_level,
            degraded: words(degraded, Degraded::kind),
            degraded_cause: words(degraded, Degraded::cause),
            ticket: ticket.as_deref().map(cut),
            stream: *stream,
            status: *status,
            cause: cause.map(str::to_owned),
            refused_scope: refused_by.map(|(scope, _)| scope.to_owned()),
            shadow_refused: shadow_refused.map(|(scope, limit)| format!("{scope}.{limit}")),
            refused_limit: refused_by.map(|(_, limit)| limit.to_owned()),
            refused_max: refused_at.map(|stood| stood.max),
            refused_used: refused_at.map(|stood| stood.used),
            refused_held: refused_at.map(|stood| stood.held),
            refused_asked: refused_at.map(|stood| stood.asked),
            attempts: *attempts,
            estimated_input_tokens: *estimated_input,
            output_cap: *output_cap,
            input_tokens: usage.map(Usage::input),
            cached_tokens: usage.map(|usage| usage.cache_read),
            output_tokens: usage.map(Usage::total_output),
            usage_estimated: *usage_estimated,
            cost_nano_usd: cost.get(),
            admitted_us: admitted.map(micros),
            waited_us: micros(*waited),
            first_byte_us: first_byte.map(micros),
            duration_us: micros(*took),
            ending: ending.as_str().to_owned(),
            repeat: repeat.map(str::to_owned),
            job: job.as_deref().map(cut),
            resubmitted_by: resubmitted_by.as_deref().map(cut),
        }
    }
}

fn cut(text: &str) -> String {
    spelled::cut(text).to_owned()
}
