//! What operators are shown of gateway keys: everything but the keys.

use super::kept::{KeptKey, KeptSecret};
use super::kept_key;
use crate::config::policy::{App, Auth};
use crate::directory::{Directory, DirectoryError};
use crate::domain::Timestamp;
use crate::reply::rfc3339;
use crate::store::documents::Collection;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// A key, as operators see it. Instants are written as in RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyView {
    /// The application's name.
    pub name: String,
    /// Where it is from.
    pub source: KeySource,
    /// Whether it opens.
    pub state: KeyState,
    /// What it may do: the keys of `[keys.NAME]`.
    pub set: Map<String, Value>,
    /// Its secrets, the newest first; none of a configured key, of which only the hash is known.
    pub secrets: Vec<KeySecret>,
    /// When it was made.
    #[serde(serialize_with = "instant")]
    pub created: Option<Timestamp>,
    /// By whom.
    pub created_by: Option<Box<str>>,
    /// The first instant at which it does not open any more.
    #[serde(serialize_with = "instant")]
    pub expires: Option<Timestamp>,
    /// When it was taken back.
    #[serde(serialize_with = "instant")]
    pub revoked: Option<Timestamp>,
    /// By whom.
    pub revoked_by: Option<Box<str>>,
    /// When it was last used, on any gateway: right to 10 s.
    #[serde(serialize_with = "instant")]
    pub last_used: Option<Timestamp>,
    /// Changes with every change; `None` of a configured key.
    pub version: Option<u64>,
}

/// Where a key is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeySource {
    /// `[keys.NAME]` of the configuration, where it is changed, too.
    Config,
    /// Made at run time.
    Stored,
}

/// Whether a key opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    /// It does.
    Active,
    /// Its time is over.
    Expired,
    /// It was taken back.
    Revoked,
}

/// One secret of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeySecret {
    /// What it begins with.
    pub prefix: Box<str>,
    /// When it was made.
    #[serde(serialize_with = "instant")]
    pub created: Option<Timestamp>,
    /// The first instant at which it does not open any more; `None` = it is the present one.
    #[serde(serialize_with = "instant")]
    pub until: Option<Timestamp>,
}

/// A key with a new secret: the only time it is shown.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Issued {
    /// The key.
    pub key: KeyView,
    /// What the application sends.
    pub secret: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").field("key", &self.key).finish_non_exhaustive()
    }
}

fn instant<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    at.map(rfc3339).serialize(to)
}

impl KeyView {
    pub(super) fn of(name: &str, kept: &KeptKey, version: u64, last_used: Option<Timestamp>, now: Timestamp) -> Self {
        let KeptKey { fields, secrets, created, by, expires, revoked } = kept;
        let state = match (revoked, expires) {
            (Some(_), _) => KeyState::Revoked,
            (None, Some(end)) if *end <= now.micros() => KeyState::Expired,
            (None, _) => KeyState::Active,
        };
        let shown = |KeptSecret { hash: _, prefix, created, until }: &KeptSecret| KeySecret {
            prefix: prefix.clone(),
            created: Some(Timestamp(*created)),
            until: until.map(Timestamp),
        };
        Self {
            name: name.to_owned(),
            source: KeySource::Stored,
            state,
            set: fields.clone(),
            secrets: secrets.iter().filter(|secret| secret.opens(now)).map(shown).collect(),
            created: Some(Timestamp(*created)),
            created_by: Some(by.clone()),
            expires: expires.map(Timestamp),
            revoked: revoked.as_ref().map(|revoked| Timestamp(revoked.at)),
            revoked_by: revoked.as_ref().map(|revoked| revoked.by.clone()),
            last_used,
            version: Some(version),
        }
    }

    fn configured(app: &App) -> Self {
        let mut set = Map::new();
        for (key, list) in
            [("models", &app.models), ("customers", &app.customers), ("routes", &app.routes), ("pools", &app.pools)]
        {
            if !list.is_empty() {
                set.insert(key.to_owned(), json!(list));
            }
        }
        if !app.plans.is_empty() {
            set.insert("plans".to_owned(), app.plans.iter().map(|plan| json!(&**plan)).collect());
        }
        set.insert("priority".to_owned(), json!(app.priority));
        Self {
            name: app.name.to_string(),
            source: KeySource::Config,
            state: KeyState::Active,
            set,
            secrets: Vec::new(),
            created: None,
            created_by: None,
            expires: None,
            revoked: None,
            revoked_by: None,
            last_used: None,
            version: None,
        }
    }
}

impl Directory {
    /// All keys, by name: those of the configuration and those made at run time, revoked ones for another while.
    ///
    /// # Errors
    /// [`DirectoryError::Store`].
    pub async fn keys(&self) -> Result<Vec<KeyView>, DirectoryError> {
        let now = self.now();
        let used = self.all(Collection::KeyUses, |one| Ok((one.id.clone(), last_used(&one.document.value)))).await?;
        let used: HashMap<String, Option<Timestamp>> = used.into_iter().collect();
        let stored = self.all(Collection::Keys, |one| Ok((kept_key(one)?, one.document.version))).await?;
        let mut all: Vec<KeyView> = stored
            .iter()
            .map(|((name, kept), version)| {
                let last = used.get(&**name).copied().flatten().max(self.uses.last(name));
                KeyView::of(name, kept, *version, last, now)
            })
            .collect();
        if let Auth::Keys { apps } = &self.view.load().policy.auth {
            all.extend(apps.values().map(|app| KeyView::configured(app)));
        }
        all.sort_by(|a, b| a.name.cmp(&b.name).then((a.source as u8).cmp(&(b.source as u8))));
        Ok(all)
    }

    /// A key made at run time; `None` when there is none of this name.
    ///
    /// # Errors
    /// [`DirectoryError::Store`].
    pub async fn key(&self, name: &str) -> Result<Option<KeyView>, DirectoryError> {
        let Some(found) = self.documents.get(Collection::Keys, name, None).await? else { return Ok(None) };
        let used = self.documents.get(Collection::KeyUses, name, None).await?;
        let last = used.and_then(|used| last_used(&used.value)).max(self.uses.last(name));
        Ok(Some(KeyView::of(name, &KeptKey::read(&found.value)?, found.version, last, self.now())))
    }
}

fn last_used(value: &[u8]) -> Option<Timestamp> {
    std::str::from_utf8(value).ok()?.parse().ok().map(Timestamp)
}
