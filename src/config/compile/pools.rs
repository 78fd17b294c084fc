//! Pools: the account limits of providers, and each priority's share of them.

use super::Compiler;
use super::limits::{MINUTE, blocks_all, exact};
use super::upstreams::Upstreams;
use crate::config::choice::Window;
use crate::config::file::{self, Ceiling, File};
use crate::config::policy::{Counts, Limit, LimitKind, Pool};
use crate::config::read::At;
use crate::config::value::Pattern;
use crate::domain::Priority;
use crate::limit::{Bucket, BucketError, LimitName, Measure};
use crate::wire::Dialect;
use foldhash::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// All of it, in millionths.
const WHOLE: u32 = 1_000_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// Compiles the pools, in the order of the file.
pub fn pools(
    c: &mut Compiler<'_>,
    file: &File,
    upstreams: &Upstreams,
    shares: &HashMap<Priority, u32>,
    wait_budget: Duration,
) -> Vec<Arc<Pool>> {
    let mut seen: Vec<(&At<String>, &At<Pattern>)> = Vec::new();
    let mut pools = Vec::new();
    for (name, pool) in file.pools.iter().flat_map(|pools| &pools.0) {
        let models = pool.models.as_ref().map(|models| models.value.as_slice()).unwrap_or_default();
        if models.is_empty() {
            c.findings.missing(
                &pool.place,
                "models",
                "write the models that share this limit, such as models = [\"gpt-4o-mini*\"]",
            );
        }
        for pattern in models {
            if let Some((other, earlier)) = seen.iter().find(|(_, earlier)| earlier.covers(pattern)) {
                let reason =
                    format!("{:?} is never reached: {:?} of pool {:?} matches it first", pattern.0, earlier.0, other.value);
                c.findings.problem(
                    &pattern.place,
                    reason,
                    "the first pool of the file that matches is used; put the narrower pool before the wider",
                );
            }
            seen.push((name, pattern));
        }
        let upstream = match &pool.upstream {
            Some(at) => upstreams.find(at, c),
            None => {
                c.findings.missing(&pool.place, "upstream", "write the name of an upstream, such as upstream = \"openai\"");
                None
            }
        };
        let Some(upstream) = upstream else { continue };
        let counts = counts(c, pool, upstream.dialect);
        let background_wait = pool.background_wait.map_or(Duration::from_secs(60), |wait| wait.0);
        let sizes = ceiling(c, pool, counts, shares);
        let wait = |priority| if priority == Priority::Background { background_wait } else { wait_budget };
        let share = |(priority, share): (&Priority, &u32)| (*priority, part_of(&sizes, *share, wait(*priority)));
        pools.push(Arc::new(Pool {
            name: name.value.as_str().into(),
            upstream: Arc::clone(upstream),
            models: models.iter().map(|pattern| pattern.value.0.clone()).collect(),
            shares: shares.iter().map(share).collect(),
            halved: part_of(&sizes, halved(shares), wait_budget),
            ceiling: part_of(&sizes, WHOLE, wait_budget),
            counts,
            background_wait,
        }));
    }
    pools
}

/// How the provider counts: as said, or as the limits say, or as the dialect's own provider does.
fn counts(c: &mut Compiler<'_>, pool: &file::Pool, dialect: Dialect) -> Counts {
    let separate = pool.ceiling.as_ref().and_then(|ceiling| ceiling.input_tpm.as_ref().or(ceiling.output_tpm.as_ref()));
    let together = pool.ceiling.as_ref().and_then(|ceiling| ceiling.tpm.as_ref());
    if let (Some(at), Some(_)) = (separate, together) {
        let advice = "providers limit either tokens together or input and output apart; keep what yours states";
        c.findings.problem(&at.place, "stands beside tpm", advice);
    }
    match (&pool.counts, separate) {
        (Some(at), Some(_)) if at.value != Counts::InputOutput => {
            c.findings.problem(&at.place, "does not fit input_tpm and output_tpm", "write \"input_output\", or one tpm");
            at.value
        }
        (Some(at), _) => at.value,
        (None, Some(_)) => Counts::InputOutput,
        (None, None) if dialect == Dialect::Anthropic => Counts::InputOutput,
        (None, None) => Counts::Reserved,
    }
}

/// One limit of a ceiling, of which limits of any share can be made.
struct Size {
    name: LimitName,
    measure: Measure,
    limit: u64,
    period: u64,
    headroom: u32,
    window: Window,
}

/// The limits of a pool, those left out that cannot be counted exactly, be it whole or in a share.
fn ceiling(c: &mut Compiler<'_>, pool: &file::Pool, counts: Counts, shares: &HashMap<Priority, u32>) -> Vec<Size> {
    let Some(Ceiling { place: _, rpm, tpm, input_tpm, output_tpm, rpd, tpd }) = &pool.ceiling else { return Vec::new() };
    let headroom = pool.headroom.as_ref().map_or(970_000, |at| at.value.0);
    if let Some(at) = pool.headroom.as_ref().filter(|_| headroom == 0) {
        c.findings.problem(&at.place, "is 0, so the pool would never refill", "write a part such as 0.97");
        return Vec::new();
    }
    let tokens = match counts {
        Counts::Reserved => Measure::Reserved,
        // A provider that limits both together while it counts them apart: what was used.
        Counts::InputOutput | Counts::Actual => Measure::Tokens,
    };
    // A day is always a bucket: the window's slots are seconds of one minute.
    let window = pool.window.unwrap_or(Window::Bucket);
    let rows = [
        (LimitName::Rpm, Measure::Request, rpm, MINUTE, window),
        (LimitName::Tpm, tokens, tpm, MINUTE, window),
        (LimitName::InputTpm, Measure::Input, input_tpm, MINUTE, window),
        (LimitName::OutputTpm, Measure::Output, output_tpm, MINUTE, window),
        (LimitName::Rpd, Measure::Request, rpd, DAY, Window::Bucket),
        (LimitName::Tpd, tokens, tpd, DAY, Window::Bucket),
    ];
    let mut sizes = Vec::new();
    for (name, measure, at, period, window) in rows {
        let Some(at) = at else { continue };
        if at.value == 0 {
            blocks_all(&at.place, &mut c.findings);
        }
        let size = Size { name, measure, limit: at.value, period, headroom, window };
        let in_every_share = |limit| {
            let size = Size { limit, ..size };
            shares.values().try_for_each(|share| size.bucket(*share).map(drop))?;
            size.bucket(halved(shares))?;
            size.bucket(WHOLE)
        };
        if window == Window::Sliding || exact(&at.place, at.value, in_every_share, &mut c.findings).is_some() {
            sizes.push(size);
        }
    }
    sizes
}

/// Half of internal work's share, millionths.
fn halved(shares: &HashMap<Priority, u32>) -> u32 {
    shares.get(&Priority::Internal).copied().unwrap_or(WHOLE) / 2
}

/// The limits of a ceiling for a share of it.
fn part_of(sizes: &[Size], share: u32, max_wait: Duration) -> Vec<Limit> {
    let limit = |size: &Size| {
        let kind = match size.window {
            Window::Sliding => LimitKind::Sliding(part(size.limit, size.headroom, share)),
            Window::Bucket => LimitKind::Bucket(size.bucket(share).expect("checked by `ceiling` for every share")),
        };
        Limit { name: size.name, measure: size.measure, kind, max_wait }
    };
    sizes.iter().map(limit).collect()
}

impl Size {
    /// A bucket of the share's size, refilled at headroom of it.
    fn bucket(&self, share: u32) -> Result<Bucket, BucketError> {
        let refill = u32::try_from(part(u64::from(self.headroom), share, WHOLE)).unwrap_or(self.headroom);
        Bucket::with_headroom(part(self.limit, share, WHOLE), self.limit, self.period, refill)
    }
}

/// `limit` x `a` x `b` (millionths), rounded down; at least one of what is not nothing, so that no share of a small limit is empty.
fn part(limit: u64, a: u32, b: u32) -> u64 {
    let exact = u128::from(limit) * u128::from(a) * u128::from(b) / 1_000_000_000_000;
    let least = u64::from(limit > 0 && a > 0 && b > 0);
    u64::try_from(exact).unwrap_or(u64::MAX).max(least)
}
