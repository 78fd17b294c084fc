//! What alerts say: what happened, since when, the numbers, and what to do about it.

use super::news::{Alert, plain};
use super::pools::{Event, Gauge, Pin};
use super::spend::{Reached, Streak};
use super::{Kind, away, observation::Owner};
use crate::config::policy;
use crate::domain::{CustomerId, NanoUsd, Timestamp};
use crate::reply::rfc3339;
use serde_json::Value;

/// What every text needs.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    pub(super) now: Timestamp,
    pub(super) settings: &'a policy::Alerts,
    /// Percent of a ceiling from which each level holds.
    pub(super) levels: [u8; 3],
}

impl Words<'_> {
    /// A part of a spend cap is spent.
    pub(super) fn spend_cap(&self, reached: &Reached, step: u8) -> Alert {
        let Reached { cap, refused, .. } = reached;
        let (what, name) = cap.owner.name();
        let amounts = self.amounts(reached);
        let start = Timestamp::from_secs(cap.start);
        let state = match () {
            () if step < 100 => format!("has spent {step} % of its cap of this {}", cap.period.as_str()),
            () if *refused => format!(
                "is at its cap of this {}, and requests are refused for it or go to the plan's chain",
                cap.period.as_str()
            ),
            () => format!("has spent its cap of this {}", cap.period.as_str()),
        };
        let text = format!("{} {state}: {amounts}. {}", self.whose(&cap.owner, cap.plan.as_deref()), self.remedy(&cap.owner));
        self.cap_facts(Alert::new(Kind::SpendCap, self.now, &text), reached).about(what, &name).since(start).fact("percent", step)
    }

    /// Somebody is at a cap for the first time.
    pub(super) fn first_at_cap(&self, reached: &Reached) -> Alert {
        let (what, name) = reached.cap.owner.name();
        let text = format!(
            "{} is at a spend cap for the first time: {}. Was it meant to happen? {}",
            self.whose(&reached.cap.owner, reached.cap.plan.as_deref()),
            self.amounts(reached),
            self.remedy(&reached.cap.owner),
        );
        self.cap_facts(Alert::new(Kind::FirstAtCap, self.now, &text), reached).about(what, &name)
    }

    /// Somebody is at a cap for several days in a row.
    pub(super) fn days_at_cap(&self, reached: &Reached, streak: Streak) -> Alert {
        let (what, name) = reached.cap.owner.name();
        let since = Timestamp::from_secs(streak.since);
        let text = format!(
            "{} has been at its spend cap of the {} on {} days in a row, since {}: today {}. Its limit no longer fits its use, or \
             something runs away. {}",
            self.whose(&reached.cap.owner, reached.cap.plan.as_deref()),
            reached.cap.period.as_str(),
            streak.days,
            rfc3339(since),
            self.amounts(reached),
            self.remedy(&reached.cap.owner),
        );
        let alert = self.cap_facts(Alert::new(Kind::DaysAtCap, self.now, &text), reached);
        alert.about(what, &name).since(since).fact("days", streak.days)
    }

    fn cap_facts(&self, alert: Alert, reached: &Reached) -> Alert {
        let Reached { cap, spent, refused, .. } = reached;
        alert
            .fact("limit", format!("spend_{}", cap.period.as_str()))
            .fact("plan", cap.plan.as_deref().map_or(Value::Null, Value::from))
            .fact("spent_nano_usd", *spent)
            .fact("cap_nano_usd", cap.cap)
            .fact("refused", *refused)
            .fact("resets_at", rfc3339(Timestamp::from_secs(cap.end)))
    }

    fn amounts(&self, reached: &Reached) -> String {
        let Reached { cap, spent, .. } = reached;
        let (spent, most) = (NanoUsd::new(*spent), NanoUsd::new(cap.cap));
        let (start, end) = (Timestamp::from_secs(cap.start), Timestamp::from_secs(cap.end));
        format!("{spent} of {most} since {}, resets {}", rfc3339(start), rfc3339(end))
    }

    fn whose(&self, owner: &Owner, plan: Option<&str>) -> String {
        let plan = plan.map(|plan| format!(" (plan {plan})")).unwrap_or_default();
        match owner {
            Owner::Customer(id) => format!("Customer {}{plan}", plain(id.as_str())),
            Owner::User(customer, user) => {
                format!("User {} of customer {}{plan}", plain(user.as_str()), plain(customer.as_str()))
            }
            Owner::App(name) => format!("Application {}", plain(name)),
            Owner::Gateway => "The whole gateway".to_owned(),
        }
    }

    fn remedy(&self, owner: &Owner) -> String {
        match owner {
            Owner::Customer(id) => format!(
                "More for this period: POST {}; another cap, or 0 to suspend: PUT {}",
                self.customer(id, "credits"),
                self.customer(id, "override"),
            ),
            Owner::User(id, _) => format!(
                "Its user limits are those of the plan, or of the customer's override: PUT {}",
                self.customer(id, "override")
            ),
            Owner::App(name) => format!("The cap is `spend` of [keys.{}] in the configuration", plain(name)),
            Owner::Gateway => {
                "The cap is `spend` of [gateway] in the configuration; until then nobody is served beyond it".to_owned()
            }
        }
    }

    fn customer(&self, id: &CustomerId, what: &str) -> String {
        let id: String = form_urlencoded::byte_serialize(id.as_str().as_bytes()).collect();
        format!("{}/admin/customers/{id}/{what}", self.settings.admin_url)
    }

    /// What happened to a pool.
    pub(super) fn pool(&self, event: &Event) -> Alert {
        match event {
            Event::Busy { gauge, since } => self.busy(gauge, *since),
            Event::Level(gauge) => self.level(gauge),
            Event::Pinned(pin) => self.pinned(pin),
            Event::Unpinned { pin, early } => self.unpinned(pin, *early),
        }
    }

    fn busy(&self, gauge: &Gauge, since: Timestamp) -> Alert {
        let text = format!(
            "{} has used more than {} % of its provider ceiling for {} seconds, since {}: {} % in the last minute, of the fuller of \
             requests and tokens. Ask the provider for more and raise the pool's `ceiling`, move background work, or lower plans; who \
             uses it is in the access log. See {}/admin/levels",
            named(gauge),
            self.settings.pool_percent,
            self.now.since(since) / 1_000_000,
            rfc3339(since),
            gauge.used / 10,
            self.settings.admin_url,
        );
        let alert = Alert::new(Kind::PoolBusy, self.now, &text);
        about_pool(alert, gauge).since(since).fact("used_permille", gauge.used).fact("percent", self.settings.pool_percent)
    }

    fn level(&self, gauge: &Gauge) -> Alert {
        let Gauge { level, before, used, changed, .. } = gauge;
        let why = match (level > before, level) {
            (true, 1..=3) => format!("level {level} begins at {} %", self.levels[usize::from(level - 1)]),
            _ => "the use has stayed low for long enough".to_owned(),
        };
        let now = match level {
            0 => "nothing is given up any more",
            1 => "background work pauses and internal work keeps half of its share",
            2 => "answers are short as well, but for tool calls and JSON",
            _ => {
                "nobody waits for the ceiling any more: what does not fit goes to the cheaper model where allowed, or to a person"
            }
        };
        let direction = if level > before { "up" } else { "down" };
        let text = format!(
            "{} went {direction} from level {before} to {level}: {} % of its ceiling was used in the last minute, and {why}. Now {now}. \
             See {}/admin/levels; a PUT to its /POOL holds a level for a while",
            named(gauge),
            used / 10,
            self.settings.admin_url,
        );
        let alert = about_pool(Alert::new(Kind::LevelChanged, self.now, &text), gauge).since(*changed);
        let alert = alert.fact("from", *before).fact("to", *level).fact("used_permille", *used).fact("pinned", false);
        if level < before { alert.good() } else { alert }
    }

    fn pinned(&self, pin: &Pin) -> Alert {
        let Pin { pool, level, until, by } = pin;
        let text = format!(
            "{} has pinned pool {} at level {level} until {}, whatever its use is. To take it back: DELETE {}/admin/levels/{}",
            plain(by),
            plain(pool),
            rfc3339(*until),
            self.settings.admin_url,
            plain(pool),
        );
        let alert = Alert::new(Kind::LevelChanged, self.now, &text).about("pool", pool);
        alert.fact("to", *level).fact("pinned", true).fact("by", by.as_str()).fact("until", rfc3339(*until))
    }

    fn unpinned(&self, pin: &Pin, early: bool) -> Alert {
        let Pin { pool, level, by, .. } = pin;
        let how = if early { "was taken back" } else { "has ended" };
        let text = format!(
            "The pin of pool {} at level {level}, set by {}, {how}: its use decides its level again. See {}/admin/levels",
            plain(pool),
            plain(by),
            self.settings.admin_url,
        );
        let alert = Alert::new(Kind::LevelChanged, self.now, &text).about("pool", pool);
        alert.fact("from", *level).fact("pinned", false).fact("by", by.as_str()).good()
    }

    /// A customer sends the same prompt over and over.
    pub(super) fn prompt_loop(&self, customer: &CustomerId, app: &str, model: &str, times: u32) -> Alert {
        let text = format!(
            "Customer {} has sent the very same request {times} times within a minute (application {}, model {}), and each is paid for: \
             probably a loop. Ask whoever runs the application. To suspend the customer meanwhile: PUT {} with {{\"set\": {{\"spend\": \
             {{\"day\": 0}}}}, \"for\": \"1h\", \"by\": \"YOU\"}}. Repeats on purpose cost nothing with an Idempotency-Key",
            plain(customer.as_str()),
            plain(app),
            plain(model),
            self.customer(customer, "override"),
        );
        let since = Timestamp(self.now.micros().saturating_sub(60_000_000));
        let alert = Alert::new(Kind::PromptLoop, self.now, &text).about("customer", customer.as_str()).since(since);
        alert.fact("times", times).fact("app", plain(app)).fact("model", plain(model))
    }

    /// What happened to the store.
    pub(super) fn store(&self, event: away::Event) -> Alert {
        match event {
            away::Event::Began(status) => {
                let how = match status.alone_until {
                    Some(until) => format!(
                        "Until {} requests are decided by this gateway alone, inside a small share of what was left of each limit; what that \
                         does not cover is 503 limits_unavailable, and so is everything after that",
                        rfc3339(until)
                    ),
                    None => "Requests that need it are refused: 503 limits_unavailable".to_owned(),
                };
                let text = format!(
                    "The store does not answer this gateway since {}. {how}. Look at Redis (or at the disk of the embedded store), its network \
                     and memory; /readyz and tollgate_store_away tell how it stands. Nothing needs a restart once it is back",
                    rfc3339(self.now),
                );
                let alert = Alert::new(Kind::StoreOutage, self.now, &text).fact("away", true);
                alert.fact("waiting", status.waiting).fact("gateways", status.gateways)
            }
            away::Event::Ended { since, back, alone, refused, waiting } => {
                let text = format!(
                    "The store answers this gateway again since {}, after {} seconds (since {}): {alone} requests were admitted alone, {refused} \
                     were refused for it, and {waiting} settlements still wait to be booked. Nothing is to be done unless the last number \
                     stays (tollgate_store_waiting)",
                    rfc3339(back),
                    back.since(since) / 1_000_000,
                    rfc3339(since),
                );
                let alert = Alert::new(Kind::StoreOutage, self.now, &text).since(since).fact("away", false).good();
                let alert = alert.fact("seconds", back.since(since) / 1_000_000).fact("admitted_alone", alone);
                alert.fact("refused_alone", refused).fact("waiting", waiting)
            }
        }
    }

    /// A provider refuses the account.
    pub(super) fn provider(&self, upstream: &str, status: u16, used_up: bool) -> Alert {
        let (what, remedy) = match used_up || status == 402 {
            true => ("says that the account's money or quota is used up", "Pay, or raise the account's limit at the provider"),
            false => {
                ("does not accept the configured key", "Check `api_key` of the upstream and the key's standing at the provider")
            }
        };
        let text = format!(
            "Provider {} {what} (status {status}), first seen {}: its requests fail or go to the plans' chains. {remedy}. \
             tollgate_upstream_calls tells how many",
            plain(upstream),
            rfc3339(self.now),
        );
        let alert = Alert::new(Kind::ProviderAccount, self.now, &text).about("upstream", upstream);
        alert.fact("status", status).fact("used_up", used_up)
    }

    /// News for other systems were given up.
    pub(super) fn webhook_lost(&self, lost: u64) -> Alert {
        let text = format!(
            "{lost} webhooks of this gateway were given up since {}: their receiver refused them, was away for all attempts, or too many \
             waited. The log says which host and why (\"a webhook is given up\"). Try alerts out with `tollgate alerts test`; tickets \
             can be read at {}/admin/triage",
            rfc3339(self.now),
            self.settings.admin_url,
        );
        Alert::new(Kind::WebhookLost, self.now, &text).fact("lost", lost)
    }

    /// A model without a price was asked for.
    pub(super) fn unpriced(&self, model: &str, app: &str) -> Alert {
        let text = format!(
            "Model {} was asked for by application {} and has no price, so its requests are refused (400 model_not_priced), first seen {}. \
             Write its price into [models.\"{}\"], load a newer price file, or set [pricing] unpriced. Other models without a price \
             are not told for an hour",
            plain(model),
            plain(app),
            rfc3339(self.now),
            plain(model),
        );
        Alert::new(Kind::UnpricedModel, self.now, &text).about("model", &plain(model)).fact("app", plain(app))
    }

    /// An operator tries the alerts out.
    pub(super) fn test(&self, kind: Kind) -> Alert {
        let text = format!(
            "This is a test of Tollgate's alerts, sent with `tollgate alerts test`: one of kind {} would look like this. Nothing happened",
            kind.as_str(),
        );
        Alert::new(kind, self.now, &text).fact("test", true).good()
    }
}

fn named(gauge: &Gauge) -> String {
    match gauge.owner.split_once('/') {
        Some((pool, account)) => format!("Pool {} (the account with the credential {})", plain(pool), plain(account)),
        None => format!("Pool {}", plain(&gauge.owner)),
    }
}

fn about_pool(alert: Alert, gauge: &Gauge) -> Alert {
    let (pool, account) = gauge.owner.split_once('/').map_or((&*gauge.owner, None), |(pool, account)| (pool, Some(account)));
    let alert = alert.about("pool", pool);
    match account {
        Some(account) => alert.fact("account", account),
        None => alert,
    }
}
