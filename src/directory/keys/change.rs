//! Making, changing, rotating and revoking gateway keys. Each change is written if nobody else made one meanwhile, told to all gateways and
//! left in the audit trail; what the trail and the store are shown is never a key.

use super::kept::{KeptKey, KeptSecret, Revoked};
use super::list::{Issued, KeyView};
use super::secret::{MadeKey, is_name};
use crate::config::Problem;
use crate::config::policy::Auth;
use crate::directory::{Directory, number};
use crate::domain::Timestamp;
use crate::store::StoreError;
use crate::store::documents::{Collection, Document, Expected, Write, Written};
use crate::trail::Change;
use serde_json::{Map, Value};
use std::time::Duration;

/// How long the secret before a rotation still opens, unless somebody says otherwise.
pub const OVERLAP: Duration = Duration::from_secs(86_400);
/// The longest it may.
pub const LONGEST_OVERLAP: Duration = Duration::from_secs(30 * 86_400);
/// Secrets of one key that open at once, at most.
pub const MOST_SECRETS: usize = 4;
/// Keys made at run time, at most.
pub const MOST_KEYS: usize = 5_000;
/// How long a revoked key is remembered: whoever still sends it is told so.
const AFTERWARDS: Duration = Duration::from_secs(90 * 86_400);
/// How often a change is tried again because somebody else was faster.
const TRIES: usize = 16;

/// Why a key was not made or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// What it may do makes no sense, for these reasons.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
    /// No name for a key.
    #[error("The name of a key is 1 to 64 letters, digits, `-` and `_`.")]
    Name,
    /// There is one of this name, in the configuration or made before.
    #[error("There is a key of this name already.")]
    Exists,
    /// There is none of this name.
    #[error("There is no such key made at run time.")]
    NotFound,
    /// It was revoked, and stays so.
    #[error("The key is revoked, and stays so; make another one.")]
    Revoked,
    /// It would end before it began, or the overlap is too long.
    #[error("{0}")]
    Time(&'static str),
    /// Too many of its secrets open.
    #[error("{MOST_SECRETS} secrets of this key still open; wait until one has ended, or rotate with the overlap \"0s\".")]
    TooManySecrets,
    /// Too many keys.
    #[error("There are {MOST_KEYS} keys, the most there may be; revoke some.")]
    TooMany,
    /// Somebody else changed it: this is its version now, if there is anything.
    #[error("somebody else changed it meanwhile")]
    Conflict(Option<u64>),
    /// Applications do not call with gateway keys here.
    #[error("This gateway runs in passthrough mode, where gateway keys open nothing; set auth.mode = \"keys\".")]
    Passthrough,
    /// The operating system gave no random bytes.
    #[error("The system gave no random bytes.")]
    NoRandom,
    /// The store could not be asked; whether it is changed is not known.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// When a key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// As before; a new one never.
    Unchanged,
    /// Never.
    Never,
    /// At this instant.
    At(Timestamp),
}

impl Directory {
    /// Makes a key for an application: what it may do is `set`, the keys of `[keys.NAME]`. The secret is shown this once.
    ///
    /// # Errors
    /// As of [`KeyError`].
    pub async fn create_key(&self, by: &str, name: &str, set: &Map<String, Value>, ends: Ends) -> Result<Issued, KeyError> {
        let (view, now) = (self.view.load_full(), self.now());
        let Auth::Keys { apps } = &view.policy.auth else { return Err(KeyError::Passthrough) };
        if !is_name(name) {
            return Err(KeyError::Name);
        }
        if apps.values().any(|app| *app.name == *name) {
            return Err(KeyError::Exists);
        }
        view.book.app(name, &Value::Object(set.clone())).map_err(KeyError::Invalid)?;
        let expires = ending(ends, None, now)?;
        let (made, secret) = made(now)?;
        if self.all(Collection::Keys, |_| Ok(())).await?.len() >= MOST_KEYS {
            return Err(KeyError::TooMany);
        }
        let key =
            KeptKey { fields: set.clone(), secrets: vec![secret], created: now.micros(), by: by.into(), expires, revoked: None };
        let key = self
            .write_key(by, name, Expected::Anything, |found| match found {
                Some(found) if found.revoked.is_none() => Err(KeyError::Exists),
                _ => Ok(key.clone()),
            })
            .await?;
        Ok(Issued { key, secret: made.secret })
    }

    /// Changes what a key may do (all of it, where `set` is given) and when it ends.
    ///
    /// # Errors
    /// As of [`KeyError`].
    pub async fn change_key(
        &self,
        by: &str,
        name: &str,
        set: Option<&Map<String, Value>>,
        ends: Ends,
        expected: Expected,
    ) -> Result<KeyView, KeyError> {
        let (view, now) = (self.view.load_full(), self.now());
        if let Some(set) = set {
            view.book.app(name, &Value::Object(set.clone())).map_err(KeyError::Invalid)?;
        }
        self.write_key(by, name, expected, |found| {
            let mut key = standing(found)?;
            if let Some(set) = set {
                key.fields.clone_from(set);
            }
            key.expires = ending(ends, key.expires, now)?;
            Ok(key)
        })
        .await
    }

    /// Gives a key a new secret, shown this once; the one before opens for another `overlap`.
    ///
    /// # Errors
    /// As of [`KeyError`].
    pub async fn rotate_key(&self, by: &str, name: &str, overlap: Duration) -> Result<Issued, KeyError> {
        if overlap > LONGEST_OVERLAP {
            return Err(KeyError::Time("The overlap is a duration of at most 30 days."));
        }
        let now = self.now();
        let until = now.plus(u64::try_from(overlap.as_micros()).unwrap_or(u64::MAX));
        let (made, secret) = made(now)?;
        let rotated = self.write_key(by, name, Expected::Anything, |found| {
            let mut key = standing(found)?;
            key.rotate(secret.clone(), until);
            key.prune(now);
            if key.open(now) > MOST_SECRETS { Err(KeyError::TooManySecrets) } else { Ok(key) }
        });
        Ok(Issued { key: rotated.await?, secret: made.secret })
    }

    /// Takes a key back: from the next request on it opens nothing, on any gateway. Revoking it again changes nothing.
    ///
    /// # Errors
    /// As of [`KeyError`].
    pub async fn revoke_key(&self, by: &str, name: &str) -> Result<KeyView, KeyError> {
        let at = self.now().micros();
        self.write_key(by, name, Expected::Anything, |found| {
            let mut key = found.ok_or(KeyError::NotFound)?;
            key.revoked.get_or_insert_with(|| Revoked { at, by: by.into() });
            Ok(key)
        })
        .await
    }

    async fn write_key(
        &self,
        by: &str,
        name: &str,
        expected: Expected,
        edit: impl Fn(Option<KeptKey>) -> Result<KeptKey, KeyError> + Send + Sync,
    ) -> Result<KeyView, KeyError> {
        for _ in 0..TRIES {
            let found = self.documents.get(Collection::Keys, name, None).await?;
            let version = |found: Option<&Document>| found.map(|found| found.version);
            let unexpected = match expected {
                Expected::Anything => false,
                Expected::Nothing => found.is_some(),
                Expected::Version(wanted) => version(found.as_ref()).is_some_and(|version| version != wanted),
            };
            if unexpected {
                return Err(KeyError::Conflict(version(found.as_ref())));
            }
            let before = found.as_ref().map(|found| KeptKey::read(&found.value)).transpose()?;
            let after = edit(before.clone())?;
            let write = Write {
                collection: Collection::Keys,
                id: name.to_owned(),
                expected: found.as_ref().map_or(Expected::Nothing, |found| Expected::Version(found.version)),
                value: Some(after.write()?),
                keep: after.revoked.is_some().then_some(AFTERWARDS),
                rank: 0,
            };
            // Before, so that whoever reads from now on reads again afterwards.
            self.ledger.tell(None, number(), None).await?;
            let Written::Done(version) = self.documents.put(&write, None).await? else { continue };
            self.publish().await?;
            let (shown, now) = (before.as_ref().map(KeptKey::shown), self.now());
            self.trail.changed(&Change { by, kind: "key", name, before: shown.as_ref(), after: Some(&after.shown()) }).await;
            return Ok(KeyView::of(name, &after, version, self.uses.last(name), now));
        }
        Err(KeyError::Conflict(None))
    }
}

fn made(now: Timestamp) -> Result<(MadeKey, KeptSecret), KeyError> {
    let made = MadeKey::make().map_err(|error| {
        tracing::error!(%error, "the system gave no random bytes");
        KeyError::NoRandom
    })?;
    let hash = made.hash.to_hex().as_str().into();
    let secret = KeptSecret { hash, prefix: made.prefix.clone(), created: now.micros(), until: None };
    Ok((made, secret))
}

/// A key that is there and may be changed.
fn standing(found: Option<KeptKey>) -> Result<KeptKey, KeyError> {
    let key = found.ok_or(KeyError::NotFound)?;
    if key.revoked.is_some() { Err(KeyError::Revoked) } else { Ok(key) }
}

fn ending(ends: Ends, before: Option<u64>, now: Timestamp) -> Result<Option<u64>, KeyError> {
    match ends {
        Ends::Unchanged => Ok(before),
        Ends::Never => Ok(None),
        Ends::At(end) if end <= now => Err(KeyError::Time("The key would end before it begins.")),
        Ends::At(end) => Ok(Some(end.micros())),
    }
}
