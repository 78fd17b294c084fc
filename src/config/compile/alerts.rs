//! `[alerts]`: what operators are told of, and where.

use super::Compiler;
use super::desk;
use crate::config::file::{self, File};
use crate::config::policy::{Admin, Alerts, Destination};
use crate::config::read::At;

/// Nobody wants to be told more often than that.
const MOST_STEPS: usize = 10;
/// A streak that nobody waits for.
const MOST_DAYS: u64 = 31;
/// The most that is counted of one prompt.
const MOST_IN_A_LOOP: u64 = 10_000;

/// `[alerts]`
pub fn alerts(c: &mut Compiler<'_>, file: &File, admin: Option<&Admin>) -> Alerts {
    let mut default = Alerts::default();
    if let Some(admin) = admin {
        default.admin_url = format!("http://{}", admin.listen).into();
    }
    let Some(written) = &file.alerts else { return default };
    let file::Alerts {
        place: _,
        spend,
        days_at_cap,
        pool_percent,
        pool_for,
        loop_per_minute,
        quiet,
        log,
        keep,
        admin_url,
        webhooks,
    } = written;
    for (at, least, most) in [(days_at_cap, 2, MOST_DAYS), (pool_percent, 1, 100), (loop_per_minute, 0, MOST_IN_A_LOOP)] {
        if let Some(at) = at.as_ref().filter(|at| !(least..=most).contains(&at.value)) {
            let advice = format!("write a number from {least} to {most}");
            c.findings.problem(&at.place, format!("{} is out of range", at.value), advice);
        }
    }
    let spend = spend.as_ref().map(|spend| {
        if spend.len() > MOST_STEPS {
            c.findings.problem(&spend.place, format!("has {} steps", spend.len()), format!("write at most {MOST_STEPS}"));
        }
        for step in spend.iter().filter(|step| !(1..=100).contains(&step.value)) {
            c.findings.problem(&step.place, format!("{} is no part of a cap", step.value), "write percent, from 1 to 100");
        }
        let mut steps: Vec<u8> = spend.iter().filter_map(|step| u8::try_from(step.value).ok()).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    });
    let number = |at: &Option<At<u64>>, default| at.as_ref().map_or(default, |at| u32::try_from(at.value).unwrap_or(u32::MAX));
    let webhooks = webhooks.iter().flat_map(|named| &named.0);
    Alerts {
        spend: spend.unwrap_or(default.spend),
        days_at_cap: number(days_at_cap, default.days_at_cap),
        pool_percent: pool_percent.as_ref().map_or(default.pool_percent, |at| u8::try_from(at.value).unwrap_or(100)),
        pool_for: pool_for.map_or(default.pool_for, |lasts| lasts.0),
        loop_per_minute: number(loop_per_minute, default.loop_per_minute),
        quiet: quiet.clone().unwrap_or_default(),
        log: log.unwrap_or(default.log),
        keep: keep.map_or(default.keep, |keep| keep.0),
        admin_url: admin_url.as_ref().map_or(default.admin_url, |at| {
            let uri: Option<http::Uri> = at.value.parse().ok();
            let sound = uri.as_ref().is_some_and(|uri| {
                matches!(uri.scheme_str(), Some("http" | "https"))
                    && uri.host().is_some_and(|host| !host.is_empty())
                    && uri.query().is_none()
                    && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
            });
            if !sound {
                let advice = "write where operators reach the admin listener, such as \"https://tollgate-admin.example.com\"";
                c.findings.problem(&at.place, "is not an http(s) URL, or has a query or credentials in it", advice);
            }
            at.value.trim_end_matches('/').into()
        }),
        webhooks: webhooks
            .filter_map(|(name, written)| {
                let file::Destination { place, url, secret, timeout, attempts, kinds } = written;
                let hook = file::Webhook {
                    place: place.clone(),
                    url: url.clone(),
                    secret: secret.clone(),
                    timeout: *timeout,
                    attempts: attempts.clone(),
                };
                let webhook = desk::webhook(c, &hook)?;
                Some(Destination { name: name.value.as_str().into(), webhook, kinds: kinds.clone().unwrap_or_default() })
            })
            .collect(),
    }
}
