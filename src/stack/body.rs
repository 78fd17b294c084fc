//! Reading a request body within bounds: size, time, and what compression may unfold to.

use crate::config::policy::Server;
use crate::reply::Rejection;
use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// Most encodings one body may be wrapped in.
const MAX_LAYERS: usize = 2;

/// What is read of one body before others have a turn on the thread.
const TURN: usize = 128 * 1024;

/// Reads and decodes a body.
///
/// # Errors
/// Too large before or after decoding (413), too slow (408), cut (400), an unknown encoding or content type (415), damaged (400).
pub async fn read(body: Body, headers: &HeaderMap, server: &Server) -> Result<Bytes, Rejection> {
    check_type(headers)?;
    let encodings = encodings(headers)?;
    let announced = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<usize>().ok());
    if announced.is_some_and(|length| length > server.max_body) {
        return Err(too_large(server.max_body));
    }
    let raw = timeout(server.body_timeout, collect(body, server, announced)).await.map_err(|_| Rejection::BodyTimeout)??;
    let mut decoded = raw;
    for encoding in encodings.iter().rev() {
        decoded = decode(*encoding, &decoded, server.max_body).await?;
    }
    Ok(decoded)
}

async fn collect(mut body: Body, server: &Server, announced: Option<usize>) -> Result<Bytes, Rejection> {
    let mut whole: Option<BytesMut> = None;
    let mut first = Bytes::new();
    let mut turn = 0;
    loop {
        let frame = timeout(server.body_idle_timeout, body.frame()).await.map_err(|_| Rejection::BodyTimeout)?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| broken("The request body ended before its announced end."))?;
        let Ok(data) = frame.into_data() else { continue };
        let length_of_piece = data.len();
        let length = whole.as_ref().map_or(first.len(), BytesMut::len) + length_of_piece;
        if length > server.max_body {
            return Err(too_large(server.max_body));
        }
        // A body in one piece, which most are, is never copied.
        match &mut whole {
            Some(whole) => whole.extend_from_slice(&data),
            None if first.is_empty() => first = data,
            None => {
                let mut joined = BytesMut::with_capacity(announced.unwrap_or(length * 2).min(server.max_body));
                joined.extend_from_slice(&first);
                joined.extend_from_slice(&data);
                whole = Some(joined);
            }
        }
        turn += length_of_piece;
        if turn >= TURN {
            turn = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(whole.map_or(first, BytesMut::freeze))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

fn encodings(headers: &HeaderMap) -> Result<Vec<Encoding>, Rejection> {
    let mut found = Vec::new();
    for value in headers.get_all(CONTENT_ENCODING) {
        for name in value.to_str().map_err(|_| Rejection::UnsupportedEncoding)?.split(',') {
            match name.trim().to_ascii_lowercase().as_str() {
                "" | "identity" => {}
                "gzip" | "x-gzip" => found.push(Encoding::Gzip),
                "deflate" => found.push(Encoding::Deflate),
                "br" => found.push(Encoding::Brotli),
                "zstd" => found.push(Encoding::Zstd),
                _ => return Err(Rejection::UnsupportedEncoding),
            }
        }
    }
    if found.len() > MAX_LAYERS { Err(Rejection::UnsupportedEncoding) } else { Ok(found) }
}

async fn decode(encoding: Encoding, raw: &[u8], max: usize) -> Result<Bytes, Rejection> {
    match encoding {
        Encoding::Gzip => unfold(GzipDecoder::new(raw), max).await,
        Encoding::Deflate => unfold(ZlibDecoder::new(raw), max).await,
        Encoding::Brotli => unfold(BrotliDecoder::new(raw), max).await,
        Encoding::Zstd => unfold(ZstdDecoder::new(raw), max).await,
    }
}

/// Reads at most one byte more than allowed, so a bomb costs no more than the limit.
async fn unfold(decoder: impl AsyncRead + Unpin, max: usize) -> Result<Bytes, Rejection> {
    let mut out = Vec::new();
    let read = decoder.take(max as u64 + 1).read_to_end(&mut out).await;
    read.map_err(|_| broken("The request body does not decode as its Content-Encoding says."))?;
    if out.len() > max { Err(too_large(max)) } else { Ok(out.into()) }
}

/// JSON in UTF-8, or no type at all.
fn check_type(headers: &HeaderMap) -> Result<(), Rejection> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    if value == "application/json" {
        return Ok(()); // as nearly all say
    }
    let text = value.to_str().map_err(|_| Rejection::UnsupportedMediaType)?.to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let charset = parts.find_map(|part| part.strip_prefix("charset=")).unwrap_or("utf-8").trim_matches('"');
    let is_json =
        matches!(kind, "" | "application/json" | "text/json") || kind.starts_with("application/") && kind.ends_with("+json");
    if is_json && matches!(charset, "utf-8" | "utf8" | "us-ascii") { Ok(()) } else { Err(Rejection::UnsupportedMediaType) }
}

fn too_large(max: usize) -> Rejection {
    Rejection::BodyTooLarge { max: max as u64 }
}

fn broken(message: &'static str) -> Rejection {
    Rejection::Body { code: "invalid_body", param: None, message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
    use http::HeaderValue;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;

    fn server(max_body: usize) -> Server {
        Server { max_body, ..crate::config::Policy::builtin().server }
    }

    fn headers(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(encoding))])
    }

    async fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzipEncoder::new(Vec::new());
        encoder.write_all(data).await.expect("into memory");
        encoder.shutdown().await.expect("into memory");
        encoder.into_inner()
    }

    #[tokio::test]
    async fn every_encoding_unfolds_to_the_plain_body() {
        let plain = br#"{"model":"m","messages":[]}"#;
        macro_rules! encoded {
            ($encoder:ident) => {{
                let mut encoder = $encoder::new(Vec::new());
                encoder.write_all(plain).await.expect("into memory");
                encoder.shutdown().await.expect("into memory");
                encoder.into_inner()
            }};
        }
        let twice = gzip(&gzip(plain).await).await;
        for (name, body) in [
            ("identity", plain.to_vec()),
            ("gzip", encoded!(GzipEncoder)),
            ("deflate", encoded!(ZlibEncoder)),
            ("br", encoded!(BrotliEncoder)),
            ("zstd", encoded!(ZstdEncoder)),
            ("gzip, gzip", twice),
        ] {
            let read = read(Body::from(body), &headers(name), &server(1_000)).await.expect(name);
            assert_eq!(&read[..], plain, "{name}");
        }
        let garbage = read(Body::from("garbage"), &headers("gzip"), &server(1_000)).await;
        assert!(matches!(garbage, Err(Rejection::Body { .. })));
        assert!(matches!(read(Body::from("x"), &headers("lzma"), &server(9)).await, Err(Rejection::UnsupportedEncoding)));
    }

    #[tokio::test]
    async fn the_limit_holds_before_and_after_decoding() {
        let none = HeaderMap::new();
        assert!(read(Body::from("x".repeat(100)), &none, &server(100)).await.is_ok());
        assert!(matches!(
            read(Body::from("x".repeat(101)), &none, &server(100)).await,
            Err(Rejection::BodyTooLarge { max: 100 })
        ));
        let bomb = gzip(&vec![b'a'; 10_000_000]).await;
        assert!(bomb.len() < 100_000);
        assert!(matches!(read(Body::from(bomb), &headers("gzip"), &server(100_000)).await, Err(Rejection::BodyTooLarge { .. })));
        let endless =
            Body::from_stream(futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 1_000]))));
        assert!(matches!(read(endless, &none, &server(1_000_000)).await, Err(Rejection::BodyTooLarge { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_times_out() {
        let pending = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        let started = tokio::time::Instant::now();
        assert!(matches!(read(pending, &HeaderMap::new(), &server(100)).await, Err(Rejection::BodyTimeout)));
        assert_eq!(started.elapsed(), server(100).body_idle_timeout);
        let trickle = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
        });
        let started = tokio::time::Instant::now();
        assert!(matches!(read(Body::from_stream(trickle), &HeaderMap::new(), &server(1_000)).await, Err(Rejection::BodyTimeout)));
        assert_eq!(started.elapsed(), server(1_000).body_timeout);
    }

    #[test]
    fn only_json_in_utf_8_is_read() {
        for (value, ok) in [
            ("application/json", true),
            ("application/json; charset=utf-8", true),
            ("Application/JSON;Charset=UTF-8", true),
            ("application/json; charset=utf-16", false),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
            assert_eq!(check_type(&headers).is_ok(), ok, "{value}");
        }
        assert!(check_type(&HeaderMap::new()).is_ok());
    }
}
