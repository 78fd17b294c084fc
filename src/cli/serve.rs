//! `tollgate serve`: configuration before ports, versions logged, an ordered end.

use super::{BAD_CONFIG, Serve, out};
use crate::config::policy::StoreKind;
use crate::config::{Env, Policy};
use crate::reload::Reloader;
use crate::server::Server;
use crate::stack::Gateway;
use crate::store::outage::Guarded;
use crate::store::redis::{RedisDocuments, RedisLedger};
use crate::store::{StoreError, Stores};
use crate::telemetry::{SystemClock, log};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Serves until SIGTERM or SIGINT.
pub fn run(args: Serve) -> ExitCode {
    let env = Env::of_process();
    let (policy, warnings) = match Policy::load(args.config.config.as_deref(), &env) {
        Ok(loaded) => loaded,
        Err(problems) => {
            for problem in &problems {
                out::complain(&problem.to_string());
            }
            return super::fail("the configuration cannot be used; nothing was started", BAD_CONFIG);
        }
    };
    // The last to be dropped: what happens at the end is logged, too.
    let _log = match log::start(&args.logging.log, args.logging.log_file.as_deref()) {
        Ok(log) => log,
        Err(error) => return super::fail(&format!("cannot log: {error}"), BAD_CONFIG),
    };
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(&error.to_string(), 1),
    };
    match runtime.block_on(serve(policy, args.config.config, env)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => super::fail(&message, 1),
    }
}

async fn serve(policy: Policy, path: Option<PathBuf>, env: Env) -> Result<(), String> {
    let hangups = super::signal::hangups();
    let clock = Arc::new(SystemClock);
    let stores = open(&policy.store, clock.clone()).await.map_err(|error| error.to_string())?;
    let gateway = Gateway::new(policy, stores, clock).map_err(|error| error.to_string())?;
    if let Some(path) = &path {
        let _ = gateway.origin.set(path.display().to_string()); // nobody has set it before
    }
    let reloader = Reloader::new(gateway.clone(), path, env);
    let server = Server::bind(gateway).await.and_then(Server::with_threads).map_err(|error| error.to_string())?;
    let address = server.address().map_err(|error| error.to_string())?;
    crate::estimate::Estimator::warm_up();
    let admin = server.admin_address().map_err(|error| error.to_string())?.map(tracing::field::display);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %address, admin, "serving");
    let reloading = tokio::spawn(reloader.run(hangups));
    server.serve(super::signal::stop()).await;
    reloading.abort();
    tracing::info!("stopped");
    Ok(())
}

/// Opens the configured store.
///
/// # Errors
/// When a journal cannot be opened, that of the embedded store or that of settlements that wait for Redis. A Redis that is away is no
/// error: requests are refused until it is there.
pub async fn open(store: &StoreKind, clock: Arc<SystemClock>) -> Result<Stores, StoreError> {
    Ok(match store {
        StoreKind::Embedded { path, lost_hold } => Stores::embedded(path, clock, *lost_hold)?,
        StoreKind::Redis { servers, deadline, lost_hold, outage, lease: _ } => {
            let redis = Arc::new(RedisLedger::open(servers, *deadline)?.with_lost_hold(*lost_hold));
            let documents = Arc::new(RedisDocuments::open(servers, *deadline)?);
            Stores { ledger: Arc::new(Guarded::new(redis, outage.clone(), clock)?), documents }
        }
    })
}
