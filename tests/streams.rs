//! Streaming and settlement on every path a reply can take: what the client got to the byte, what the provider saw, what was booked to
//! the nano-dollar, and that it was booked once.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;

#[path = "streams/bodies.rs"]
mod bodies;
#[path = "streams/broken.rs"]
mod broken;
#[path = "streams/errors.rs"]
mod errors;
#[path = "streams/gone.rs"]
mod gone;
#[path = "streams/injected.rs"]
mod injected;
#[path = "streams/limits.rs"]
mod limits;
#[path = "streams/pace.rs"]
mod pace;
#[path = "streams/passing.rs"]
mod passing;
#[path = "streams/rig.rs"]
#[expect(dead_code, reason = "the rig serves the tests of retries as well; not all of it is used here")]
mod rig;
#[path = "streams/shutdown.rs"]
mod shutdown;
#[path = "streams/usage.rs"]
mod usage;
