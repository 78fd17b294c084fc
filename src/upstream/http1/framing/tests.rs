use super::*;
use proptest::prelude::*;

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let field =
        |(name, value): &(&'static str, &'static str)| (http::HeaderName::from_static(name), HeaderValue::from_static(value));
    fields.iter().map(field).collect()
}

fn of(status: u16, fields: &[(&'static str, &'static str)]) -> Result<Framing, Broken> {
    Framing::of(&Method::POST, StatusCode::from_u16(status).expect("a status"), Version::HTTP_11, &headers(fields))
}

const fn chunked() -> Framing {
    Framing::Chunked(Chunked { at: At::Size, aside: 0 })
}

/// What comes out of these pieces, and whether the body is over then.
fn read(mut framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, bool, Vec<u8>), Broken> {
    let (mut read, mut out) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        read.extend_from_slice(piece);
        while let Some(data) = framing.take(&mut read)? {
            assert!(!data.is_empty());
            out.extend_from_slice(&data);
        }
    }
    Ok((out, framing == Framing::Over, read.to_vec()))
}

#[test]
fn the_head_says_where_the_body_ends() {
    assert_eq!(of(200, &[("content-length", "5")]), Ok(Framing::Length(5)));
    assert_eq!(of(200, &[("content-length", "5, 5"), ("content-length", "5")]), Ok(Framing::Length(5)));
    assert_eq!(of(200, &[("content-length", "0")]), Ok(Framing::Over));
    assert_eq!(of(204, &[("content-length", "5")]), Ok(Framing::Over));
    assert_eq!(of(304, &[]), Ok(Framing::Over));
    assert_eq!(of(200, &[]), Ok(Framing::UntilClose));
    assert_eq!(of(200, &[("transfer-encoding", "Chunked"), ("content-length", "5")]), Ok(chunked()), "chunks win");
    assert_eq!(of(200, &[("transfer-encoding", "gzip, chunked")]), Ok(chunked()));
    assert_eq!(of(200, &[("transfer-encoding", "chunked, gzip")]), Ok(Framing::UntilClose));
    assert_eq!(of(200, &[("transfer-encoding", "chunked"), ("transfer-encoding", "gzip")]), Ok(Framing::UntilClose));
    for wrong in ["", "+5", "-1", "5 5", "0x5", "5,6", "5,", "18446744073709551616"] {
        assert!(of(200, &[("content-length", wrong)]).is_err(), "{wrong}");
    }
    let old = |fields| Framing::of(&Method::POST, StatusCode::OK, Version::HTTP_10, &headers(fields));
    assert!(old(&[("transfer-encoding", "chunked")]).is_err());
    let asked = |method| Framing::of(&method, StatusCode::OK, Version::HTTP_11, &headers(&[("content-length", "5")]));
    assert_eq!((asked(Method::HEAD), asked(Method::GET)), (Ok(Framing::Over), Ok(Framing::Length(5))));
}

#[test]
fn a_connection_is_used_again_where_both_sides_know_where_it_stands() {
    let persists = |status: u16, version, fields| persists(StatusCode::from_u16(status).expect("one"), version, &headers(fields));
    assert!(persists(200, Version::HTTP_11, &[]));
    assert!(!persists(200, Version::HTTP_11, &[("connection", "upgrade, Close")]));
    assert!(!persists(200, Version::HTTP_11, &[("connection", "close"), ("connection", "keep-alive")]));
    assert!(!persists(200, Version::HTTP_10, &[]));
    assert!(persists(200, Version::HTTP_10, &[("connection", "Keep-Alive")]));
    assert!(!persists(101, Version::HTTP_11, &[]));
}

#[test]
fn a_length_ends_a_body_and_leaves_what_follows() {
    assert_eq!(read(Framing::Length(5), &[b"ab", b"cdef"]), Ok((b"abcde".to_vec(), true, b"f".to_vec())));
    assert_eq!(read(Framing::Length(5), &[b"ab"]), Ok((b"ab".to_vec(), false, vec![])));
    assert_eq!(read(Framing::UntilClose, &[b"ab", b"c"]), Ok((b"abc".to_vec(), false, vec![])));
    assert!(Framing::UntilClose.closed());
    assert!(!Framing::Length(1).closed() && !chunked().closed());
}

#[test]
fn chunks_are_read_wherever_they_are_split() {
    let bytes: &[u8] = b"5\r\nhello\r\n0A ;name=\"a b\"\r\n, world...\r\n000\r\nx-trailer: 1\r\n\r\nHTTP";
    for split in 0..=bytes.len() {
        let found = read(chunked(), &[&bytes[..split], &bytes[split..]]);
        assert_eq!(found, Ok((b"hello, world...".to_vec(), true, b"HTTP".to_vec())), "{split}");
    }
    let single: Vec<_> = bytes.chunks(1).collect();
    assert_eq!(read(chunked(), &single), Ok((b"hello, world...".to_vec(), true, b"HTTP".to_vec())));
}

#[test]
fn the_last_piece_is_known_to_be_the_last() {
    let (mut framing, mut read) = (chunked(), BytesMut::from(&b"2\r\nok\r\n0\r\n\r\n"[..]));
    assert_eq!(framing.take(&mut read).expect("a chunk").as_deref(), Some(&b"ok"[..]));
    assert_eq!(framing, Framing::Over);
}

#[test]
fn chunks_that_are_none_are_refused() {
    for bytes in [
        &b"\r\n"[..],
        b"x\r\n",
        b"+5\r\nhello\r\n",
        b"5\nhello\r\n",
        b"5 5\r\nhello\r\n",
        b"5\r\nhello!\r\n",
        b"5\r\nhello\n\n",
        b"10000000000000000\r\n",
        b"5;a\nb\r\nhello",
        b"0\r\na: b\n\r\n",
    ] {
        assert!(read(chunked(), &[bytes]).is_err(), "{}", String::from_utf8_lossy(bytes));
    }
    let endless = vec![b'0'; MOST_ASIDE + 1];
    assert!(read(chunked(), &[&endless]).is_err());
    let extended = format!("1;{}\r\na\r\n", "e".repeat(1_000)).repeat(17);
    assert!(read(chunked(), &[extended.as_bytes()]).is_err());
    let trailed = format!("0\r\n{}", "a: b\r\n".repeat(4_000));
    assert!(read(chunked(), &[trailed.as_bytes()]).is_err());
}

proptest! {
    #[test]
    fn whatever_is_written_in_chunks_is_read(body: Vec<Vec<u8>>, split in 1_usize..40) {
        let mut bytes = Vec::new();
        for piece in body.iter().filter(|piece| !piece.is_empty()) {
            bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        let pieces: Vec<_> = bytes.chunks(split).collect();
        prop_assert_eq!(read(chunked(), &pieces), Ok((body.concat(), true, vec![])));
    }

    #[test]
    fn nothing_panics(pieces: Vec<Vec<u8>>) {
        let pieces: Vec<_> = pieces.iter().map(Vec::as_slice).collect();
        let _ = read(chunked(), &pieces);
    }
}
