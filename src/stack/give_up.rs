//! What a pool's level takes away from a call, before anything is claimed for it.
//!
//! Level 1 pauses background work and halves internal work's share (`token_rate` claims the smaller one). Level 2 asks for short answers.
//! Level 3 waits no more for the ceiling (`token_rate` again): what does not fit at once is the chain's.

use super::call::{Call, Rejected};
use super::gateway::Gateway;
use crate::config::policy::Levels;
use crate::degrade::Degraded;
use crate::domain::Priority;
use crate::reply::Rejection;

/// When paused background work should come back, microseconds. A level holds for minutes.
pub const PAUSED_FOR: u64 = 60_000_000;
/// What the line may cost beside its text, tokens, at most: what dollars rest on.
const FRAME: u64 = 8;

/// Applies the level of the call's pool to it.
///
/// # Errors
/// 503 `background_paused` for background work from level 1 on.
pub fn apply(call: &mut Call, gateway: &Gateway) -> Result<(), Box<Rejected>> {
    let Some(owner) = call.target.ceiling.clone() else { return Ok(()) };
    call.level = gateway.levels.level(&owner);
    let level = call.level;
    call.who.record.note(|facts| facts.pool_level = Some(level));
    if level >= 1 && call.who.priority == Priority::Background {
        return Err(Rejection::BackgroundPaused { retry_in: PAUSED_FOR }.into());
    }
    if level >= 2 {
        let policy = call.who.policy.clone();
        shorten(call, &policy.levels, gateway);
    }
    Ok(())
}

/// A short answer: a lower output cap, less reasoning and a line that asks for it. Not where tools are called or JSON of a given form is
/// made: half a call or half an object is none.
fn shorten(call: &mut Call, levels: &Levels, gateway: &Gateway) {
    let Some(request) = &call.request else { return };
    if !call.who.api.generates() || request.features.tools || request.features.json_schema {
        return;
    }
    let cap = levels.output_cap.max(call.output.floor);
    if cap < call.output.cap {
        call.output.cap = cap;
        call.output.expected = call.output.expected.min(cap.saturating_mul(call.output.choices));
        call.edits.output_cap = Some(cap);
    }
    call.edits.changes.extend(request.lower_effort(&call.body));
    if let Some(change) = request.append(&call.body, &levels.brevity) {
        call.edits.changes.push(change);
        let tokens = gateway.estimator.count_text(&call.target.model, call.who.api, &levels.brevity);
        // It goes to the end of a message that is there, behind an empty line: no more than that is claimed of rates, or the ceiling
        // would be left a little emptier by each short answer.
        call.input.best = call.input.best.saturating_add(tokens + 1);
        call.input.upper = call.input.upper.saturating_add(levels.brevity.len() as u64 + FRAME);
        call.worst = super::inspect::worst_of(call, request);
    }
    let cap = call.output.cap;
    call.who.record.note(|facts| {
        facts.degraded.push(Degraded::Short);
        facts.output_cap = cap;
    });
}
