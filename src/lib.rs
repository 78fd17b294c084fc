//! Tollgate: an HTTP gateway in front of an LLM provider that keeps every customer inside their own share.
//!
//! From the top floor down; what stands here knows only what stands below it.
//!
//! ```text
//! cli        the commands: serve, demo, check, lab, suggest, reconcile, audit, request, key, health
//! suggest    limits from recorded use; pure
//! reconcile  the provider's exports beside the history; pure
//! server     the listener: connections in, the threads that serve them, a graceful end
//! reload     another configuration while it runs, whole or not at all
//! console    pages for operators, in a browser: overview, levels, customers, keys, requests, desk, lab, settings
//! admin      the listener for operators: who may, and the desk
//! stack      the thirteen layers a request passes, in order; routes
//! lab        what would happen: the limiter under a virtual clock, scenarios, replays
//! triage     the queue of those who wait for a person
//! alert      what operators are told of, once, in the log, the metrics and webhooks
//! reply      our own answers: refusal -> status, headers, body; the rate headers
//! degrade    levels: what is given up when there is not enough; decisions only
//! directory  plans, overrides and gateway keys set at run time, over those of the configuration
//! trail      who changed what at run time: kept in the store, and in the log
//! records    what is kept of each request, to be looked up
//! history    what each customer used over time, and what each model used per day
//! repeats    requests that are sent twice, and those that are answered later: what is stored of them
//! store      the books: traits, reservations, the settlement queue; embedded and Redis
//! webhook    news for other systems: signed, repeated, never waited for
//! upstream   calling providers: client, headers, the reply body that meters itself
//! estimate   counting tokens before the call
//! pricing    the price table and the cost of a request
//! config     the configuration file, checked, compiled into the policy the stack reads
//! limit      buckets, windows, budgets, claims, refusals: pure
//! wire       the providers' formats: requests, replies, streams, usage, errors; no limits in here
//! domain     money, time, identities, periods: pure
//!
//! telemetry  one access-log line a request, metrics, the process log (used by all)
//! demo       the stand-in provider, used by `tollgate demo` and by the tests
//! ```
//!
//! Where to add things: a limit is a claim made by a layer of [`stack`] (see `stack/token_rate.rs`) and, if it decides in a new way, a
//! rule in [`limit`] and its mirror in `lua/`; an API is a path in `stack/router.rs`, a parser in `wire/request` and a reader in
//! `wire/usage`; a store is an implementation of [`store::Ledger`] that passes `tests/store_conformance.rs`.

pub mod admin;
pub mod alert;
pub mod cli;
pub mod config;
pub mod console;
pub mod degrade;
pub mod demo;
pub mod directory;
pub mod domain;
pub mod estimate;
pub mod history;
pub mod lab;
pub mod limit;
pub mod pricing;
pub mod reconcile;
pub mod records;
pub mod reload;
pub mod repeats;
pub mod reply;
pub mod server;
pub mod stack;
pub mod store;
pub mod suggest;
pub mod telemetry;
pub mod trail;
pub mod triage;
pub mod upstream;
pub mod webhook;
pub mod wire;
