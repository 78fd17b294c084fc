use super::*;
use crate::domain::{Boundaries, Period, ReservationId, Timestamp};
use crate::limit::decide::{State, States, admit};
use crate::limit::{Admission, Bucket, Claim, Decision, Rule, Scope, ScopeKey};
use http::HeaderValue;
use std::collections::HashMap;

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
/// 2026-11-30T12:00:00Z.
const NOON: Timestamp = Timestamp::from_secs(1_796_040_000);
/// The days around it.
const DAYS: Boundaries = Boundaries([1_795_910_400, 1_795_996_800, 1_796_083_200, 1_796_169_600]);

#[derive(Default)]
struct Memory(HashMap<(ScopeKey, LimitName), State>);

impl States for Memory {
    fn state(&mut self, scope: &ScopeKey, limit: LimitName) -> Option<State> {
        self.0.get(&(scope.clone(), limit)).cloned()
    }
    fn put(&mut self, scope: &ScopeKey, limit: LimitName, state: State) {
        self.0.insert((scope.clone(), limit), state);
    }
}

fn claim(scope: Scope, limit: LimitName, measure: Measure, amount: u64, rule: Rule) -> Claim {
    Claim { scope: ScopeKey { scope, owner: "c".into() }, limit, rule, measure, amount }
}

fn bucket(capacity: u64, amount: u64, period: u64) -> Rule {
    Rule::Bucket { bucket: Bucket::new(capacity, amount, period).expect("exact"), max_wait: 0, forgive: true, mirrors: false }
}

fn day(cap: u64) -> Rule {
    Rule::Budget { cap, boundaries: DAYS }
}

/// Asks all claims at noon and gives the headers of an answer.
fn headers(claims: Vec<Claim>, dialect: Dialect) -> HashMap<String, String> {
    let standing = {
        let decision = decide(&mut Memory::default(), NOON, &claims);
        Standing::of(&claims, &decision, 80)
    };
    let mut headers = HeaderMap::new();
    rate_headers(&mut headers, &standing, dialect);
    headers.iter().map(|(name, value)| (name.to_string(), value.to_str().expect("ASCII").to_owned())).collect()
}

fn decide(memory: &mut Memory, now: Timestamp, claims: &[Claim]) -> Decision {
    let admission = Admission {
        reservation: ReservationId::new(1),
        customer: ScopeKey { scope: Scope::Customer, owner: "c".into() },
        claims: claims.to_vec(),
        elastic: None,
        lease: MINUTE,
    };
    admit(now, &admission, memory)
}

fn usual() -> Vec<Claim> {
    vec![
        claim(Scope::Customer, LimitName::Messages, Measure::Message, 1, bucket(10, 5, MINUTE)),
        claim(Scope::User, LimitName::Rpm, Measure::Request, 1, bucket(2, 2, MINUTE)),
        claim(Scope::Customer, LimitName::Rpm, Measure::Request, 1, bucket(60, 60, MINUTE)),
        claim(Scope::Customer, LimitName::Tpm, Measure::Tokens, 500, bucket(40_000, 40_000, MINUTE)),
        claim(Scope::Pool, LimitName::Tpm, Measure::Reserved, 500, bucket(400_000, 400_000, MINUTE)),
        claim(Scope::Customer, LimitName::Spend(Period::Day), Measure::Money, 21_300_750, day(500_000_000)),
        claim(Scope::Gateway, LimitName::Spend(Period::Day), Measure::Money, 21_300_750, day(9_000_000_000)),
    ]
}

#[test]
fn an_openai_answer_carries_the_customers_limits_in_every_spelling() {
    let right: HashMap<_, _> = [
        (
            "ratelimit-policy",
            "\"messages\";q=10;w=120, \"rpm\";q=60;w=60, \"tpm\";q=40000;w=60;tollgate-unit=\"tokens\", \
             \"spend_day\";q=500000;w=86400;tollgate-unit=\"micro-usd\"",
        ),
        ("ratelimit", "\"messages\";r=9;t=12, \"rpm\";r=59;t=1, \"tpm\";r=39500;t=1, \"spend_day\";r=478699;t=43200"),
        ("ratelimit-limit", "10"),
        ("ratelimit-remaining", "9"),
        ("ratelimit-reset", "12"),
        ("x-ratelimit-limit-requests", "10"),
        ("x-ratelimit-remaining-requests", "9"),
        ("x-ratelimit-reset-requests", "12s"),
        ("x-ratelimit-limit-tokens", "40000"),
        ("x-ratelimit-remaining-tokens", "39500"),
        ("x-ratelimit-reset-tokens", "750ms"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    assert_eq!(headers(usual(), Dialect::OpenAi), right);
}

#[test]
fn an_anthropic_answer_spells_them_as_anthropic_does() {
    let mut claims = usual();
    claims.push(claim(Scope::Customer, LimitName::InputTpm, Measure::Input, 100, bucket(1_000, 1_000, MINUTE)));
    let headers = headers(claims, Dialect::Anthropic);
    for (name, right) in [
        ("anthropic-ratelimit-requests-limit", "10"),
        ("anthropic-ratelimit-requests-remaining", "9"),
        ("anthropic-ratelimit-requests-reset", "2026-11-30T12:00:12Z"),
        ("anthropic-ratelimit-tokens-limit", "40000"),
        ("anthropic-ratelimit-tokens-remaining", "39500"),
        ("anthropic-ratelimit-tokens-reset", "2026-11-30T12:00:01Z"),
        ("anthropic-ratelimit-input-tokens-limit", "1000"),
        ("anthropic-ratelimit-input-tokens-remaining", "900"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T12:00:06Z"),
        ("ratelimit-limit", "10"),
    ] {
        assert_eq!(headers.get(name).map(String::as_str), Some(right), "{name}");
    }
    assert!(headers.keys().all(|name| !name.starts_with("x-ratelimit") && !name.contains("output")));
}

#[test]
fn a_debt_shows_as_nothing_left() {
    let mut memory = Memory::default();
    let claims = vec![claim(Scope::Customer, LimitName::Tpm, Measure::Tokens, 1_000, bucket(10_000, 10_000, MINUTE))];
    let decision = decide(&mut memory, NOON, &claims);
    assert!(decision.admitted);
    let line = crate::limit::Line { claim: claims[0].clone(), actual: 17_000, booked: 0 };
    let settlement =
        crate::limit::Settlement { reservation: ReservationId::new(1), customer: claims[0].scope.clone(), lines: vec![line] };
    crate::limit::decide::settle(NOON, &settlement, crate::limit::decide::Hold::AsClaimed, &mut memory);
    let decision = decide(&mut memory, NOON, &claims);
    let standing = Standing::of(&claims, &decision, 80);
    let mut headers = HeaderMap::new();
    headers.insert("x-ratelimit-remaining-tokens", HeaderValue::from_static("149984"));
    rate_headers(&mut headers, &standing, Dialect::OpenAi);
    let remaining: Vec<_> = headers.get_all("x-ratelimit-remaining-tokens").iter().collect();
    assert_eq!(remaining, ["0"], "ours replaces whatever stood there");
    assert_eq!(headers["x-ratelimit-reset-tokens"], "1m42s");
    assert_eq!(headers["ratelimit"], "\"tpm\";r=0;t=43", "7,000 of debt and one more");
}

#[test]
fn odd_limits_make_proper_headers() {
    for (rule, measure, policy, remainder) in [
        (bucket(0, 0, MINUTE), Measure::Request, "\"rpm\";q=0", "\"rpm\";r=0;t=0"),
        (
            bucket(1_000_000_000_000, 1_000_000_000_000, MINUTE),
            Measure::Request,
            "\"rpm\";q=1000000000000;w=60",
            "\"rpm\";r=999999999999;t=1",
        ),
        (Rule::Window { limit: 60, max_wait: 0 }, Measure::Request, "\"rpm\";q=60;w=60", "\"rpm\";r=59;t=61"),
        (bucket(3, 1, 3_600 * SECOND), Measure::Request, "\"rpm\";q=3;w=10800", "\"rpm\";r=2;t=3600"),
    ] {
        let headers = headers(vec![claim(Scope::Customer, LimitName::Rpm, measure, 1, rule)], Dialect::OpenAi);
        assert_eq!((&*headers["ratelimit-policy"], &*headers["ratelimit"]), (policy, remainder));
    }
}

#[test]
fn whoever_has_no_limits_gets_no_headers() {
    assert_eq!(headers(vec![], Dialect::OpenAi).len(), 0);
    let pool = usual().into_iter().filter(|claim| claim.scope.scope == Scope::Pool).collect();
    assert_eq!(headers(pool, Dialect::OpenAi).len(), 0);
}

#[test]
fn a_cap_that_is_nearly_used_up_is_announced() {
    for (spent, cap, right) in [
        (399_999_999, 500_000_000, None),
        (400_000_000, 500_000_000, Some("spend_day 80 % used ($0.40 of $0.50), resets 2026-12-01T00:00:00Z")),
        (600_000_000, 500_000_000, Some("spend_day 120 % used ($0.60 of $0.50), resets 2026-12-01T00:00:00Z")),
        (0, 0, None),
    ] {
        let mut memory = Memory::default();
        let claims = vec![claim(Scope::Customer, LimitName::Spend(Period::Day), Measure::Money, 0, day(cap))];
        let mut budget = crate::limit::BudgetState::default();
        budget.advance(&DAYS, NOON);
        budget.settle(DAYS.at(NOON).0, 0, spent);
        memory.put(&claims[0].scope, claims[0].limit, State::Budget(budget));
        let standing = Standing::of(&claims, &decide(&mut memory, NOON, &claims), 80);
        assert_eq!(standing.notice(), right);
        let mut headers = HeaderMap::new();
        rate_headers(&mut headers, &standing, Dialect::OpenAi);
        assert_eq!(headers.get("x-tollgate-notice").map(|value| value.to_str().expect("ASCII")), right);
    }
}

#[test]
fn the_accounts_numbers_are_recognised() {
    for (name, right) in [
        ("x-ratelimit-remaining-tokens", true),
        ("x-ratelimit-limit-project-tokens", true),
        ("anthropic-ratelimit-requests-reset", true),
        ("anthropic-priority-input-tokens-limit", true),
        ("anthropic-fast-output-tokens-remaining", true),
        ("ratelimit", true),
        ("ratelimit-policy", true),
        ("x-request-id", false),
        ("retry-after", false),
        ("anthropic-organization-id", false),
    ] {
        assert_eq!(is_account_number(&HeaderName::from_static(name)), right, "{name}");
    }
}
