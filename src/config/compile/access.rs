//! Who may call, and who is who: `[auth]`, `[keys]`, `[identity]`.

use super::Compiler;
use super::limits::{Written, limits};
use super::plans::{DEFAULT_PLAN, Plans};
use crate::config::choice::{AuthMode, UnknownCustomers};
use crate::config::file::{self, File};
use crate::config::hash_key;
use crate::config::policy::{App, Auth, BodySource, ForwardId, Identity, Plan, Secret};
use crate::config::problem::{Findings, Place, suggestion};
use crate::config::read::At;
use crate::config::value::{Limitable, Pattern};
use foldhash::HashMap;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::sync::Arc;

/// Keys shorter than this can be guessed.
const SHORTEST_KEY: usize = 20;

/// `[auth]` and `[keys.*]`.
pub fn auth(c: &mut Compiler<'_>, file: &File, mode: AuthMode, listen: (SocketAddr, &Place), plans: &Plans) -> Auth {
    let trusted = file.auth.as_ref().and_then(|auth| auth.trusted_networks.as_ref());
    match mode {
        AuthMode::Passthrough => {
            if let Some((name, _)) = file.keys.iter().flat_map(|keys| &keys.0).next() {
                c.findings.warn(
                    &name.place,
                    "gateway keys have no effect in passthrough mode",
                    "set auth.mode = \"keys\" to use them",
                );
            }
            Auth::Passthrough { trusted: trusted_networks(c, trusted, listen) }
        }
        AuthMode::Keys => {
            if let Some(at) = trusted {
                c.findings.warn(&at.place, "has no effect in keys mode, where the key decides", "leave it out");
            }
            let mut apps: HashMap<[u8; 32], Arc<App>> = HashMap::default();
            for (name, key) in file.keys.iter().flat_map(|keys| &keys.0) {
                let Some(hash) = key_hash(c, key) else { continue };
                let mut plan_named =
                    |at: &At<String>, findings: &mut Findings| plans.find(at, findings).map(|(name, _)| Arc::clone(name));
                let pools: Vec<&str> = pool_names(file).collect();
                let app = Arc::new(app(&name.value, key, &mut plan_named, Some(&pools), &mut c.findings));
                if let Some(other) = apps.insert(hash, app) {
                    let reason = format!("is the same key as that of {:?}", other.name);
                    c.findings.problem(&key.place, reason, "give every application its own key");
                }
            }
            let none = file.keys.as_ref().is_none_or(|keys| keys.0.is_empty()) && !c.findings.unreadable("keys");
            if none && file.admin.is_none() && !c.findings.unreadable("admin") {
                c.findings.problem(
                    &file.place,
                    "keys mode without a key: nobody could call",
                    "write [keys.NAME] with hash = \"blake3:..\" or key = { env = \"NAME\" }, or [admin] to make keys while it runs",
                );
            }
            Auth::Keys { apps }
        }
    }
}

/// Anybody who reaches a passthrough gateway is served, so it must be said who reaches it.
fn trusted_networks(c: &mut Compiler<'_>, at: Option<&At<Vec<At<IpNet>>>>, listen: (SocketAddr, &Place)) -> Vec<IpNet> {
    let (address, place) = listen;
    let networks = at.map(|at| at.value.as_slice()).unwrap_or_default();
    if !address.ip().is_loopback() && networks.is_empty() && !c.findings.unreadable("auth.trusted_networks") {
        c.findings.problem(
            place,
            format!("{address} is reachable from other machines, and passthrough mode serves whoever calls"),
            "set auth.trusted_networks, or auth.mode = \"keys\", or listen on 127.0.0.1",
        );
    }
    for network in networks.iter().filter(|network| network.prefix_len() == 0) {
        c.findings.warn(&network.place, "trusts every address there is", "name the networks of your applications");
    }
    networks.iter().map(|network| network.value).collect()
}

fn key_hash(c: &mut Compiler<'_>, key: &file::Key) -> Option<[u8; 32]> {
    match (&key.hash, &key.key) {
        (Some(hash), None) => Some(hash.value.0),
        (None, Some(at)) => {
            let secret = at.fetch(c.env, &mut c.findings)?;
            if secret.expose().len() < SHORTEST_KEY {
                c.findings.warn(&at.place, "is a short key, which can be guessed", "use 20 or more random characters");
            }
            Some(hash_key(secret.expose()))
        }
        (Some(hash), Some(_)) => {
            c.findings.problem(&hash.place, "stands beside key", "keep one of them");
            None
        }
        (None, None) => {
            let unreadable = |name| c.findings.unreadable(&key.place.child(name, key.place.source.clone()).key);
            if !["hash", "key"].into_iter().any(unreadable) {
                let advice = "write hash = \"blake3:..\" or key = { env = \"NAME\" }";
                c.findings.problem(&key.place, "has neither hash nor key", advice);
            }
            None
        }
    }
}

/// The names of the configured pools.
pub fn pool_names(file: &File) -> impl Iterator<Item = &str> {
    file.pools.iter().flat_map(|pools| &pools.0).map(|(name, _)| name.value.as_str())
}

/// Finds the plan that a key names.
pub type FindsPlan<'a> = dyn FnMut(&At<String>, &mut Findings) -> Option<Arc<str>> + 'a;

/// What a key may do, as written. `plan_named` finds the plans it names; `pools` are those there are, where that is to be checked.
pub fn app(name: &str, key: &file::Key, plan_named: &mut FindsPlan<'_>, pools: Option<&[&str]>, findings: &mut Findings) -> App {
    let boxed = |patterns: &Option<Vec<Pattern>>| patterns.iter().flatten().map(|pattern| pattern.0.clone()).collect();
    let plans = key.plans.iter().flatten().filter_map(|at| plan_named(at, findings)).collect();
    for pattern in key.routes.iter().flatten().filter(|pattern| !pattern.0.starts_with('/')) {
        let reason = format!("routes holds {:?}, which no path begins with", pattern.0);
        findings.problem(&key.place, reason, "write paths such as \"/v1/chat/completions\" or \"/v1/messages*\"");
    }
    for at in key.pools.iter().flatten() {
        if let Some(pools) = pools.filter(|pools| !pools.contains(&at.value.as_str())) {
            findings.problem(&at.place, format!("there is no pool {:?}", at.value), suggestion(&at.value, pools.iter().copied()));
        }
    }
    let written = Written {
        messages: None,
        rpm: key.rpm.as_ref(),
        tpm: key.tpm.as_ref(),
        spend: key.spend.as_ref(),
        quota: key.quota.as_ref(),
    };
    App {
        name: name.into(),
        limits: limits(written, findings),
        plans,
        priority: key.priority.unwrap_or_default(),
        models: boxed(&key.models),
        customers: boxed(&key.customers),
        routes: boxed(&key.routes),
        pools: key.pools.iter().flatten().map(|at| at.value.as_str().into()).collect(),
        new_customers: key.new_customers_per_hour.as_ref().map(|limit| match limit {
            Limitable::Unlimited => u64::MAX,
            Limitable::Set(most) => *most,
        }),
    }
}

/// `[identity]`; `None` when its default plan is not there.
pub fn identity(c: &mut Compiler<'_>, file: &File, plans: &Plans) -> Option<Identity> {
    let table = file.identity.as_ref();
    let default_plan = match table.and_then(|identity| identity.default_plan.as_ref()) {
        Some(at) => plans.find(at, &mut c.findings).map(|(_, plan)| plan),
        None => plans.ready.get(DEFAULT_PLAN),
    };
    let default_plan: Arc<Plan> = Arc::clone(default_plan?);
    let anonymous = table.and_then(|identity| identity.anonymous.as_ref()).filter(|at| at.value != "refuse");
    let anonymous = anonymous.and_then(|at| plans.find(at, &mut c.findings)).map(|(_, plan)| Arc::clone(plan));
    let unknown = table.and_then(|identity| identity.unknown_customers);
    Some(Identity {
        default_plan,
        anonymous,
        unknown_customers: unknown != Some(UnknownCustomers::Refuse),
        allow_emails: allow_emails(file),
        new_customers: match table.and_then(|identity| identity.new_customers_per_hour.as_ref()) {
            Some(Limitable::Set(most)) => Some(*most),
            Some(Limitable::Unlimited) | None => None,
        },
        body_sources: [BodySource::MetadataUserId, BodySource::SafetyIdentifier, BodySource::User]
            .into_iter()
            .filter(|source| {
                table.and_then(|identity| identity.body_sources.as_ref()).is_some_and(|wanted| wanted.contains(source))
            })
            .collect(),
        forward: match table.and_then(|identity| identity.forward_id.as_ref()) {
            None | Some(file::ForwardId::No) => ForwardId::No,
            Some(file::ForwardId::AsIs) => ForwardId::AsIs,
            Some(file::ForwardId::Hashed(at)) => {
                ForwardId::Hashed { secret: at.fetch(c.env, &mut c.findings).unwrap_or_else(|| Secret::new("")) }
            }
        },
    })
}

/// `[identity] allow_emails`
pub fn allow_emails(file: &File) -> bool {
    file.identity.as_ref().and_then(|identity| identity.allow_emails).unwrap_or(false)
}
