//! What is known of a request that has ended, spelled once: the same JSON members go into its access line and into its record.
//!
//! By hand, since every request has them spelled: the log library's way and a serializer's together took a tenth of a request's
//! instructions. [`crate::records::Entry`] reads them.

use super::Ending;
use super::record::{Facts, micros, words};
use crate::degrade::Degraded;
use crate::domain::{CustomerId, RequestId, Timestamp, UserId};
use crate::wire::{Api, Usage};
use std::cell::RefCell;
use std::fmt::{self, Write};
use std::time::Duration;

/// The longest text that is kept of what others named, bytes. Our own bounds are shorter; a provider's are not ours.
pub const LONGEST: usize = 512;

/// What most requests come to, bytes.
const ROOM: usize = 1_024;

/// The members, with commas between them and no braces; those that are not known are left out. Times are microseconds.
#[must_use]
pub fn members(id: RequestId, api: Api, took: Duration, facts: &Facts) -> String {
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
        decided,
        admitted,
        waited,
        attempting: _,
        first_byte,
        ending,
        repeat,
        job,
        resubmitted_by,
    } = facts;
    let mut out = Members(String::with_capacity(ROOM));
    out.shown("request_id", id);
    out.text("api", Some(api.as_str()));
    out.text("app", app.as_deref());
    out.text("customer", customer.as_ref().map(CustomerId::as_str));
    out.text("user", user.as_ref().map(UserId::as_str));
    out.text("plan", plan.as_ref().map(|plan| &*plan.name));
    out.text("priority", Some(priority.as_str()));
    out.text("class", class.as_deref());
    out.text("model", model.as_deref());
    out.text("fallback_model", fallback_model.as_deref());
    out.text("served_model", served_model.as_deref());
    out.word("stream", if *stream { "true" } else { "false" });
    out.number("status", Some(u64::from(*status)));
    out.text("cause", *cause);
    out.text("refused_scope", refused_by.map(|(scope, _)| scope));
    out.text("refused_limit", refused_by.map(|(_, limit)| limit));
    out.number("refused_max", refused_at.map(|stood| stood.max));
    out.number("refused_used", refused_at.map(|stood| stood.used));
    out.number("refused_held", refused_at.map(|stood| stood.held));
    out.number("refused_asked", refused_at.map(|stood| stood.asked));
    out.text("shadow_refused", shadow_refused.map(|(scope, limit)| format!("{scope}.{limit}")).as_deref());
    out.text("degraded", words(degraded, Degraded::kind).as_deref());
    out.text("degraded_cause", words(degraded, Degraded::cause).as_deref());
    out.number("pool_level", pool_level.map(u64::from));
    out.text("ticket", ticket.as_deref());
    out.number("estimated_input_tokens", Some(*estimated_input));
    out.number("output_cap", Some(*output_cap));
    let usage = usage.as_ref();
    out.number("input_tokens", usage.map(Usage::input));
    out.number("cached_tokens", usage.map(|usage| usage.cache_read));
    out.number("output_tokens", usage.map(Usage::total_output));
    out.word("usage_estimated", if *usage_estimated { "true" } else { "false" });
    out.number("cost_nano_usd", Some(cost.get()));
    out.text("provider_request_id", provider_request_id.as_deref());
    out.number("attempts", Some(u64::from(*attempts)));
    out.number("decided_at_us", decided.map(Timestamp::micros));
    out.number("admitted_us", admitted.map(micros));
    out.number("waited_us", Some(micros(*waited)));
    out.number("first_byte_us", first_byte.map(micros));
    out.number("duration_us", Some(micros(took)));
    out.text("ending", Some(Ending::as_str(*ending)));
    out.text("repeat", *repeat);
    out.text("job", job.as_deref());
    out.text("resubmitted_by", resubmitted_by.as_deref());
    out.0
}

/// Members of a JSON object.
struct Members(String);

impl Members {
    fn name(&mut self, name: &str) {
        self.0.push_str(if self.0.is_empty() { "\"" } else { ",\"" });
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    fn text(&mut self, name: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        self.name(name);
        self.0.push('"');
        escape(&mut self.0, cut(text));
        self.0.push('"');
    }

    /// What needs no escapes as it shows itself.
    fn shown(&mut self, name: &str, value: impl std::fmt::Display) {
        self.name(name);
        let _ = write!(self.0, "\"{value}\""); // into a string, which cannot fail
    }

    fn number(&mut self, name: &str, number: Option<u64>) {
        let Some(number) = number else { return };
        self.word(name, itoa::Buffer::new().format(number));
    }

    fn word(&mut self, name: &str, word: &str) {
        self.name(name);
        self.0.push_str(word);
    }
}

/// At most [`LONGEST`] bytes of a text, in whole characters.
#[must_use]
pub fn cut(text: &str) -> &str {
    let end = (0..=LONGEST.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The inside of a JSON string.
fn escape(out: &mut String, text: &str) {
    let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let mut rest = text;
    while let Some(at) = rest.bytes().position(special) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            byte => _ = write!(out, "\\u{byte:04x}"), // into a string, which cannot fail
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// A time in RFC 3339, to the microsecond.
#[must_use]
pub fn instant(at: Timestamp) -> String {
    let mut out = String::with_capacity(27);
    let _ = time(&mut out, at); // into a string, which cannot fail
    out
}

thread_local! {
    /// The last second that this thread spelled, Unix seconds, without the `Z` at its end.
    static SECOND: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

/// A time in RFC 3339, to the microsecond.
pub(super) fn time(out: &mut impl Write, at: Timestamp) -> fmt::Result {
    SECOND.with_borrow_mut(|(second, spelled)| {
        if *second != at.secs() || spelled.is_empty() {
            *second = at.secs();
            let at = jiff::Timestamp::from_second(i64::try_from(at.secs()).unwrap_or(i64::MAX)).unwrap_or(jiff::Timestamp::MAX);
            *spelled = at.to_string();
            spelled.pop();
        }
        out.write_str(spelled)
    })?;
    // Six digits: those of a seven-digit number behind its first.
    out.write_char('.')?;
    out.write_str(&itoa::Buffer::new().format(1_000_000 + at.micros() % 1_000_000)[1..])?;
    out.write_char('Z')
}

#[cfg(test)]
mod tests;
