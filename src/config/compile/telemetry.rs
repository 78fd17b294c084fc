//! `[telemetry]`, and the `OTEL_*` variables that stand in where it says nothing.

use super::Compiler;
use crate::config::file::{self, File};
use crate::config::policy::{Otlp, Secret, Telemetry};
use crate::config::problem::{Place, Source};
use http::{HeaderName, HeaderValue, Uri};
use std::time::Duration;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The one protocol spoken.
const PROTOCOL: &str = "http/protobuf";
/// All of something, in millionths.
const ALL: u32 = 1_000_000;

/// `[telemetry]`
pub fn telemetry(c: &mut Compiler<'_>, file: &File) -> Telemetry {
    let written = file.telemetry.as_ref();
    let propagate = written.and_then(|written| written.propagate).unwrap_or(false);
    Telemetry { propagate, otlp: otlp(c, written.and_then(|written| written.otlp.as_ref())) }
}

/// `None` when there is no collector, or beside a problem.
fn otlp(c: &mut Compiler<'_>, written: Option<&file::Otlp>) -> Option<Otlp> {
    let endpoint = written.and_then(|written| written.endpoint.as_ref());
    let (endpoint, place) = match (endpoint, c.env.get(ENDPOINT).filter(|text| !text.trim().is_empty())) {
        (Some(at), _) => (at.value.clone(), at.place.clone()),
        (None, Some(text)) => (text.trim().to_owned(), variable(ENDPOINT)),
        (None, None) => {
            let place = &written?.place;
            c.findings.missing(place, "endpoint", "write endpoint = \"http://127.0.0.1:4318\", the collector's address");
            return None;
        }
    };
    if !is_sound(&endpoint) {
        let advice = "write the collector's address for OTLP over HTTP, such as \"http://127.0.0.1:4318\"";
        c.findings.problem(&place, "is not an http(s) URL, or has a query or credentials in it", advice);
        return None;
    }
    let spoken = speaks(c, written);
    let headers = headers(c, written);
    let given = |name: &str| c.env.get(name).map(str::trim).filter(|text| !text.is_empty());
    let millis = |name: &str| given(name).and_then(|text| text.parse().ok()).filter(|n| *n > 0).map(Duration::from_millis);
    let table = written.cloned();
    let timeout = table.as_ref().and_then(|table| table.timeout).map(|timeout| timeout.0);
    let interval = table.as_ref().and_then(|table| table.interval).map(|interval| interval.0);
    let metrics_interval = table.as_ref().and_then(|table| table.metrics_interval).map(|interval| interval.0);
    let sample = table.as_ref().and_then(|table| table.sample).map(|part| part.0);
    let customer_ids = table.as_ref().and_then(|table| table.customer_ids).unwrap_or(false);
    let name = table.and_then(|table| table.service_name).or_else(|| given("OTEL_SERVICE_NAME").map(str::to_owned));
    let disabled = given("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let base = endpoint.trim_end_matches('/');
    (spoken && !disabled).then(|| Otlp {
        traces_url: format!("{base}/v1/traces"),
        metrics_url: format!("{base}/v1/metrics"),
        headers,
        service_name: name.unwrap_or_else(|| "tollgate".to_owned()),
        sample: sample.or_else(|| sampled(given)).unwrap_or(ALL),
        timeout: timeout.or_else(|| millis("OTEL_EXPORTER_OTLP_TIMEOUT")).unwrap_or(Duration::from_secs(10)),
        interval: interval.or_else(|| millis("OTEL_BSP_SCHEDULE_DELAY")).unwrap_or(Duration::from_secs(5)),
        metrics_interval: metrics_interval.or_else(|| millis("OTEL_METRIC_EXPORT_INTERVAL")).unwrap_or(Duration::from_secs(60)),
        customer_ids,
    })
}

fn variable(name: &str) -> Place {
    Place::root(Source::Variable(name.into()))
}

fn is_sound(endpoint: &str) -> bool {
    endpoint.parse::<Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.query().is_none()
            && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
    })
}

/// Whether the collector is to be spoken to as we can. What the file asks for and cannot be had is a problem; a variable may be meant for
/// other programs as well, so it is a warning, and nothing is exported.
fn speaks(c: &mut Compiler<'_>, written: Option<&file::Otlp>) -> bool {
    if let Some(at) = written.and_then(|written| written.protocol.as_ref()) {
        if at.value != PROTOCOL {
            c.findings.problem(&at.place, format!("{:?} is not spoken", at.value), format!("write \"{PROTOCOL}\""));
        }
        return at.value == PROTOCOL;
    }
    const NAME: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
    let other = c.env.get(NAME).map(str::trim).filter(|text| !text.is_empty() && *text != PROTOCOL).map(str::to_owned);
    if let Some(other) = &other {
        let advice = format!("set it to {PROTOCOL}, or write protocol under [telemetry.otlp]");
        c.findings.warn(&variable(NAME), format!("{other:?} is not spoken, so nothing is exported"), advice);
    }
    other.is_none()
}

/// The headers of the file, and those of the variable that it does not name.
fn headers(c: &mut Compiler<'_>, written: Option<&file::Otlp>) -> Vec<(HeaderName, Secret)> {
    let mut headers: Vec<(HeaderName, Secret)> = Vec::new();
    for (name, source) in written.and_then(|written| written.headers.as_ref()).iter().flat_map(|named| &named.0) {
        let Ok(header) = name.value.parse::<HeaderName>() else {
            c.findings.problem(&name.place, "is not the name of a header", "write one such as \"authorization\"");
            continue;
        };
        if let Some(value) = source.fetch_line(c.env, &mut c.findings) {
            headers.push((header, value));
        }
    }
    const NAME: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    for pair in c.env.get(NAME).unwrap_or_default().split(',').filter(|pair| !pair.trim().is_empty()) {
        let read = pair.split_once('=').and_then(|(name, value)| {
            let name = name.trim().parse::<HeaderName>().ok()?;
            let value = unescape(value.trim())?;
            HeaderValue::from_str(&value).ok().map(|_| (name, Secret::new(&value)))
        });
        match read {
            Some((name, _)) if headers.iter().any(|(known, _)| *known == name) => {}
            Some(header) => headers.push(header),
            // Not echoed: it may be a secret.
            None => c.findings.problem(&variable(NAME), "is not a list of headers", "write name=value,name=value"),
        }
    }
    headers
}

/// What `%20` and the like stand for.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?
        } else {
            byte
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

/// The part of traces that `OTEL_TRACES_SAMPLER` lets through, with or without `parentbased_` before it.
fn sampled<'a>(given: impl Fn(&str) -> Option<&'a str>) -> Option<u32> {
    match given("OTEL_TRACES_SAMPLER")?.trim_start_matches("parentbased_") {
        "always_off" => Some(0),
        "traceidratio" => {
            let part: f64 = given("OTEL_TRACES_SAMPLER_ARG")?.parse().ok()?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
            (0.0..=1.0).contains(&part).then_some((part * f64::from(ALL)) as u32)
        }
        _ => None,
    }
}
