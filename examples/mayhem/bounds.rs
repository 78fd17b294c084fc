//! What the books must say, and the verdict.
//!
//! The provider's own log is the truth. The books may say more, by no more than was held by requests in flight at a gateway that was
//! killed: nobody can know what those used, so `lost_hold = "charge"` books the hold (with `"release"` they may say less by as much). And
//! they may say less by what Redis had been told but not yet written when it was killed: with `appendfsync always` nothing, with
//! `everysec` what was settled in the last seconds before; or more by that, where gateways had seen it spent and its hold came back. All
//! of it is summed up per customer from what the clients saw. With `always`, `charge` shows every cent that is lost and `release` every
//! cent that is booked twice.

use crate::fleet::{Fleet, Kill, TIGHT, Who, is_tight};
use crate::load::{Asked, CAP};
use crate::{Options, say};
use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;
use tollgate::demo::provider::{End, Seen};
use tollgate::domain::CustomerId;
use tollgate::limit::{Scope, ScopeKey};
use tollgate::store::Ledger;
use tollgate::store::redis::RedisLedger;

/// Nano-dollars of a token in and out.
const INPUT: u64 = 150;
const OUTPUT: u64 = 600;
/// Settlements of requests that ended so long before a kill may not have left the gateway.
const UNSENT: Duration = Duration::from_millis(500);
/// What Redis writes once a second may be lost for two, which is what its own manual says.
const EVERYSEC: Duration = Duration::from_secs(2);

/// What a customer has spent and holds today, nano-dollars.
pub async fn stands(ledger: &RedisLedger, customer: usize) -> Result<(u64, u64), String> {
    let id = CustomerId::from_trusted(&format!("c{customer}"));
    spent_and_held(ledger, ScopeKey { scope: Scope::Customer, owner: id.key().as_ref().into() }).await
}

/// The same of everybody together, as the gateways' own budget has it.
pub async fn all_stand(ledger: &RedisLedger) -> Result<(u64, u64), String> {
    spent_and_held(ledger, ScopeKey { scope: Scope::Gateway, owner: "".into() }).await
}

async fn spent_and_held(ledger: &RedisLedger, scope: ScopeKey) -> Result<(u64, u64), String> {
    let balances = ledger.read(&scope).await.map_err(|error| error.to_string())?;
    Ok((balances.iter().map(|balance| balance.spent).sum(), balances.iter().map(|balance| balance.held).sum()))
}

/// Compares the books with the provider's log and prints what came out.
pub async fn judge(options: &Options, fleet: &Fleet, kills: &[Kill], asked: &[Asked], log: &[Seen]) -> Result<bool, String> {
    let ledger = fleet.ledger()?;
    let used = used(log);
    let (mut over_cap, mut used_over_cap, mut outside) = (0, 0, 0);
    let (mut booked, mut truth, mut unknown, mut forgotten) = (0, 0, 0, 0);
    for customer in 0..options.customers {
        let (spent, _) = stands(&ledger, customer).await?;
        let used = used.get(&customer).copied().unwrap_or(0);
        let (more, less) = slack(options, customer, kills, asked);
        let cap = (TIGHT * 1e9) as u64;
        if is_tight(customer) {
            over_cap += spent.saturating_sub(cap);
            // What Redis forgot was spent again; nothing else may be used beyond a cap, whatever the books say.
            used_over_cap += used.saturating_sub(cap + less);
        }
        if spent > used + more || spent + less < used {
            outside += 1;
            say(&format!("customer {customer}: the books say {spent}, the provider {used} (up to {more} more or {less} less)"));
        }
        booked += spent;
        truth += used;
        unknown += more;
        forgotten += less;
    }
    let count = |who: fn(&Who) -> bool| kills.iter().filter(|kill| who(&kill.who)).count();
    let answered = asked.iter().filter(|one| one.whole && one.status == Some(200)).count();
    let refused = asked.iter().filter(|one| one.status == Some(402)).count();
    let (together, _) = all_stand(&ledger).await?;
    // Both are written by one script, so only what Redis forgets can part them.
    let apart = if options.appendfsync == "always" { together.abs_diff(booked) } else { 0 };
    let audit = ledger.audit(None).await.map_err(|error| error.to_string())?;
    audit.differences.iter().for_each(|difference| say(&format!("audit: {difference:?}")));
    let sound = over_cap + used_over_cap + apart == 0 && outside == 0 && audit.differences.is_empty();
    let mut out = std::io::stdout().lock();
    let written = writeln!(
        out,
        "| what | |\n|---|---|\n| kills of gateways | {} |\n| kills of Redis | {} |\n| requests | {} |\n| answered whole | {answered} |\n\
         | refused at a cap | {refused} |\n| the provider counted | ${:.6} |\n| the books say | ${:.6} |\n\
         | the gateways' own budget says | ${:.6} |\n\
         | they may say more by | ${:.6} |\n| they may say less by | ${:.6} |\n| dollars booked over a cap | ${:.6} |\n\
         | dollars used over a cap and what Redis forgot | ${:.6} |\n\
         | customers outside the bounds | {outside} of {} |\n| held after all | $0 |\n| audit: balances compared, differences | {}, {} |\n\n{}",
        count(|who| *who != Who::Redis),
        count(|who| *who == Who::Redis),
        asked.len(),
        dollars(truth),
        dollars(booked),
        dollars(together),
        dollars(unknown),
        dollars(forgotten),
        dollars(over_cap),
        dollars(used_over_cap),
        options.customers,
        audit.balances,
        audit.differences.len() + audit.more,
        if sound { "sound" } else { "NOT SOUND" },
    );
    written.map_err(|error| error.to_string())?;
    Ok(sound)
}

/// By how much the books of a customer may exceed the provider's log, and fall short of it.
fn slack(options: &Options, customer: usize, kills: &[Kill], asked: &[Asked]) -> (u64, u64) {
    let hold = |one: &Asked| one.bytes * INPUT + CAP * OUTPUT;
    let own = || asked.iter().filter(|one| one.customer == customer);
    let hit = |kill: &Kill, one: &Asked| match kill.who {
        Who::Gateway(number) => one.gateway == number && one.from <= kill.at && kill.at <= one.to + UNSENT,
        Who::Redis => false,
    };
    let forgotten = |kill: &Kill, one: &Asked| kill.who == Who::Redis && one.to <= kill.at && kill.at <= one.to + EVERYSEC;
    let in_flight: u64 = own().filter(|one| kills.iter().any(|kill| hit(kill, one))).map(hold).sum();
    let unwritten: u64 = own().filter(|one| kills.iter().any(|kill| forgotten(kill, one))).map(hold).sum();
    let (more, less) = if options.lost_hold == "charge" { (in_flight, 0) } else { (0, in_flight) };
    let unwritten = if options.appendfsync == "always" { 0 } else { unwritten };
    (more + unwritten, less + unwritten)
}

/// What the provider counted, by customer, nano-dollars.
fn used(log: &[Seen]) -> HashMap<usize, u64> {
    let mut used = HashMap::new();
    for seen in log {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        let id = body.get("safety_identifier").and_then(serde_json::Value::as_str).and_then(|id| id.strip_prefix('c'));
        let Some(customer) = id.and_then(|id| id.parse::<usize>().ok()) else { continue };
        // Of a reply that was cut off, what had left.
        let most = if seen.end == End::Complete { u64::MAX } else { seen.delivered };
        let cost = seen.usage.as_ref().map_or(0, |usage| usage.uncached_input * INPUT + usage.output.min(most) * OUTPUT);
        *used.entry(customer).or_default() += cost;
    }
    used
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn dollars(nano: u64) -> f64 {
    nano as f64 / 1e9
}
