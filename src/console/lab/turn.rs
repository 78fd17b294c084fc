//! One run at a time, off the threads that serve requests, each for so long at most: the lab must not slow the gateway it is part of.

use super::Came;
use http::StatusCode;
use maud::{Markup, html};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How long a run may take, with the wait for its turn. What is played is small enough; only a very slow machine gets here.
const PATIENCE: Duration = Duration::from_secs(20);

static TURN: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));

/// Plays it. The turn is over when the run is, also when nobody waits for it any more, so that impatience does not pile up work.
pub(super) async fn take(play: impl FnOnce() -> Markup + Send + 'static) -> Came {
    let run = async {
        let turn = Arc::clone(&TURN).acquire_owned().await.ok()?;
        let played = spawn_blocking(move || {
            let _turn = turn;
            play()
        });
        played.await.ok()
    };
    match timeout(PATIENCE, run).await {
        Ok(Some(came)) => (StatusCode::OK, came),
        Ok(None) => (StatusCode::INTERNAL_SERVER_ERROR, sorry("It could not be played; the log of the gateway says why.")),
        Err(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            sorry("The lab is busy, or this takes too long. Try again in a moment, or try less."),
        ),
    }
}

fn sorry(words: &str) -> Markup {
    html! { p.alert role="alert" { (words) } }
}
