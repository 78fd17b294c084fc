//! The journal's lines: one JSON object each, so that an operator can read what waits. The only file that knows the format.

use crate::domain::{Boundaries, Period, ReservationId, Timestamp};
use crate::limit::{Bucket, Claim, LimitName, Line, Measure, Rule, Scope, ScopeKey, Settlement};
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Record {
    /// A request was admitted without the store and is in flight. Settled so if nothing better is heard: as held.
    Held(Stored),
    /// A request ended; its settlement waits.
    Ended {
        /// The settlement.
        settlement: Stored,
        /// When it may first have reached the store, microseconds; `None`: it certainly did not.
        tried: Option<u64>,
    },
    /// From now on everything above may have reached the store.
    Tried(u64),
    /// These are in the store.
    Done(Vec<String>),
}

/// A settlement.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    id: String,
    customer: StoredScope,
    lines: Vec<StoredLine>,
}

type StoredScope = (String, String);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredLine {
    scope: StoredScope,
    limit: String,
    measure: String,
    rule: StoredRule,
    amount: u64,
    actual: u64,
    booked: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredRule {
    Bucket {
        capacity: u64,
        gain: u64,
        unit: u64,
        max_wait: u64,
        forgive: bool,
        #[serde(default)]
        mirrors: bool,
    },
    Window {
        limit: u64,
        max_wait: u64,
    },
    Budget {
        cap: u64,
        boundaries: [u64; 4],
    },
}

impl Stored {
    /// Writes a settlement down.
    pub fn of(settlement: &Settlement) -> Self {
        let Settlement { reservation, customer, lines } = settlement;
        Self { id: reservation.to_string(), customer: scope(customer), lines: lines.iter().map(StoredLine::of).collect() }
    }

    /// The settlement; `None` when it names something this program does not know.
    pub fn read(&self) -> Option<Settlement> {
        let lines = self.lines.iter().map(StoredLine::read).collect::<Option<_>>()?;
        Some(Settlement { reservation: read_id(&self.id)?, customer: read_scope(&self.customer)?, lines })
    }
}

impl StoredLine {
    fn of(line: &Line) -> Self {
        let Line { claim: Claim { scope: whose, limit, rule, measure, amount }, actual, booked } = line;
        let rule = match *rule {
            Rule::Bucket { bucket, max_wait, forgive, mirrors } => {
                let (capacity, gain, unit) = (bucket.capacity(), bucket.gain(), bucket.unit());
                StoredRule::Bucket { capacity, gain, unit, max_wait, forgive, mirrors }
            }
            Rule::Window { limit, max_wait } => StoredRule::Window { limit, max_wait },
            Rule::Budget { cap, boundaries: Boundaries(boundaries) } => StoredRule::Budget { cap, boundaries },
        };
        let (limit, measure) = (limit.as_str().to_owned(), measure_name(*measure).to_owned());
        Self { scope: scope(whose), limit, measure, rule, amount: *amount, actual: *actual, booked: *booked }
    }

    fn read(&self) -> Option<Line> {
        let rule = match self.rule {
            StoredRule::Bucket { capacity, gain, unit, max_wait, forgive, mirrors } => {
                Rule::Bucket { bucket: Bucket::new(capacity, gain, unit).ok()?, max_wait, forgive, mirrors }
            }
            StoredRule::Window { limit, max_wait } => Rule::Window { limit, max_wait },
            StoredRule::Budget { cap, boundaries } => Rule::Budget { cap, boundaries: Boundaries(boundaries) },
        };
        let limit = limits().find(|limit| limit.as_str() == self.limit)?;
        let measure = MEASURES.into_iter().find(|measure| measure_name(*measure) == self.measure)?;
        let claim = Claim { scope: read_scope(&self.scope)?, limit, rule, measure, amount: self.amount };
        Some(Line { claim, actual: self.actual, booked: self.booked })
    }
}

/// The id of a reservation as it is written.
pub fn read_id(text: &str) -> Option<ReservationId> {
    u128::from_str_radix(text, 16).ok().map(ReservationId::new)
}

/// A time as it is written.
pub fn time(at: Option<Timestamp>) -> Option<u64> {
    at.map(Timestamp::micros)
}

fn scope(scope: &ScopeKey) -> StoredScope {
    (scope.scope.as_str().to_owned(), scope.owner.as_ref().to_owned())
}

fn read_scope((scope, owner): &StoredScope) -> Option<ScopeKey> {
    let all = [Scope::User, Scope::Customer, Scope::App, Scope::Share, Scope::Pool, Scope::Gateway];
    let scope = all.into_iter().find(|known| known.as_str() == scope)?;
    Some(ScopeKey { scope, owner: owner.as_str().into() })
}

fn limits() -> impl Iterator<Item = LimitName> {
    [
        LimitName::Messages,
        LimitName::Rpm,
        LimitName::Tpm,
        LimitName::InputTpm,
        LimitName::OutputTpm,
        LimitName::Rpd,
        LimitName::Tpd,
    ]
    .into_iter()
    .chain(Period::ALL.map(LimitName::Spend))
    .chain(Period::ALL.map(LimitName::RequestQuota))
    .chain(Period::ALL.map(LimitName::TokenQuota))
}

const MEASURES: [Measure; 7] =
    [Measure::Message, Measure::Request, Measure::Tokens, Measure::Input, Measure::Output, Measure::Reserved, Measure::Money];

const fn measure_name(measure: Measure) -> &'static str {
    match measure {
        Measure::Message => "message",
        Measure::Request => "request",
        Measure::Tokens => "tokens",
        Measure::Input => "input",
        Measure::Output => "output",
        Measure::Reserved => "reserved",
        Measure::Money => "money",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_settlement_comes_back_as_it_was() {
        let rules = [
            Rule::Bucket {
                bucket: Bucket::new(40_000, 40_000, 60_000_000).expect("exact"),
                max_wait: 7,
                forgive: true,
                mirrors: false,
            },
            Rule::Bucket { bucket: Bucket::new(3, 0, 60_000_000).expect("exact"), max_wait: 0, forgive: false, mirrors: true },
            Rule::Window { limit: 9, max_wait: 8 },
            Rule::Budget { cap: 9_000_000_000_000_000, boundaries: Boundaries([1, 2, 3, u64::MAX]) },
        ];
        let scopes = [Scope::User, Scope::Customer, Scope::App, Scope::Share, Scope::Pool, Scope::Gateway];
        let line = |n: usize, limit| {
            let scope = ScopeKey { scope: scopes[n % 6], owner: format!("ä\"{n}\n").into() };
            let claim = Claim { scope, limit, rule: rules[n % 4], measure: MEASURES[n % 7], amount: u64::MAX - n as u64 };
            Line { claim, actual: n as u64, booked: 1 << n }
        };
        let lines: Vec<_> = limits().enumerate().map(|(n, limit)| line(n, limit)).collect();
        assert_eq!(lines.len(), 16);
        let customer = ScopeKey { scope: Scope::Customer, owner: "c".into() };
        let settlement = Settlement { reservation: ReservationId::new(u128::MAX - 5), customer, lines };
        let record = Record::Ended { settlement: Stored::of(&settlement), tried: Some(4) };
        let text = serde_json::to_string(&record).expect("written");
        assert!(!text.contains('\n'), "one line");
        let read: Record = serde_json::from_str(&text).expect("read");
        assert_eq!(read, record);
        let Record::Ended { settlement: stored, tried: Some(4) } = read else { panic!("as written") };
        assert_eq!(stored.read(), Some(settlement));
    }

    #[test]
    fn what_this_program_does_not_know_is_not_guessed() {
        let line = r#"{"scope":["customer","c"],"limit":"rpm","measure":"request","rule":{"window":{"limit":1,"max_wait":0}},"amount":1,"actual":1,"booked":0}"#;
        let text = format!(r#"{{"id":"0a","customer":["customer","c"],"lines":[{line}]}}"#);
        let read = |text: &str| serde_json::from_str::<Stored>(text).ok().and_then(|stored| stored.read());
        assert!(read(&text).is_some_and(|settlement| settlement.reservation == ReservationId::new(10)));
        for (known, unknown) in
            [("\"rpm\"", "\"rpq\""), ("\"request\"", "\"apples\""), ("\"customer\"", "\"planet\""), ("0a", "xy")]
        {
            assert_eq!(read(&text.replace(known, unknown)), None, "{unknown}");
        }
    }
}
