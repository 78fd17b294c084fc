//! The signals that end a server, and the one that has it read its configuration again.

use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// Resolves at the first SIGTERM or SIGINT; never, should the system not let us listen for them.
pub async fn stop() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

/// Told at each SIGHUP, from now on: without this one would end the process. Must be called inside a tokio runtime.
pub fn hangups() -> Arc<Notify> {
    let hung_up = Arc::new(Notify::new());
    if let Ok(mut signal) = signal(SignalKind::hangup()) {
        let told = hung_up.clone();
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                told.notify_one();
            }
        });
    }
    hung_up
}
