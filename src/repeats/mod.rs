//! Requests that are sent twice, and requests that are answered later: what is stored of them, and under which rules.
//!
//! Three things over [`crate::store::documents`], the same on both stores:
//!
//! - A [`marker`] says that somebody is at work on something. It has a lease, so the marker of a gateway that died is gone by itself.
//! - A [`kept`] reply stands in the marker's place once the work is done, and is given to whoever asks for the same again.
//! - A [`job`] is a request that runs when there is room: its own document says how it stands, its request and its reply lie beside it.
//!
//! The promise is **at most one finished call per key, at least one run per job**. A key whose gateway died is free again after the
//! lease, and what the dead gateway's call used is booked by the lost hold; a job whose gateway died runs again, a few times at most.

pub mod job;
pub mod jobs;
pub mod kept;
pub mod key;
pub mod marker;
pub mod outcome;
