//! How a key is made: 256 bits of the operating system, of which the first few stay readable for recognition.

use std::io::Read as _;

/// How much of a key is kept to tell it from others, characters: `tg-` and 32 of its 256 bits.
const PREFIX: usize = 11;
/// The longest name of a key, bytes.
const LONGEST_NAME: usize = 64;

/// A new key.
pub struct MadeKey {
    /// The key itself.
    pub secret: String,
    /// What is kept of it.
    pub hash: blake3::Hash,
    /// What it begins with.
    pub prefix: Box<str>,
}

impl MadeKey {
    /// Makes one.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn make() -> std::io::Result<Self> {
        let mut random = [0_u8; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let secret = format!("tg-{}", blake3::Hash::from_bytes(random).to_hex());
        let hash = blake3::Hash::from_bytes(crate::config::hash_key(&secret));
        let prefix = secret[..PREFIX].into();
        Ok(Self { secret, hash, prefix })
    }
}

impl std::fmt::Debug for MadeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MadeKey").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Whether a key may have this name: it stands in the configuration, in paths and in labels.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}
