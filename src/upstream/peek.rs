//! Looks into a reply body before it is passed on.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Reads a body until it ends, breaks, has more than `most` bytes or takes longer than `patience`. Gives what was read (nothing when
/// it is not the whole), and the body as if nothing had been read of it: its bytes, its delays and its break.
pub async fn peek(mut body: reqwest::Body, most: usize, patience: Duration) -> (Bytes, reqwest::Body) {
    let deadline = Instant::now() + patience;
    let (mut read, mut frames) = (Vec::new(), Vec::new());
    let whole = loop {
        match timeout_at(deadline, body.frame()).await {
            Ok(None) => break true,
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    read.extend_from_slice(&data);
                    frames.push(Ok(Frame::data(data)));
                }
            }
            Ok(Some(Err(error))) => {
                frames.push(Err(error));
                break false;
            }
            Err(_) => break false,
        }
        if read.len() > most {
            break false;
        }
    };
    if whole {
        let read = Bytes::from(read);
        return (read.clone(), read.into());
    }
    let again = StreamBody::new(stream::iter(frames).chain(BodyStream::new(body)));
    (Bytes::new(), reqwest::Body::wrap(again))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn body(frames: Vec<io::Result<&'static str>>, then_silence: bool) -> reqwest::Body {
        let frames = stream::iter(frames).map(|frame| frame.map(|text| Frame::data(Bytes::from(text))));
        if then_silence {
            reqwest::Body::wrap(StreamBody::new(frames.chain(stream::pending())))
        } else {
            reqwest::Body::wrap(StreamBody::new(frames))
        }
    }

    /// The bytes of a body, and whether it broke.
    async fn all(mut body: reqwest::Body) -> (String, bool) {
        let mut text = String::new();
        loop {
            match tokio::time::timeout(Duration::from_secs(60), body.frame()).await {
                Ok(Some(Ok(frame))) => text.push_str(std::str::from_utf8(frame.data_ref().expect("data")).expect("text")),
                Ok(Some(Err(_))) | Err(_) => return (text, true),
                Ok(None) => return (text, false),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_the_same_after_it_was_looked_into() {
        let broken = || Err(io::Error::other("cut"));
        for (frames, then_silence, seen, right) in [
            (vec![Ok("ab"), Ok("cd")], false, "abcd", ("abcd", false)),
            (vec![], false, "", ("", false)),
            (vec![Ok("ab"), Ok("cdefghij"), Ok("k")], false, "", ("abcdefghijk", false)),
            (vec![Ok("ab"), broken()], false, "", ("ab", true)),
            (vec![Ok("ab")], true, "", ("ab", true)),
        ] {
            let (bytes, again) = peek(body(frames, then_silence), 8, Duration::from_secs(1)).await;
            assert_eq!(bytes, seen);
            let (text, broke) = all(again).await;
            assert_eq!((text.as_str(), broke), right);
        }
    }
}
