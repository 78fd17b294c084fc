//! `tollgate demo`: a gateway with a fresh embedded store and a stand-in provider, in one process, with curl lines that work.

use super::{Demo, out, signal};
use crate::config::policy::Admin;
use crate::config::{Env, Policy};
use crate::demo::lines::Lines;
use crate::demo::provider::{Provider, ProviderOptions};
use crate::server::Server;
use crate::stack::Gateway;
use crate::store::Stores;
use crate::store::embedded::LostHold;
use crate::telemetry::{SystemClock, log};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// What the stand-in provider takes before each piece of a stream, so that a stream is seen to be one.
const PER_TOKEN: Duration = Duration::from_millis(30);
/// Ports tried after the one asked for.
const MORE_PORTS: u16 = 50;

/// Runs the demo until SIGINT or SIGTERM.
pub fn run(args: Demo) -> ExitCode {
    // The last to be dropped: what happens at the end is logged, too.
    let _log = match log::start(&args.log, None) {
        Ok(log) => log,
        Err(error) => return super::fail(&format!("cannot log: {error}"), super::BAD_CONFIG),
    };
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(&error.to_string(), 1),
    };
    match runtime.block_on(demo(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => super::fail(&message, 1),
    }
}

async fn demo(args: &Demo) -> Result<(), String> {
    let estimator = crate::estimate::Estimator::new(10_000);
    let options = ProviderOptions {
        per_token: if args.print_url { Duration::ZERO } else { PER_TOKEN },
        count: Arc::new(move |model, body| crate::demo::count(&estimator, model, body)),
        ..ProviderOptions::default()
    };
    let provider = Provider::start(options).await.map_err(|error| format!("the stand-in provider cannot start: {error}"))?;
    let directory = Directory::fresh().map_err(|error| format!("no directory for the demo's data: {error}"))?;
    let server = bind(args.listen, &provider, &directory.0).await?;
    let address = server.address().map_err(|error| error.to_string())?;
    crate::estimate::Estimator::warm_up();
    let base = format!("http://{address}");
    let admin = server.admin_address().map_err(|error| error.to_string())?;
    let admin = admin.map(|admin| format!("http://{admin}")).unwrap_or_default();
    if args.print_url {
        out::line(&format!("admin {admin}"));
        out::line(&format!("gateway {base}"));
        out::line(&format!("provider {}", provider.base_url()));
    } else {
        if address.port() != args.listen.port() {
            out::line(&format!("Port {} is taken; this demo uses {}.\n", args.listen.port(), address.port()));
        }
        out::line(&format!("Tollgate is listening on {base}, in front of a stand-in provider. Ctrl-C ends it.\n"));
        out::line(&format!("Console for operators: {admin}/console (no token is asked for here; any name will do)"));
        out::line(&format!("Its API: {admin}/admin/triage\n"));
        out::line(&Lines::new(&base).print());
    }
    // A terminal that closes must not cut streams; there is no file to read again.
    let _hangups = signal::hangups();
    server.serve(signal::stop()).await;
    Ok(())
}

/// A gateway on the asked port, or the next free one.
async fn bind(listen: SocketAddr, provider: &Provider, data: &Path) -> Result<Server, String> {
    let clock = Arc::new(SystemClock);
    let stores = Stores::embedded(data, clock.clone(), LostHold::Charge).map_err(|error| error.to_string())?;
    let (mut policy, _) = Policy::parse(&with_admin(&provider.base_url()), "the demo's configuration", &Env::default())
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    policy.server.listen = free_address(listen).await?;
    // Beside it, for operators: this machine only, and without a token.
    let beside = if listen.port() == 0 { 0 } else { policy.server.listen.port().saturating_add(1) };
    let listen = free_address(SocketAddr::from(([127, 0, 0, 1], beside))).await?;
    policy.admin = Some(Admin { listen, token: None, tls: None });
    let gateway = Gateway::new(policy, stores, clock).map_err(|error| error.to_string())?;
    Server::bind(gateway).await.and_then(Server::with_threads).map_err(|error| error.to_string())
}

/// The demo's configuration with its listener for operators, whose port is found out later: whoever is handed off can be read about.
fn with_admin(provider: &str) -> String {
    format!("{}\n[admin]\nlisten = \"127.0.0.1:0\"\n", config(provider))
}

/// The asked address if it is free, else the same with the next free port.
async fn free_address(listen: SocketAddr) -> Result<SocketAddr, String> {
    let last = if listen.port() == 0 { 0 } else { listen.port().saturating_add(MORE_PORTS) };
    for port in listen.port()..=last {
        let address = SocketAddr::new(listen.ip(), port);
        if tokio::net::TcpListener::bind(address).await.is_ok() {
            return Ok(address);
        }
    }
    Err(format!("no free port on {} from {} to {last}; name one with --listen", listen.ip(), listen.port()))
}

/// The demo's configuration: the shipped plans, and small customers that run into each kind of limit.
#[must_use]
pub fn config(provider: &str) -> String {
    format!(
        r#"
[upstreams.openai]
base_url = "{provider}"
[upstreams.anthropic]
base_url = "{provider}"
[identity]
default_plan = "business"
# The stand-in's fault-* models fail on request, which is no reason to leave it alone.
[retry]
breaker = {{ failures = 0 }}
# They have no price.
[pricing]
unpriced = "free"

# A burst of three messages, then one a minute.
[plans.demo-messages]
messages = {{ rate = "1/m", burst = 3 }}
on_spend = []
on_provider = []
# A tenth of a cent a day.
[plans.demo-dollars]
spend = {{ day = 0.001 }}
max_output_tokens = 64
on_spend = []
on_provider = []
# Two requests a day.
[plans.demo-quota]
quota = {{ requests_day = 2 }}
on_spend = []
on_provider = []
# 2,000 tokens a minute.
[plans.demo-tpm]
tpm = 2_000
on_spend = []
on_provider = []

# Too little for gpt-4o: its fallback answers what is of the class general, a person the rest.
[plans.demo-cheaper]
spend = {{ day = 0.000_1 }}
# Nothing at all is affordable: a person takes over.
[plans.demo-handoff]
spend = {{ day = 0.000_001 }}

[models.gpt-4o]
fallback = "gpt-4o-mini"
[classes.general]
fallback = true
# What is said here is nobody's secret, and the desk is easier to try with it.
[triage]
conversation = true
[pools.gpt-4o]
upstream = "openai"
models = ["gpt-4o*"]
ceiling = {{ rpm = 100_000, tpm = 150_000_000 }}

[customers.demo-cheaper]
plan = "demo-cheaper"
[customers.demo-handoff]
plan = "demo-handoff"
[customers.demo-messages]
plan = "demo-messages"
[customers.demo-dollars]
plan = "demo-dollars"
[customers.demo-quota]
plan = "demo-quota"
[customers.demo-tpm]
plan = "demo-tpm"
"#
    )
}

/// A new directory under the system's temporary one, gone when the demo is.
struct Directory(PathBuf);

impl Directory {
    fn fresh() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("tollgate-demo-{}-{:08x}", std::process::id(), fastrand::u32(..)));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_does_not_warn_of_its_own_configuration_that_nobody_reads_the_tickets() {
        let parsed = Policy::parse(&with_admin("http://127.0.0.1:1"), "the demo's configuration", &Env::default());
        let (policy, _) = parsed.expect("sound");
        let warned: Vec<_> = policy.settings.warnings().iter().map(ToString::to_string).collect();
        assert!(!warned.iter().any(|words| words.contains("cannot read their tickets")), "{warned:?}");
    }
}
