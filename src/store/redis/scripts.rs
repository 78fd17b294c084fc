//! The scripts, prepared once: their source, its hash, and how they get into a server that does not know them.

use redis::{Pipeline, Script};

const LIMITS: &str = include_str!("../../../lua/limits.lua");
const CLAIMS: &str = include_str!("../../../lua/claims.lua");
const ENDS: &str = include_str!("../../../lua/ends.lua");
const ADMIT: &str = include_str!("../../../lua/admit.lua");
const SETTLE: &str = include_str!("../../../lua/settle.lua");
const REPLACE: &str = include_str!("../../../lua/replace.lua");
const RENEW: &str = include_str!("../../../lua/renew.lua");
const SWEEP: &str = include_str!("../../../lua/sweep.lua");

/// All scripts with the parts they share in front.
pub(super) struct Scripts {
    admit: Prepared,
    settle: Prepared,
    replace: Prepared,
    renew: Prepared,
    sweep: Prepared,
}

struct Prepared {
    source: String,
    sha: String,
}

impl Scripts {
    /// Hashes them: once per process, not per call.
    pub(super) fn new() -> Self {
        let prepare = |parts: &[&str]| {
            let source = format!("{LIMITS}{}", parts.concat());
            let sha = Script::new(&source).get_hash().to_owned();
            Prepared { source, sha }
        };
        Self {
            admit: prepare(&[CLAIMS, ADMIT]),
            settle: prepare(&[ENDS, SETTLE]),
            replace: prepare(&[ENDS, CLAIMS, REPLACE]),
            renew: prepare(&[RENEW]),
            sweep: prepare(&[SWEEP]),
        }
    }

    /// What `EVALSHA` takes for an admission.
    pub(super) fn admit(&self) -> &str {
        &self.admit.sha
    }

    /// What `EVALSHA` takes for a settlement.
    pub(super) fn settle(&self) -> &str {
        &self.settle.sha
    }

    /// What `EVALSHA` takes for putting an admission in the place of a reservation.
    pub(super) fn replace(&self) -> &str {
        &self.replace.sha
    }

    /// What `EVALSHA` takes for a renewal.
    pub(super) fn renew(&self) -> &str {
        &self.renew.sha
    }

    /// What `EVALSHA` takes for a sweep of one customer.
    pub(super) fn sweep(&self) -> &str {
        &self.sweep.sha
    }

    /// Adds the commands that make a server know them all.
    pub(super) fn load(&self, pipeline: &mut Pipeline) {
        for script in [&self.admit, &self.settle, &self.replace, &self.renew, &self.sweep] {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.source);
        }
    }
}
