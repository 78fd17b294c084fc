//! Secrets: only from the environment or a file, never written in the configuration itself, never in a message.

use super::env::Env;
use super::node::{Node, Value};
use super::policy::Secret;
use super::problem::{Findings, Place, Source};
use super::read::{At, Read, field, only};

/// Where a secret comes from.
#[derive(Clone, Debug)]
pub enum SecretSource {
    /// `{ env = "NAME" }`
    Variable(String),
    /// `{ file = "/run/secrets/x" }`
    File(String),
    /// An override variable held it.
    Given(Secret),
}

/// No secret is larger.
const MOST_BYTES: u64 = 64 * 1024;

impl Read for SecretSource {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        const ADVICE: &str = "write { env = \"NAME\" } or { file = \"/path\" }";
        match (&node.value, &node.source) {
            (Value::Text(text) | Value::Number(text), Source::Variable(_)) => return Some(Self::Given(Secret::new(text))),
            (Value::Text(_), _) => {
                findings.problem(place, "is a secret written in the file itself", ADVICE);
                return None;
            }
            _ => {}
        }
        let Value::Table(table) = &node.value else {
            findings.problem(place, format!("is {}, not the source of a secret", node.value.kind()), ADVICE);
            return None;
        };
        only(table, place, &["env", "file"], findings);
        match (field::<String>(table, "env", place, findings), field::<String>(table, "file", place, findings)) {
            (Some(name), None) => {
                let named = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                if name.bytes().all(named) {
                    return Some(Self::Variable(name));
                }
                // Not echoed: it may be the secret itself, put in the wrong place.
                findings.problem(&place.child("env", node.source.clone()), "is not the name of an environment variable", ADVICE);
                None
            }
            (None, Some(path)) => Some(Self::File(path)),
            (Some(_), Some(_)) => {
                findings.problem(place, "has both env and file", "keep one of them");
                None
            }
            (None, None) => {
                if table.get("env").is_none() && table.get("file").is_none() {
                    findings.problem(place, "names neither env nor file", ADVICE);
                }
                None
            }
        }
    }
}

impl At<SecretSource> {
    /// Fetches the secret: one line of visible ASCII, so that it fits a header or a URL.
    pub fn fetch(&self, env: &Env, findings: &mut Findings) -> Option<Secret> {
        self.fetch_of(env, findings, |byte| byte.is_ascii_graphic())
    }

    /// The same with spaces inside: the value of a header, such as `Bearer x`.
    pub fn fetch_line(&self, env: &Env, findings: &mut Findings) -> Option<Secret> {
        self.fetch_of(env, findings, |byte| byte.is_ascii_graphic() || byte == b' ')
    }

    fn fetch_of(&self, env: &Env, findings: &mut Findings, fits: fn(u8) -> bool) -> Option<Secret> {
        let (text, from) = match &self.value {
            SecretSource::Given(secret) => (secret.expose().to_owned(), "it".to_owned()),
            SecretSource::Variable(name) => match env.get(name) {
                Some(text) => (text.to_owned(), format!("the environment variable {name}")),
                None => {
                    findings.problem(
                        &self.place,
                        format!("the environment variable {name} is not set"),
                        "set it, or name another",
                    );
                    return None;
                }
            },
            SecretSource::File(path) => match read_file(&self.place, path, findings) {
                Ok(text) => (text, format!("the file {path}")),
                Err(error) => {
                    findings.problem(
                        &self.place,
                        format!("the file {path} cannot be read: {error}"),
                        "check path and permissions",
                    );
                    return None;
                }
            },
        };
        let text = text.trim();
        if text.is_empty() {
            findings.problem(&self.place, format!("{from} is empty"), "put the secret in it");
            return None;
        }
        if !text.bytes().all(fits) {
            findings.problem(
                &self.place,
                format!("{from} holds more than one line of visible ASCII characters"),
                "put the secret in it and nothing else",
            );
            return None;
        }
        Some(Secret::new(text))
    }
}

fn read_file(place: &Place, path: &str, findings: &mut Findings) -> std::io::Result<String> {
    let bytes = findings.read_file(place, path, MOST_BYTES)?;
    String::from_utf8(bytes).map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// An address of the store: plain when it has no password, otherwise from where secrets come from.
#[derive(Clone, Debug)]
pub enum StoreUrl {
    /// Without credentials.
    Plain(String),
    /// From the environment or a file.
    Secret(SecretSource),
}

impl Read for StoreUrl {
    fn read(node: &Node, place: &Place, findings: &mut Findings) -> Option<Self> {
        match (&node.value, &node.source) {
            (Value::Text(text), Source::File { .. } | Source::Shipped) if text.contains('@') => {
                findings.problem(
                    place,
                    "has credentials in the file itself",
                    "write { env = \"REDIS_URL\" } or { file = \"/path\" }, or leave the credentials out",
                );
                None
            }
            (Value::Text(text), Source::File { .. } | Source::Shipped) => Some(Self::Plain(text.clone())),
            _ => SecretSource::read(node, place, findings).map(Self::Secret),
        }
    }
}

impl At<StoreUrl> {
    /// The address, checked to be one. Messages never show it: it may hold a password.
    pub fn fetch(&self, env: &Env, findings: &mut Findings) -> Option<Secret> {
        let secret = match &self.value {
            StoreUrl::Plain(text) => Secret::new(text.trim()),
            StoreUrl::Secret(source) => At { value: source.clone(), place: self.place.clone() }.fetch(env, findings)?,
        };
        let rest = ["redis://", "rediss://"].iter().find_map(|scheme| secret.expose().strip_prefix(scheme));
        let host = rest.map(|rest| rest.rsplit('@').next().unwrap_or(rest)).unwrap_or_default();
        if host.is_empty()
            || host.starts_with(['/', ':', '?'])
            || redis::IntoConnectionInfo::into_connection_info(secret.expose()).is_err()
        {
            findings.problem(
                &self.place,
                "is not the address of a Redis server",
                "write redis://host:6379 or rediss://host:6379 (TLS)",
            );
            return None;
        }
        Some(secret)
    }
}
