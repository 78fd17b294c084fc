//! What the store holds of a gateway key. Instants are microseconds of the Unix epoch.

use crate::domain::Timestamp;
use crate::store::StoreError;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Secrets that do not open any more and are remembered, so that who still sends one is told so.
const REMEMBERED: usize = 4;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptKey {
    /// The keys of `[keys.NAME]`: what it may do.
    #[serde(default)]
    pub fields: Map<String, Value>,
    /// Its secrets, the newest first; the others are on their way out.
    pub secrets: Vec<KeptSecret>,
    /// When it was made.
    pub created: u64,
    /// By whom.
    pub by: Box<str>,
    /// The first instant at which it does not open any more; `None` = it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// When and by whom it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revoked>,
}

/// One secret of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSecret {
    /// Its blake3 hash, hexadecimal.
    pub hash: Box<str>,
    /// What it begins with.
    pub prefix: Box<str>,
    /// When it was made.
    pub created: u64,
    /// The first instant at which it does not open any more, since another took its place; `None` = it is the present one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// That a key was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// When.
    pub at: u64,
    /// By whom.
    pub by: Box<str>,
}

impl KeptKey {
    /// From a document.
    pub fn read(value: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(value).map_err(|error| StoreError::Failed(format!("a gateway key: {error}")))
    }

    /// As a document.
    pub fn write(&self) -> Result<Bytes, StoreError> {
        serde_json::to_vec(self).map(Bytes::from).map_err(|error| StoreError::Failed(format!("a gateway key: {error}")))
    }

    /// Puts a new secret in front; those before it open for another while, none longer than it did.
    pub fn rotate(&mut self, new: KeptSecret, until: Timestamp) {
        for old in &mut self.secrets {
            old.until = Some(old.until.map_or(until.micros(), |already| already.min(until.micros())));
        }
        self.secrets.insert(0, new);
    }

    /// How many of its secrets open.
    pub fn open(&self, now: Timestamp) -> usize {
        self.secrets.iter().filter(|secret| secret.opens(now)).count()
    }

    /// Forgets secrets whose time was over before the last few.
    pub fn prune(&mut self, now: Timestamp) {
        let mut over = 0;
        self.secrets.retain(|secret| {
            over += usize::from(!secret.opens(now));
            secret.opens(now) || over <= REMEMBERED
        });
    }

    /// What the audit trail is shown of it: all but the hashes.
    pub fn shown(&self) -> Value {
        let mut shown = serde_json::json!(self);
        for secret in shown["secrets"].as_array_mut().into_iter().flatten() {
            if let Some(secret) = secret.as_object_mut() {
                secret.remove("hash");
            }
        }
        shown
    }
}

impl KeptSecret {
    /// Whether it opens, as far as it alone is concerned.
    pub fn opens(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now.micros() < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(n: u64) -> KeptSecret {
        let name = n.to_string();
        KeptSecret { hash: format!("hash-{n}").into(), prefix: name.into(), created: n, until: None }
    }

    #[test]
    fn a_rotation_never_prolongs_what_was_on_its_way_out_and_the_trail_never_sees_a_hash() {
        let mut key =
            KeptKey { fields: Map::new(), secrets: vec![secret(1)], created: 1, by: "ann".into(), expires: None, revoked: None };
        for (new, until) in [(2, 50), (3, 100), (4, 10)] {
            key.rotate(secret(new), Timestamp(until));
        }
        let ends: Vec<_> = key.secrets.iter().map(|secret| (secret.created, secret.until)).collect();
        assert_eq!(ends, [(4, None), (3, Some(10)), (2, Some(10)), (1, Some(10))]);
        assert_eq!((key.open(Timestamp(9)), key.open(Timestamp(10))), (4, 1));
        for new in 5..20 {
            key.rotate(secret(new), Timestamp(new));
            key.prune(Timestamp(new));
        }
        assert_eq!(key.secrets.len(), 1 + REMEMBERED, "what is remembered has a bound");
        let shown = key.shown().to_string();
        assert!(shown.contains("\"prefix\":\"19\"") && !shown.contains("hash"), "{shown}");
        assert_eq!(KeptKey::read(&key.write().expect("written")), Ok(key));
    }
}
