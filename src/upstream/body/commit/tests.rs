use super::super::tests::{DONE, ERROR, FINISH, IDLE, JSON, Reply, SECOND, TEXT, USAGE, held, only, rest};
use super::*;

const BEGIN: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const SMALL: Bounds = Bounds { time: SECOND, bytes: 256 };

/// Polls a commit that is not to be over yet.
macro_rules! waits {
    ($commit:expr) => {
        assert!(futures_util::poll!(&mut $commit).is_pending(), "nothing commits it yet")
    };
}

#[tokio::test(start_paused = true)]
async fn content_commits_a_stream_and_all_of_it_is_delivered() {
    let Reply { provider, body, ends, .. } = held(true);
    let mut commit = Box::pin(body.commit(SMALL));
    provider.send(BEGIN);
    waits!(commit);
    provider.send(TEXT);
    let mut body = commit.await.unwrap_or_else(|_| panic!("committed"));
    [FINISH, USAGE, DONE].iter().for_each(|piece| provider.send(piece));
    drop(provider);
    assert_eq!(rest(&mut body).await, ([BEGIN, TEXT, FINISH, USAGE, DONE].concat(), false));
    assert_eq!(only(&ends).summary.usage.expect("stated").output, 99);
}

#[tokio::test(start_paused = true)]
async fn what_fails_before_it_is_given_back_with_its_owner() {
    for (events, pieces, breaks, broke) in [
        (true, &[BEGIN, ERROR][..], false, None),
        (true, &[ERROR], false, None),
        (true, &[BEGIN], true, Some(Broke::Upstream)),
        (true, &[BEGIN], false, Some(Broke::Unfinished)),
        (true, &[], false, Some(Broke::Unfinished)),
        (false, &[r#"{"error":{"message":"m"}}"#], false, None),
        (false, &[&JSON[..20]], true, Some(Broke::Upstream)),
        (false, &[], true, Some(Broke::Upstream)),
    ] {
        let Reply { provider, body, ends, .. } = held(events);
        pieces.iter().for_each(|piece| provider.send(piece));
        if breaks {
            provider.breaks();
        } else {
            drop(provider);
        }
        let failed = body.commit(SMALL).await.err().unwrap_or_else(|| panic!("{pieces:?} is no answer"));
        assert_eq!((failed.end.broke, failed.end.summary.error.is_some()), (broke, broke.is_none()), "{pieces:?}");
        let Uncommitted { mut body, owner, .. } = failed;
        assert!(ends.lock().is_empty(), "nobody was told");
        body.resume(owner);
        let (text, broken) = rest(&mut body).await;
        assert!(text.starts_with(&pieces.concat()), "{pieces:?}: delivered after all: {text}");
        assert_eq!(broken, broke.is_some(), "{pieces:?}");
        assert_eq!(only(&ends).broke, broke, "{pieces:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bound_in_time_commits_and_the_silence_still_counts_from_its_beginning() {
    for (events, sent) in [(true, BEGIN), (true, ""), (false, "{\"choices\":")] {
        let Reply { provider, body, ends, .. } = held(events);
        provider.send(sent);
        let began = Instant::now();
        let mut body = body.commit(SMALL).await.unwrap_or_else(|_| panic!("committed by time"));
        assert_eq!(began.elapsed().as_millis(), 1_000);
        let (text, broken) = rest(&mut body).await;
        assert!(text.starts_with(sent) && broken);
        assert_eq!((began.elapsed() - IDLE).as_millis(), 100, "the idle time, and the moment before the break");
        assert_eq!(only(&ends).broke, Some(Broke::Silence));
        drop(provider);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bound_in_bytes_commits() {
    for events in [true, false] {
        let Reply { provider, body, ends, .. } = held(events);
        let (piece, end) = if events { ("data: {\"choices\":[]}\n\n".repeat(6), "") } else { (" ".repeat(130), JSON) };
        provider.send(&piece);
        let mut commit = Box::pin(body.commit(SMALL));
        waits!(commit);
        provider.send(&piece);
        provider.send(&piece);
        let mut body = commit.await.unwrap_or_else(|_| panic!("committed by bytes"));
        provider.send(end);
        drop(provider);
        assert!(rest(&mut body).await.0.starts_with(&piece.repeat(3)));
        assert_eq!(only(&ends).broke.is_some(), events, "what comes after the commit is final");
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_reply_that_was_held_back_has_its_length() {
    let Reply { provider, body, ends, .. } = held(false);
    provider.send(&JSON[..20]);
    provider.send(&JSON[20..]);
    drop(provider);
    let mut body = body.commit(Bounds::SHIPPED).await.unwrap_or_else(|_| panic!("an answer"));
    assert_eq!(body.size_hint().exact(), Some(JSON.len() as u64));
    assert_eq!(only(&ends).broke, None, "it has ended");
    assert_eq!(rest(&mut body).await, (JSON.into(), false));
    assert!(body.is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn who_leaves_a_reply_that_is_held_back_is_told_of() {
    let Reply { provider, body, ends, .. } = held(true);
    let mut commit = Box::pin(body.commit(SMALL));
    provider.send(BEGIN);
    waits!(commit);
    drop(commit);
    assert_eq!(only(&ends).broke, Some(Broke::ClientGone));
    assert!(provider.is_cancelled());

    let Reply { provider, body, ends, tasks } = held(false);
    let mut commit = Box::pin(body.commit(SMALL));
    provider.send(&JSON[..20]);
    waits!(commit);
    drop(commit);
    provider.send(&JSON[20..]);
    drop(provider);
    assert!(tasks.end(SECOND).await);
    let end = only(&ends);
    assert_eq!((end.broke, end.client_left), (None, true), "read to its end");
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_is_cancelled_and_tells_nobody() {
    let Reply { provider, body, ends, .. } = held(true);
    provider.send(BEGIN);
    let (body, owner) = body.give_up();
    drop(body);
    assert!(provider.is_cancelled() && ends.lock().is_empty());
    drop(owner);
    assert!(ends.lock().pop().expect("dropped").is_none());
}
