//! The head of a request as it is sent, and that of a reply as it is read.

use super::Broken;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Response, StatusCode, Version};
use std::mem::MaybeUninit;

/// The largest head of a reply, bytes; that of hyper.
const MOST: usize = 408 * 1024;
/// The most fields in it.
const FIELDS: usize = 100;
/// Room for a field and a half, so that most heads are written without growing.
const FIELD: usize = 48;

/// Writes the head of a request to this host, whose body is so long. The framing is ours, whatever the fields say.
pub(super) fn written(
    method: &Method,
    path: Option<&PathAndQuery>,
    host: &Authority,
    headers: &HeaderMap,
    length: usize,
) -> Bytes {
    let mut head = BytesMut::with_capacity(128 + headers.len() * FIELD);
    head.put_slice(method.as_str().as_bytes());
    head.put_u8(b' ');
    head.put_slice(path.map_or("/", PathAndQuery::as_str).as_bytes());
    head.put_slice(b" HTTP/1.1\r\n");
    if !headers.contains_key(HOST) {
        // Without user and password, which have no place there.
        field(&mut head, HOST.as_str(), host.as_str().rsplit('@').next().unwrap_or_default().as_bytes());
    }
    for (name, value) in headers {
        if name != CONTENT_LENGTH && name != TRANSFER_ENCODING {
            field(&mut head, name.as_str(), value.as_bytes());
        }
    }
    if length > 0 || *method == Method::POST {
        field(&mut head, CONTENT_LENGTH.as_str(), itoa::Buffer::new().format(length).as_bytes());
    }
    head.put_slice(b"\r\n");
    head.freeze()
}

fn field(head: &mut BytesMut, name: &str, value: &[u8]) {
    head.put_slice(name.as_bytes());
    head.put_slice(b": ");
    head.put_slice(value);
    head.put_slice(b"\r\n");
}

/// Takes the head of the final reply from what was read, past those that only inform; `None` as long as it is not all there. `looked`:
/// how much was looked at in vain; zero at first.
pub(super) fn take(read: &mut BytesMut, looked: &mut usize) -> Result<Option<Response<()>>, Broken> {
    loop {
        while let Some(b'\r' | b'\n') = read.first() {
            read.advance(1); // an empty line before a status line says nothing
        }
        let Some(end) = end_of(read, *looked) else {
            *looked = read.len();
            return if read.len() > MOST { Err(Broken("a head that does not end")) } else { Ok(None) };
        };
        *looked = 0;
        let reply = parsed(&read.split_to(end).freeze())?;
        if !reply.status().is_informational() || reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Some(reply));
        }
    }
}

/// Where the first empty line ends, of which nothing lies before `looked`.
fn end_of(read: &[u8], looked: usize) -> Option<usize> {
    // It may have begun there.
    let from = looked.saturating_sub(2);
    memchr::memchr_iter(b'\n', &read[from..]).map(|at| from + at + 1).find_map(|behind| match &read[behind..] {
        [b'\n', ..] => Some(behind + 1),
        [b'\r', b'\n', ..] => Some(behind + 2),
        _ => None,
    })
}

fn parsed(head: &Bytes) -> Result<Response<()>, Broken> {
    const NO_HEAD: Broken = Broken("a head that is none");
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut read = httparse::Response::new(&mut []);
    let parsing = httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut read, head, &mut fields);
    let Ok(httparse::Status::Complete(_)) = parsing else { return Err(NO_HEAD) };
    let mut reply = Response::new(());
    *reply.status_mut() = read.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(NO_HEAD)?;
    *reply.version_mut() = if read.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    reply.headers_mut().reserve(read.headers.len());
    for field in &*read.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| NO_HEAD)?;
        // A share of what was read, not a copy.
        let value = HeaderValue::from_maybe_shared(head.slice_ref(field.value)).map_err(|_| NO_HEAD)?;
        reply.headers_mut().append(name, value);
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply's head, and what was read behind it.
    type Taken = (Response<()>, Vec<u8>);

    fn taken(bytes: &[u8]) -> Result<Option<Taken>, Broken> {
        let mut read = BytesMut::from(bytes);
        Ok(take(&mut read, &mut 0)?.map(|reply| (reply, read.to_vec())))
    }

    #[test]
    fn a_head_is_read_wherever_it_is_split() {
        let bytes =
            b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 429 Slow down\r\nRetry-After: 7\r\nA: 1\r\na: 2\r\n\r\nbody";
        for split in 0..bytes.len() {
            let (mut read, mut looked) = (BytesMut::from(&bytes[..split]), 0);
            let mut reply = take(&mut read, &mut looked).expect("a head");
            if reply.is_none() {
                read.extend_from_slice(&bytes[split..]);
                reply = take(&mut read, &mut looked).expect("a head");
            } else {
                read.extend_from_slice(&bytes[split..]);
            }
            let reply = reply.expect("whole");
            assert_eq!((reply.status().as_u16(), reply.version(), &read[..]), (429, Version::HTTP_11, &b"body"[..]), "{split}");
            assert_eq!(reply.headers()["retry-after"], "7");
            assert!(reply.headers().get_all("a").iter().eq(["1", "2"]));
        }
    }

    #[test]
    fn line_ends_may_be_short_and_lines_empty_before_it() {
        let (reply, rest) = taken(b"\r\nHTTP/1.0 200 OK\na: b\n\nx").expect("a head").expect("whole");
        assert_eq!((reply.status().as_u16(), reply.version(), rest), (200, Version::HTTP_10, b"x".to_vec()));
        assert_eq!(reply.headers()["a"], "b");
        let (reply, _) = taken(b"HTTP/1.1 101 Switching\r\n\r\n").expect("a head").expect("whole");
        assert_eq!(reply.status().as_u16(), 101, "nothing follows that anybody asked for");
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for bytes in [
            &b"SSH-2.0-OpenSSH\r\n\r\n"[..],
            b"HTTP/1.1 99 Low\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\na : b\r\n\r\n",
            b"HTTP/1.1 200 OK\r\na: b\r\n folded: c\r\n\r\n",
            b"HTTP/1.1 200 OK\r\na: \x01\r\n\r\n",
            b"HTTP/2 200\r\n\r\n",
        ] {
            assert!(taken(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(FIELDS + 1));
        assert!(taken(many.as_bytes()).is_err());
        let endless = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(MOST));
        assert!(taken(endless.as_bytes()).is_err());
        let large = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(60_000));
        assert!(taken(large.as_bytes()).expect("a head").is_some());
    }

    #[test]
    fn the_framing_of_a_request_is_ours() {
        let headers = HeaderMap::from_iter([
            (CONTENT_LENGTH, HeaderValue::from_static("99")),
            (TRANSFER_ENCODING, HeaderValue::from_static("chunked")),
            (HeaderName::from_static("x-a"), HeaderValue::from_static("b")),
        ]);
        let host = Authority::from_static("user:pass@host:8080");
        let path = PathAndQuery::from_static("/v1/chat?a=b");
        let head = written(&Method::POST, Some(&path), &host, &headers, 5);
        assert_eq!(&head[..], b"POST /v1/chat?a=b HTTP/1.1\r\nhost: host:8080\r\nx-a: b\r\ncontent-length: 5\r\n\r\n");
        let head = written(&Method::GET, None, &host, &HeaderMap::new(), 0);
        assert_eq!(&head[..], b"GET / HTTP/1.1\r\nhost: host:8080\r\n\r\n");
    }
}
