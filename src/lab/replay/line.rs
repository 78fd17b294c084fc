//! One line of an access log.

use super::known;
use crate::domain::Priority;
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::Arc;

/// A request that reached the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrived, microseconds since the Unix epoch.
    pub arrived: u64,
    /// How long it took.
    pub took: u64,
    pub app: Option<Arc<str>>,
    pub customer: Arc<str>,
    pub user: Option<Arc<str>>,
    pub plan: Option<Arc<str>>,
    pub priority: Priority,
    pub model: Arc<str>,
    pub estimated_input: u64,
    pub output_cap: Option<u64>,
    /// What it used; absent where no provider answered.
    pub input: Option<u64>,
    pub output: Option<u64>,
    /// Whether a limit refused it then.
    pub refused: bool,
}

/// What a line turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    Request(Box<Request>),
    /// Another message, or a request that was turned away before any limit.
    Other,
    NoJson,
    Empty,
}

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    target: Option<Cow<'a, str>>,
    #[serde(borrow)]
    app: Option<Cow<'a, str>>,
    #[serde(borrow)]
    customer: Option<Cow<'a, str>>,
    #[serde(borrow)]
    user: Option<Cow<'a, str>>,
    #[serde(borrow)]
    plan: Option<Cow<'a, str>>,
    #[serde(borrow)]
    priority: Option<Cow<'a, str>>,
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    estimated_input_tokens: Option<u64>,
    output_cap: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    attempts: Option<u64>,
    #[serde(borrow)]
    refused_limit: Option<Cow<'a, str>>,
    duration_us: Option<u64>,
}

/// Reads a line.
pub fn read(line: &[u8]) -> Read {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Read::Empty;
    }
    match serde_json::from_slice::<Written<'_>>(line) {
        Ok(written) => request(written).map_or(Read::Other, |request| Read::Request(Box::new(request))),
        Err(error) if error.is_data() => Read::Other,
        Err(_) => Read::NoJson,
    }
}

fn request(line: Written<'_>) -> Option<Request> {
    let refused = line.refused_limit.is_some();
    let attempted = line.attempts.is_some_and(|attempts| attempts > 0);
    if line.target.as_deref() != Some("access") || !(refused || attempted) {
        return None;
    }
    let ended: jiff::Timestamp = line.timestamp?.parse().ok()?;
    let ended = u64::try_from(ended.as_microsecond()).ok()?;
    let took = line.duration_us?;
    Some(Request {
        arrived: ended.saturating_sub(took),
        took,
        app: line.app.as_deref().map(Into::into),
        customer: known(&line.customer?)?,
        user: line.user.as_deref().and_then(known),
        plan: line.plan.as_deref().map(Into::into),
        priority: line.priority.as_deref().and_then(Priority::parse).unwrap_or_default(),
        // A flood that is refused by its message bucket is refused before its body is read, so nobody knows which model it asked for.
        model: line.model.as_deref().unwrap_or("unknown").into(),
        estimated_input: line.estimated_input_tokens.unwrap_or(0),
        output_cap: line.output_cap.filter(|cap| *cap > 0),
        input: line.input_tokens.filter(|_| attempted),
        output: line.output_tokens.filter(|_| attempted),
        refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"timestamp":"2026-11-23T10:00:05.000000Z","level":"INFO","request_id":"tg_1","api":"chat","app":"shop","customer":"c\u0031","user":"u","plan":"free","priority":"background","model":"gpt-4o","stream":false,"status":200,"estimated_input_tokens":100,"output_cap":500,"input_tokens":101,"cached_tokens":0,"output_tokens":42,"usage_estimated":false,"cost_nano_usd":7,"attempts":1,"waited_us":0,"duration_us":2000000,"ending":"complete","target":"access"}"#;

    #[test]
    fn a_line_is_read_back_to_the_arrival_of_its_request() {
        let Read::Request(request) = read(LINE.as_bytes()) else { panic!("a request") };
        let right = Request {
            arrived: 1_795_428_003_000_000,
            took: 2_000_000,
            app: Some("shop".into()),
            customer: "c1".into(),
            user: Some("u".into()),
            plan: Some("free".into()),
            priority: Priority::Background,
            model: "gpt-4o".into(),
            estimated_input: 100,
            output_cap: Some(500),
            input: Some(101),
            output: Some(42),
            refused: false,
        };
        assert_eq!(*request, right);
        let refused = LINE.replace(r#""attempts":1"#, r#""attempts":0,"refused_scope":"customer","refused_limit":"tpm""#);
        let Read::Request(request) = read(refused.as_bytes()) else { panic!("a request") };
        assert!(request.refused && request.input.is_none() && request.output.is_none());
    }

    #[test]
    fn other_lines_are_told_apart() {
        for (line, right) in [
            (LINE.replace("access", "tollgate::server"), Read::Other),
            (LINE.replace(r#""attempts":1"#, r#""attempts":0"#), Read::Other),
            (LINE.replace(r#""duration_us":2000000"#, r#""duration_us":"x""#), Read::Other),
            (LINE.replace("2026-11-23", "yesterday"), Read::Other),
            (LINE[..80].to_owned(), Read::NoJson),
            ("plain text".to_owned(), Read::NoJson),
            ("  \r".to_owned(), Read::Empty),
        ] {
            assert_eq!(read(line.as_bytes()), right, "{line}");
        }
    }
}
