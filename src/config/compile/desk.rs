//! `[triage]` and `[admin]`: who takes over, who is told, and who may look.

use super::Compiler;
use super::server::count;
use crate::config::file::{self, File, HookUrl};
use crate::config::policy::{Admin, Plan, Secret, Step, Triage, Webhook};
use crate::config::read::At;
use crate::webhook::Key;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Where operators are listened to when nothing is said.
const ADMIN: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 8081);
/// Shorter tokens and secrets can be guessed.
const SHORTEST: usize = 20;
/// The most of a conversation, or of a request, that a store should hold, bytes.
const LONGEST_CONVERSATION: usize = 1 << 20;
/// A customer's open tickets are one small document.
const MOST_PER_CUSTOMER: u64 = 100;
/// All of them are counted twice a minute.
const MOST_OPEN: u64 = 100_000;
/// Attempts at a webhook: the pauses before the last two of ten are five minutes each.
const MOST_ATTEMPTS: u64 = 10;

/// A hand-off promises a person. Where no person can read the desk, that has to be said before a customer finds out.
pub fn warn_unread<'a>(c: &mut Compiler<'_>, file: &File, plans: impl Iterator<Item = &'a Arc<Plan>>, is_read: bool) {
    if is_read {
        return;
    }
    let hands_off = |plan: &&Arc<Plan>| {
        [&plan.on_spend, &plan.on_tokens, &plan.on_provider].iter().any(|chain| chain.contains(&Step::Handoff))
    };
    let mut names: Vec<&str> = plans.filter(hands_off).map(|plan| &*plan.name).collect();
    names.sort_unstable();
    if !names.is_empty() {
        let reason = format!("customers of {} are handed off to people who cannot read their tickets", names.join(", "));
        c.findings.warn(
            &file.place,
            reason,
            "write [admin], or a webhook in [triage], or leave \"handoff\" out of the plans' chains",
        );
    }
}

/// `[triage]`; `by_key` tells whether applications show gateway keys.
pub fn triage(c: &mut Compiler<'_>, file: &File, by_key: bool) -> Triage {
    let default = Triage::default();
    let Some(written) = &file.triage else { return default };
    let file::Triage {
        place: _,
        keep,
        lease,
        conversation,
        conversation_max,
        requests,
        request_max,
        open_per_customer,
        open,
        webhook,
    } = written;
    if let Some(at) = conversation_max.as_ref().filter(|at| at.value.0 > LONGEST_CONVERSATION) {
        c.findings.problem(&at.place, "is more than 1MiB", "every ticket may be as long; 16KiB is usual");
    }
    if let Some(at) = request_max.as_ref().filter(|at| at.value.0 > LONGEST_CONVERSATION) {
        c.findings.problem(&at.place, "is more than 1MiB", "every ticket may keep as much; 64KiB is usual");
    }
    if let Some(at) = requests.as_ref().filter(|at| at.value && !by_key) {
        let reason = "is for auth.mode = \"keys\": a caller's own key is never stored, and nothing can be asked again without it";
        c.findings.problem(&at.place, reason, "leave it out, or give the applications gateway keys");
    }
    for (at, most) in [(open_per_customer, MOST_PER_CUSTOMER), (open, MOST_OPEN)] {
        if let Some(at) = at.as_ref().filter(|at| at.value > most) {
            c.findings.problem(&at.place, format!("{} is out of range", at.value), format!("write a number from 1 to {most}"));
        }
    }
    Triage {
        keep: keep.map_or(default.keep, |keep| keep.0),
        lease: lease.map_or(default.lease, |lease| lease.0),
        conversation: conversation.unwrap_or(default.conversation),
        conversation_max: conversation_max.as_ref().map_or(default.conversation_max, |size| size.value.0),
        requests: requests.as_ref().map_or(default.requests, |at| at.value),
        request_max: request_max.as_ref().map_or(default.request_max, |size| size.value.0),
        open_per_customer: count(c, open_per_customer.as_ref(), default.open_per_customer as u64, 1),
        open: count(c, open.as_ref(), default.open as u64, 1),
        webhook: webhook.as_ref().and_then(|webhook| self::webhook(c, webhook)),
    }
}

/// `webhook`; `None` beside a problem.
pub(super) fn webhook(c: &mut Compiler<'_>, written: &file::Webhook) -> Option<Webhook> {
    let file::Webhook { place, url, secret, timeout, attempts } = written;
    if let Some(at) = attempts.as_ref().filter(|at| !(1..=MOST_ATTEMPTS).contains(&at.value)) {
        c.findings.problem(
            &at.place,
            format!("{} is out of range", at.value),
            format!("write a number from 1 to {MOST_ATTEMPTS}"),
        );
    }
    // An address that is a secret itself, as chat tools hand them out, is known to nobody else.
    let hidden = url.as_ref().is_some_and(|url| matches!(url.value, HookUrl::Secret(_)));
    if secret.is_none() && !hidden {
        c.findings.warn(
            place,
            "has no secret, so its receiver cannot tell our news from anybody's",
            "write secret = { env = \"NAME\" }",
        );
    }
    let key = secret.as_ref().and_then(|at| {
        let secret = at.fetch(c.env, &mut c.findings)?;
        match Key::read(&secret) {
            Err(error) => c.findings.problem(&at.place, error.to_string(), "copy it once more, or leave whsec_ out"),
            Ok(_) if secret.expose().len() < SHORTEST => {
                c.findings.warn(&at.place, "is a short secret, which can be guessed", "use 20 or more random characters");
            }
            Ok(_) => {}
        }
        Some(secret)
    });
    let Some(url) = url else {
        c.findings.missing(place, "url", "write the address that news are posted to");
        return None;
    };
    Some(Webhook {
        url: address(c, url)?,
        secret: key,
        timeout: timeout.map_or(Duration::from_secs(10), |timeout| timeout.0),
        attempts: attempts.as_ref().map_or(5, |at| u32::try_from(at.value).unwrap_or(u32::MAX)),
    })
}

/// An http(s) address. Messages never show it: it may hold a secret.
fn address(c: &mut Compiler<'_>, at: &At<HookUrl>) -> Option<Secret> {
    let url = match &at.value {
        HookUrl::Plain(text) => Secret::new(text.trim()),
        HookUrl::Secret(source) => At { value: source.clone(), place: at.place.clone() }.fetch(c.env, &mut c.findings)?,
    };
    let reason = match url.expose().parse::<http::Uri>() {
        Ok(uri) if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) => {
            "is not an http(s) URL"
        }
        Ok(uri) if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) => "has credentials in it",
        Ok(uri) => {
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            let near = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
            if uri.scheme_str() == Some("http") && !near {
                c.findings.warn(&at.place, "is not encrypted, and news hold customers' ids and answers", "use https");
            }
            return Some(url);
        }
        Err(_) => "is not a URL",
    };
    c.findings.problem(&at.place, reason, "write an address such as \"https://support.example.com/tollgate\"");
    None
}

/// `[admin]`; `None` when the table is not there.
pub fn admin(c: &mut Compiler<'_>, file: &File, public: SocketAddr) -> Option<Admin> {
    let file::Admin { place, listen, token, tls } = file.admin.as_ref()?;
    let at = listen.as_ref().map_or(place, |listen| &listen.place);
    let listen = listen.as_ref().map_or_else(|| SocketAddr::from(ADMIN), |listen| listen.value);
    if listen == public && listen.port() != 0 {
        c.findings.problem(at, format!("{listen} is the address of [server] as well"), "give operators a port of their own");
    }
    if token.is_none() && !listen.ip().is_loopback() && !c.findings.unreadable("admin.token") {
        let reason = format!("{listen} is reachable from other machines, and without a token whoever calls is an operator");
        c.findings.problem(at, reason, "write token = { env = \"NAME\" }, or listen on 127.0.0.1");
    }
    if tls.is_none() && !listen.ip().is_loopback() {
        let reason =
            format!("{listen} is reachable from other machines without TLS, and the token and customers' data cross the network");
        c.findings.warn(at, reason, "write [admin.tls], or listen on 127.0.0.1 behind a proxy that ends TLS");
    }
    let tls = super::tls::tls(c, tls.as_ref());
    let token = token.as_ref().and_then(|at| {
        let token = at.fetch(c.env, &mut c.findings)?;
        if token.expose().len() < SHORTEST {
            c.findings.problem(&at.place, "is a short token, which can be guessed", "use 20 or more random characters");
        }
        Some(token)
    });
    Some(Admin { listen, token, tls })
}
