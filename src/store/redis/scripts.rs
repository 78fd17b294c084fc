//! The scripts, prepared once: their source, its hash, and how they get into a server that does not know them.

use redis::{Pipeline, Script};

const BASE: &str = include_str!("../../../lua/base.lua");
const STATES: &str = include_str!("../../../lua/states.lua");
const LIMITS: &str = include_str!("../../../lua/limits.lua");
const CALL: &str = include_str!("../../../lua/call.lua");
const CLAIMS: &str = include_str!("../../../lua/claims.lua");
const ENDS: &str = include_str!("../../../lua/ends.lua");
const ADMIT: &str = include_str!("../../../lua/admit.lua");
const SETTLE: &str = include_str!("../../../lua/settle.lua");
const TOGETHER: &str = include_str!("../../../lua/together.lua");
const ADMIT_TOGETHER: &str = include_str!("../../../lua/admit_together.lua");
const SETTLE_TOGETHER: &str = include_str!("../../../lua/settle_together.lua");
const REPLACE: &str = include_str!("../../../lua/replace.lua");
const RENEW: &str = include_str!("../../../lua/renew.lua");
const LOWER: &str = include_str!("../../../lua/lower.lua");
const SWEEP: &str = include_str!("../../../lua/sweep.lua");
const LOOK: &str = include_str!("../../../lua/look.lua");
const DOCUMENTS: &str = include_str!("../../../lua/documents.lua");
const DOCUMENT_GET: &str = include_str!("../../../lua/document_get.lua");
const DOCUMENT_PUT: &str = include_str!("../../../lua/document_put.lua");
const DOCUMENT_PUT_MANY: &str = include_str!("../../../lua/document_put_many.lua");
const DOCUMENT_LIST: &str = include_str!("../../../lua/document_list.lua");
const SERIES_ADD: &str = include_str!("../../../lua/series_add.lua");

/// All scripts with the parts they share in front.
pub(super) struct Scripts {
    admit: Prepared,
    settle: Prepared,
    replace: Prepared,
    renew: Prepared,
    sweep: Prepared,
    look: Prepared,
    document_get: Prepared,
    document_put: Prepared,
    document_put_many: Prepared,
    document_list: Prepared,
    series_add: Prepared,
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
        let prepare = |parts: &[&str]| {
            let source = parts.concat();
            let sha = Script::new(&source).get_hash().to_owned();
            Prepared { source, sha }
        };
        // What is seldom needed is one function: to define the several dozen in it costs more than most calls do without them.
        let first = |one_by_one: &[&str], together: &str| {
            let one_by_one = one_by_one.concat();
            prepare(&[BASE, "local function one_by_one(...)\n", &one_by_one, "end\n", TOGETHER, together])
        };
        Self {
            admit: first(&[STATES, LIMITS, CALL, CLAIMS, ADMIT], ADMIT_TOGETHER),
            settle: first(&[STATES, LIMITS, CALL, ENDS, SETTLE], SETTLE_TOGETHER),
            replace: prepare(&[BASE, STATES, LIMITS, CALL, ENDS, CLAIMS, REPLACE]),
            renew: prepare(&[BASE, STATES, RENEW]),
            sweep: prepare(&[BASE, STATES, LIMITS, SWEEP]),
            look: prepare(&[BASE, STATES, LIMITS, CALL, CLAIMS, LOOK]),
            document_get: prepare(&[DOCUMENTS, DOCUMENT_GET]),
            document_put: prepare(&[DOCUMENTS, DOCUMENT_PUT]),
            document_put_many: prepare(&[DOCUMENTS, DOCUMENT_PUT_MANY]),
            document_list: prepare(&[DOCUMENTS, DOCUMENT_LIST]),
            series_add: prepare(&[SERIES_ADD]),
            lower: clustered.then(|| prepare(&[BASE, STATES, LIMITS, CALL, ENDS, LOWER])),
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

    /// What `EVALSHA` takes for a look at the limits of a customer.
    pub(super) fn look(&self) -> &str {
        &self.look.sha
    }

    /// What `EVALSHA` takes for claims that are taken back.
    pub(super) fn lower(&self) -> &str {
        &self.lower.as_ref().expect("only the two calls of a cluster take claims back").sha
    }

    /// What `EVALSHA` takes for reading a document.
    pub(super) fn document_get(&self) -> &str {
        &self.document_get.sha
    }

    /// What `EVALSHA` takes for writing a document.
    pub(super) fn document_put(&self) -> &str {
        &self.document_put.sha
    }

    /// What `EVALSHA` takes for writing documents whatever is there.
    pub(super) fn document_put_many(&self) -> &str {
        &self.document_put_many.sha
    }

    /// What `EVALSHA` takes for listing documents.
    pub(super) fn document_list(&self) -> &str {
        &self.document_list.sha
    }

    /// What `EVALSHA` takes for adding to series.
    pub(super) fn series_add(&self) -> &str {
        &self.series_add.sha
    }

    /// Adds the commands that make a server know them all.
    pub(super) fn load(&self, pipeline: &mut Pipeline) {
        let documents = [&self.document_get, &self.document_put, &self.document_put_many, &self.document_list, &self.series_add];
        let ledger = [&self.admit, &self.settle, &self.replace, &self.renew, &self.sweep, &self.look];
        for script in ledger.into_iter().chain(documents).chain(&self.lower) {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.source);
        }
    }
}
