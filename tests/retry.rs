//! Trying again: which failures, when, at what cost, and what the client gets when it did not help. Nothing here sleeps: the waits between
//! attempts are recorded, and pass when a test lets them.

#[path = "support/bed.rs"]
#[expect(dead_code, reason = "the bed serves several tests; none uses all of it")]
mod bed;
#[path = "streams/bodies.rs"]
#[expect(dead_code, reason = "the pieces of the streams tests; not all are used here")]
mod bodies;
#[cfg(target_os = "linux")] // elsewhere SSL_CERT_FILE does not say whom to trust
#[path = "tls/certificates.rs"]
#[expect(dead_code, reason = "a certificate is only issued here")]
mod certificates;
#[path = "support/redis_server.rs"]
#[expect(dead_code, reason = "a server is only started here")]
mod redis_server;
#[path = "streams/rig.rs"]
#[expect(dead_code, reason = "the rig of the streams tests; not all of it is used here")]
mod rig;

#[path = "retry/breaker.rs"]
mod breaker;
#[path = "retry/ceiling.rs"]
mod ceiling;
#[path = "retry/commit.rs"]
mod commit;
#[cfg(target_os = "linux")]
#[path = "retry/frames.rs"]
mod frames;
#[path = "retry/given_up.rs"]
mod given_up;
#[cfg(target_os = "linux")]
#[path = "retry/http2.rs"]
mod http2;
#[path = "retry/metering.rs"]
mod metering;
#[path = "retry/orphans.rs"]
mod orphans;
#[path = "retry/pace.rs"]
mod pace;
#[path = "retry/slots.rs"]
mod slots;
#[path = "retry/stale.rs"]
mod stale;
#[path = "retry/statuses.rs"]
mod statuses;
