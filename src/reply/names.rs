//! Names of the headers that the gateway sends.

use http::HeaderName;

/// Our own id of the request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-tollgate-request-id");
/// Who refused: `tollgate`, or `provider` where the provider's own refusal is passed on.
pub const REFUSED_BY: HeaderName = HeaderName::from_static("x-tollgate-refused-by");
/// That a cap is nearly used up.
pub const NOTICE: HeaderName = HeaderName::from_static("x-tollgate-notice");
/// The output cap that was written into the request, in tokens.
pub const OUTPUT_CAP: HeaderName = HeaderName::from_static("x-tollgate-output-cap");
/// That the answer is one that was given before.
pub const REPLAYED: HeaderName = HeaderName::from_static("x-tollgate-replayed");
/// Our id of the request that made an answer which is given again.
pub const ORIGINAL_REQUEST_ID: HeaderName = HeaderName::from_static("x-tollgate-original-request-id");
/// What was given up for this answer, and why: `cheaper;cause=spend`, `handoff;cause=provider`. Absent when nothing was.
pub const DEGRADED: HeaderName = HeaderName::from_static("x-tollgate-degraded");
/// The model that answered; `human-triage` for the hand-off.
pub const MODEL: HeaderName = HeaderName::from_static("x-tollgate-model");
/// How much is being given up at the moment, 0 to 3, for models in a pool.
pub const LEVEL: HeaderName = HeaderName::from_static("x-tollgate-level");
/// The ticket under which a person takes over.
pub const TICKET: HeaderName = HeaderName::from_static("x-tollgate-ticket");
/// Where the ticket's status is read, from the root of the gateway.
pub const TICKET_URL: HeaderName = HeaderName::from_static("x-tollgate-ticket-url");

/// Where OpenAI's SDKs look for the id of a request.
pub(super) const OPENAI_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Where Anthropic's SDKs look for the id of a request.
pub(super) const ANTHROPIC_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// Milliseconds to wait; the SDKs prefer it to `retry-after`.
pub(super) const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// Overrides the SDKs' own rule of which statuses to retry.
pub(super) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The IETF draft's list of policies.
pub(super) const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The IETF draft's list of what is left.
pub(super) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// Limit, remaining and reset in the draft's older spelling.
pub(super) const OLDER: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// Limit, remaining and reset of one dimension in a vendor's spelling.
pub(super) type Trio = [HeaderName; 3];

pub(super) const OPENAI_REQUESTS: Trio = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
pub(super) const OPENAI_TOKENS: Trio = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];
pub(super) const ANTHROPIC_REQUESTS: Trio = [
    HeaderName::from_static("anthropic-ratelimit-requests-limit"),
    HeaderName::from_static("anthropic-ratelimit-requests-remaining"),
    HeaderName::from_static("anthropic-ratelimit-requests-reset"),
];
pub(super) const ANTHROPIC_TOKENS: Trio = [
    HeaderName::from_static("anthropic-ratelimit-tokens-limit"),
    HeaderName::from_static("anthropic-ratelimit-tokens-remaining"),
    HeaderName::from_static("anthropic-ratelimit-tokens-reset"),
];
pub(super) const ANTHROPIC_INPUT_TOKENS: Trio = [
    HeaderName::from_static("anthropic-ratelimit-input-tokens-limit"),
    HeaderName::from_static("anthropic-ratelimit-input-tokens-remaining"),
    HeaderName::from_static("anthropic-ratelimit-input-tokens-reset"),
];
pub(super) const ANTHROPIC_OUTPUT_TOKENS: Trio = [
    HeaderName::from_static("anthropic-ratelimit-output-tokens-limit"),
    HeaderName::from_static("anthropic-ratelimit-output-tokens-remaining"),
    HeaderName::from_static("anthropic-ratelimit-output-tokens-reset"),
];
