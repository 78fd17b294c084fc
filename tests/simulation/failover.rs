//! A Redis that forgets its last writes, under seeded schedules: a replica takes over, or a copy on disk is loaded.
//!
//! Here the store is the real one with its scripts, since what a failover loses is mended between the scripts and what gateways
//! remember. Two gateways admit, settle, repeat themselves and die; holds are swept and corrected late; now and then the ledger is copied,
//! and later all of it goes back to that copy. Every answer is compared with a model of the copy and of what each gateway saw, and with the
//! promise of the README: what a living gateway saw spent is not lost, nothing is booked that nobody used, and at the end nothing is held.

use crate::redis_server::RedisServer;
use fastrand::Rng;
use std::collections::HashMap;
use std::time::Duration;
use tollgate::config::policy::LostHold;
use tollgate::domain::{Period, ReservationId, Timestamp, Zone};
use tollgate::limit::{Admission, Claim, LimitName, Line, Measure, Outcome, Rule, Scope, ScopeKey, Settlement};
use tollgate::store::Ledger;
use tollgate::store::redis::RedisLedger;

/// Runs of the suite; `TOLLGATE_FAILOVER_RUNS` asks for more.
const RUNS: u64 = 250;
/// Within so many runs a fault must be noticed.
const CAUGHT_WITHIN: u64 = 40;
const SECOND: u64 = 1_000_000;
const LEASE: u64 = 120 * SECOND;
/// Noon of 30 November 2026, UTC; a run ends long before midnight.
const NOON: u64 = 1_796_040_000 * SECOND;
const LIMIT: LimitName = LimitName::Spend(Period::Day);
/// Budgets: of two customers, and of the app that both use.
const CAPS: [u64; 3] = [10_000, 6_000, 13_000];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Gateways do not remember what they saw.
    NoFloor,
}

/// One reservation as its gateway knows it.
#[derive(Clone, Debug)]
struct Request {
    customer: usize,
    amount: u64,
    at: u64,
    /// What it used, once it ended.
    actual: Option<u64>,
}

/// What the ledger has of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Budget {
    spent: u64,
    held: u64,
    generation: u64,
}

/// What the ledger knows of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Held { due: u64 },
    Swept,
    Settled,
}

/// All that a copy of the ledger has.
#[derive(Clone, Debug, Default)]
struct Books {
    budgets: [Budget; 3],
    known: HashMap<u64, Known>,
}

/// What a gateway remembers: generation and spent, by budget; and what it was last told, or less where others corrected that.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    floor: [(u64, u64); 3],
    told: [u64; 3],
}

struct Run<'a> {
    server: &'a RedisServer,
    fault: Option<Fault>,
    rng: Rng,
    now: u64,
    gateways: [(RedisLedger, Seen); 2],
    books: Books,
    copy: Option<(Books, Vec<Dumped>)>,
    requests: Vec<Request>,
    /// All that was ever booked, by budget.
    booked: [u64; 3],
    trace: Vec<String>,
    tally: HashMap<&'static str, u64>,
}

type Checked = Result<(), String>;
/// A key, and what it holds.
type Dumped = (Vec<u8>, Vec<u8>);

fn gateway(server: &RedisServer) -> RedisLedger {
    let ledger = RedisLedger::connect(&[&server.url()], Duration::from_secs(20)).expect("an address");
    ledger.with_lost_hold(LostHold::Charge)
}

fn scope(budget: usize) -> ScopeKey {
    match budget {
        2 => ScopeKey { scope: Scope::App, owner: "shop".into() },
        n => ScopeKey { scope: Scope::Customer, owner: format!("c{n}").into() },
    }
}

fn claim(budget: usize, amount: u64) -> Claim {
    let boundaries = Zone::default().boundaries(Period::Day, Timestamp(NOON));
    let rule = Rule::Budget { cap: CAPS[budget], boundaries };
    Claim { scope: scope(budget), limit: LIMIT, rule, measure: Measure::Money, amount }
}

fn id(request: usize) -> ReservationId {
    ReservationId::new(1 + request as u128)
}

impl<'a> Run<'a> {
    fn new(server: &'a RedisServer, seed: u64, fault: Option<Fault>) -> Self {
        let _: () = redis::cmd("FLUSHALL").query(&mut server.connection()).expect("FLUSHALL");
        let fresh = || (gateway(server), Seen::default());
        Self {
            server,
            fault,
            rng: Rng::with_seed(seed),
            now: NOON,
            gateways: [fresh(), fresh()],
            books: Books::default(),
            copy: None,
            requests: Vec::new(),
            booked: [0; 3],
            trace: Vec::new(),
            tally: HashMap::new(),
        }
    }

    fn did(&mut self, what: &'static str, text: String) {
        *self.tally.entry(what).or_default() += 1;
        self.trace.push(format!("{:>5} s  {what}: {text}", (self.now - NOON) / SECOND));
    }

    async fn step(&mut self) -> Checked {
        let through = self.rng.usize(0..2);
        match self.rng.u8(0..100) {
            0..40 => self.asks(through, None).await?,
            40..65 => self.settles(through, false).await?,
            65..70 => self.settles(through, true).await?,
            70..80 => self.now += self.rng.u64(0..40) * SECOND,
            80..83 => self.now += LEASE,
            83..88 => self.sweeps(through).await?,
            88..93 => self.copies(),
            93..97 => self.fails_over(),
            _ => {
                self.gateways[through] = (gateway(self.server), Seen::default());
                self.did("gateway died", format!("{through}"));
            }
        }
        Ok(())
    }

    /// How a budget stands for this gateway, with what the ledger lost put back; and whether something was.
    fn repaired(&self, through: usize, budget: usize) -> (Budget, bool) {
        let (mut stands, (generation, spent)) = (self.books.budgets[budget], self.gateways[through].1.floor[budget]);
        if (generation, spent) == (0, 0) || generation < stands.generation {
            return (stands, false);
        }
        stands.generation = generation;
        let lost = stands.spent < spent;
        stands.spent = stands.spent.max(spent);
        (stands, lost)
    }

    /// A gateway is told how a budget stands. What it was told before is not lost.
    fn is_told(&mut self, through: usize, budget: usize, stands: Budget, found: (u64, u64)) -> Checked {
        let seen = &mut self.gateways[through].1;
        let (spent, held) = found;
        if spent < seen.told[budget] {
            let told = seen.told[budget];
            return Err(format!("gateway {through} saw {told} spent of budget {budget}, and now it is {spent}"));
        }
        if spent > self.booked[budget] {
            return Err(format!("{spent} spent of budget {budget}, but only {} were ever booked", self.booked[budget]));
        }
        if found != (stands.spent, stands.held) {
            return Err(format!("budget {budget} stands at {spent} spent, {held} held; right: {stands:?}"));
        }
        seen.told[budget] = spent;
        seen.floor[budget] = seen.floor[budget].max((stands.generation, spent));
        Ok(())
    }

    /// An admission; `None`: of a random customer and amount.
    async fn asks(&mut self, through: usize, given: Option<(usize, u64)>) -> Checked {
        let (customer, amount) = given.unwrap_or_else(|| (self.rng.usize(0..2), self.rng.u64(1..2_500)));
        let request = self.requests.len();
        let budgets = [customer, 2];
        let claims = budgets.map(|budget| claim(budget, amount)).to_vec();
        let admission = Admission { reservation: id(request), customer: scope(customer), claims, elastic: None, lease: LEASE };
        let answer = self.gateways[through].0.admit(&admission, Some(Timestamp(self.now))).await;
        let decision = answer.map_err(|error| error.to_string())?;
        let stands = budgets.map(|budget| self.repaired(through, budget));
        let fits = |budget: usize, stands: Budget| stands.spent + stands.held + amount <= CAPS[budget];
        let right = budgets.iter().zip(&stands).all(|(budget, (stands, _))| fits(*budget, *stands));
        let what = if decision.admitted { "admitted" } else { "refused" };
        self.did(what, format!("{request}, {amount} of customer {customer}, through {through}"));
        for ((budget, (mut stands, lost)), verdict) in budgets.into_iter().zip(stands).zip(&decision.verdicts) {
            if lost {
                *self.tally.entry("put back").or_default() += 1;
            }
            stands.held += if right { amount } else { 0 };
            if (verdict.outcome == Outcome::Fits) != fits(budget, self.repaired(through, budget).0) {
                return Err(format!("budget {budget}: {:?} at {stands:?}", verdict.outcome));
            }
            self.is_told(through, budget, stands, (verdict.used, verdict.held))?;
            if right || lost {
                self.books.budgets[budget] = stands;
            }
        }
        if decision.admitted != right {
            return Err(format!("{what}, which is wrong"));
        }
        if right {
            let due = self.now + LEASE;
            self.books.known.insert(request as u64, Known::Held { due });
        }
        self.requests.push(Request { customer, amount, at: self.now, actual: None });
        if !right {
            self.requests.last_mut().expect("pushed").actual = Some(u64::MAX); // nothing to settle
        }
        Ok(())
    }

    /// One request ends, or ended before and is settled again.
    async fn settles(&mut self, through: usize, again: bool) -> Checked {
        let open = |request: &Request| match request.actual {
            None => !again,
            // A store remembers for an hour what ended.
            Some(actual) => again && actual != u64::MAX && request.at + 3_000 * SECOND > self.now,
        };
        let which: Vec<_> = (0..self.requests.len()).filter(|n| open(&self.requests[*n])).collect();
        let Some(which) = self.rng.choice(which) else { return Ok(()) };
        self.settle(through, which).await
    }

    async fn settle(&mut self, through: usize, which: usize) -> Checked {
        let Request { customer, amount, actual, .. } = self.requests[which];
        let actual = actual.unwrap_or_else(|| self.rng.u64(0..=amount));
        self.requests[which].actual = Some(actual);
        let booked = Zone::default().boundaries(Period::Day, Timestamp(NOON)).at(Timestamp(NOON)).0;
        let lines = [customer, 2].map(|budget| Line { claim: claim(budget, amount), actual, booked }).to_vec();
        let batch = [Settlement { reservation: id(which), customer: scope(customer), lines }];
        self.gateways[through].0.settle(&batch, Some(Timestamp(self.now))).await.map_err(|error| error.to_string())?;
        let known = self.books.known.insert(which as u64, Known::Settled);
        self.did(
            match known {
                None => "settled without a hold",
                Some(Known::Held { .. }) => "settled",
                Some(Known::Swept) => "settled after the sweep",
                Some(Known::Settled) => "settled again",
            },
            format!("{which}, {actual} used, through {through}"),
        );
        if known == Some(Known::Settled) {
            return Ok(());
        }
        for budget in [customer, 2] {
            let (mut stands, _) = self.repaired(through, budget);
            let before = stands.spent;
            stands.held -= if matches!(known, Some(Known::Held { .. })) { amount } else { 0 };
            stands.spent = stands.spent.saturating_sub(if known == Some(Known::Swept) { amount } else { 0 }) + actual;
            if stands.spent < before {
                stands.generation += 1;
                for (_, seen) in &mut self.gateways {
                    seen.told[budget] = seen.told[budget].min(stands.spent); // corrected, not lost
                }
            }
            self.booked[budget] += actual;
            self.books.budgets[budget] = stands;
            let found = self.balance(budget).await?;
            self.is_told(through, budget, stands, found)?;
        }
        Ok(())
    }

    async fn balance(&self, budget: usize) -> Result<(u64, u64), String> {
        let balances = self.gateways[0].0.read(&scope(budget)).await.map_err(|error| error.to_string())?;
        Ok(balances.first().map_or((0, 0), |balance| (balance.spent, balance.held)))
    }

    async fn sweeps(&mut self, through: usize) -> Checked {
        let swept = self.gateways[through].0.sweep(Some(Timestamp(self.now))).await.map_err(|error| error.to_string())?;
        let over = |known: &Known| matches!(known, Known::Held { due } if *due <= self.now);
        let due: Vec<u64> = self.books.known.iter().filter(|(_, known)| over(known)).map(|(n, _)| *n).collect();
        if due.len() != swept {
            return Err(format!("{swept} were swept of {due:?}"));
        }
        for n in due {
            let Request { customer, amount, .. } = self.requests[usize::try_from(n).expect("small")];
            for budget in [customer, 2] {
                let stands = &mut self.books.budgets[budget];
                (stands.held, stands.spent) = (stands.held - amount, stands.spent + amount);
                self.booked[budget] += amount;
            }
            self.books.known.insert(n, Known::Swept);
            self.did("swept", n.to_string());
        }
        Ok(())
    }

    /// What a replica has by now, or a snapshot.
    fn copies(&mut self) {
        let mut connection = self.server.connection();
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("tg1:*").query(&mut connection).expect("KEYS");
        let dump = |key: Vec<u8>| {
            let value: Vec<u8> = redis::cmd("DUMP").arg(&key).query(&mut connection).expect("DUMP");
            (key, value)
        };
        self.copy = Some((self.books.clone(), keys.into_iter().map(dump).collect()));
        self.did("copied", String::new());
    }

    /// All that came after the copy is lost.
    fn fails_over(&mut self) {
        let Some((books, copy)) = self.copy.clone() else { return };
        let mut connection = self.server.connection();
        let mut pipe = redis::pipe();
        pipe.cmd("FLUSHDB").ignore();
        for (key, value) in copy {
            pipe.cmd("RESTORE").arg(key).arg(172_800_000).arg(value).ignore();
        }
        let _: () = pipe.query(&mut connection).expect("RESTORE");
        self.books = books;
        self.did("failed over", String::new());
        match self.fault {
            Some(Fault::NoFloor) => self.gateways.iter_mut().for_each(|(ledger, _)| *ledger = gateway(self.server)),
            None => {}
        }
    }

    /// Everybody settles, or is swept: nothing is held then, and every gateway still finds what it saw.
    async fn end(&mut self) -> Checked {
        for which in 0..self.requests.len() {
            if self.requests[which].actual.is_none() && self.rng.bool() {
                let through = self.rng.usize(0..2);
                self.settle(through, which).await?;
            }
        }
        self.now += LEASE;
        self.sweeps(0).await?;
        for through in 0..2 {
            for customer in 0..2 {
                self.asks(through, Some((customer, 0))).await?;
            }
        }
        for budget in 0..3 {
            let (spent, held) = self.balance(budget).await?;
            let stands = self.books.budgets[budget];
            if held != 0 || spent != stands.spent {
                return Err(format!("at the end {spent} spent and {held} held of budget {budget}; right: {stands:?}"));
            }
        }
        Ok(())
    }
}

async fn run(server: &RedisServer, seed: u64, fault: Option<Fault>) -> (Checked, Vec<String>, HashMap<&'static str, u64>) {
    let mut run = Run::new(server, seed, fault);
    let mut result = Ok(());
    let steps = run.rng.usize(20..80);
    for _ in 0..steps {
        result = run.step().await;
        if result.is_err() {
            break;
        }
    }
    if result.is_ok() {
        result = run.end().await;
    }
    (result, run.trace, run.tally)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_what_nobody_saw_and_nothing_else() {
    let server = RedisServer::start();
    let seeds = match number("TOLLGATE_FAILOVER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TOLLGATE_FAILOVER_RUNS").unwrap_or(RUNS),
    };
    let single = seeds.end - seeds.start == 1;
    let mut all: HashMap<&str, u64> = HashMap::new();
    for seed in seeds.clone() {
        let (result, trace, tally) = run(&server, seed, None).await;
        if let Err(error) = result {
            let trace = trace.join("\n");
            panic!("{trace}\n\n{error}\n\nTOLLGATE_FAILOVER_SEED={seed} cargo test --test simulation failover");
        }
        tally.into_iter().for_each(|(what, times)| *all.entry(what).or_default() += times);
        if single {
            println!("{}", trace.join("\n"));
        }
    }
    // Nothing of it may quietly stop to happen.
    let happens = [
        "admitted",
        "copied",
        "failed over",
        "gateway died",
        "put back",
        "refused",
        "settled",
        "settled after the sweep",
        "settled again",
        "settled without a hold",
        "swept",
    ];
    for what in happens.into_iter().filter(|_| !single) {
        let times = all.get(what).copied().unwrap_or(0);
        assert!(times * 10 >= seeds.end, "{what}: {times} times in {} runs", seeds.end);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_without_what_gateways_saw_is_noticed() {
    let server = RedisServer::start();
    let mut caught = false;
    for seed in 0..CAUGHT_WITHIN {
        let (result, ..) = run(&server, seed, Some(Fault::NoFloor)).await;
        caught |= matches!(&result, Err(error) if error.contains("spent of budget") && error.contains("saw"));
    }
    assert!(caught, "{:?} went unnoticed in {CAUGHT_WITHIN} runs", Fault::NoFloor);
}
