//! Idempotency keys: what is one, whose it is, and which request it stands for.

use http::{HeaderMap, HeaderName};
use std::fmt::Write as _;

/// The header (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest key, bytes.
pub const MAX_KEY: usize = 255;

/// The key of a request: exact bytes, without the blanks around it. The draft wants it in quotes, most clients send it bare; either way
/// the same client sends the same bytes again.
///
/// # Errors
/// What is wrong with it, as the rest of a sentence that begins with the header's name.
pub fn read(headers: &HeaderMap) -> Result<Option<&[u8]>, &'static str> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter().map(|value| value.as_bytes().trim_ascii());
    let Some(key) = values.next() else { return Ok(None) };
    if values.any(|other| other != key) {
        return Err("is given twice, with different values");
    }
    match key {
        [] => Err("is empty"),
        _ if key.len() > MAX_KEY => Err("is longer than 255 bytes"),
        _ if !key.iter().all(u8::is_ascii_graphic) => Err("may only hold visible ASCII characters, without a space"),
        _ => Ok(Some(key)),
    }
}

/// Whose key it is.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The application.
    pub app: &'a str,
    /// The account whose credential the caller sent, in passthrough mode: what one account paid for is not given to another.
    pub account: Option<&'a str>,
    /// The customer.
    pub customer: &'a str,
}

/// Where the reply to a key is kept: one place for each owner and key, and none that two of them share.
#[must_use]
pub fn place(owner: &Owner<'_>, key: &[u8]) -> String {
    let account = owner.account.unwrap_or_default().as_bytes();
    digest("tollgate place of an idempotency key", &[owner.app.as_bytes(), account, owner.customer.as_bytes(), key])
}

/// What a key stands for.
#[derive(Clone, Copy, Debug)]
pub struct Meant<'a> {
    /// Path and query.
    pub target: &'a str,
    /// The person inside the customer.
    pub user: Option<&'a str>,
    /// Whether the answer is to come later.
    pub later: bool,
    /// The body, decoded.
    pub body: &'a [u8],
}

/// The same for the same request, different for any other. Headers are not in it: the SDKs count their retries in one.
#[must_use]
pub fn fingerprint(meant: &Meant<'_>) -> String {
    let later: &[u8] = if meant.later { b"later" } else { b"" };
    digest(
        "tollgate fingerprint of a request",
        &[meant.target.as_bytes(), meant.user.unwrap_or_default().as_bytes(), later, meant.body],
    )
}

/// A hash over parts, each with its length before it.
fn digest(context: &'static str, parts: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().as_bytes()[..20].iter().fold(String::with_capacity(40), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::collections::HashSet;

    #[test]
    fn a_key_is_1_to_255_visible_characters() {
        let long = "k".repeat(256);
        for (sent, right) in [
            (vec![], Ok(None)),
            (vec!["a"], Ok(Some("a"))),
            (vec![" a\t"], Ok(Some("a"))),
            (vec!["\"8e03978e-40d5\""], Ok(Some("\"8e03978e-40d5\""))),
            (vec![&long[..255]], Ok(Some(&long[..255]))),
            (vec!["a", "a"], Ok(Some("a"))),
            (vec![&long[..]], Err("is longer than 255 bytes")),
            (vec![""], Err("is empty")),
            (vec!["a b"], Err("may only hold visible ASCII characters, without a space")),
            (vec!["\u{e9}"], Err("may only hold visible ASCII characters, without a space")),
            (vec!["a", "b"], Err("is given twice, with different values")),
        ] {
            let mut headers = HeaderMap::new();
            for value in &sent {
                headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
            }
            assert_eq!(read(&headers), right.map(|key| key.map(str::as_bytes)), "{sent:?}");
        }
    }

    #[test]
    fn no_two_owners_or_requests_share_anything() {
        let owner = |app, account, customer| Owner { app, account, customer };
        let places = [
            place(&owner("a", None, "bc"), b"k"),
            place(&owner("ab", None, "c"), b"k"),
            place(&owner("a", Some("b"), "c"), b"k"),
            place(&owner("a", None, "b"), b"ck"),
            place(&owner("a", None, "bc"), b"K"),
        ];
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
        assert!(places.iter().all(|place| place.len() == 40));
        let meant = |target, user, later, body| fingerprint(&Meant { target, user, later, body });
        let prints = [
            meant("/v1/a", None, false, b"x"),
            meant("/v1/a", None, true, b"x"),
            meant("/v1/a", Some("u"), false, b"x"),
            meant("/v1/a?b", None, false, b"x"),
            meant("/v1/a", None, false, b"x "),
        ];
        assert_eq!(prints.iter().collect::<HashSet<_>>().len(), prints.len());
        assert_eq!(prints[0], meant("/v1/a", None, false, b"x"));
    }
}
