//! From the file as written to the policy: defaults filled in, names looked up, numbers checked, all problems at once.

pub(super) mod access;
mod alerts;
mod desk;
mod fallbacks;
mod levels;
mod limits;
mod models;
pub(super) mod overlay;
pub(super) mod plans;
mod pools;
mod redis;
mod repeats;
mod server;
mod telemetry;
pub(crate) mod tls;
mod upstreams;

use super::choice::AuthMode;
use super::env::Env;
use super::file::File;
use super::node;
use super::policy::{Class, Classes, Handoff, History, Policy, Records, Unpriced};
use super::prices;
use super::problem::{Findings, Place, Problem, Source, Warning};
use super::read::{Known as _, Read as _};
use super::settings::{FileRead, Settings};
use limits::{Written, limits};
use std::path::Path;
use std::sync::Arc;

/// A configuration beyond this is something else; ten thousand customers come to one megabyte.
const MOST_BYTES: u64 = 64 << 20;

/// What a compilation needs everywhere.
pub struct Compiler<'a> {
    env: &'a Env,
    findings: Findings,
}

impl Policy {
    /// Reads, checks and compiles a configuration file (none = the shipped configuration) with the `TOLLGATE_*` overrides of the
    /// environment. Reads the file and the files it names; blocks.
    ///
    /// # Errors
    /// All problems, in the order of the file.
    pub fn load(path: Option<&Path>, env: &Env) -> Result<(Self, Vec<Warning>), Vec<Problem>> {
        Loaded::of(path, env).outcome
    }

    /// As [`Policy::load`], from a text; `name` stands in messages.
    ///
    /// # Errors
    /// All problems, in the order of the text.
    pub fn parse(text: &str, name: &str, env: &Env) -> Result<(Self, Vec<Warning>), Vec<Problem>> {
        compile_text(text, name, Source::File { name: name.into(), line: 1 }, env, Findings::default()).outcome
    }

    /// The shipped configuration, without a file and without an environment.
    ///
    /// # Panics
    /// Never: that it compiles is a test.
    #[must_use]
    pub fn builtin() -> Self {
        Self::load(None, &Env::default()).expect("the shipped configuration is sound").0
    }
}

/// What came of reading a configuration.
#[derive(Debug)]
pub struct Loaded {
    /// The policy with what is odd about it, or all that is wrong, in the order of the file.
    pub outcome: Result<(Policy, Vec<Warning>), Vec<Problem>>,
    /// Every file that was looked at, also where it could not be read: when one of them changes, another attempt may end otherwise.
    pub files: Vec<FileRead>,
}

impl Loaded {
    /// As [`Policy::load`].
    #[must_use]
    pub fn of(path: Option<&Path>, env: &Env) -> Self {
        let Some(path) = path else { return compile_text("", "built-in", Source::Shipped, env, Findings::default()) };
        let name = path.display().to_string();
        let place = Place::root(Source::File { name: name.as_str().into(), line: 1 });
        let mut findings = Findings::default();
        let text = findings.read_file(&place, &name, MOST_BYTES).map_err(|error| error.to_string());
        let text = text.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
        match text {
            Ok(text) => compile_text(&text, &name, place.source, env, findings),
            Err(error) => {
                let advice = "check the path given with --config or in TOLLGATE_CONFIG";
                findings.problem(&place, format!("the file cannot be read: {error}"), advice);
                Self { outcome: Err(findings.problems), files: findings.files }
            }
        }
    }
}

/// The whole way from text to policy; what concerns the configuration as a whole is at `source`.
fn compile_text(text: &str, name: &str, source: Source, env: &Env, mut findings: Findings) -> Loaded {
    let mut root = match node::parse(text, name) {
        Ok(root) => root,
        Err(problems) => return Loaded { outcome: Err(problems), files: findings.files },
    };
    env.overlay(&mut root, &mut findings);
    let place = Place::root(source);
    let node = node::Node { value: node::Value::Table(root), source: place.source.clone() };
    let file = File::read(&node, &place, &mut findings).unwrap_or_else(|| File::empty(place));
    let mut compiler = Compiler { env, findings };
    let policy = compile(&mut compiler, &file);
    let mut findings = compiler.findings;
    findings.sort();
    let files = findings.files.clone();
    let outcome = match policy {
        Some(mut policy) if findings.problems.is_empty() => {
            if let node::Value::Table(root) = &node.value {
                policy.settings = Settings::of(root, findings.files, findings.warnings.clone());
            }
            Ok((policy, findings.warnings))
        }
        _ => Err(findings.problems),
    };
    Loaded { outcome, files }
}

/// A configuration that is a table of another file, such as a scenario of the lab: without an environment; of what is found only the
/// problems count.
pub(crate) fn embedded(node: &node::Node, place: &Place, findings: &mut Findings) -> Option<Policy> {
    let mut compiler = Compiler { env: &Env::default(), findings: Findings::default() };
    let policy = File::read(node, place, &mut compiler.findings).and_then(|file| compile(&mut compiler, &file));
    findings.problems.append(&mut compiler.findings.problems);
    policy
}

/// The shipped plans and upstreams.
fn shipped() -> File {
    let mut findings = Findings::default();
    let table = node::parse(include_str!("../shipped.toml"), "built-in").expect("the shipped configuration is TOML");
    let node = node::as_shipped(table);
    let file = File::read(&node, &Place::root(Source::Shipped), &mut findings).expect("the shipped configuration is a table");
    debug_assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    file
}

/// `None` only beside a problem.
fn compile(c: &mut Compiler<'_>, file: &File) -> Option<Policy> {
    let shipped = shipped();
    let (server, listen_at) = server::server(c, file);
    let mode = file.auth.as_ref().and_then(|auth| auth.mode.as_ref()).map_or(AuthMode::Passthrough, |at| at.value);
    let plans = plans::Plans::compile(&shipped.plans.unwrap_or_default(), file, &mut c.findings);
    let auth = access::auth(c, file, mode, (server.listen, &listen_at), &plans);
    let identity = access::identity(c, file, &plans);
    let store = server::store(c, file);
    let upstreams = upstreams::Upstreams::compile(c, &shipped.upstreams.unwrap_or_default(), file, mode);
    let shares = server::shares(c, file);
    let retry = server::retry(c, file);
    let pools = pools::pools(c, file, &upstreams, &shares, retry.wait_budget);
    let unpriced = file.pricing.as_ref().and_then(|pricing| pricing.unpriced).unwrap_or(Unpriced::Refuse);
    let prices = prices::table(file, &mut c.findings);
    let around = fallbacks::Around { file, pools: &pools, prices: &prices, unpriced, mode };
    let models = models::models(c, &around);
    let gateway = file.gateway.as_ref().map_or_else(Written::default, |gateway| Written {
        messages: None,
        rpm: gateway.rpm.as_ref(),
        tpm: gateway.tpm.as_ref(),
        spend: gateway.spend.as_ref(),
        quota: gateway.quota.as_ref(),
    });
    let gateway = limits(gateway, &mut c.findings);
    let (zone, notice_percent) = server::budget(c, file);
    let concurrency = server::concurrency(c, file);
    let repeats = repeats::repeats(c, file, mode);
    let admin = desk::admin(c, file, server.listen);
    let triage = desk::triage(c, file, mode == AuthMode::Keys);
    let alerts = alerts::alerts(c, file, admin.as_ref());
    let telemetry = telemetry::telemetry(c, file);
    desk::warn_unread(c, file, plans.ready.values(), admin.is_some() || triage.webhook.is_some());
    let identity = identity?;
    let customers = plans.customers(file, &identity.default_plan, identity.allow_emails, &mut c.findings);
    let shadows = plans.shadows(file, &mut c.findings);
    let book = Arc::new(plans.book(file, &identity.default_plan.name, identity.allow_emails));
    Some(Policy {
        server,
        auth,
        identity,
        store,
        default_upstreams: upstreams.defaults(),
        upstreams: upstreams.all.into_iter().map(|upstream| (Arc::clone(&upstream.name), upstream)).collect(),
        pools,
        models,
        prices,
        book,
        plans: plans.ready,
        customers,
        gateway,
        shares,
        zone,
        notice_percent,
        unpriced,
        unbounded: server::unbounded(file),
        retry,
        classes: classes(file),
        levels: levels::levels(c, file),
        handoff: handoff(c, file),
        triage,
        records: records(file),
        history: history(file),
        shadows,
        repeats,
        alerts,
        telemetry,
        admin,
        concurrency,
        settings: Settings::default(),
    })
}

/// `[records]`
fn records(file: &File) -> Records {
    let keep = file.records.as_ref().and_then(|records| records.keep);
    keep.map_or_else(Records::default, |keep| Records { keep: keep.0 })
}

/// `[history]`
fn history(file: &File) -> History {
    let default = History::default();
    let Some(super::file::History { place: _, days, hours, flush }) = &file.history else { return default };
    let days_of = |keep: super::value::KeepOrNot| u32::try_from(keep.0.as_secs().div_ceil(86_400)).unwrap_or(u32::MAX);
    History {
        days: days.map_or(default.days, days_of),
        hours: hours.map_or(default.hours, days_of),
        flush: flush.map_or(default.flush, |flush| flush.0),
    }
}

/// `[classes.*]`
fn classes(file: &File) -> Classes {
    let classes = file.classes.iter().flat_map(|classes| &classes.0);
    let class = |class: &super::file::Class| Class { fallback: class.fallback.unwrap_or(false) };
    classes.map(|(name, written)| (name.value.as_str().into(), class(written))).collect()
}

/// `[handoff]`
fn handoff(c: &mut Compiler<'_>, file: &File) -> Handoff {
    /// The longest sentence, bytes: it is an answer, not an article.
    const LONGEST: usize = 8 << 10;
    let Some(message) = file.handoff.as_ref().and_then(|handoff| handoff.message.as_ref()) else { return Handoff::default() };
    if message.value.trim().is_empty() || message.value.len() > LONGEST {
        c.findings.problem(&message.place, format!("is {} bytes long", message.value.len()), "write a sentence or two");
    }
    Handoff { message: message.value.as_str().into() }
}
