//! The limits of a run in plain numbers, as the oracle reads them, and the claims the store gets for them.

use fastrand::Rng;
use tollgate::domain::{Period, Timestamp, Zone};
use tollgate::limit::{Bucket, Claim, LimitName, Measure, Rule, Scope, ScopeKey};

pub const SECOND: u64 = 1_000_000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: LimitName = LimitName::Spend(Period::Day);
pub const MONTH: LimitName = LimitName::Spend(Period::Month);
pub const TOKENS_DAY: LimitName = LimitName::TokenQuota(Period::Day);

/// A limit in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Bucket { capacity: u64, per_minute: u64, headroom: u32, max_wait: u64, forgive: bool },
    Window { limit: u64, max_wait: u64 },
    Budget { cap: u64 },
}

pub type Key = (ScopeKey, LimitName);

/// One thing a request asks, and later what it holds.
#[derive(Clone, Debug)]
pub struct Ask {
    pub key: Key,
    pub shape: Shape,
    pub measure: Measure,
    pub amount: u64,
    /// When a claim that is held was made, Unix seconds.
    pub made: Option<u64>,
}

impl Ask {
    pub fn is_ceiling(&self) -> bool {
        self.key.0.scope == Scope::Pool
    }

    pub const fn is_budget(&self) -> bool {
        matches!(self.shape, Shape::Budget { .. })
    }

    /// Whether using more than was claimed is debt, which only the buckets of customers allow.
    pub fn may_be_overrun(&self) -> bool {
        matches!(self.shape, Shape::Bucket { .. }) && self.key.0.scope.is_customers()
    }

    /// The same without waiting.
    pub fn at_once(&self) -> Self {
        let mut ask = self.clone();
        if let Shape::Bucket { max_wait, .. } | Shape::Window { max_wait, .. } = &mut ask.shape {
            *max_wait = 0;
        }
        ask
    }

    /// The claim, as a gateway whose clock shows `gateway` makes it.
    pub fn claim(&self, gateway: Timestamp) -> Claim {
        let (scope, limit) = self.key.clone();
        let rule = match self.shape {
            Shape::Bucket { capacity, per_minute, headroom, max_wait, forgive } => {
                let bucket = Bucket::with_headroom(capacity, per_minute, MINUTE, headroom).expect("small numbers are exact");
                Rule::Bucket { bucket, max_wait, forgive, mirrors: false }
            }
            Shape::Window { limit, max_wait } => Rule::Window { limit, max_wait },
            Shape::Budget { cap } => {
                let period = limit.period().expect("a budget");
                Rule::Budget { cap, boundaries: Zone::default().boundaries(period, gateway) }
            }
        };
        Claim { scope, limit, rule, measure: self.measure, amount: self.amount }
    }
}

/// How the dollars of a request shrink: pico-dollars fixed and per token, the output cap wanted and the smallest worth having.
#[derive(Clone, Copy, Debug)]
pub struct Shrinks {
    pub fixed: u64,
    pub per_token: u64,
    pub wanted: u64,
    pub floor: u64,
}

impl Shrinks {
    pub fn cost(&self, cap: u64) -> u64 {
        let pico = u128::from(self.fixed) + u128::from(self.per_token) * u128::from(cap);
        u64::try_from(pico.div_ceil(1_000)).expect("small")
    }
}

/// A customer's plan.
#[derive(Clone, Debug)]
pub struct Plan {
    messages: Shape,
    rpm: Shape,
    tpm: Shape,
    user_day: Option<u64>,
    day: u64,
    month: u64,
}

/// What all customers share.
#[derive(Clone, Debug)]
pub struct Shared {
    pub rpm: Shape,
    pub tpm: Shape,
    share: Shape,
    gateway_month: u64,
    app_tokens: u64,
    /// Whether the provider gives unused tokens back.
    refunds: bool,
}

/// What one request asks: tokens, how dear it is, and how it may shrink.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub tokens: u64,
    pub dollars: u64,
    pub shrinks: Option<Shrinks>,
    pub background: bool,
}

/// What is scarce in a run: else hardly anything but the first limit to bind would ever be seen at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    Money,
    Rates,
}

fn waits(rng: &mut Rng) -> u64 {
    [0, 0, SECOND / 2, 5 * SECOND, MINUTE, 2 * MINUTE][rng.usize(0..6)]
}

fn bucket(rng: &mut Rng, sizes: std::ops::Range<u64>, max_wait: u64, forgive: bool) -> Shape {
    let capacity = rng.u64(sizes);
    // As often as not the burst differs from a minute's worth.
    let per_minute = if rng.bool() { capacity } else { capacity * rng.u64(1..8) / 3 + 1 };
    Shape::Bucket { capacity, per_minute, headroom: 1_000_000, max_wait, forgive }
}

fn rate(rng: &mut Rng, sizes: std::ops::Range<u64>) -> Shape {
    let max_wait = waits(rng);
    if rng.u8(0..4) == 0 { Shape::Window { limit: rng.u64(sizes), max_wait } } else { bucket(rng, sizes, max_wait, true) }
}

impl Plan {
    pub fn random(rng: &mut Rng, scarce: Scarce) -> Self {
        let rates = scarce == Scarce::Rates;
        let mut cap = |caps: &[u64]| if rates { 100_000_000 } else { caps[rng.usize(0..caps.len())] };
        let user_day = cap(&[1_500, 8_000, 30_000, 50_000_000]);
        let (day, month) = (cap(&[0, 3_000, 15_000, 70_000, 1_000_000]), cap(&[9_000, 80_000, 10_000_000]));
        Self {
            messages: bucket(rng, if rates { 6..60 } else { 20..80 }, 0, true),
            rpm: rate(rng, if rates { 2..16 } else { 20..60 }),
            tpm: rate(rng, if rates { 300..6_000 } else { 5_000..20_000 }),
            user_day: rng.bool().then_some(user_day),
            day,
            month,
        }
    }
}

impl Shared {
    pub fn random(rng: &mut Rng, scarce: Scarce) -> Self {
        let rates = scarce == Scarce::Rates;
        let ceiling = |rng: &mut Rng, sizes: std::ops::Range<u64>| {
            let max_wait = waits(rng);
            let size = rng.u64(sizes);
            match rng.u8(0..4) {
                0 => Shape::Window { limit: size, max_wait },
                _ => Shape::Bucket { capacity: size, per_minute: size, headroom: 970_000, max_wait, forgive: false },
            }
        };
        let rpm = ceiling(rng, if rates { 3..20 } else { 40..80 });
        let tpm = ceiling(rng, if rates { 600..9_000 } else { 10_000..40_000 });
        Self {
            rpm,
            tpm,
            share: bucket(rng, 1_000..6_000, MINUTE, false),
            gateway_month: [rng.u64(20_000..200_000), 100_000_000][usize::from(rates || rng.bool())],
            app_tokens: [rng.u64(5_000..50_000), 10_000_000][usize::from(rates || rng.bool())],
            refunds: rng.u8(0..3) == 0,
        }
    }

    /// Everything a request of a customer asks, in the order of the layers.
    pub fn asks(&self, customer: usize, plan: &Plan, size: &Size) -> Vec<Ask> {
        let owner = format!("c{customer}");
        let of = |scope, owner: &str| ScopeKey { scope, owner: owner.into() };
        let own = || of(Scope::Customer, &owner);
        let ask = |scope, limit, shape, measure, amount| Ask { key: (scope, limit), shape, measure, amount, made: None };
        let money = |scope, limit, cap| ask(scope, limit, Shape::Budget { cap }, Measure::Money, size.dollars);
        let mut asks = vec![
            ask(own(), LimitName::Messages, plan.messages, Measure::Message, 1),
            ask(own(), LimitName::Rpm, plan.rpm, Measure::Request, 1),
            ask(own(), LimitName::Tpm, plan.tpm, Measure::Tokens, size.tokens),
        ];
        if size.background {
            asks.push(ask(of(Scope::Share, "p/background"), LimitName::Tpm, self.share, Measure::Tokens, size.tokens));
        }
        let reserved = if self.refunds { Measure::Tokens } else { Measure::Reserved };
        asks.push(ask(of(Scope::Pool, "p"), LimitName::Rpm, self.rpm, Measure::Reserved, 1));
        asks.push(ask(of(Scope::Pool, "p"), LimitName::Tpm, self.tpm, reserved, size.tokens));
        asks.extend(plan.user_day.map(|cap| money(of(Scope::User, &format!("{owner}/u")), DAY, cap)));
        asks.push(money(own(), DAY, plan.day));
        asks.push(money(own(), MONTH, plan.month));
        let quota = Shape::Budget { cap: self.app_tokens };
        asks.push(ask(of(Scope::App, "app"), TOKENS_DAY, quota, Measure::Tokens, size.tokens));
        asks.push(money(of(Scope::Gateway, ""), MONTH, self.gateway_month));
        asks
    }
}

impl Size {
    pub fn random(rng: &mut Rng) -> Self {
        let (fixed, per_token) = (rng.u64(0..2_000_000), rng.u64(1..4_000));
        let wanted = rng.u64(100..6_000);
        let shrinks = Shrinks { fixed, per_token, wanted, floor: 16 };
        let dollars = shrinks.cost(wanted);
        let tokens = [rng.u64(1..50), rng.u64(10..800), rng.u64(100..5_000), 0][rng.usize(0..4)];
        Self { tokens, dollars, shrinks: (rng.u8(0..3) == 0).then_some(shrinks), background: rng.u8(0..4) == 0 }
    }
}
