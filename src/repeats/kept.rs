//! What stands under an idempotency key, and a reply as it is stored: one line of JSON, then the body's bytes as they were.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

/// What stands under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which request the key stands for.
    pub fingerprint: String,
    /// How far it is.
    pub what: What,
}

/// How far the request of a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It runs.
    Running,
    /// It has ended, and its reply was longer than this many bytes.
    TooLong(u64),
    /// It has ended.
    Replied(Kept),
}

/// A reply that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its status.
    pub status: StatusCode,
    /// Those of its headers that outlive it.
    pub headers: HeaderMap,
    /// Our id of the request that made it.
    pub made_by: String,
    /// All of its body.
    pub body: Bytes,
}

#[derive(Serialize, Deserialize)]
struct Line {
    /// The format, so that another version of the program knows that it does not know.
    v: u8,
    fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    too_long: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<Head>,
    /// Makes the value of each marker its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
    made_by: String,
}

/// The format written here.
const VERSION: u8 = 1;

impl Entry {
    /// As it is stored.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut line = Line { v: VERSION, fingerprint: self.fingerprint.clone(), too_long: None, reply: None, nonce: None };
        let mut body: &[u8] = &[];
        match &self.what {
            What::Running => line.nonce = Some(fastrand::u64(..)),
            What::TooLong(max) => line.too_long = Some(*max),
            What::Replied(kept) => {
                let headers = flat(&kept.headers);
                line.reply = Some(Head { status: kept.status.as_u16(), headers, made_by: kept.made_by.clone() });
                body = &kept.body;
            }
        }
        join(&line, body)
    }

    /// From what is stored; `None` for what no version of this program up to now has written.
    #[must_use]
    pub fn decode(value: &Bytes) -> Option<Self> {
        let (line, body) = split::<Line>(value)?;
        if line.v != VERSION {
            return None;
        }
        let what = match (line.reply, line.too_long) {
            (Some(Head { status, headers, made_by }), _) => {
                What::Replied(Kept { status: StatusCode::from_u16(status).ok()?, headers: unflat(&headers), made_by, body })
            }
            (None, Some(max)) => What::TooLong(max),
            (None, None) => What::Running,
        };
        Some(Self { fingerprint: line.fingerprint, what })
    }
}

/// Headers as pairs of texts. A byte of a value becomes the character of the same number, so that none is lost.
#[must_use]
pub fn flat(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| value.as_bytes().iter().map(|byte| char::from(*byte)).collect();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// The headers again.
#[must_use]
pub fn unflat(pairs: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(pairs.len());
    for (name, value) in pairs {
        let bytes: Vec<u8> = value.chars().filter_map(|c| u8::try_from(u32::from(c)).ok()).collect();
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(&bytes)) {
            headers.append(name, value);
        }
    }
    headers
}

/// A line of JSON, and bytes behind it.
pub fn join(line: &impl Serialize, body: &[u8]) -> Bytes {
    let line = serde_json::to_vec(line).expect("these types have a JSON form");
    let mut bytes = BytesMut::with_capacity(line.len() + 1 + body.len());
    bytes.extend_from_slice(&line);
    bytes.extend_from_slice(b"\n");
    bytes.extend_from_slice(body);
    bytes.freeze()
}

/// The line and the bytes again. JSON as it is written has no line end inside.
pub fn split<T: serde::de::DeserializeOwned>(value: &Bytes) -> Option<(T, Bytes)> {
    let end = memchr::memchr(b'\n', value)?;
    Some((serde_json::from_slice(&value[..end]).ok()?, value.slice(end + 1..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_again_to_the_byte() {
        let mut headers = HeaderMap::new();
        headers.append("content-type", HeaderValue::from_static("text/event-stream"));
        headers.append("x-odd", HeaderValue::from_bytes(b"\xe9\"\\").expect("a value"));
        headers.append("x-odd", HeaderValue::from_static("again"));
        let body = Bytes::from_static(b"data: 1\n\n\xff\x00");
        let kept = Kept { status: StatusCode::CREATED, headers, made_by: "tg_1".to_owned(), body };
        for what in [What::Running, What::TooLong(7), What::Replied(kept)] {
            let entry = Entry { fingerprint: "f".to_owned(), what };
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
    }

    #[test]
    fn two_markers_of_one_request_are_told_apart_and_garbage_is_nothing() {
        let entry = Entry { fingerprint: "f".to_owned(), what: What::Running };
        assert_ne!(entry.encode(), entry.encode());
        for garbage in ["", "{}", "{}\n", "x\n", "{\"v\":2,\"fingerprint\":\"f\"}\n"] {
            assert_eq!(Entry::decode(&Bytes::from_static(garbage.as_bytes())), None, "{garbage:?}");
        }
    }
}
