//! A slow reader slows the provider: what lies between them is bounded, whatever the provider has to say.

use crate::bodies::STREAM;
use crate::rig::{Rig, SOON, until};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tollgate::demo::provider::{Script, Seen, Step};

/// Bytes of each event, and how many there are: 200 MB, far more than all socket buffers on the way together.
const EVENT: usize = 256 * 1024;
const EVENTS: u64 = 800;

/// What may lie on the way: the kernel's buffers of two connections on the loopback, and a little of ours.
const ON_THE_WAY: u64 = 64 << 20;

fn flood() -> Script {
    let event = bytes::Bytes::from(format!("data: {{\"choices\":[],\"filler\":\"{}\"}}\n\n", "x".repeat(EVENT)));
    (0..EVENTS).fold(Script::sse(), |script, _| script.step(Step::Send { bytes: event.clone(), tokens: 1 }))
}

/// How many events the provider could push, once it pushes no more.
async fn pushed(rig: &Rig) -> u64 {
    let (mut before, mut since) = (0, tokio::time::Instant::now());
    until("the provider at a stop", || {
        let now = rig.last_seen().delivered;
        if now != before {
            (before, since) = (now, tokio::time::Instant::now());
        }
        (now > 0 && since.elapsed() > Duration::from_millis(500)).then_some(now)
    })
    .await
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_provider() {
    let rig = Rig::new().await;
    rig.bed.provider.script(flood());
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("a small buffer");
    let mut stream = socket.connect(rig.bed.address).await.expect("a connection");
    let body = format!(r#"{{"model":"m-big","messages":[{{"role":"user","content":"hi"}}]{STREAM}}}"#);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nauthorization: Bearer sk-test\r\ncontent-type: application/json\r\n\
         x-customer-id: {}\r\ncontent-length: {}\r\n\r\n",
        rig.customer(),
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.expect("sent");
    rig.provider_saw("the call", |seen| !seen.is_empty()).await;
    let first = pushed(&rig).await;
    assert!(first * (EVENT as u64) < ON_THE_WAY, "{first} of {EVENTS} events went out to nobody who reads");
    // As the client reads, the provider goes on.
    let mut buffer = vec![0; 1 << 20];
    let mut read = 0;
    while read < ON_THE_WAY as usize {
        read += tokio::time::timeout(SOON, stream.read(&mut buffer)).await.expect("more comes").expect("no break");
    }
    let second = pushed(&rig).await;
    assert!(second > first && second * (EVENT as u64) < 2 * ON_THE_WAY, "{second} of {EVENTS} events");
    drop(stream);
    rig.provider_saw("the call cancelled", |seen| seen.iter().all(Seen::client_left)).await;
    let outcome = rig.outcome().await;
    assert_eq!((outcome.ending.as_str(), outcome.estimated), ("client_gone", true));
}
