use super::super::fixture::{DAY, settlement};
use super::*;
use tempfile::TempDir;

const ROOM: u64 = 1 << 20;

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn open(directory: &TempDir) -> Journal {
    Journal::open(directory.path(), ROOM).expect("it opens")
}

fn some(ids: std::ops::Range<u128>) -> Vec<Settlement> {
    ids.map(|id| settlement(id, "c", 60, 30, DAY)).collect()
}

fn waiting(journal: &Journal) -> Vec<(u128, u64, Option<u64>)> {
    let waiting = journal.waiting(0, 1_000).expect("readable");
    waiting
        .iter()
        .map(|w| (w.settlement.reservation.bits(), w.settlement.lines[0].actual, w.tried.map(Timestamp::micros)))
        .collect()
}

fn length(directory: &TempDir) -> u64 {
    std::fs::metadata(directory.path().join("0.journal")).expect("there").len()
}

#[test]
fn what_waits_survives_the_process_in_order_and_starts_over_when_nothing_waits() {
    let directory = directory();
    let journal = open(&directory);
    journal.keep(&some(1..3), Some(Timestamp(5))).expect("room");
    journal.keep(&some(3..5), None).expect("room");
    journal.done([ReservationId::new(2), ReservationId::new(77)]).expect("written");
    let right = [(1, 30, Some(5)), (3, 30, None), (4, 30, None)];
    assert_eq!((waiting(&journal).as_slice(), journal.len()), (&right[..], 3));
    drop(journal);
    let journal = open(&directory);
    assert_eq!(waiting(&journal), right);
    journal.trying(Timestamp(9)).expect("written");
    journal.keep(&some(6..7), None).expect("room");
    drop(journal);
    let journal = open(&directory);
    assert_eq!(waiting(&journal), [(1, 30, Some(5)), (3, 30, Some(9)), (4, 30, Some(9)), (6, 30, None)]);
    let second = journal.waiting(0, 2).expect("readable");
    assert_eq!(journal.waiting(second[1].number + 1, 9).expect("readable")[0].settlement, some(4..5)[0]);
    journal.done([1, 3, 4, 6].map(ReservationId::new)).expect("written");
    assert_eq!((waiting(&journal).len(), journal.len(), length(&directory)), (0, 0, 0));
}

#[test]
fn what_is_in_flight_waits_for_its_end_and_is_charged_as_held_if_the_process_dies() {
    let directory = directory();
    let journal = open(&directory);
    for id in 1..4 {
        journal.hold(&settlement(id, "c", 60, 60, DAY)).expect("room");
    }
    assert_eq!((waiting(&journal), journal.len()), (Vec::new(), 0), "in flight");
    journal.trying(Timestamp(9)).expect("written");
    journal.keep(&[settlement(2, "c", 60, 30, DAY)], None).expect("room");
    journal.done([ReservationId::new(3)]).expect("written");
    assert_eq!(waiting(&journal), [(2, 30, None)]);
    drop(journal);
    assert_eq!(waiting(&open(&directory)), [(1, 60, None), (2, 30, None)]);
}

#[test]
fn a_line_cut_short_never_counted_and_a_damaged_one_costs_only_itself() {
    let directory = directory();
    let journal = open(&directory);
    journal.keep(&some(1..4), None).expect("room");
    drop(journal);
    let path = directory.path().join("0.journal");
    let text = std::fs::read_to_string(&path).expect("text");
    let mut lines: Vec<_> = text.lines().collect();
    lines[1] = "{\"ended\":{}}";
    std::fs::write(&path, format!("{}\n{}", lines.join("\n"), &lines[0][..40])).expect("writable");
    let journal = open(&directory);
    assert_eq!(waiting(&journal), [(1, 30, None), (3, 30, None)]);
    journal.keep(&some(4..5), None).expect("room");
    drop(journal);
    assert_eq!(waiting(&open(&directory)), [(1, 30, None), (3, 30, None), (4, 30, None)]);
}

#[test]
fn processes_share_a_directory_and_the_living_take_over_from_the_dead() {
    let directory = directory();
    let (first, second) = (open(&directory), open(&directory));
    first.keep(&some(1..2), None).expect("room");
    second.keep(&some(2..3), Some(Timestamp(5))).expect("room");
    assert_eq!(waiting(&open(&directory)), [], "both live");
    drop(second);
    let third = open(&directory);
    assert_eq!(waiting(&third), [(2, 30, Some(5))]);
    drop((first, third));
    let fourth = open(&directory);
    assert_eq!(waiting(&fourth), [(1, 30, None), (2, 30, Some(5))]);
    drop(fourth);
    assert_eq!(waiting(&open(&directory)).len(), 2, "nothing twice");
}

#[test]
fn it_is_bounded_and_makes_room_from_what_no_longer_matters() {
    let directory = directory();
    let line = serde_json::to_vec(&Record::Held(Stored::of(&settlement(1, "c", 60, 60, DAY)))).expect("written").len() as u64;
    let most = line * 20;
    let journal = Journal::open(directory.path(), most).expect("it opens");
    journal.hold(&settlement(0, "c", 60, 60, DAY)).expect("room");
    journal.keep(&some(1..2), Some(Timestamp(5))).expect("room");
    for id in 2..500 {
        journal.keep(&some(id..id + 1), None).expect("there is room, since the one before is done");
        journal.done([ReservationId::new(id)]).expect("written");
        assert!(length(&directory) <= most);
    }
    assert_eq!(waiting(&journal), [(1, 30, Some(5))]);
    let kept = (500..600).take_while(|id| journal.keep(&some(*id..id + 1), None).is_ok()).count();
    assert!((8..20).contains(&kept), "{kept}");
    let error = journal.keep(&some(900..901), None).expect_err("full");
    assert!(error.to_string().contains("bytes"), "{error}");
    assert!(length(&directory) <= most && journal.len() == kept + 1);
    drop(journal);
    let journal = Journal::open(directory.path(), most).expect("it opens");
    assert_eq!(waiting(&journal).len(), kept + 2, "the one in flight has ended");
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let error = Journal::open(&file.path().join("journal"), ROOM).err().expect("not a directory");
    assert!(error.to_string().contains("journal of settlements in"), "{error}");
}
