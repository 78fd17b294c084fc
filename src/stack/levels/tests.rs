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
        self.ahead(0)
    }

    /// A gateway whose clock is so many seconds ahead of the store's.
    fn ahead(&self, secs: i64) -> (Arc<Ceilings>, Levels) {
        let clock = Arc::new(Skewed(self.clock.clone(), secs * 1_000_000));
        let ceilings = Arc::new(Ceilings::new(clock.clone()));
        (ceilings.clone(), Levels::new(ceilings, self.documents.clone(), clock))
    }
}

struct Skewed(Arc<Hand>, i64);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.now().micros().saturating_add_signed(self.1))
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
async fn gateways_whose_clocks_differ_hear_each_other_and_wait_the_ten_minutes_once() {
    for skew in [7, -7, 400, -400, 86_400] {
        let fleet = Fleet::new();
        let (one, two) = (fleet.gateway(), fleet.ahead(skew));
        let look = async || {
            one.1.tick(&fleet.policy).await;
            two.1.tick(&fleet.policy).await;
            [one.1.level("mini"), two.1.level("mini")]
        };
        for secs in 0..20 {
            uses(&one.0, 2_250);
            uses(&two.0, 2_250);
            fleet.clock.pass(1);
            let used = look().await;
            assert!(used.iter().all(|level| *level <= 2), "{skew} {secs}: {used:?}");
        }
        assert_eq!(look().await, [2, 2], "{skew}: 90 % together, neither alone");
        assert_eq!((one.1.all()[0].1.used, two.1.all()[0].1.used), (900, 900), "{skew}");
        // Quiet: 61 s until the gauges are empty, ten minutes for each level. No look may end it sooner, and none begins it anew.
        let mut changes = Vec::new();
        for secs in 1..=1_400 {
            fleet.clock.pass(1);
            let levels = look().await;
            if changes.last().is_none_or(|(_, last)| *last != levels) {
                changes.push((secs, levels));
            }
        }
        let levels: Vec<[u8; 2]> = changes.iter().map(|(_, levels)| *levels).collect();
        assert!(levels.ends_with(&[[0, 0]]) && levels.len() <= 5, "{skew}: {changes:?}");
        let ended =
            |level: u8| changes.iter().find(|(_, levels)| levels.iter().all(|now| *now <= level)).map_or(0, |(secs, _)| *secs);
        let (first, second) = (ended(1), ended(0));
        assert!((600..=665).contains(&first), "{skew}: {changes:?}");
        assert!((600..=605).contains(&(second - first)), "{skew}: {changes:?}");
        // One that dies is forgotten by the other's clock.
        uses(&two.0, 75_000);
        uses(&one.0, 1_000);
        look().await;
        assert_eq!(look().await, [1, 1], "{skew}");
        let alive = |secs: u64| {
            fleet.clock.pass(secs);
            one.1.tick(&fleet.policy)
        };
        alive(4).await;
        assert_eq!(one.1.all()[0].1.used, 760, "{skew}");
        alive(1).await;
        assert_eq!(one.1.all()[0].1.used, 10, "{skew}");
    }
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

#[tokio::test]
async fn whichever_gateway_is_asked_says_how_a_pool_stands() {
    let fleet = Fleet::new();
    let (busy, idle) = (fleet.gateway(), fleet.gateway());
    uses(&busy.0, 75_000);
    busy.1.tick(&fleet.policy).await;
    idle.1.tick(&fleet.policy).await;
    let right = PoolView { level: 1, gauge: 1, used: 750, pinned: None };
    assert_eq!((busy.1.look("mini").await, idle.1.look("mini").await), (right.clone(), right));
    let pinned = Pinned { level: 3, until: fleet.clock.now().plus(1_000_000).micros(), by: "ann".into() };
    busy.1.pin("mini", Some(pinned.clone())).await.expect("memory");
    idle.1.tick(&fleet.policy).await;
    let right = PoolView { level: 3, gauge: 1, used: 750, pinned: Some(pinned) };
    assert_eq!((busy.1.look("mini").await, idle.1.look("mini").await), (right.clone(), right));
    assert_eq!(idle.1.look("maxi").await, PoolView::default());
}

/// The changes of a pool as `from>to why`.
async fn story(levels: &Levels) -> Vec<String> {
    let changes = levels.history("mini").await.expect("the store answers");
    changes.iter().map(|change| format!("{}>{} {}", change.from, change.to, change.why.as_str())).collect()
}

#[tokio::test]
async fn every_change_is_told_once_by_whichever_gateway_and_why() {
    let fleet = Fleet::new();
    let gateways: Vec<_> = (0..4).map(|_| fleet.gateway()).collect();
    let tick = || futures_util::future::join_all(gateways.iter().map(|(_, levels)| levels.tick(&fleet.policy)));
    uses(&gateways[0].0, 75_000);
    tick().await;
    tick().await;
    let start = fleet.clock.now();
    fleet.clock.pass(1);
    let until = fleet.clock.now().plus(60_000_000);
    let pin = Pinned { level: 3, until: until.micros(), by: "ann".into() };
    gateways[1].1.pin("mini", Some(pin)).await.expect("memory");
    tick().await;
    fleet.clock.pass(61);
    tick().await;
    let pin = Pinned { level: 2, until: fleet.clock.now().plus(60_000_000).micros(), by: "bob".into() };
    gateways[2].1.pin("mini", Some(pin)).await.expect("memory");
    tick().await;
    gateways[3].1.unpin("mini", "ann").await.expect("memory");
    fleet.clock.pass(600);
    tick().await;
    let right = ["0>1 gauge", "1>3 pinned", "3>1 pin_ended", "1>2 pinned", "2>1 unpinned", "1>0 gauge"];
    for (_, levels) in &gateways {
        assert_eq!(story(levels).await, right);
    }
    let told = gateways[3].1.history("mini").await.expect("memory");
    assert_eq!((told[0].at, told[0].used, &told[0].account), (start, Some(750), &None));
    assert_eq!((told[1].by.as_deref(), told[1].until), (Some("ann"), Some(until)));
    assert_eq!((told[2].at, &told[2].by), (until, &None), "when it ended, not when that was seen");
    assert_eq!(told[4].by.as_deref(), Some("ann"));
    assert_eq!(gateways[0].1.history("maxi").await, Ok(Vec::new()));
}

#[tokio::test]
async fn the_history_of_a_pool_is_bounded_and_outlives_those_who_wrote_it() {
    let fleet = Fleet::new();
    let levels = fleet.gateway().1;
    for at in 0..=history::KEPT as u64 {
        levels.history.note(
            "mini",
            history::Change::new(Timestamp::from_secs(at), u8::from(at % 2 == 1), u8::from(at % 2 == 0), Why::Gauge),
        );
        levels.history.flush().await;
    }
    drop(levels);
    let told = fleet.gateway().1.history("mini").await.expect("memory");
    assert_eq!((told.len(), told[0].at, told[0].from), (history::KEPT, Timestamp::from_secs(1), 1), "the oldest went");
    fleet.clock.pass(history::KEEP.as_secs());
    assert_eq!(fleet.gateway().1.history("mini").await.expect("memory"), []);
}

#[tokio::test]
async fn an_account_of_its_own_has_a_ladder_of_its_own_in_the_pools_history() {
    let fleet = Fleet::new();
    let levels = fleet.gateway().1;
    let ladder = ladder(&fleet.policy);
    for (owner, used) in [("mini/ab", 750_000), ("mini/cd", 900_000)] {
        let own = Said { at: fleet.clock.now().micros(), used: BTreeMap::from([("tpm".to_owned(), used)]) };
        levels.step(&owner.into(), &own, Standing::default(), &ladder).await;
    }
    levels.history.flush().await;
    let told = levels.history("mini").await.expect("memory");
    let told: Vec<_> = told.iter().map(|change| (change.account.as_deref(), change.to)).collect();
    assert_eq!(told, [(Some("ab"), 1), (Some("cd"), 2)]);
}

/// Documents that are away when a test says so.
struct Fickle {
    inner: MemoryDocuments,
    away: std::sync::atomic::AtomicBool,
}

impl Fickle {
    fn here(&self) -> Result<&MemoryDocuments, StoreError> {
        if self.away.load(Ordering::Relaxed) { Err(StoreError::Unreachable("away".into())) } else { Ok(&self.inner) }
    }
}

impl Documents for Fickle {
    fn get<'a>(
        &'a self,
        collection: Collection,
        id: &'a str,
        now: Option<Timestamp>,
    ) -> futures_util::future::BoxFuture<'a, Result<Option<crate::store::documents::Document>, StoreError>> {
        Box::pin(async move { self.here()?.get(collection, id, now).await })
    }

    fn put<'a>(
        &'a self,
        write: &'a Write,
        now: Option<Timestamp>,
    ) -> futures_util::future::BoxFuture<'a, Result<Written, StoreError>> {
        Box::pin(async move { self.here()?.put(write, now).await })
    }

    fn put_all<'a>(
        &'a self,
        writes: &'a [Write],
        now: Option<Timestamp>,
    ) -> futures_util::future::BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.here()?.put_all(writes, now).await })
    }

    fn list<'a>(
        &'a self,
        collection: Collection,
        page: &'a crate::store::documents::Page,
        now: Option<Timestamp>,
    ) -> futures_util::future::BoxFuture<'a, Result<Vec<crate::store::documents::Listed>, StoreError>> {
        Box::pin(async move { self.here()?.list(collection, page, now).await })
    }
}

#[tokio::test]
async fn what_happens_while_the_store_is_away_is_told_when_it_is_back() {
    let (clock, policy) = (Arc::new(Hand::default()), Policy::default());
    let documents = Arc::new(Fickle { inner: MemoryDocuments::new(clock.clone()), away: false.into() });
    let ceilings = Arc::new(Ceilings::new(clock.clone()));
    let levels = Levels::new(ceilings.clone(), documents.clone(), clock.clone());
    uses(&ceilings, 1);
    levels.tick(&policy).await;
    documents.away.store(true, Ordering::Relaxed);
    uses(&ceilings, 89_999);
    levels.tick(&policy).await;
    assert_eq!(levels.level("mini"), 2);
    assert!(levels.history("mini").await.is_err());
    clock.pass(61);
    documents.away.store(false, Ordering::Relaxed);
    levels.tick(&policy).await;
    levels.tick(&policy).await;
    assert_eq!(story(&levels).await, ["0>2 alone", "2>0 store_back"], "the shared ladder had stayed where it was");
}
