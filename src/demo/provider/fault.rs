//! The faults a model's name asks for.

/// One way to go wrong, chosen by a model name such as `fault-cut`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `fault-429`, `fault-500`, `fault-529`, …: this status with the provider's error body. `fault-429-retry-7` adds
    /// `retry-after: 7`; `fault-429-quota` is the 429 that waiting does not cure.
    Status {
        /// The status.
        status: u16,
        /// The `retry-after` header, in seconds.
        retry_after: Option<u64>,
        /// Whether the error is `insufficient_quota`.
        quota: bool,
    },
    /// `fault-hang`: takes the request and never answers.
    Hang,
    /// `fault-close`: closes the connection before the headers.
    Close,
    /// `fault-stall`: sends headers (and, in a stream, nothing else), then falls silent.
    Stall,
    /// `fault-cut`: breaks off after three pieces of text, or half-way through a whole reply.
    Cut,
    /// `fault-reset`: the same with a TCP RST.
    Reset,
    /// `fault-error-event`: an error event after three pieces of text; 500 where nothing is streamed.
    ErrorEvent,
    /// `fault-200-error`: status 200 and an error object.
    OkError,
    /// `fault-no-usage`: the reply does not say what it used.
    NoUsage,
    /// `fault-garbage-usage`: the usage holds negative numbers and strings.
    GarbageUsage,
    /// `fault-usage-every-chunk`: each chunk of a chat or completion stream states the usage so far.
    UsageEveryChunk,
    /// `fault-no-done`: the stream ends without its last event.
    NoDone,
    /// `fault-open-after-done`: the connection stays open after the last event.
    OpenAfterDone,
    /// `fault-slow`: one piece of text per 200 ms.
    Slow,
    /// `fault-reject-stream-options`: 400 that names the field when `stream_options` is present.
    RejectStreamOptions,
    /// `fault-gzip`: compressed, whether asked for or not.
    Gzip,
    /// `fault-big`: one event, or a whole reply, of 8 MB.
    Big,
    /// `fault-split`: every byte of a stream in a chunk of its own.
    Split,
    /// `fault-crlf`: a stream with CRLF line ends.
    Crlf,
    /// `fault-comments`: comments between the events of a stream.
    Comments,
    /// `fault-cached`: half of the input reported as read from the cache, and with Anthropic a quarter as written.
    Cached,
    /// `fault-empty`: a whole reply without choices or content, and without usage.
    Empty,
    /// `fault-failed`: a Responses answer that ends as `failed`; 500 elsewhere.
    Failed,
}

/// Every fault model, one spelling each, as the models list shows them. The numbers in `fault-429-retry-7` and
/// `fault-500` may be others.
pub const FAULT_MODELS: [&str; 27] = [
    "fault-429",
    "fault-429-retry-7",
    "fault-429-quota",
    "fault-500",
    "fault-503",
    "fault-529",
    "fault-hang",
    "fault-close",
    "fault-stall",
    "fault-cut",
    "fault-reset",
    "fault-error-event",
    "fault-200-error",
    "fault-no-usage",
    "fault-garbage-usage",
    "fault-usage-every-chunk",
    "fault-no-done",
    "fault-open-after-done",
    "fault-slow",
    "fault-reject-stream-options",
    "fault-gzip",
    "fault-big",
    "fault-split",
    "fault-crlf",
    "fault-comments",
    "fault-cached",
    "fault-failed",
];

impl Fault {
    /// Reads a model name; `None` for every model that works.
    #[must_use]
    pub fn of_model(model: &str) -> Option<Self> {
        let name = model.strip_prefix("fault-")?;
        Some(match name {
            "hang" => Self::Hang,
            "close" => Self::Close,
            "stall" => Self::Stall,
            "cut" => Self::Cut,
            "reset" => Self::Reset,
            "error-event" => Self::ErrorEvent,
            "200-error" => Self::OkError,
            "no-usage" => Self::NoUsage,
            "garbage-usage" => Self::GarbageUsage,
            "usage-every-chunk" => Self::UsageEveryChunk,
            "no-done" => Self::NoDone,
            "open-after-done" => Self::OpenAfterDone,
            "slow" => Self::Slow,
            "reject-stream-options" => Self::RejectStreamOptions,
            "gzip" => Self::Gzip,
            "big" => Self::Big,
            "split" => Self::Split,
            "crlf" => Self::Crlf,
            "comments" => Self::Comments,
            "cached" => Self::Cached,
            "empty" => Self::Empty,
            "failed" => Self::Failed,
            _ => return Self::of_status(name),
        })
    }

    fn of_status(name: &str) -> Option<Self> {
        let (status, rest) = name.split_once('-').unwrap_or((name, ""));
        let status = status.parse().ok().filter(|status| (400..600).contains(status))?;
        match rest {
            "" => Some(Self::Status { status, retry_after: None, quota: false }),
            "quota" => Some(Self::Status { status, retry_after: None, quota: true }),
            _ => {
                let retry_after = Some(rest.strip_prefix("retry-")?.parse().ok()?);
                Some(Self::Status { status, retry_after, quota: false })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_fault_model_asks_for_a_fault_of_its_own() {
        let mut faults: Vec<Fault> = Vec::new();
        for model in FAULT_MODELS {
            let fault = Fault::of_model(model).unwrap_or_else(|| panic!("{model} is a fault"));
            assert!(!faults.contains(&fault), "{model} repeats {fault:?}");
            faults.push(fault);
        }
    }

    #[test]
    fn the_name_carries_status_and_retry_after() {
        let table = [
            ("gpt-4o", None),
            ("fault-", None),
            ("fault-nonsense", None),
            ("fault-200", None),
            ("fault-429-retry-x", None),
            ("fault-404", Some(Fault::Status { status: 404, retry_after: None, quota: false })),
            ("fault-503-retry-30", Some(Fault::Status { status: 503, retry_after: Some(30), quota: false })),
            ("fault-429-quota", Some(Fault::Status { status: 429, retry_after: None, quota: true })),
        ];
        for (model, fault) in table {
            assert_eq!(Fault::of_model(model), fault, "{model}");
        }
    }
}
