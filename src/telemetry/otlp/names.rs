//! What the GenAI semantic conventions call things.

use crate::config::policy::Upstream;
use crate::wire::{Api, Dialect};
use http::Uri;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};

/// No name is longer in an attribute.
const LONGEST: usize = 128;

/// `gen_ai.operation.name`; `None` for routes that ask no model.
#[must_use]
pub const fn operation(api: Api) -> Option<&'static str> {
    match api {
        Api::Chat | Api::Responses | Api::Messages => Some("chat"),
        Api::Completions => Some("text_completion"),
        Api::Embeddings => Some("embeddings"),
        _ => None,
    }
}

/// `gen_ai.provider.name` by the address of an upstream; of an unknown one by the format it speaks, as the conventions say.
#[must_use]
pub fn provider(upstream: &Upstream) -> &'static str {
    const BY_HOST: [(&str, &str); 12] = [
        ("openai.azure.com", "azure.ai.openai"),
        ("services.ai.azure.com", "azure.ai.inference"),
        ("openai.com", "openai"),
        ("anthropic.com", "anthropic"),
        ("generativelanguage.googleapis.com", "gcp.gemini"),
        ("aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("mistral.ai", "mistral_ai"),
        ("deepseek.com", "deepseek"),
        ("groq.com", "groq"),
        ("x.ai", "x_ai"),
        ("cohere.com", "cohere"),
        ("perplexity.ai", "perplexity"),
    ];
    let uri = upstream.base_url.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let named = BY_HOST
        .iter()
        .find(|(domain, _)| host.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with(['.', '-'])));
    named.map_or(spoken(upstream.dialect), |(_, name)| name)
}

/// The provider whose format it is.
#[must_use]
pub const fn spoken(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAi => "openai",
        Dialect::Anthropic => "anthropic",
    }
}

/// Host and port of an upstream.
#[must_use]
pub fn server(upstream: &Upstream) -> Option<(String, u16)> {
    let uri = upstream.base_url.parse::<Uri>().ok()?;
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    Some((uri.host()?.to_owned(), port))
}

/// Attributes in the making.
#[derive(Debug, Default)]
pub struct Attributes(pub Vec<KeyValue>);

impl Attributes {
    fn add(&mut self, key: &str, value: Value) {
        self.0.push(KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() });
    }

    /// A word, cut where no name is that long.
    pub fn text(&mut self, key: &str, value: &str) {
        self.add(key, Value::StringValue(value.chars().take(LONGEST).collect()));
    }

    /// The same where there is one.
    pub fn maybe(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    /// Several words, unless there are none.
    pub fn words(&mut self, key: &str, words: impl Iterator<Item = &'static str>) {
        let word = |word: &str| AnyValue { value: Some(Value::StringValue(word.to_owned())) };
        let values: Vec<_> = words.map(word).collect();
        if !values.is_empty() {
            self.add(key, Value::ArrayValue(ArrayValue { values }));
        }
    }

    /// A number.
    pub fn number(&mut self, key: &str, value: u64) {
        self.add(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    /// Seconds.
    pub fn seconds(&mut self, key: &str, value: std::time::Duration) {
        self.add(key, Value::DoubleValue(value.as_secs_f64()));
    }

    /// Yes or no.
    pub fn flag(&mut self, key: &str, value: bool) {
        self.add(key, Value::BoolValue(value));
    }
}
