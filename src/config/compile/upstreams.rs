//! Upstreams: where requests go.
//!
//! A dialect for which the file names no upstream keeps the shipped one, so that a file about one provider does not send another's
//! traffic to a place it does not mention. In keys mode the shipped one needs a key too, from the provider's usual variable.

use super::Compiler;
use super::overlay::Overlay;
use crate::config::choice::{AuthMode, OnAbort};
use crate::config::file::{self, File};
use crate::config::policy::{Secret, Upstream};
use crate::config::problem::suggestion;
use crate::config::read::{At, Named};
use crate::wire::Dialect;
use foldhash::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// All upstreams.
pub struct Upstreams {
    /// In the order of the file.
    pub all: Vec<Arc<Upstream>>,
}

impl Upstreams {
    /// Compiles the file's upstreams and what is left of the shipped ones.
    pub fn compile(c: &mut Compiler<'_>, shipped: &Named<file::Upstream>, file: &File, mode: AuthMode) -> Self {
        let mut all = Vec::new();
        for (name, upstream) in file.upstreams.iter().flat_map(|upstreams| &upstreams.0) {
            let upstream = match shipped.get(&name.value) {
                Some(base) => upstream.clone().over(base),
                None => upstream.clone(),
            };
            all.extend(ready(c, name, &upstream, mode));
        }
        for (name, upstream) in &shipped.0 {
            let spoken = upstream.dialect.unwrap_or(Dialect::OpenAi);
            if !all.iter().any(|other| other.dialect == spoken) {
                all.extend(ready_shipped(c, name, upstream, mode));
            }
        }
        let all: Vec<_> = all.into_iter().map(Arc::new).collect();
        if all.is_empty() && c.findings.problems.is_empty() {
            c.findings.problem(
                &file.place,
                "no upstream: in keys mode the provider's key must come from somewhere",
                "set OPENAI_API_KEY or ANTHROPIC_API_KEY, or write [upstreams.openai] api_key = { env = \"..\" }",
            );
        }
        Self { all }
    }

    /// The upstream with the name that stands at `at`.
    pub fn find(&self, at: &At<String>, c: &mut Compiler<'_>) -> Option<&Arc<Upstream>> {
        let found = self.all.iter().find(|upstream| *upstream.name == *at.value);
        if found.is_none() {
            let names: Vec<_> = self.all.iter().map(|upstream| &*upstream.name).collect();
            c.findings.problem(&at.place, format!("there is no upstream {:?}", at.value), suggestion(&at.value, names));
        }
        found
    }

    /// For each dialect the upstream of models in no pool.
    pub fn defaults(&self) -> HashMap<Dialect, Arc<Upstream>> {
        let pick = |(dialect, name): (Dialect, &str)| {
            let mut speaking = self.all.iter().filter(|upstream| upstream.dialect == dialect);
            let named = speaking.clone().find(|upstream| &*upstream.name == name);
            named.or_else(|| speaking.next()).map(|upstream| (dialect, Arc::clone(upstream)))
        };
        [(Dialect::OpenAi, "openai"), (Dialect::Anthropic, "anthropic")].into_iter().filter_map(pick).collect()
    }
}

fn ready_shipped(c: &Compiler<'_>, name: &At<String>, upstream: &file::Upstream, mode: AuthMode) -> Option<Upstream> {
    let variable = format!("{}_API_KEY", name.value.to_uppercase());
    let api_key = match mode {
        AuthMode::Passthrough => None,
        AuthMode::Keys => Some(c.env.get(&variable).map(str::trim).filter(|key| !key.is_empty()).map(Secret::new)?),
    };
    Some(with_defaults(name, upstream, upstream.base_url.as_ref()?.value.clone(), api_key))
}

fn ready(c: &mut Compiler<'_>, name: &At<String>, upstream: &file::Upstream, mode: AuthMode) -> Option<Upstream> {
    let api_key = match (&upstream.api_key, mode) {
        (Some(at), AuthMode::Keys) => at.fetch(c.env, &mut c.findings),
        // Not fetched: a key that is not used need not be there.
        (Some(at), AuthMode::Passthrough) => {
            let advice = "set auth.mode = \"keys\" to use it";
            c.findings.warn(&at.place, "has no effect in passthrough mode, where callers send their own key", advice);
            None
        }
        (None, AuthMode::Keys) => {
            let reason = format!("upstream {:?} has no api_key, so requests go to it without one", name.value);
            c.findings.warn(&upstream.place, reason, "right for a local server; otherwise write api_key = { env = \"NAME\" }");
            None
        }
        (None, AuthMode::Passthrough) => None,
    };
    let Some(url) = &upstream.base_url else {
        c.findings.missing(&upstream.place, "base_url", "write the URL that ends where /chat/completions or /messages begins");
        return None;
    };
    let base_url = base_url(c, url)?;
    Some(with_defaults(name, upstream, base_url, api_key))
}

fn with_defaults(name: &At<String>, upstream: &file::Upstream, base_url: String, api_key: Option<Secret>) -> Upstream {
    let timeout = |written: Option<crate::config::value::Timeout>, seconds| written.map_or(Duration::from_secs(seconds), |t| t.0);
    Upstream {
        name: name.value.as_str().into(),
        base_url,
        api_key,
        dialect: upstream.dialect.unwrap_or(Dialect::OpenAi),
        connect_timeout: timeout(upstream.connect_timeout, 5),
        // Long answers that are not streamed take minutes before their first byte.
        first_byte_timeout: timeout(upstream.first_byte_timeout, 600),
        idle_timeout: timeout(upstream.idle_timeout, 120),
        // Shorter than the usual 60 s of load balancers, so that a kept connection is seldom a dead one.
        pool_idle_timeout: timeout(upstream.pool_idle_timeout, 50),
        include_usage: upstream.include_usage.unwrap_or(true),
        drain_on_abort: upstream.on_abort == Some(OnAbort::Drain),
    }
}

/// An http(s) URL without credentials, query and final slash.
fn base_url(c: &mut Compiler<'_>, at: &At<String>) -> Option<String> {
    let url = at.value.trim_end_matches('/');
    let reason = match url.parse::<http::Uri>() {
        Err(_) => "is not a URL",
        Ok(uri) if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) => {
            "is not an http(s) URL"
        }
        Ok(uri) if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) => "has credentials in it",
        Ok(uri) if uri.query().is_some() => "has a query",
        Ok(uri) => {
            odd(c, at, &uri);
            return Some(url.to_owned());
        }
    };
    // Not echoed: credentials in a URL are secrets.
    c.findings.problem(&at.place, reason, "write a URL such as \"https://api.openai.com/v1\", and the key as api_key");
    None
}

/// Says what is allowed and most likely a mistake: a provider's bare host, and keys and prompts sent in the clear.
fn odd(c: &mut Compiler<'_>, at: &At<String>, uri: &http::Uri) {
    let host = uri.host().unwrap_or_default();
    if is_near(host) {
        return;
    }
    if uri.path().trim_end_matches('/').is_empty() {
        let advice = "most providers want /v1 at its end: the URL ends where /chat/completions or /messages begins";
        c.findings.warn(&at.place, "has no path", advice);
    }
    if uri.scheme_str() == Some("http") {
        c.findings.warn(&at.place, "sends keys and prompts in the clear to another network", "write https://");
    }
}

/// Whether a host is this machine or in the own network, as far as its name tells: a loopback or private address, a name without a dot
/// (as containers have) or under a domain that no public server has.
fn is_near(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    match host.parse() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
        Err(_) => match host.rsplit_once('.') {
            None => true,
            Some((rest, top)) => {
                matches!(top, "local" | "internal" | "localhost" | "lan" | "svc" | "test")
                    || (top == "arpa" && rest.ends_with("home"))
            }
        },
    }
}
