//! A plan instead of an error, through the whole gateway: which answer each chain gives for each cause, what it costs, what the provider
//! saw, and that the books balance whatever was tried.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;
#[path = "degrade/chains.rs"]
mod chains;
#[path = "degrade/crowds.rs"]
mod crowds;
#[path = "degrade/exhausted.rs"]
mod exhausted;
#[path = "degrade/fallbacks.rs"]
mod fallbacks;
#[path = "degrade/handoffs.rs"]
mod handoffs;
#[path = "degrade/providers.rs"]
mod providers;
#[path = "degrade/replays.rs"]
mod replays;
#[path = "degrade/scene.rs"]
mod scene;
