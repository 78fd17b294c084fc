//! One run: what happens, chosen by its seed, and what every answer must be.

use super::ledger::*;
use crate::redis_server::RedisServer;
use fastrand::Rng;
use std::collections::HashMap;
use std::time::Duration;
use tollgate::config::policy::LostHold;
use tollgate::domain::{Period, Timestamp, Zone};
use tollgate::limit::{Admission, Line, Outcome, Settlement};
use tollgate::store::Ledger;
use tollgate::store::redis::RedisLedger;

/// What is wrong with the gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Gateways do not remember what they saw.
    NoFloor,
}

pub struct Run<'a> {
    pub server: &'a RedisServer,
    pub fault: Option<Fault>,
    pub rng: Rng,
    pub now: u64,
    pub gateways: [(RedisLedger, Seen); 2],
    pub books: Books,
    pub copy: Option<(Books, Vec<Dumped>)>,
    pub requests: Vec<Request>,
    /// All that was ever booked, by budget.
    pub booked: [u64; 3],
    pub trace: Vec<String>,
    pub tally: HashMap<&'static str, u64>,
}

pub type Checked = Result<(), String>;
/// A key, and what it holds.
pub type Dumped = (Vec<u8>, Vec<u8>);

fn gateway(server: &RedisServer) -> RedisLedger {
    let ledger = RedisLedger::connect(&[&server.url()], Duration::from_secs(20)).expect("an address");
    ledger.with_lost_hold(LostHold::Charge)
}

impl<'a> Run<'a> {
    pub fn new(server: &'a RedisServer, seed: u64, fault: Option<Fault>) -> Self {
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

    pub async fn step(&mut self) -> Checked {
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
    pub async fn end(&mut self) -> Checked {
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
