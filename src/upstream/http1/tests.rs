//! Against servers of a few lines, which send what hyper's would not.

use super::*;
use http::Method;
use http_body::Body;
use http_body_util::BodyExt;
use std::sync::LazyLock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A connection, and the server's end of it.
async fn pair() -> (Connection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
    (Connection::new(ours.expect("connected")), theirs.expect("accepted").0)
}

static HOST: LazyLock<Authority> = LazyLock::new(|| Authority::from_static("host:1"));

fn post(body: &'static [u8]) -> Request<Bytes> {
    let mut request = Request::new(Bytes::from_static(body));
    *request.method_mut() = Method::POST;
    request
}

/// Reads a request and its body of so many bytes.
async fn heard(server: &mut TcpStream, body: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while !all.ends_with(b"\r\n\r\n") {
        all.push(server.read_u8().await.expect("a head"));
    }
    let head = all.len();
    all.resize(head + body, 0);
    server.read_exact(&mut all[head..]).await.expect("a body");
    all
}

/// What the reply says whose bytes are these, and its connection if that is free.
async fn answered(reply: &'static [u8], method: Method) -> (io::Result<Bytes>, Option<Connection>) {
    let (connection, mut server) = pair().await;
    let mut request = post(b"");
    *request.method_mut() = method;
    let serving = tokio::spawn(async move {
        heard(&mut server, 0).await;
        server.write_all(reply).await.expect("written");
        server.shutdown().await.expect("shut");
        server
    });
    let sent = connection.send(&HOST, request).await;
    let _server = serving.await.expect("served");
    let mut body = match sent {
        Ok(reply) => reply.into_body(),
        Err(none) => return (Err(none.error), None),
    };
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => all.extend_from_slice(frame.data_ref().expect("data")),
            Err(error) => return (Err(error), body.connection()),
        }
    }
    (Ok(all.freeze()), body.connection())
}

#[tokio::test]
async fn a_reply_ends_where_its_head_says() {
    for (reply, body, free) in [
        (&b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"[..], "ok", true),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", "ok", false),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok, and more", "ok", false),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", true),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nto the end", "to the end", false),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", "ok", false),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "", true),
    ] {
        let (found, connection) = answered(reply, Method::POST).await;
        assert_eq!(found.expect("a reply"), body, "{}", String::from_utf8_lossy(reply));
        assert_eq!(connection.is_some(), free, "{}", String::from_utf8_lossy(reply));
    }
    let (found, connection) = answered(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", Method::HEAD).await;
    assert_eq!((found.expect("a reply"), connection.is_some()), (Bytes::new(), true));
}

#[tokio::test]
async fn what_breaks_off_is_no_reply() {
    for reply in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n",
    ] {
        let (found, connection) = answered(reply, Method::POST).await;
        assert!(found.is_err() && connection.is_none(), "{}", String::from_utf8_lossy(reply));
    }
}

#[tokio::test]
async fn pieces_come_as_they_are_sent_and_leave_no_buffer_behind() {
    let (connection, mut server) = pair().await;
    let (sent, asked) = tokio::join!(connection.send(&HOST, post(b"abc")), async {
        let asked = heard(&mut server, 3).await;
        server.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.expect("written");
        asked
    });
    assert_eq!(asked, b"POST / HTTP/1.1\r\nhost: host:1\r\ncontent-length: 3\r\n\r\nabc");
    let mut body = sent.expect("a reply").into_body();
    for piece in ["data: 1\n\n", "data: 2\n\n"] {
        server.write_all(format!("9\r\n{piece}\r\n").as_bytes()).await.expect("written");
        let frame = body.frame().await.expect("a piece").expect("whole").into_data().expect("data");
        assert_eq!(frame, piece);
        let waiting = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx).is_pending())).await;
        assert!(waiting, "there is no more yet");
        assert_eq!(body.held(), 0, "nothing is kept for what is still to come");
    }
    assert!(size_of::<ReplyBody>() <= 200, "{}: every open stream has one", size_of::<ReplyBody>());
}

#[tokio::test]
async fn a_connection_that_was_closed_or_spoken_to_unasked_is_not_used() {
    let (connection, server) = pair().await;
    assert!(connection.is_usable());
    drop(server);
    // Whether or not the runtime has looked: nothing was awaited since.
    connection.tcp.readable().await.expect("told");
    assert!(!connection.is_usable());
    let (connection, mut server) = pair().await;
    server.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n").await.expect("written");
    connection.tcp.readable().await.expect("told");
    assert!(!connection.is_usable());
}

#[tokio::test]
async fn an_answer_before_the_whole_request_is_read_and_ends_the_connection() {
    const LARGE: usize = 16 * 1024 * 1024;
    let (connection, mut server) = pair().await;
    let request = post(Box::leak(vec![b'x'; LARGE].into_boxed_slice()));
    let (sent, ()) = tokio::join!(connection.send(&HOST, request), async {
        heard(&mut server, 0).await;
        server.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await.expect("written");
    });
    let reply = sent.expect("a reply");
    assert_eq!(reply.status().as_u16(), 413);
    let mut body = reply.into_body();
    assert_eq!((&mut body).collect().await.expect("whole").to_bytes(), "no");
    assert!(body.connection().is_none());
}

#[tokio::test]
async fn a_large_request_arrives_whole() {
    const LARGE: usize = 3 * 1024 * 1024 + 7;
    let (connection, mut server) = pair().await;
    let body: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    let mut request = post(b"");
    *request.body_mut() = Bytes::from(body.clone());
    let (sent, asked) = tokio::join!(connection.send(&HOST, request), async {
        let asked = heard(&mut server, LARGE).await;
        server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("written");
        asked
    });
    assert!(asked.ends_with(&body));
    assert!(sent.expect("a reply").into_body().connection().is_some());
}

#[tokio::test]
async fn a_request_of_which_nothing_could_be_sent_comes_back() {
    let (connection, server) = pair().await;
    server.set_zero_linger().expect("set");
    drop(server); // reset, so that the first write fails
    connection.tcp.readable().await.expect("told");
    let none = connection.send(&HOST, post(b"abc")).await.expect_err("nobody there");
    assert_eq!(none.unsent.expect("unsent").body(), "abc");
}

#[tokio::test]
async fn a_reader_that_stops_stops_the_server() {
    let (connection, mut server) = pair().await;
    let (sent, ()) = tokio::join!(connection.send(&HOST, post(b"")), async {
        heard(&mut server, 0).await;
        server.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("written");
    });
    let _body = sent.expect("a reply").into_body();
    // Until the sockets are full: what nobody asks for is not read.
    let piece = vec![b'x'; 64 * 1024];
    let mut written = 0;
    while let Poll::Ready(length) = poll_fn(|cx| Poll::Ready(Pin::new(&mut server).poll_write(cx, &piece))).await {
        written += length.expect("open");
        assert!(written < 64 * 1024 * 1024, "somebody reads on");
        tokio::task::yield_now().await;
    }
}
