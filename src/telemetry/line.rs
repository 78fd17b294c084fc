//! Log lines: JSON, one object a line. The access line, of which every request writes one, is spelled by hand; whatever else is logged
//! takes the library's way, which reads the same and costs more: 38,000 of a request's 545,000 instructions.

use super::SystemClock;
use crate::domain::{Clock, Timestamp};
use std::cell::RefCell;
use std::fmt::{self, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, format};
use tracing_subscriber::registry::LookupSpan;

/// The target of access lines.
const ACCESS: &str = "access";

/// Spells log lines.
#[derive(Debug)]
pub struct Lines(Format<Json>);

impl Default for Lines {
    fn default() -> Self {
        Self(format().json().flatten_event(true).with_current_span(false))
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if event.metadata().target() != ACCESS {
            return self.0.format_event(context, writer, event);
        }
        writer.write_str("{\"timestamp\":\"")?;
        time(&mut writer, SystemClock.now())?;
        writer.write_str("\",\"level\":\"")?;
        writer.write_str(event.metadata().level().as_str())?;
        writer.write_char('"')?;
        let mut fields = Fields { writer: &mut writer, result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        writeln!(writer, ",\"target\":\"{ACCESS}\"}}")
    }
}

/// Writes `,"name":value` for each field.
struct Fields<'a, 'w> {
    writer: &'a mut Writer<'w>,
    result: fmt::Result,
}

impl Fields<'_, '_> {
    fn put(&mut self, field: &Field, value: &str) {
        self.begin(field);
        self.write(value);
    }

    fn put_text(&mut self, field: &Field, text: &str) {
        self.begin(field);
        self.write("\"");
        if self.result.is_ok() {
            self.result = escape(self.writer, text);
        }
    }

    fn begin(&mut self, field: &Field) {
        self.write(",\"");
        self.write(field.name());
        self.write("\":");
    }

    fn write(&mut self, text: &str) {
        if self.result.is_ok() {
            self.result = self.writer.write_str(text);
        }
    }
}

impl Visit for Fields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, itoa::Buffer::new().format(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, itoa::Buffer::new().format(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, if value { "true" } else { "false" });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_text(field, &format!("{value:?}"));
    }
}

thread_local! {
    /// The last second that this thread spelled, Unix seconds, without the `Z` at its end.
    static SECOND: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

/// A time in RFC 3339, to the microsecond.
fn time(out: &mut impl Write, at: Timestamp) -> fmt::Result {
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

/// The inside of a JSON string and its closing quote.
fn escape(out: &mut impl Write, text: &str) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.write_str(&rest[..at])?;
        match rest.as_bytes()[at] {
            b'"' => out.write_str("\\\"")?,
            b'\\' => out.write_str("\\\\")?,
            byte => write!(out, "\\u{byte:04x}")?,
        }
        rest = &rest[at + 1..];
    }
    out.write_str(rest)?;
    out.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::io;
    use std::sync::Arc;
    use tracing_subscriber::fmt::format::JsonFields;

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Seen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written of the same event under two targets: by hand, and the library's way.
    #[test]
    fn an_access_line_reads_as_the_librarys_own_line_would() {
        let seen = Seen::default();
        let writer = seen.clone();
        let log = tracing_subscriber::fmt().fmt_fields(JsonFields::new()).event_format(Lines::default());
        let log = log.with_writer(move || writer.clone()).finish();
        let nasty = "a \"quoted\" \\ line\nwith\tcontrol \u{1} and Zürich \u{1f600}";
        tracing::subscriber::with_default(log, || {
            macro_rules! event {
                ($target:literal) => {
                    tracing::info!(
                        target: $target,
                        request_id = %"tg_1",
                        customer = Some(nasty),
                        user = None::<&str>,
                        stream = true,
                        status = 200u16,
                        offset = -3i64,
                        cost_nano_usd = u64::MAX,
                        empty = "",
                    )
                };
            }
            event!("access");
            event!("other");
        });
        let bytes = seen.0.lock().clone();
        let text = String::from_utf8(bytes).expect("text");
        let [mut by_hand, mut librarys]: [serde_json::Map<String, serde_json::Value>; 2] =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<_>>().try_into().expect("two lines");
        assert_eq!(by_hand["customer"], nasty);
        assert_eq!(by_hand.remove("target"), Some("access".into()));
        assert_eq!(librarys.remove("target"), Some("other".into()));
        let times =
            [by_hand.remove("timestamp"), librarys.remove("timestamp")].map(|time| time.expect("a time").to_string().len());
        assert_eq!(times[0], times[1], "to the microsecond, both");
        assert_eq!(by_hand, librarys);
        assert_eq!(by_hand.len(), 8, "{by_hand:?}");
    }
}
