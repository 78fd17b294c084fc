//! Log lines: JSON, one object a line. The access line, of which every request writes one, comes with its members [spelled] and
//! is only put together here; whatever else is logged takes the library's way, which reads the same and costs more.

use super::gathered::ACCESS;
use super::{SystemClock, spelled};
use crate::domain::Clock;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, format};
use tracing_subscriber::registry::LookupSpan;

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
        spelled::time(&mut writer, SystemClock.now())?;
        writer.write_str("\",\"level\":\"")?;
        writer.write_str(event.metadata().level().as_str())?;
        writer.write_str("\",")?;
        let mut spliced = Spliced { writer: &mut writer, result: Ok(()) };
        event.record(&mut spliced);
        spliced.result?;
        writeln!(writer, ",\"target\":\"{ACCESS}\"}}")
    }
}

/// Writes the members that an access line comes with, as they are.
struct Spliced<'a, 'w> {
    writer: &'a mut Writer<'w>,
    result: fmt::Result,
}

impl Visit for Spliced<'_, '_> {
    fn record_str(&mut self, _: &Field, members: &str) {
        self.result = self.writer.write_str(members);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
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

    #[test]
    fn an_access_line_reads_as_the_librarys_own_lines_do() {
        let seen = Seen::default();
        let writer = seen.clone();
        let log = tracing_subscriber::fmt().fmt_fields(JsonFields::new()).event_format(Lines::default());
        let log = log.with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(log, || {
            tracing::info!(target: "access", members = r#""customer":"a \"b\"","status":200"#);
            tracing::info!(target: "other", customer = "a \"b\"", status = 200);
        });
        let bytes = seen.0.lock().clone();
        let text = String::from_utf8(bytes).expect("text");
        let [mut by_hand, mut librarys]: [serde_json::Map<String, serde_json::Value>; 2] =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<_>>().try_into().expect("two lines");
        assert_eq!(by_hand.remove("target"), Some("access".into()));
        assert_eq!(librarys.remove("target"), Some("other".into()));
        let times =
            [by_hand.remove("timestamp"), librarys.remove("timestamp")].map(|time| time.expect("a time").to_string().len());
        assert_eq!(times[0], times[1], "to the microsecond, both");
        assert_eq!(by_hand, librarys);
        assert_eq!(by_hand.len(), 3, "{by_hand:?}");
    }
}
