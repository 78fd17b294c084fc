//! The semaphore: a fixed number of slots, fair between customers, weighted between priorities, with a bounded queue.
//!
//! Waiting customers take turns, so one customer's thousand requests delay another's single one by at most one turn. A permit is freed
//! when it is dropped, which the concurrency layer does at the end of the reply body, not at its headers.

use crate::domain::Priority;
use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Turns per round: live work first, but nobody starves.
const WEIGHTS: [(Priority, i64); 3] = [(Priority::Live, 8), (Priority::Internal, 3), (Priority::Background, 1)];

/// The slots of this process. Clones share them.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    slots: usize,
    queue: usize,
    queue_per_customer: usize,
    /// Slots that are given out; more than there are for a while after they were made fewer.
    used: usize,
    queued: usize,
    next_id: u64,
    /// Requests of a customer that run or wait.
    in_flight: HashMap<Arc<str>, u32>,
    lanes: [Lane; 3],
}

#[derive(Debug, Default)]
struct Lane {
    /// Smooth weighted round robin: grows by the weight while the lane waits, pays the total when it is chosen.
    credit: i64,
    /// Customers with waiting requests, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    waiting: HashMap<Arc<str>, VecDeque<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    grant: oneshot::Sender<()>,
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSlot {
    /// The customer already has as many requests in flight as its plan allows.
    CustomerInFlight {
        /// The plan's limit.
        limit: u32,
        /// How many there are.
        in_flight: u32,
    },
    /// The queue, or the customer's part of it, is full.
    QueueFull,
}

impl Slots {
    /// `slots` requests at once; `queue` wait, of one customer at most `queue_per_customer`.
    #[must_use]
    pub fn new(slots: usize, queue: usize, queue_per_customer: usize) -> Self {
        let state = State {
            slots,
            queue,
            queue_per_customer,
            used: 0,
            queued: 0,
            next_id: 0,
            in_flight: HashMap::new(),
            lanes: Default::default(),
        };
        Self(Arc::new(Shared { state: Mutex::new(state) }))
    }

    /// From now on there are so many. Whoever has a slot or a place in the queue keeps it: where there are fewer than before, nobody else
    /// gets one until enough have come free.
    pub fn resize(&self, slots: usize, queue: usize, queue_per_customer: usize) {
        let mut state = self.0.state.lock();
        (state.slots, state.queue, state.queue_per_customer) = (slots, queue, queue_per_customer);
        state.fill();
    }

    /// A slot, or a place in the queue.
    ///
    /// # Errors
    /// [`NoSlot`] when the customer's own limit is reached or the queue is full.
    pub fn ask(&self, customer: &Arc<str>, priority: Priority, max_in_flight: Option<u32>) -> Result<Turn, NoSlot> {
        let mut state = self.0.state.lock();
        let running = state.in_flight.get(customer).copied().unwrap_or(0);
        if let Some(limit) = max_in_flight.filter(|limit| running >= *limit) {
            return Err(NoSlot::CustomerInFlight { limit, in_flight: running });
        }
        let permit = |slots: &Self| Permit { slots: slots.clone(), customer: customer.clone() };
        if state.used < state.slots && state.queued == 0 {
            state.used += 1;
            *state.in_flight.entry(customer.clone()).or_default() += 1;
            return Ok(Turn::Now(permit(self)));
        }
        let lane = &mut state.lanes[lane_of(priority)];
        let own = lane.waiting.get(customer).map_or(0, VecDeque::len);
        if own >= state.queue_per_customer || state.queued >= state.queue {
            return Err(NoSlot::QueueFull);
        }
        let id = state.next_id;
        state.next_id += 1;
        state.queued += 1;
        *state.in_flight.entry(customer.clone()).or_default() += 1;
        let (grant, granted) = oneshot::channel();
        let lane = &mut state.lanes[lane_of(priority)];
        if own == 0 {
            lane.turns.push_back(customer.clone());
        }
        lane.waiting.entry(customer.clone()).or_default().push_back(Waiter { id, grant });
        drop(state);
        Ok(Turn::Later(Place { slots: self.clone(), customer: customer.clone(), priority, id, granted, done: false }))
    }

    /// How many requests of a customer run or wait, if that is as many as it may have.
    #[must_use]
    pub fn full(&self, customer: &Arc<str>, max_in_flight: Option<u32>) -> Option<NoSlot> {
        let limit = max_in_flight?;
        let in_flight = self.0.state.lock().in_flight.get(customer).copied().unwrap_or(0);
        (in_flight >= limit).then_some(NoSlot::CustomerInFlight { limit, in_flight })
    }

    /// How many requests of a customer run or wait.
    #[must_use]
    pub fn in_flight(&self, customer: &str) -> u32 {
        self.0.state.lock().in_flight.get(customer).copied().unwrap_or(0)
    }

    /// Slots in use and requests waiting.
    #[must_use]
    pub fn load(&self) -> Load {
        let state = self.0.state.lock();
        Load { free: state.slots.saturating_sub(state.used), queued: state.queued, customers: state.in_flight.len() }
    }

    fn release(&self, customer: &Arc<str>) {
        let mut state = self.0.state.lock();
        state.leave(customer);
        state.pass_on();
    }
}

/// How busy the slots are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Free slots.
    pub free: usize,
    /// Requests in the queue.
    pub queued: usize,
    /// Customers with a request running or waiting.
    pub customers: usize,
}

/// What [`Slots::ask`] gives.
#[derive(Debug)]
pub enum Turn {
    /// A slot.
    Now(Permit),
    /// A place in the queue.
    Later(Place),
}

/// A slot, free again when dropped.
#[derive(Debug)]
pub struct Permit {
    slots: Slots,
    customer: Arc<str>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.slots.release(&self.customer);
    }
}

/// A place in the queue; leaving it (dropping) makes room.
#[derive(Debug)]
pub struct Place {
    slots: Slots,
    customer: Arc<str>,
    priority: Priority,
    id: u64,
    granted: oneshot::Receiver<()>,
    done: bool,
}

impl Place {
    /// Waits for the turn.
    pub async fn turn(mut self) -> Permit {
        // An error would mean the queue forgot us, which only our own drop does.
        let _ = (&mut self.granted).await;
        self.done = true;
        Permit { slots: self.slots.clone(), customer: self.customer.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.slots.0.state.lock();
        state.leave(&self.customer);
        // Grants are made under this lock, so the slot was either given to us already or the entry is still there.
        if self.granted.try_recv().is_ok() {
            state.pass_on();
        } else {
            state.forget(self.priority, &self.customer, self.id);
        }
    }
}

impl State {
    fn leave(&mut self, customer: &Arc<str>) {
        if let Some(count) = self.in_flight.get_mut(customer) {
            *count -= 1;
            if *count == 0 {
                self.in_flight.remove(customer);
            }
        }
    }

    /// Gives a slot that became free to the next in line.
    fn pass_on(&mut self) {
        self.used -= 1;
        self.fill();
    }

    /// Gives free slots to those in line.
    fn fill(&mut self) {
        while self.used < self.slots {
            let Some(waiter) = self.next() else { return };
            self.queued -= 1;
            self.used += usize::from(waiter.grant.send(()).is_ok());
        }
    }

    fn next(&mut self) -> Option<Waiter> {
        let mut total = 0;
        for (lane, (_, weight)) in self.lanes.iter_mut().zip(WEIGHTS) {
            if !lane.turns.is_empty() {
                lane.credit += weight;
                total += weight;
            }
        }
        let lane = self.lanes.iter_mut().filter(|lane| !lane.turns.is_empty()).max_by_key(|lane| lane.credit)?;
        lane.credit -= total;
        let customer = lane.turns.pop_front()?;
        let queue = lane.waiting.get_mut(&customer)?;
        let waiter = queue.pop_front();
        if queue.is_empty() {
            lane.waiting.remove(&customer);
        } else {
            lane.turns.push_back(customer);
        }
        waiter
    }

    fn forget(&mut self, priority: Priority, customer: &Arc<str>, id: u64) {
        let lane = &mut self.lanes[lane_of(priority)];
        let Some(queue) = lane.waiting.get_mut(customer) else { return };
        let before = queue.len();
        queue.retain(|waiter| waiter.id != id);
        self.queued -= before - queue.len();
        if queue.is_empty() {
            lane.waiting.remove(customer);
            lane.turns.retain(|turn| turn != customer);
        }
    }
}

fn lane_of(priority: Priority) -> usize {
    WEIGHTS.iter().position(|(p, _)| *p == priority).unwrap_or(0)
}

#[cfg(test)]
mod tests;
