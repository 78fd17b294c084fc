use super::*;

fn name(text: &str) -> Arc<str> {
    text.into()
}

fn now(slots: &Slots, customer: &str) -> Permit {
    match slots.ask(&name(customer), Priority::Live, None) {
        Ok(Turn::Now(permit)) => permit,
        other => panic!("a free slot was expected: {other:?}"),
    }
}

fn later(slots: &Slots, customer: &str, priority: Priority) -> Place {
    match slots.ask(&name(customer), priority, None) {
        Ok(Turn::Later(place)) => place,
        other => panic!("a place in the queue was expected: {other:?}"),
    }
}

#[tokio::test]
async fn customers_take_turns() {
    let slots = Slots::new(1, 100, 100);
    let first = now(&slots, "t");
    let mut places: Vec<_> = (0..5).map(|_| later(&slots, "t", Priority::Live)).collect();
    let single = later(&slots, "v", Priority::Live);
    drop(first);
    drop(places.remove(0).turn().await);
    drop(single.turn().await); // v's turn comes second, not sixth
    assert_eq!(slots.load().queued, 3, "the next of t has its turn");
    drop(places);
    assert_eq!(slots.load(), Load { free: 1, queued: 0, customers: 0 });
}

#[tokio::test]
async fn a_slot_in_use_survives_that_there_are_fewer_and_more_are_given_to_those_in_line() {
    let slots = Slots::new(2, 100, 100);
    let held = [now(&slots, "a"), now(&slots, "b")];
    let mut waiting: VecDeque<_> = (0..4).map(|_| later(&slots, "c", Priority::Live)).collect();
    slots.resize(1, 2, 100);
    assert_eq!(slots.ask(&name("d"), Priority::Live, None).err(), Some(NoSlot::QueueFull), "the queue is shorter now");
    let [a, b] = held;
    drop(a);
    assert!(waiting[0].granted.try_recv().is_err(), "one is in use, and one there is");
    drop(b);
    let first = waiting.pop_front().expect("it waits").turn().await;
    assert!(waiting[0].granted.try_recv().is_err());
    slots.resize(3, 100, 100);
    let more = [waiting.pop_front().expect("it waits").turn().await, waiting.pop_front().expect("it waits").turn().await];
    assert!(waiting[0].granted.try_recv().is_err(), "three are three");
    drop((first, more, waiting));
    assert_eq!(slots.load(), Load { free: 3, queued: 0, customers: 0 });
}

#[tokio::test]
async fn background_waits_behind_live_but_does_not_starve() {
    let slots = Slots::new(1, 100, 100);
    let first = now(&slots, "x");
    let mut live: VecDeque<_> = (0..30).map(|_| later(&slots, "live", Priority::Live)).collect();
    let mut background: VecDeque<_> = (0..30).map(|_| later(&slots, "job", Priority::Background)).collect();
    drop(first);
    let (mut live_served, mut background_served) = (0, 0);
    for _ in 0..27 {
        tokio::select! {
            biased;
            permit = live.front_mut().map(|p| &mut p.granted).expect("waits") => {
                permit.expect("granted");
                let mut place = live.pop_front().expect("front");
                place.done = true;
                live_served += 1;
                drop(Permit { slots: slots.clone(), customer: place.customer.clone() });
            }
            permit = background.front_mut().map(|p| &mut p.granted).expect("waits") => {
                permit.expect("granted");
                let mut place = background.pop_front().expect("front");
                place.done = true;
                background_served += 1;
                drop(Permit { slots: slots.clone(), customer: place.customer.clone() });
            }
        }
    }
    assert_eq!((live_served, background_served), (24, 3), "eight to one");
}

#[test]
fn leaving_the_queue_gives_the_place_back() {
    let slots = Slots::new(1, 2, 2);
    let first = now(&slots, "t");
    let (a, b) = (later(&slots, "t", Priority::Live), later(&slots, "t", Priority::Live));
    assert!(matches!(slots.ask(&name("v"), Priority::Live, None), Err(NoSlot::QueueFull)));
    drop(a);
    let c = later(&slots, "v", Priority::Live);
    drop(first); // granted to b, which leaves without looking
    drop(b);
    drop(c);
    assert_eq!(slots.load(), Load { free: 1, queued: 0, customers: 0 });
}

#[test]
fn a_customer_never_has_more_in_flight_than_its_plan_allows() {
    let slots = Slots::new(8, 8, 8);
    let ask = || slots.ask(&name("t"), Priority::Live, Some(4));
    let held: Vec<_> = (0..4).map(|_| ask().expect("within the plan")).collect();
    assert_eq!(ask().err(), Some(NoSlot::CustomerInFlight { limit: 4, in_flight: 4 }));
    assert!(slots.ask(&name("v"), Priority::Live, Some(4)).is_ok());
    drop(held);
    assert!(ask().is_ok());
}
