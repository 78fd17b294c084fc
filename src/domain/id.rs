//! Who is who: customers, users, apps, requests, reservations.

use super::Timestamp;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The longest customer or user id in bytes.
pub const MAX_ID_BYTES: usize = 512;

/// Why a customer or user id is refused. The text is a full sentence for the error body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing between the blanks.
    #[error("is empty")]
    Empty,
    /// More than [`MAX_ID_BYTES`].
    #[error("is longer than 512 bytes")]
    TooLong,
    /// A byte outside visible ASCII, a space or a comma.
    #[error("may only hold visible ASCII characters, without space or comma")]
    Character,
    /// Looks like an e-mail address.
    #[error("looks like an e-mail address; send an opaque id instead (or set identity.allow_emails)")]
    Email,
}

macro_rules! opaque_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Reads an id from the bytes of a header value. Blanks around it are not part of it; the rest is kept byte for byte.
            ///
            /// # Errors
            /// See [`IdError`].
            pub fn parse(bytes: &[u8], allow_emails: bool) -> Result<Self, IdError> {
                let bytes = bytes.trim_ascii();
                match bytes {
                    [] => return Err(IdError::Empty),
                    _ if bytes.len() > MAX_ID_BYTES => return Err(IdError::TooLong),
                    _ if !bytes.iter().all(|b| b.is_ascii_graphic() && *b != b',') => return Err(IdError::Character),
                    _ if !allow_emails && looks_like_email(bytes) => return Err(IdError::Email),
                    _ => {}
                }
                std::str::from_utf8(bytes).map(|text| Self(text.into())).map_err(|_| IdError::Character)
            }

            /// An id that the gateway itself chose (a configured name, `anonymous`).
            #[must_use]
            pub fn from_trusted(text: &str) -> Self {
                Self(text.into())
            }

            /// The exact id.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The id as part of a store key: itself when short and plain, otherwise a hash that no plain id can spell.
            #[must_use]
            pub fn key(&self) -> Cow<'_, str> {
                encode(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

opaque_id! {
    /// Who is metered: the value of `X-Customer-Id`.
    CustomerId
}
opaque_id! {
    /// One person or key inside a customer: the value of `X-User-Id`.
    UserId
}
opaque_id! {
    /// The calling application: the name of a gateway key, or `default` in passthrough mode.
    AppId
}

/// Short plain ids stand for themselves; everything else becomes `#` and a hash, and `#` is not a plain character.
fn encode(id: &str) -> Cow<'_, str> {
    let plain = id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    if plain { Cow::Borrowed(id) } else { Cow::Owned(format!("#{}", &blake3::hash(id.as_bytes()).to_hex()[..32])) }
}

/// `something@host.tld`: an at sign with text before it and a point after it.
fn looks_like_email(bytes: &[u8]) -> bool {
    bytes.iter().position(|b| *b == b'@').is_some_and(|at| {
        at > 0 && bytes[at + 1..].iter().position(|b| *b == b'.').is_some_and(|dot| dot > 0 && at + 1 + dot + 1 < bytes.len())
    })
}

/// Who goes quiet first when room runs out (`X-Priority`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// A person is waiting.
    #[default]
    Live,
    /// A colleague or an internal tool is waiting.
    Internal,
    /// Nobody is waiting.
    Background,
}

impl Priority {
    /// The spelling used in headers, configuration, logs and keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Internal => "internal",
            Self::Background => "background",
        }
    }

    /// Reads the header's spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Live, Self::Internal, Self::Background].into_iter().find(|p| p.as_str() == text)
    }
}

/// Our own id of one request (`x-tollgate-request-id`), never the client's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(u128);

/// The id of one reservation; settlement is an upsert by it. Chosen by the gateway, so no client can make two collide.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReservationId(u128);

macro_rules! random_id {
    ($name:ident, $prefix:literal) => {
        impl $name {
            /// From 128 bits that no other id has.
            #[must_use]
            pub const fn new(bits: u128) -> Self {
                Self(bits)
            }
            /// An id of this instant: its millisecond, then 80 of these random bits. Stores that sort by key keep what is written at
            /// one time in one place, which costs them less than ids without an order do.
            #[must_use]
            pub const fn at(now: Timestamp, random: u128) -> Self {
                Self(((now.micros() / 1_000) as u128) << 80 | random & ((1 << 80) - 1))
            }
            /// The millisecond since 1970 of which it is, where it was made so.
            #[must_use]
            pub const fn made_at_millis(self) -> u64 {
                (self.0 >> 80) as u64
            }
            /// The bits.
            #[must_use]
            pub const fn bits(self) -> u128 {
                self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{:032x}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

random_id!(RequestId, "tg_");
random_id!(ReservationId, "");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_exact_bytes_within_bounds() {
        let long = "x".repeat(513);
        for (bytes, right) in [
            (&b"t"[..], Ok("t")),
            (b" t\t", Ok("t")),
            (b"T", Ok("T")),
            (b"null", Ok("null")),
            (b"../t", Ok("../t")),
            (b"   ", Err(IdError::Empty)),
            (b"a b", Err(IdError::Character)),
            (b"a,b", Err(IdError::Character)),
            (b"a\tb", Err(IdError::Character)),
            (b"\xff", Err(IdError::Character)),
            ("é".as_bytes(), Err(IdError::Character)),
            (b"joe@example.com", Err(IdError::Email)),
            (b"joe@", Ok("joe@")),
            (&long.as_bytes()[..512], Ok(&long[..512])),
            (long.as_bytes(), Err(IdError::TooLong)),
        ] {
            let read = CustomerId::parse(bytes, false);
            assert_eq!(read.as_ref().map(CustomerId::as_str).map_err(|e| *e), right, "{bytes:?}");
        }
        assert!(CustomerId::parse(b"joe@example.com", true).is_ok(), "e-mails when allowed");
    }

    #[test]
    fn two_ids_never_share_a_key() {
        let ids = ["a:b", "a", "b:c", "*", "?", "[a-z]", "#a", "{a}", "..", &"y".repeat(65), &"y".repeat(66)];
        let keys: std::collections::HashSet<_> = ids.iter().map(|id| encode(id)).collect();
        assert_eq!(keys.len(), ids.len());
        assert!(keys.iter().all(|k| k.len() <= 64 && !k.contains([':', '{', '}', '*', '?'])));
    }
}
