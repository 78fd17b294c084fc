use super::*;
use crate::limit::{Bucket, Claim, LimitName, Line, Measure, Rule, Scope, ScopeKey};
use crate::store::documents::memory::MemoryDocuments;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
struct Hand(AtomicU64);

impl Hand {
    fn pass(&self, secs: u64) {
        self.0.fetch_add(secs * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000_000 + self.0.load(Ordering::Relaxed))
    }
}

struct Fleet {
    clock: Arc<Hand>,
    documents: Arc<MemoryDocuments>,
    policy: Policy,
}

impl Fleet {
    fn new() -> Self {
        let clock = Arc::new(Hand::default());
        Self { documents: Arc::new(MemoryDocuments::new(clock.clone())), clock, policy: Policy::default() }
    }

    fn gateway(&self) -> (Arc<Ceilings>, Levels) {
        let ceilings = Arc::new(Ceilings::new(self.clock.clone()));
        (ceilings.clone(), Levels::new(ceilings, self.documents.clone(), self.clock.clone()))
    }
}

/// Uses some of a ceiling of 100,000 a minute.
fn uses(ceilings: &Ceilings, amount: u64) {
    let bucket = Bucket::new(100_000, 100_000, 60_000_000).expect("exact");
    let rule = Rule::Bucket { bucket, max_wait: 0, forgive: false, mirrors: false };
    let scope = ScopeKey { scope: Scope::Pool, owner: "mini".into() };
    let claim = Claim { scope, limit: LimitName::Tpm, rule, measure: Measure::Reserved, amount };
    ceilings.claimed(&[Line { claim, actual: 0, booked: 0 }]);
}

#[tokio::test]
async fn gateways_add_up_what_they_use_and_agree_on_the_level() {
    let fleet = Fleet::new();
    let (one, two) = (fleet.gateway(), fleet.gateway());
    uses(&one.0, 45_000);
    one.1.tick(&fleet.policy).await;
    assert_eq!(one.1.level("mini"), 0, "45 % alone");
    uses(&two.0, 45_000);
    two.1.tick(&fleet.policy).await;
    assert_eq!(two.1.level("mini"), 2, "90 % together");
    one.1.tick(&fleet.policy).await;
    assert_eq!(one.1.level("mini"), 2, "one look later both know");
    assert_eq!(one.1.all()[0].1.used, 900);
}

#[tokio::test]
async fn a_gateway_that_uses_nothing_still_learns_the_level_of_a_pool_it_knows() {
    let fleet = Fleet::new();
    let (one, two) = (fleet.gateway(), fleet.gateway());
    uses(&two.0, 1);
    two.1.tick(&fleet.policy).await;
    uses(&one.0, 96_000);
    one.1.tick(&fleet.policy).await;
    two.1.tick(&fleet.policy).await;
    assert_eq!(two.1.level("mini"), 3);
}

#[tokio::test]
async fn a_gateway_that_died_is_forgotten_and_the_level_comes_down_in_its_time() {
    let fleet = Fleet::new();
    let (dead, alive) = (fleet.gateway(), fleet.gateway());
    uses(&dead.0, 75_000);
    dead.1.tick(&fleet.policy).await;
    uses(&alive.0, 1);
    alive.1.tick(&fleet.policy).await;
    assert_eq!(alive.1.level("mini"), 1);
    drop(dead);
    fleet.clock.pass(5);
    alive.1.tick(&fleet.policy).await;
    assert_eq!(alive.1.all()[0].1.used, 0, "what the dead one said does not count any more");
    fleet.clock.pass(599);
    alive.1.tick(&fleet.policy).await;
    assert_eq!(alive.1.level("mini"), 1);
    fleet.clock.pass(1);
    alive.1.tick(&fleet.policy).await;
    assert_eq!(alive.1.level("mini"), 0);
    assert_eq!(alive.1.all(), [], "and a pool that nobody uses is no longer looked at");
}

#[tokio::test]
async fn a_pin_holds_on_every_gateway_until_it_ends_or_is_taken_back() {
    let fleet = Fleet::new();
    let (one, two) = (fleet.gateway(), fleet.gateway());
    let pin = |secs: u64| Pinned { level: 2, until: fleet.clock.now().plus(secs * 1_000_000).micros(), by: "ops".into() };
    one.1.pin("mini", Some(pin(60))).await.expect("memory");
    assert_eq!(one.1.level("mini"), 2);
    assert_eq!(one.1.level("mini/ab12"), 2, "for every credential's ceiling");
    assert_eq!(one.1.level("maxi"), 0);
    two.1.tick(&fleet.policy).await;
    assert_eq!(two.1.level("mini"), 2);
    fleet.clock.pass(60);
    assert_eq!(two.1.level("mini"), 0);
    one.1.pin("mini", Some(pin(60))).await.expect("memory");
    two.1.tick(&fleet.policy).await;
    one.1.pin("mini", None).await.expect("memory");
    two.1.tick(&fleet.policy).await;
    assert_eq!((one.1.level("mini"), two.1.level("mini")), (0, 0));
}

#[tokio::test]
async fn many_gateways_at_once_lose_nothing() {
    let fleet = Fleet::new();
    let gateways: Vec<_> = (0..12).map(|_| fleet.gateway()).collect();
    for (ceilings, _) in &gateways {
        uses(ceilings, 8_000);
    }
    for _ in 0..3 {
        futures_util::future::join_all(gateways.iter().map(|(_, levels)| levels.tick(&fleet.policy))).await;
    }
    for (_, levels) in &gateways {
        assert_eq!((levels.all()[0].1.used, levels.level("mini")), (960, 3));
    }
}
