//! Every stream of the table is read whole, cut in two at each byte, byte by byte, and in random pieces: what goes out and what is known
//! afterwards must be the same each time.

mod corpus;
mod passing;
mod replies;

use super::*;
use crate::wire::Usage;
use std::sync::Arc;

pub(super) fn options(api: Api, hide_usage_chunk: bool) -> MeterOptions {
    MeterOptions { api, hide_usage_chunk, count: Arc::new(|text| text.len() as u64) }
}

/// Feeds a meter these pieces and the end; gives back what went out, and the meter.
pub(super) fn pass<'a>(mut meter: Meter, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Meter) {
    let mut out = VecDeque::new();
    for piece in pieces {
        meter.feed(Bytes::copy_from_slice(piece), &mut out);
    }
    meter.finish(&mut out);
    (out.iter().flatten().copied().collect(), meter)
}

/// A meter for an event stream.
pub(super) fn sse(api: Api, hide: bool) -> Meter {
    Meter::for_reply(options(api, hide), Some("text/event-stream; charset=utf-8"))
}

pub(super) fn tokens(uncached_input: u64, output: u64) -> Option<Usage> {
    Some(Usage { uncached_input, output, ..Usage::default() })
}
