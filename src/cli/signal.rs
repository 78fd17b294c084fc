//! The signals that end a server.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Resolves at the first SIGTERM or SIGINT; never, should the system not let us listen for them.
pub async fn stop() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    // A terminal that closes, or an operator who expects a reload, must not cut everybody's streams.
    let mut hangup = signal(SignalKind::hangup()).ok();
    loop {
        tokio::select! {
            _ = term.recv() => return,
            _ = int.recv() => return,
            Some(()) = hung_up(&mut hangup) => tracing::warn!("SIGHUP changes nothing; restart to read a changed configuration"),
        }
    }
}

async fn hung_up(hangup: &mut Option<Signal>) -> Option<()> {
    match hangup {
        Some(hangup) => hangup.recv().await,
        None => std::future::pending().await,
    }
}
