//! A disk that fails.

use super::super::disk::Writes;
use super::*;
use parking_lot::Mutex;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Platter {
    data: BTreeMap<(Space, Vec<u8>), Vec<u8>>,
    full: bool,
    /// Whether a failing commit writes all the same.
    torn: bool,
}

#[derive(Clone, Default)]
pub struct FlakyDisk(pub Arc<Mutex<Platter>>);

impl FlakyDisk {
    fn fill(&self, torn: bool) {
        let mut platter = self.0.lock();
        (platter.full, platter.torn) = (true, torn);
    }

    pub fn count(&self, space: Space) -> usize {
        self.0.lock().data.keys().filter(|(s, _)| *s == space).count()
    }
}

fn full() -> StoreError {
    StoreError::Failed("no space left on device".into())
}

impl Disk for FlakyDisk {
    fn commit(&mut self, writes: &Writes) -> Result<(), StoreError> {
        let mut platter = self.0.lock();
        if !platter.full || platter.torn {
            for (key, value) in writes {
                match value {
                    Some(value) => drop(platter.data.insert(key.clone(), value.clone())),
                    None => drop(platter.data.remove(key)),
                }
            }
        }
        if platter.full { Err(full()) } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        if self.0.lock().full { Err(full()) } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.sync()
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.sync()
    }

    fn expired(&mut self, _: Timestamp, _: usize) -> Result<Vec<u64>, StoreError> {
        Ok(Vec::new())
    }
}

pub fn over(disk: &FlakyDisk) -> EmbeddedLedger {
    let clock = clock();
    EmbeddedLedger::start(Books::new(clock.clone(), true), disk.clone(), clock, 0).expect("it starts")
}

/// Until the writer has found out that the disk works again, which it tries every second.
async fn recovered(ledger: &EmbeddedLedger) {
    while ledger.ping().await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_full_disk_admits_nothing_holds_nothing_and_loses_nothing() {
    for torn in [false, true] {
        let disk = FlakyDisk::default();
        let ledger = over(&disk);
        let (flying, refused) = (request(1, "c", 100), request(2, "c", 40));
        let decision = ledger.admit(&flying, None).await.expect("it decides");
        let settlement = end(&flying, &decision, 70);
        disk.fill(torn);

        let error = ledger.settle(std::slice::from_ref(&settlement), None).await.expect_err("not durable");
        assert!(error.to_string().contains("no space left"), "{error}");
        for _ in 0..3 {
            assert!(matches!(ledger.admit(&refused, None).await, Err(StoreError::Failed(_))));
            assert!(ledger.settle(std::slice::from_ref(&settlement), None).await.is_err(), "still not durable");
        }
        assert!(ledger.ping().await.is_err());
        assert_eq!(stands(&ledger, "c").await, (70, 0), "booked in memory once, and no hold of the refused");
        let mut free = request(3, "c", 0);
        free.claims.truncate(2);
        assert!(ledger.admit(&free, None).await.expect("needs no disk").admitted);

        disk.0.lock().full = false;
        recovered(&ledger).await;
        ledger.settle(&[settlement], None).await.expect("durable now");
        let again = ledger.admit(&refused, None).await.expect("it decides");
        ledger.settle(&[end(&refused, &again, 5)], None).await.expect("it books");
        assert_eq!(stands(&ledger, "c").await, (75, 0));
        drop(ledger);
        assert_eq!((disk.count(Space::Holds), disk.count(Space::Ledger)), (0, 2), "torn: {torn}");
        let key = record::balance_key(&BalanceKey { scope: customer("c"), limit: DAY, period: NOW.secs() / 86_400 * 86_400 });
        assert_eq!(disk.0.lock().data[&(Space::Balances, key)], record::balance_value(75));
    }
}

#[tokio::test]
async fn an_admission_whose_write_fails_is_taken_back() {
    let disk = FlakyDisk::default();
    let ledger = over(&disk);
    disk.fill(true);
    assert!(ledger.admit(&request(1, "c", 100), None).await.is_err());
    assert_eq!(stands(&ledger, "c").await, (0, 0));
    assert_eq!(ledger.size().in_flight, 0);
    disk.0.lock().full = false;
    recovered(&ledger).await;
    drop(ledger);
    assert_eq!(disk.count(Space::Holds), 0, "though the failed write had reached the disk");
}

#[tokio::test]
async fn a_caller_that_leaves_while_the_disk_writes_takes_its_hold_along() {
    let disk = FlakyDisk::default();
    let ledger = over(&disk);
    for id in 0..50 {
        let admission = request(id, "c", 100);
        let stuck = disk.0.lock();
        assert!(ledger.admit(&admission, None).now_or_never().is_none(), "it waits for the disk, and is dropped");
        drop(stuck);
        if id % 2 == 0 {
            // Also when the write is through before the caller leaves.
            let mut admit = ledger.admit(&admission, None);
            let stuck = disk.0.lock();
            assert!((&mut admit).now_or_never().is_none());
            drop(stuck);
            ledger.flush().await.expect("written");
            drop(admit);
        }
    }
    assert_eq!(stands(&ledger, "c").await, (0, 0));
    let stays = ledger.admit(&request(99, "c", 1), None).await.expect("it decides");
    assert_eq!(stays.verdicts[1].remaining, 999, "requests per minute too");
    drop(ledger);
    assert_eq!(disk.count(Space::Holds), 1, "only the one still in flight");
}

#[tokio::test]
async fn a_settlement_here_waits_for_nothing_and_is_in_the_journal_at_the_end() {
    let disk = FlakyDisk::default();
    let ledger = over(&disk);
    let (first, second) = (request(1, "c", 100), request(2, "c", 100));
    let (one, other) =
        (ledger.admit(&first, None).await.expect("it decides"), ledger.admit(&second, None).await.expect("it decides"));
    let (one, other) = (end(&first, &one, 70), end(&second, &other, 20));
    assert!(ledger.settle_here(&one));
    assert!(ledger.settle_here(&one), "done before");
    assert_eq!(stands(&ledger, "c").await, (70, 100), "once, and at once");

    disk.fill(false);
    assert!(ledger.admit(&request(3, "c", 1), None).await.is_err());
    assert!(!ledger.settle_here(&other), "not while the journal takes nothing");
    assert_eq!(stands(&ledger, "c").await, (70, 100));
    disk.0.lock().full = false;
    recovered(&ledger).await;
    assert!(ledger.settle_here(&other));
    assert_eq!(stands(&ledger, "c").await, (90, 0));
    drop(ledger);
    assert_eq!((disk.count(Space::Holds), disk.count(Space::Ledger)), (0, 2));
}

#[test]
fn a_settlement_without_money_needs_no_journal() {
    let ledger = EmbeddedLedger::in_memory(clock());
    let mut free = request(1, "c", 0);
    free.claims.truncate(2);
    let decision = ledger.books.admit(&free, None, None::<fn(Vec<Change>)>).decision;
    assert!(ledger.settle_here(&end(&free, &decision, 0)));
}
