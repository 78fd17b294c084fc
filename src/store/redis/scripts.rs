//! The scripts, prepared once: their source, its hash, and how they get into a server that does not know them.

use redis::{Pipeline, Script};

const LIMITS: &str = include_str!("../../../lua/limits.lua");
const ADMIT: &str = include_str!("../../../lua/admit.lua");
const SETTLE: &str = include_str!("../../../lua/settle.lua");
const RENEW: &str = include_str!("../../../lua/renew.lua");
const SWEEP: &str = include_str!("../../../lua/sweep.lua");
const LOWER: &str = include_str!("../../../lua/lower.lua");

/// All scripts with the part they share in front.
pub(super) struct Scripts {
    admit: Prepared,
    settle: Prepared,
    renew: Prepared,
    sweep: Prepared,
    /// Only a cluster needs it.
    lower: Option<Prepared>,
}

struct Prepared {
    source: String,
    sha: String,
}

impl Scripts {
    /// Hashes them: once per process, not per call.
    pub(super) fn new(clustered: bool) -> Self {
        let prepare = |body: &str| {
            let source = format!("{LIMITS}{body}");
            let sha = Script::new(&source).get_hash().to_owned();
            Prepared { source, sha }
        };
        let lower = clustered.then(|| prepare(LOWER));
        Self { admit: prepare(ADMIT), settle: prepare(SETTLE), renew: prepare(RENEW), sweep: prepare(SWEEP), lower }
    }

    /// What `EVALSHA` takes for an admission.
    pub(super) fn admit(&self) -> &str {
        &self.admit.sha
    }

    /// What `EVALSHA` takes for a settlement.
    pub(super) fn settle(&self) -> &str {
        &self.settle.sha
    }

    /// What `EVALSHA` takes for a renewal.
    pub(super) fn renew(&self) -> &str {
        &self.renew.sha
    }

    /// What `EVALSHA` takes for a sweep of one customer.
    pub(super) fn sweep(&self) -> &str {
        &self.sweep.sha
    }

    /// What `EVALSHA` takes for claims that are taken back.
    pub(super) fn lower(&self) -> &str {
        &self.lower.as_ref().expect("only the two calls of a cluster take claims back").sha
    }

    /// Adds the commands that make a server know them all.
    pub(super) fn load(&self, pipeline: &mut Pipeline) {
        for script in [&self.admit, &self.settle, &self.renew, &self.sweep].into_iter().chain(&self.lower) {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.source);
        }
    }
}
