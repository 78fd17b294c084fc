//! The task that looks at the gauges.

use super::{Levels, TICK};
use crate::config::policy::Levels as Policy;
use std::sync::Arc;
use tokio::task::AbortHandle;

/// Looks at the gauges until it is dropped.
#[derive(Debug)]
pub struct LevelKeeper(AbortHandle);

impl LevelKeeper {
    /// Starts the task. `policy` gives the configuration in force.
    pub fn start(levels: Arc<Levels>, policy: impl Fn() -> Policy + Send + 'static) -> Self {
        let ticking = async move {
            loop {
                tokio::time::sleep(TICK).await;
                levels.tick(&policy()).await;
            }
        };
        Self(tokio::spawn(ticking).abort_handle())
    }
}

impl Drop for LevelKeeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}
