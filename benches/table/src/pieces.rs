//! The pieces of text of a stream, each with the time at which the upstream wrote it.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a stream ends with.
pub const END: &[u8] = b"data: [DONE]\n\n";
/// What stands before the time, and nowhere else.
const MARK: &[u8] = b"{\"content\":\"t";

/// Time since the epoch: the one clock that two processes share.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Appends a chunk with a piece of text that says when it was written.
pub fn write(chunk: &mut String) {
    let _ = write!(
        chunk,
        "data: {{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt-4o-mini\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"t{} \"}},\"finish_reason\":null}}]}}\n\n",
        now().as_nanos()
    );
}

/// Calls `each` with the time of every whole piece, and gives how many bytes are done with.
pub fn each(body: &[u8], mut each: impl FnMut(Duration)) -> usize {
    let mut done = 0;
    while let Some(end) = memchr::memmem::find(&body[done..], b"\n\n") {
        let event = &body[done..done + end];
        let written = memchr::memmem::find(event, MARK).map(|at| &event[at + MARK.len()..]);
        let written = written.map(|rest| rest.iter().take_while(|byte| byte.is_ascii_digit()));
        if let Some(digits) = written {
            each(Duration::from_nanos(digits.fold(0, |n, digit| n * 10 + u64::from(digit - b'0'))));
        } else if event.ends_with(b"[DONE]") {
            // Kept: it is what the stream is judged by.
            return done;
        }
        done += end + 2;
    }
    done
}
