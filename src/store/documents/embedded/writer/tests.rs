use super::*;
use crate::store::documents::embedded::disk::End;
use crate::store::documents::{Collection, Expected};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// A disk in memory that fails when told to.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    spaces: BTreeMap<(Space, Vec<u8>), Vec<u8>>,
    version: u64,
    full: bool,
    commits: usize,
    walked: usize,
}

impl Disk for Fake {
    fn record(&self, key: &[u8]) -> Result<Option<Record>, StoreError> {
        Ok(self.0.lock().spaces.get(&(Space::Documents, key.to_vec())).and_then(|bytes| Record::decode(bytes)))
    }
    fn last_version(&self) -> Result<u64, StoreError> {
        Ok(self.0.lock().version)
    }
    fn commit(&mut self, writes: &Writes, last_version: u64) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        if state.full {
            return Err(StoreError::Failed("full".into()));
        }
        state.commits += 1;
        state.version = last_version;
        for (key, value) in writes {
            match value {
                Some(value) => state.spaces.insert(key.clone(), value.clone()),
                None => state.spaces.remove(key),
            };
        }
        Ok(())
    }
    fn ended(&self, from: &[u8], now: Timestamp, most: usize) -> Result<Vec<End>, StoreError> {
        let mut state = self.0.lock();
        let until = format::end_key(now.plus(1), &[]);
        let range = (Space::Ends, from.to_vec())..(Space::Ends, until);
        let (mut ends, mut documents) = (Vec::new(), 0);
        for ((_, key), value) in state.spaces.range(range) {
            documents += format::read_end(key, value).map_or(1, |(_, keys)| keys.len());
            ends.push((key.clone(), value.clone()));
            if documents >= most {
                break;
            }
        }
        state.walked += ends.len();
        Ok(ends)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn reopen(&mut self) -> Result<(), StoreError> {
        if self.0.lock().full { Err(StoreError::Failed("still full".into())) } else { Ok(()) }
    }
}

/// A clock that a test sets.
#[derive(Default)]
struct Hand(Mutex<Timestamp>);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

fn writer(disk: &Fake) -> (Writer<Fake>, mpsc::Sender<Message>, Arc<Hand>) {
    let (inbox, messages) = mpsc::channel(64);
    let clock = Arc::new(Hand(Mutex::new(NOW)));
    (Writer::new(disk.clone(), messages, clock.clone()).expect("readable"), inbox, clock)
}

fn ticket(id: &str, keep: Option<Duration>) -> Write {
    let value = Some(Bytes::from_static(b"x"));
    Write { collection: Collection::Tickets, id: id.into(), expected: Expected::Anything, value, keep, rank: 7 }
}

/// The record of a request, which is written without a look.
fn request(id: &str, keep: u64) -> Write {
    Write { collection: Collection::Requests, rank: 0, ..ticket(id, Some(Duration::from_secs(keep))) }
}

/// Has it write these in one batch and gives what became of them.
fn told(writer: &mut Writer<Fake>, writes: &[Write]) -> Vec<Result<Written, StoreError>> {
    let (mut messages, mut answers) = (Vec::new(), Vec::new());
    for write in writes {
        let (ack, written) = oneshot::channel();
        messages.push(Message { writes: vec![write.clone()], now: None, ack });
        answers.push(written);
    }
    writer.write(&mut messages);
    let one = |mut answer: oneshot::Receiver<Result<Vec<Written>, StoreError>>| {
        answer.try_recv().expect("answered").map(|mut written| written.remove(0))
    };
    answers.into_iter().map(one).collect()
}

#[test]
fn writes_of_one_batch_see_each_other_and_are_committed_once() {
    let disk = Fake::default();
    let (mut writer, _inbox, _) = writer(&disk);
    let first = Write { expected: Expected::Nothing, ..ticket("a", None) };
    let version = NOW.micros();
    let next = Write { expected: Expected::Version(version), value: None, ..first.clone() };
    let found = Document { version, value: Bytes::from_static(b"x") };
    let right =
        [Ok(Written::Done(version)), Ok(Written::Found(Some(found))), Ok(Written::Done(0)), Ok(Written::Done(version + 1))];
    assert_eq!(told(&mut writer, &[first.clone(), first.clone(), next, first]), right);
    let state = disk.0.lock();
    assert_eq!((state.commits, state.version, state.spaces.len()), (1, version + 1, 2), "a document and its place");
}

#[test]
fn a_full_disk_acknowledges_nothing_and_is_written_again_once_it_can_be() {
    let disk = Fake::default();
    let (mut writer, _inbox, _) = writer(&disk);
    disk.0.lock().full = true;
    assert_eq!(told(&mut writer, &[ticket("a", None)]), [Err(StoreError::Failed("full".into()))]);
    writer.tick();
    assert_eq!(told(&mut writer, &[ticket("a", None)]), [Err(StoreError::Failed("still full".into()))]);
    disk.0.lock().full = false;
    assert!(told(&mut writer, &[ticket("a", None)])[0].is_err(), "only a tick opens it anew");
    writer.tick();
    assert!(told(&mut writer, &[ticket("a", None)])[0].is_ok());
    assert_eq!(disk.0.lock().spaces.len(), 2, "what failed left nothing");
}

#[test]
fn what_has_ended_leaves_nothing_and_is_walked_over_once() {
    let disk = Fake::default();
    let (mut writer, _inbox, clock) = writer(&disk);
    let second = Some(Duration::from_secs(1));
    told(&mut writer, &[ticket("a", second), ticket("b", second), ticket("stays", None)]);
    told(&mut writer, &[ticket("b", Some(Duration::from_secs(9)))]);
    writer.tick();
    assert_eq!(disk.0.lock().spaces.len(), 3 * 2 + 2, "nothing has ended");
    *clock.0.lock() = NOW.plus(1_000_000);
    writer.tick();
    assert_eq!(disk.0.lock().spaces.len(), 2 * 2 + 1, "a is gone; b was prolonged");
    writer.tick();
    assert_eq!(disk.0.lock().walked, 1, "the end of b before it was prolonged is gone, that of a is passed");
    told(&mut writer, &[ticket("c", Some(Duration::ZERO))]);
    writer.tick();
    assert_eq!(disk.0.lock().spaces.len(), 2 * 2 + 1, "one that ends where the last walk ended is found all the same");
}

#[test]
fn a_tick_removes_a_bounded_number() {
    let disk = Fake::default();
    let (mut writer, _inbox, clock) = writer(&disk);
    let writes: Vec<_> = (0..REMOVED + 8).map(|n| ticket(&n.to_string(), Some(Duration::from_secs(1)))).collect();
    told(&mut writer, &writes);
    writer.tick(); // which pays for what was written
    *clock.0.lock() = NOW.plus(1_000_000);
    writer.tick();
    assert_eq!(disk.0.lock().spaces.len(), 3 * 8);
    writer.tick();
    assert_eq!(disk.0.lock().spaces.len(), 0);
}

#[test]
fn records_of_one_batch_share_the_entry_of_their_end_and_each_ends_when_it_should() {
    let disk = Fake::default();
    let (mut writer, _inbox, clock) = writer(&disk);
    let ends = |disk: &Fake| disk.0.lock().spaces.keys().filter(|(space, _)| *space == Space::Ends).count();
    let documents = |disk: &Fake| disk.0.lock().spaces.keys().filter(|(space, _)| *space == Space::Documents).count();
    let writes: Vec<_> = (0..100).map(|n| request(&n.to_string(), 1 + n % 2)).collect();
    told(&mut writer, &writes);
    assert_eq!((documents(&disk), ends(&disk)), (100, 2), "one for each second in which some end");
    // The same instant, another batch: the entries of the first stay what they are.
    told(&mut writer, &[request("0", 1), request("1", 9)]);
    assert_eq!((documents(&disk), ends(&disk)), (100, 4));
    // One that was looked at when it was replaced has an end of its own.
    told(&mut writer, &[Write { expected: Expected::Version(NOW.micros() + 2), ..request("2", 9) }]);
    assert_eq!((documents(&disk), ends(&disk)), (100, 5));
    *clock.0.lock() = NOW.plus(1_000_000);
    writer.tick();
    assert_eq!((documents(&disk), ends(&disk)), (51, 3), "the even ones are gone but for 2, which was prolonged");
    *clock.0.lock() = NOW.plus(2_000_000);
    writer.tick();
    assert_eq!((documents(&disk), ends(&disk)), (2, 2), "1 and 2");
    *clock.0.lock() = NOW.plus(9_000_000);
    writer.tick();
    assert_eq!(disk.0.lock().spaces.len(), 0);
}

#[test]
fn versions_go_on_where_they_were_even_when_the_clock_went_back() {
    let disk = Fake::default();
    let version = NOW.micros() + 1_000;
    disk.0.lock().version = version;
    let (mut writer, _inbox, _) = writer(&disk);
    assert_eq!(told(&mut writer, &[ticket("a", None)]), [Ok(Written::Done(version + 1))]);
}
