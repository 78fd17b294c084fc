//! Who is let in.

use crate::certificates::Authority;
use crate::{CHAT, bed, chat, directory, handshakes};
use http::Version;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_versions_of_http_are_served_as_the_client_asks_and_streams_too() {
    let authority = Authority::new("ours");
    let directory = directory(&authority);
    let bed = bed(directory.path(), "").await;
    let stream = CHAT.replacen('{', "{\"stream\":true,", 1);
    // Whether a connection of HTTP/1.1 is back in the pool in time is for the client to say, so each of those is new.
    let old = authority.client().http1_only().pool_max_idle_per_host(0);
    for (client, version) in [(authority.client(), Version::HTTP_2), (old, Version::HTTP_11)] {
        let client = client.build().expect("a client");
        for (body, end) in [(CHAT, "}"), (&*stream, "data: [DONE]\n\n")] {
            let reply = chat(&client, &bed, body).send().await.expect("an answer");
            assert_eq!((reply.status().as_u16(), reply.version()), (200, version));
            let text = reply.text().await.expect("to its end");
            assert!(text.ends_with(end), "{text}");
        }
    }
    let stranger = Authority::new("somebody else's").client().build().expect("a client");
    assert!(chat(&stranger, &bed, CHAT).send().await.expect_err("not trusted").is_connect());
    bed.assert_books(&["t"]).await;
    assert_eq!(bed.provider.log().len(), 4);
    handshakes(&bed, "server", "ok", 3).await;
    handshakes(&bed, "server", "failed", 1).await;
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_http_is_told_where_it_is_and_silence_is_ended() {
    let authority = Authority::new("ours");
    let directory = directory(&authority);
    let bed = bed(directory.path(), "handshake_timeout = \"2s\"").await;
    let reply = bed.client.get(bed.url("/healthz")).send().await.expect("an answer");
    assert_eq!(reply.status(), 400);
    assert!(reply.text().await.expect("a body").contains("HTTPS"));
    // A body that nobody reads does not take the answer back.
    let reply = bed.client.post(bed.url("/v1/chat/completions")).body("x".repeat(20_000)).send().await.expect("an answer");
    assert_eq!(reply.status(), 400);

    let mut silent = TcpStream::connect(bed.address).await.expect("a connection");
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), silent.read_to_end(&mut rest)).await.expect("it is ended");
    assert!(ended.is_err() || rest.is_empty(), "{rest:?}");
    let mut garbage = TcpStream::connect(bed.address).await.expect("a connection");
    garbage.write_all(&[0; 16]).await.expect("sent");
    let ended = tokio::time::timeout(Duration::from_secs(10), garbage.read_to_end(&mut rest)).await.expect("it is ended");
    assert!(ended.is_err() || rest.len() < 64, "an alert at most: {rest:?}");
    let client = authority.client().build().expect("a client");
    assert_eq!(chat(&client, &bed, CHAT).send().await.expect("an answer").status(), 200);
    for (result, count) in [("plain_http", 2), ("timeout", 1), ("failed", 1), ("ok", 1)] {
        handshakes(&bed, "server", result, count).await;
    }
    bed.assert_books(&["t"]).await;
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_clients_have_to_show_a_certificate_only_those_of_the_authority_are_let_in() {
    let (authority, others) = (Authority::new("ours"), Authority::new("theirs"));
    for (auth, without) in [("", false), ("client_auth = \"required\"", false), ("client_auth = \"optional\"", true)] {
        let directory = directory(&authority);
        std::fs::write(directory.path().join("ca.pem"), authority.pem()).expect("written");
        let bed = bed(directory.path(), &format!("client_ca = {:?}\n{auth}", directory.path().join("ca.pem"))).await;
        for (client, let_in) in [
            (authority.client().identity(authority.issue("app", 1).identity()), true),
            (authority.client().identity(others.issue("app", 1).identity()), false),
            (authority.client().identity(authority.issue("app", -1).identity()), false),
            (authority.client(), without),
        ] {
            let answer = chat(&client.build().expect("a client"), &bed, CHAT).send().await;
            assert_eq!(answer.as_ref().ok().map(|reply| reply.status().as_u16()), let_in.then_some(200), "{auth}: {answer:?}");
        }
        let served = 1 + usize::from(without);
        assert_eq!(bed.provider.log().len(), served, "nothing of the others reached the provider");
        bed.assert_books(&["t"]).await;
        handshakes(&bed, "server", "no_certificate", 4 - served).await;
        bed.stop().await;
    }
}
