//! The accounting copy of a reply that is not a stream, in bounded memory.
//!
//! Up to [`MAX_BODY`] the copy is whole. Of a larger body (a batch of embeddings is many megabytes of floats) only the end is kept: that
//! is where every provider states model and usage.

use super::reading::Reading;
use bytes::Bytes;
use memchr::memmem;

/// The largest body that is copied whole.
pub(super) const MAX_BODY: usize = 8 * 1024 * 1024;

/// As much of the end of a larger one is kept.
const TAIL: usize = 32 * 1024;

/// What is kept of the body so far.
#[derive(Debug, Default)]
pub(super) struct Body {
    copy: Copy,
    /// The bytes that have come.
    total: u64,
    /// More than [`MAX_BODY`] has come; the copy is only the end of it.
    cut: bool,
}

#[derive(Debug)]
enum Copy {
    /// The body came in one piece so far, as small ones do: nothing is copied, the piece is shared.
    Shared(Bytes),
    Own(Vec<u8>),
}

impl Default for Copy {
    fn default() -> Self {
        Self::Shared(Bytes::new())
    }
}

impl Body {
    pub(super) fn feed(&mut self, piece: Bytes) {
        self.total += piece.len() as u64;
        self.keep(piece);
    }

    fn keep(&mut self, piece: Bytes) {
        let own = match &mut self.copy {
            Copy::Shared(first) if first.is_empty() => {
                self.copy = Copy::Shared(piece);
                return;
            }
            Copy::Shared(first) => {
                let mut own = Vec::with_capacity((first.len() + piece.len()).min(MAX_BODY));
                own.extend_from_slice(first);
                self.copy = Copy::Own(own);
                return self.keep(piece);
            }
            Copy::Own(own) => own,
        };
        if !self.cut && own.len() + piece.len() > MAX_BODY {
            self.cut = true;
            *own = end_of(own).to_vec();
        }
        if self.cut {
            own.extend_from_slice(end_of(&piece));
            if own.len() > 2 * TAIL {
                own.drain(..own.len() - TAIL);
            }
        } else {
            own.extend_from_slice(&piece);
        }
    }

    /// Reads the body, which has ended.
    pub(super) fn read(&mut self, reading: &mut Reading) {
        let copy = std::mem::take(&mut self.copy);
        let bytes: &[u8] = match &copy {
            Copy::Shared(bytes) => bytes,
            Copy::Own(bytes) => bytes,
        };
        if !self.cut && bytes.len() <= MAX_BODY {
            reading.cut_body(bytes, self.total);
            return;
        }
        reading.passed_unread();
        if let Some(object) = last_members(end_of(bytes)) {
            reading.body(&object);
        }
    }
}

fn end_of(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(TAIL)..]
}

/// The members at the end of a JSON object of which only the end is there, as an object of their own, from `"model"` or `"usage"` on.
///
/// A key is one of the object itself, not of something inside it, exactly if a `{` before it makes the rest one complete object.
fn last_members(end: &[u8]) -> Option<Vec<u8>> {
    let object = |at: usize| [b"{", &end[at..]].concat();
    let whole = |bytes: &Vec<u8>| serde_json::from_slice::<WholeObject>(bytes).is_ok();
    let mut keys: Vec<_> = memmem::find_iter(end, b"\"model\"").chain(memmem::find_iter(end, b"\"usage\"")).collect();
    keys.sort_unstable();
    // An object states each once; a handful of look-alikes inside others may come before.
    let last = keys.len().saturating_sub(16);
    keys[last..].iter().map(|&at| object(at)).find(whole)
}

/// Accepts any one JSON object and keeps nothing of it.
#[derive(serde::Deserialize)]
struct WholeObject {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Api;
    use std::sync::Arc;

    fn read(pieces: impl IntoIterator<Item = Bytes>) -> super::super::Summary {
        let (mut body, mut reading) = (Body::default(), Reading::new(Api::Embeddings, Arc::new(|_| 0)));
        for piece in pieces {
            body.feed(piece);
            if let Copy::Own(own) = &body.copy {
                assert!(own.capacity() <= 2 * MAX_BODY, "the copy is bounded");
            }
        }
        body.read(&mut reading);
        reading.summary(true)
    }

    #[test]
    fn the_end_of_a_huge_body_tells_its_usage() {
        let floats = Bytes::from("0.123456789,".repeat(5_000));
        let end = r#"1],"usage":{"prompt_tokens":5}}],"model":"emb","usage":{"prompt_tokens":1000,"total_tokens":1000}}"#;
        for times in [1, 200, 1_000] {
            let start = Bytes::from_static(b"{\"object\":\"list\",\"data\":[{\"embedding\":[");
            let pieces =
                [start].into_iter().chain((0..times).map(|_| floats.clone())).chain([Bytes::from_static(end.as_bytes())]);
            let summary = read(pieces);
            assert_eq!(summary.usage.map(|usage| usage.uncached_input), Some(1_000), "{times} pieces");
            assert_eq!(summary.model.as_deref(), Some("emb"));
            assert!(summary.complete && summary.output_known);
            assert_eq!(summary.anomalies.oversized_event, times * floats.len() > MAX_BODY);
        }
    }

    #[test]
    fn a_huge_body_in_one_piece_or_without_usage_does_no_harm() {
        let one = format!("{{\"data\":[{}1],\"usage\":{{\"prompt_tokens\":7}}}}", "1,".repeat(MAX_BODY / 2));
        assert_eq!(read([Bytes::from(one)]).usage.map(|usage| usage.uncached_input), Some(7));
        let cut = format!("{{\"data\":[{}", "1,".repeat(MAX_BODY / 2));
        let summary = read([Bytes::from(cut)]);
        assert!(summary.usage.is_none() && !summary.complete && summary.anomalies.oversized_event);
    }
}
