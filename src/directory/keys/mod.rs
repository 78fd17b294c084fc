//! Gateway keys made at run time: beside those of the configuration, in force with the next request on every gateway of the store.
//!
//! ```text
//! secret   how a key is made, hashed and recognised
//! kept     what the store holds of one: hashes and scopes, never a key
//! ring     all of them compiled, by hash: what a request is looked up in
//! change   create, change, rotate, revoke
//! list     what operators are shown
//! uses     when each was last used
//! ```
//!
//! They are part of the [`super::View`], under the number of the plans: `admit` compares it, so a key that was revoked or narrowed on
//! another gateway is found out in the call that every request makes anyway. What a gateway would refuse may have been allowed meanwhile
//! (a new key, a wider scope), so it asks before it refuses ([`Directory::catch_up`]): one small call, and one at a time however many
//! wrong keys come.

mod change;
mod kept;
mod list;
mod ring;
mod secret;
mod uses;

pub use change::{Ends, KeyError, LONGEST_OVERLAP, MOST_KEYS, MOST_SECRETS, OVERLAP};
pub use list::{Issued, KeySecret, KeySource, KeyState, KeyView};
pub use ring::{Held, Ring};
pub use secret::{MadeKey, is_name};
pub use uses::KeyKeeper;

pub(super) use kept::KeptKey;
pub(super) use uses::Uses;

use super::{Directory, View};
use crate::store::StoreError;
use crate::store::documents::Listed;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The keys as they are kept, by name.
pub(super) type KeptKeys = Arc<Vec<(Arc<str>, KeptKey)>>;

/// One of them, from a listing.
pub(super) fn kept_key(one: &Listed) -> Result<(Arc<str>, KeptKey), StoreError> {
    Ok((one.id.as_str().into(), KeptKey::read(&one.document.value)?))
}

impl Directory {
    /// What is in force as far as this gateway knows, without asking anybody; `None` where nothing was read yet and must be.
    #[must_use]
    pub fn at_hand(&self) -> Option<Arc<View>> {
        (self.ledger.tells() || self.loaded.initialized()).then(|| self.view.load_full())
    }

    /// Learns what other gateways changed before this was called. Those who ask at the same time share one call of the store.
    ///
    /// # Errors
    /// [`StoreError`] when the store could not be asked.
    pub async fn catch_up(&self) -> Result<(), StoreError> {
        if !self.ledger.tells() {
            return self.loaded.get_or_try_init(|| self.load()).await.map(drop);
        }
        let begun = self.looks.load(Ordering::Acquire);
        let mut last = self.looking.lock().await;
        if self.looks.load(Ordering::Acquire) != begun {
            // One that began after this was called has ended: it saw whatever was there then.
            return last.clone();
        }
        self.looks.fetch_add(1, Ordering::AcqRel);
        *last = self.look().await;
        last.clone()
    }

    async fn look(&self) -> Result<(), StoreError> {
        let Some(number) = self.ledger.told().await? else { return Ok(()) };
        self.refresh_view(number).await
    }

    /// What the key opens by which a job was taken in, if it still may call, and the number under which it does. A key that was rotated away since is as good as its successor.
    #[must_use]
    pub fn job_app(&self, hash: &[u8; 32], app: &str) -> Option<(Held, u64)> {
        let view = self.view.load();
        Some((view.ring.successor(&blake3::Hash::from_bytes(*hash), app, self.now())?, view.number))
    }
}
