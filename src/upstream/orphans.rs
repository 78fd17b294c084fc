//! Calls whose client left and that go on without it, since only their end tells what they cost: bounded, for each customer and in all.
//!
//! Such a call holds no slot and does not count as in flight, so without a bound a customer that calls and leaves, again and again, would
//! have any number of calls running at the provider. Beyond the bound a call is dropped, which cancels it and charges what is known.

use super::Tasks;
use foldhash::HashMap;
use parking_lot::Mutex;
use std::sync::Arc;

/// Adopts calls whose client left. Clones share the bound.
#[derive(Clone, Debug)]
pub struct Orphans {
    tasks: Tasks,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    most: usize,
    of_one: usize,
    all: usize,
    by_customer: HashMap<Arc<str>, usize>,
}

/// A place among the adopted, free again when dropped.
#[derive(Debug)]
pub struct Adopted {
    shared: Arc<Shared>,
    customer: Arc<str>,
}

impl Orphans {
    /// At most `most` at once, of one customer at most `of_one`.
    #[must_use]
    pub fn new(tasks: Tasks, most: usize, of_one: usize) -> Self {
        let running = Running { most, of_one, ..Running::default() };
        Self { tasks, shared: Arc::new(Shared { running: Mutex::new(running) }) }
    }

    /// From now on so many. Those that go on already are left alone.
    pub fn resize(&self, most: usize, of_one: usize) {
        let mut running = self.shared.running.lock();
        (running.most, running.of_one) = (most, of_one);
    }

    /// Lets a call go on in a task of its own; the place is given back when the work drops it. Where the bound is reached the work is
    /// dropped unstarted, so what it owns has to settle on drop, and false is given.
    pub fn adopt<W: Future<Output = ()> + Send + 'static>(
        &self,
        customer: &Arc<str>,
        work: impl FnOnce(Adopted) -> W + Send + 'static,
    ) -> bool {
        let Some(place) = self.place(customer) else { return false };
        self.tasks.spawn(work(place));
        true
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.running.lock().all
    }

    fn place(&self, customer: &Arc<str>) -> Option<Adopted> {
        let mut running = self.shared.running.lock();
        let own = running.by_customer.get(customer).copied().unwrap_or(0);
        if running.all >= running.most || own >= running.of_one {
            return None;
        }
        running.all += 1;
        *running.by_customer.entry(customer.clone()).or_default() += 1;
        Some(Adopted { shared: self.shared.clone(), customer: customer.clone() })
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        let mut running = self.shared.running.lock();
        running.all -= 1;
        if let Some(own) = running.by_customer.get_mut(&self.customer) {
            *own -= 1;
            if *own == 0 {
                running.by_customer.remove(&self.customer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn adopts_so_many_of_each_and_so_many_in_all() {
        let orphans = Orphans::new(Tasks::default(), 3, 2);
        let (ends, mut running) = (Arc::new(()), Vec::new());
        let mut adopt = |customer: &str| {
            let (end, ended) = oneshot::channel::<()>();
            let owned = ends.clone();
            let adopted = orphans.adopt(&customer.into(), |place| async move {
                let _owned = (place, owned);
                let _ = ended.await;
            });
            running.push(end);
            adopted
        };
        assert_eq!([adopt("a"), adopt("a"), adopt("a")], [true, true, false], "two of one customer");
        assert_eq!([adopt("b"), adopt("c")], [true, false], "three in all");
        assert_eq!((orphans.count(), Arc::strong_count(&ends)), (3, 4), "what was not adopted is dropped");
        running.clear();
        while orphans.count() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(orphans.shared.running.lock().by_customer.is_empty(), "nobody is remembered");
    }
}
