use super::*;
use crate::domain::{Boundaries, NanoUsd, Period, ReservationId, Timestamp};
use crate::limit::{Bucket, Claim, LimitName, Measure, Rule, Scope, ScopeKey};
use crate::store::Balance;
use crate::store::embedded::EmbeddedLedger;
use crate::store::settler::Settler;
use crate::telemetry::SystemClock;
use futures_util::FutureExt;
use std::time::Duration;
use tokio::sync::Semaphore;

/// What becomes of a question to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Heard,
    /// It is done, and the answer is lost.
    Lost,
    /// It is not done.
    Failed,
}

/// Books that replace only when they are let.
struct Gated {
    books: EmbeddedLedger,
    gate: Semaphore,
    answer: Answer,
}

impl Ledger for Gated {
    fn admit<'a>(&'a self, admission: &'a Admission, now: Option<Timestamp>) -> BoxFuture<'a, Result<Decision, StoreError>> {
        self.books.admit(admission, now)
    }

    fn settle<'a>(&'a self, batch: &'a [Settlement], now: Option<Timestamp>) -> BoxFuture<'a, Result<(), StoreError>> {
        self.books.settle(batch, now)
    }

    fn replace<'a>(
        &'a self,
        old: &'a Settlement,
        admission: &'a Admission,
        now: Option<Timestamp>,
    ) -> BoxFuture<'a, Result<Decision, StoreError>> {
        async move {
            self.gate.acquire().await.expect("never closed").forget();
            let failed = Err(StoreError::Unreachable("no reply".into()));
            match self.answer {
                Answer::Heard => self.books.replace(old, admission, now).await,
                Answer::Lost => self.books.replace(old, admission, now).await.and(failed),
                Answer::Failed => failed,
            }
        }
        .boxed()
    }

    fn read<'a>(&'a self, scope: &'a ScopeKey) -> BoxFuture<'a, Result<Vec<Balance>, StoreError>> {
        self.books.read(scope)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.books.ping()
    }
}

const CAP: u64 = 1_000;

fn customer() -> ScopeKey {
    ScopeKey { scope: Scope::Customer, owner: "c".into() }
}

fn admission(id: u128, dollars: u64, tokens: u64) -> Admission {
    let day = Boundaries([0, 86_400, 4_000_000_000, 4_000_086_400]);
    let bucket = Bucket::new(10_000, 0, 60_000_000).expect("exact");
    let claim = |limit, rule, measure, amount| Claim { scope: customer(), limit, rule, measure, amount };
    let claims = vec![
        claim(LimitName::Spend(Period::Day), Rule::Budget { cap: CAP, boundaries: day }, Measure::Money, dollars),
        claim(LimitName::Tpm, Rule::Bucket { bucket, max_wait: 0, forgive: true, mirrors: false }, Measure::Tokens, tokens),
    ];
    Admission { reservation: ReservationId::new(id), customer: customer(), claims, elastic: None, lease: 60_000_000 }
}

struct Scene {
    ledger: Arc<Gated>,
    shared: Arc<dyn Ledger>,
    settler: Settler,
    tasks: Tasks,
}

impl Scene {
    fn new(answer: Answer) -> Self {
        let books = EmbeddedLedger::in_memory(Arc::new(SystemClock));
        let ledger = Arc::new(Gated { books, gate: Semaphore::new(0), answer });
        let shared: Arc<dyn Ledger> = ledger.clone();
        let settler = Settler::start(shared.clone(), 4);
        Self { ledger, shared, settler, tasks: Tasks::default() }
    }

    /// A reservation of 900 and 9,000 tokens whose first attempt has failed.
    async fn attempted(&self) -> Reservation {
        let admission = admission(1, 900, 9_000);
        let decision = self.ledger.admit(&admission, None).await.expect("in memory");
        let place = self.settler.try_place().expect("room");
        let mut reservation = Reservation::new(admission.reservation, customer(), &admission.claims, None, &decision, place);
        reservation.attempted();
        reservation
    }

    /// Spent, held, and tokens left, once everything is settled but what is in flight.
    async fn stands(&self) -> (u64, u64, u64) {
        let balance = self.ledger.read(&customer()).await.expect("in memory")[0];
        let nothing = self.ledger.admit(&admission(99, 0, 0), None).await.expect("in memory");
        (balance.spent, balance.held, nothing.verdicts[1].remaining)
    }

    /// The same when nothing is in flight any more.
    async fn settled(&self) -> (u64, u64, u64) {
        assert_eq!(self.settler.drain(Duration::from_secs(5)).await, 0);
        let status = self.settler.status();
        assert_eq!((status.settled, status.outstanding), (1, 0), "settled exactly once");
        self.stands().await
    }

    fn renewed(&self) -> Vec<u128> {
        let renewals = self.settler.running().renewals(Duration::from_secs(1));
        renewals.iter().map(|renewal| renewal.reservation.bits()).collect()
    }
}

/// The failed attempt cost something, as seldom happens.
fn used() -> Actuals {
    Actuals { attempted: true, input: 100, input_uncached: 100, output: 0, cost: NanoUsd::new(20), ..Actuals::default() }
}

#[tokio::test]
async fn what_is_admitted_takes_over_the_duty_and_the_place() {
    let scene = Scene::new(Answer::Heard);
    let old = scene.attempted().await;
    scene.ledger.gate.add_permits(1);
    let Replaced { mut reservation, decision, .. } =
        old.replaced(&used(), admission(2, 950, 9_500), &scene.shared, &scene.tasks).await;
    assert!(decision.expect("an answer").admitted);
    assert_eq!((reservation.id().bits(), scene.renewed()), (2, vec![2]));
    assert_eq!(scene.stands().await, (20, 950, 400));
    reservation.attempted();
    reservation.settle(&Actuals { input: 1_000, cost: NanoUsd::new(300), ..Actuals::default() });
    assert_eq!(scene.settled().await, (320, 0, 8_900));
}

#[tokio::test]
async fn what_is_admitted_and_never_attempted_is_given_back_but_not_what_was_used() {
    let scene = Scene::new(Answer::Heard);
    let old = scene.attempted().await;
    scene.ledger.gate.add_permits(1);
    drop(old.replaced(&used(), admission(2, 950, 9_500), &scene.shared, &scene.tasks).await);
    assert_eq!(scene.settled().await, (20, 0, 9_900));
}

#[tokio::test]
async fn what_is_refused_or_fails_leaves_the_old_one_at_what_it_used() {
    for (answer, asked) in [(Answer::Heard, 981), (Answer::Failed, 1), (Answer::Lost, 950)] {
        let scene = Scene::new(answer);
        let old = scene.attempted().await;
        scene.ledger.gate.add_permits(1);
        let replaced = old.replaced(&used(), admission(2, asked, 100), &scene.shared, &scene.tasks).await;
        assert_eq!(replaced.decision.is_ok(), answer == Answer::Heard);
        assert_eq!(replaced.reservation.id().bits(), 1);
        let held = if answer == Answer::Lost { asked } else { 900 };
        assert_eq!(scene.stands().await.1, held, "{answer:?}");
        drop(replaced);
        // Where the answer was lost, the new hold stays until its lease ends.
        let left = if answer == Answer::Lost { (20, 950, 9_800) } else { (20, 0, 9_900) };
        assert_eq!(scene.settled().await, left, "{answer:?}");
    }
}

#[tokio::test]
async fn a_further_attempt_with_the_old_one_is_charged_as_held_again() {
    let scene = Scene::new(Answer::Failed);
    let old = scene.attempted().await;
    scene.ledger.gate.add_permits(1);
    let mut replaced = old.replaced(&used(), admission(2, 1, 1), &scene.shared, &scene.tasks).await;
    replaced.reservation.attempted();
    drop(replaced);
    assert_eq!(scene.settled().await, (900, 0, 1_000));
}

#[tokio::test]
async fn a_caller_that_leaves_meanwhile_holds_nothing() {
    for (answer, asked, left) in
        [(Answer::Heard, 950, (20, 0, 9_900)), (Answer::Heard, 981, (20, 0, 9_900)), (Answer::Failed, 1, (20, 0, 9_900))]
    {
        let scene = Scene::new(answer);
        let old = scene.attempted().await;
        let mut asking = Box::pin(old.replaced(&used(), admission(2, asked, 100), &scene.shared, &scene.tasks));
        assert!(futures_util::poll!(&mut asking).is_pending());
        drop(asking);
        assert_eq!((scene.tasks.count(), scene.renewed()), (1, vec![1]), "it is still waited for");
        assert_eq!(scene.stands().await, (0, 900, 1_000));
        scene.ledger.gate.add_permits(1);
        assert_eq!(scene.settled().await, left, "{answer:?} {asked}");
    }
}

#[tokio::test]
async fn a_question_that_is_cut_off_settles_the_old_one_at_what_it_used() {
    let scene = Scene::new(Answer::Heard);
    let old = scene.attempted().await;
    let mut asking = Box::pin(old.replaced(&used(), admission(2, 950, 100), &scene.shared, &scene.tasks));
    assert!(futures_util::poll!(&mut asking).is_pending());
    drop(asking);
    assert!(!scene.tasks.end(Duration::from_millis(1)).await, "it had to be dropped");
    assert_eq!(scene.settled().await, (20, 0, 9_900));
}

#[tokio::test]
async fn what_was_never_attempted_is_given_back_whole() {
    let scene = Scene::new(Answer::Heard);
    let admission_of = admission(1, 900, 9_000);
    let decision = scene.ledger.admit(&admission_of, None).await.expect("in memory");
    let place = scene.settler.try_place().expect("room");
    let old = Reservation::new(admission_of.reservation, customer(), &admission_of.claims, None, &decision, place);
    scene.ledger.gate.add_permits(1);
    let replaced = old.replaced(&Actuals::default(), admission(2, 1_000, 10_000), &scene.shared, &scene.tasks).await;
    assert_eq!(scene.stands().await, (0, 1_000, 0));
    drop(replaced);
    assert_eq!(scene.settled().await, (0, 0, 10_000));
}
