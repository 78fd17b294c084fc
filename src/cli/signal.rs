//! The signals that end a server.

use tokio::signal::unix::{SignalKind, signal};

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
