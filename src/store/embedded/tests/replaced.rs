//! Reservations that are replaced, or hold something after they ended: what of it survives the process.

use super::*;

#[tokio::test]
async fn a_replacement_survives_the_process_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let (old, settled) = {
        let ledger = open(directory.path(), LostHold::Charge);
        let first = request(1, "c", CAP - 100);
        let decision = ledger.admit(&first, None).await.expect("it decides");
        let old = end(&first, &decision, 30);
        let refused = ledger.replace(&old, &request(2, "c", CAP - 29), None).await.expect("it decides");
        assert!(!refused.admitted);
        assert_eq!(stands(&ledger, "c").await, (0, CAP - 100));
        let next = request(3, "c", CAP - 30);
        let decision = ledger.replace(&old, &next, None).await.expect("it decides");
        assert!(decision.admitted);
        (old, end(&next, &decision, 70))
    };
    for left in [(30 + CAP - 30, 0), (30 + CAP - 30, 0)] {
        let ledger = open(directory.path(), LostHold::Charge);
        assert_eq!(stands(&ledger, "c").await, left, "the old one as settled, the new one as lost, once");
        ledger.settle(&[old.clone(), settled.clone()], None).await.expect("it books");
        assert_eq!(stands(&ledger, "c").await, left, "both ended before");
        ledger.close();
        let audit = audit(directory.path(), NOW).expect("it reads");
        assert_eq!((audit.entries, audit.holds, audit.differences), (2, 0, Vec::new()));
    }
}

#[tokio::test]
async fn a_replacement_nobody_waits_for_gives_back_the_new_and_keeps_the_end_of_the_old() {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = open(directory.path(), LostHold::Charge);
    let mut left = None;
    // A disk may be faster than one look at the question; then there was nobody to leave, and another customer tries.
    for number in 0..100 {
        let customer = format!("c{number}");
        let first = request(2 * number + 1, &customer, 500);
        let decision = ledger.admit(&first, None).await.expect("it decides");
        let (old, next) = (end(&first, &decision, 30), request(2 * number + 2, &customer, 900));
        let mut asking = ledger.replace(&old, &next, None);
        let mut waits = true;
        while waits && stands(&ledger, &customer).await != (30, 900) {
            waits = futures_util::poll!(&mut asking).is_pending();
            tokio::task::yield_now().await;
        }
        drop(asking);
        if waits {
            left = Some((customer, old));
            break;
        }
    }
    let (customer, old) = left.expect("one of a hundred waits for the disk");
    assert_eq!(stands(&ledger, &customer).await, (30, 0));
    ledger.settle(&[old], None).await.expect("it books");
    ledger.close();
    let ledger = open(directory.path(), LostHold::Charge);
    assert_eq!(stands(&ledger, &customer).await, (30, 0));
}

#[tokio::test]
async fn what_is_held_after_the_end_is_not_found_by_the_next_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = open(directory.path(), LostHold::Charge);
    let first = request(1, "c", 500);
    let decision = ledger.admit(&first, None).await.expect("it decides");
    let ended = end(&first, &decision, 30);
    ledger.settle(std::slice::from_ref(&ended), None).await.expect("it books");
    assert!(ledger.admit(&request(1, "c", 200), None).await.expect("it decides").admitted, "it was long on its way");
    assert_eq!((stands(&ledger, "c").await, ledger.size().in_flight), ((30, 200), 1));
    ledger.settle(&[ended], None).await.expect("it books");
    assert_eq!((stands(&ledger, "c").await, ledger.size().in_flight), ((30, 0), 0));
    ledger.close();
    let audited = audit(directory.path(), NOW).expect("it reads");
    assert_eq!((audited.entries, audited.holds, audited.differences), (1, 0, Vec::new()));
    assert_eq!(stands(&open(directory.path(), LostHold::Charge), "c").await, (30, 0));
}
