//! All gateway keys made at run time, compiled: what a request is looked up in.
//!
//! By the hash of the key, so what a wrong key is compared with tells nothing about a right one; hashes are compared in constant time all
//! the same.

use super::kept::KeptKey;
use super::uses::{Used, Uses};
use crate::config::book::Book;
use crate::config::policy::App;
use crate::domain::Timestamp;
use crate::reply::Unauthenticated;
use blake3::Hash;
use foldhash::HashMap;
use std::sync::Arc;

/// See the module.
#[derive(Debug, Default)]
pub struct Ring {
    by_hash: HashMap<Hash, Slot>,
}

/// One secret of a key.
#[derive(Debug)]
struct Slot {
    key: Arc<Key>,
    /// The first instant at which it does not open any more.
    until: Option<Timestamp>,
}

#[derive(Debug)]
struct Key {
    app: Arc<App>,
    newest: Hash,
    expires: Option<Timestamp>,
    revoked: bool,
    used: Arc<Used>,
}

/// A key that opens.
#[derive(Clone, Debug)]
pub struct Held {
    /// What it opens.
    pub app: Arc<App>,
    /// Its hash.
    pub hash: Hash,
}

impl Ring {
    /// Compiles what is kept. One that cannot be read opens nothing, and the log says so.
    pub(in crate::directory) fn compile(kept: &[(Arc<str>, KeptKey)], book: &Book, uses: &Uses) -> Self {
        let mut by_hash = HashMap::default();
        for (name, kept) in kept {
            let app = match book.app_kept(name, &serde_json::Value::Object(kept.fields.clone())) {
                Ok(app) => Arc::new(app),
                Err(problems) => {
                    for problem in problems {
                        tracing::error!(%problem, key = &**name, "a gateway key made at run time cannot be used");
                    }
                    continue;
                }
            };
            let hashes = || kept.secrets.iter().filter_map(|secret| Some((Hash::from_hex(&*secret.hash).ok()?, secret.until)));
            let Some((newest, _)) = hashes().next() else { continue };
            let key = Arc::new(Key {
                app,
                newest,
                expires: kept.expires.map(Timestamp),
                revoked: kept.revoked.is_some(),
                used: uses.of(name),
            });
            for (hash, until) in hashes() {
                by_hash.insert(hash, Slot { key: key.clone(), until: until.map(Timestamp) });
            }
        }
        Self { by_hash }
    }

    /// What a key opens now, and notes that it was used.
    ///
    /// # Errors
    /// Why it opens nothing.
    pub fn find(&self, hash: &Hash, now: Timestamp) -> Result<Held, Unauthenticated> {
        let Slot { key, until } = self.by_hash.get(hash).ok_or(Unauthenticated::Unknown)?;
        if key.revoked {
            return Err(Unauthenticated::Revoked);
        }
        if key.expires.is_some_and(|end| end <= now) {
            return Err(Unauthenticated::Expired);
        }
        if until.is_some_and(|end| end <= now) {
            return Err(Unauthenticated::Replaced);
        }
        key.used.note(now);
        Ok(Held { app: key.app.clone(), hash: *hash })
    }

    /// What the present secret opens of the key of this name that this one belongs or belonged to.
    pub(super) fn successor(&self, hash: &Hash, name: &str, now: Timestamp) -> Option<Held> {
        let key = &self.by_hash.get(hash).filter(|slot| *slot.key.app.name == *name)?.key;
        self.find(&key.newest, now).ok()
    }
}
