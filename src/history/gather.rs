//! Gathering: what happened since the last flush, added up in memory, a look-up and a few additions per event.
//!
//! Bounded: beyond [`MOST_CELLS`] customers and hours between two flushes further customers are counted in everybody's rows and the
//! model's only, never in their own; that many are flushed long before, unless the store is away.

use super::counts::{Cause, Count, ModelCount, Peaks};
use crate::domain::CustomerId;
use foldhash::quality::RandomState;
use foldhash::{HashMap, HashSet};
use parking_lot::Mutex;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Customers and hours that are gathered at most. One takes about half a kilobyte.
pub const MOST_CELLS: usize = 65_536;
/// Many enough to be flushed before their time.
pub const MANY_CELLS: usize = 8_192;
/// Parts, each with a lock of its own.
const PARTS: usize = 16;
/// Models told apart on one day, per gateway. Their names are the provider's and, where models without a price are free, the clients'.
const MOST_MODELS: usize = 1_000;
/// The name of all further models.
pub const OTHER: &str = "other";

/// What is counted of one customer, or of everybody, in one hour.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub counts: [u64; Count::COUNT],
    pub causes: Vec<(Cause, u64)>,
    /// Limits of a proposed plan, and how many requests they would have refused.
    pub shadows: Vec<(Cause, u64)>,
    /// Minutes, and what belongs to each peak.
    pub minutes: Vec<(u64, [u64; Peaks::COUNT])>,
    /// Requests by plan; one, normally.
    pub plans: Vec<(Arc<str>, u64)>,
}

impl Cell {
    /// Adds to a counter.
    pub fn add(&mut self, count: Count, amount: u64) {
        let sum = &mut self.counts[count as usize];
        *sum = sum.saturating_add(amount);
    }

    /// Adds to a minute of a peak.
    pub fn peak(&mut self, minute: u64, peak: Peaks, amount: u64) {
        let at = self.minutes.iter().rposition(|(known, _)| *known == minute).unwrap_or_else(|| {
            self.minutes.push((minute, [0; Peaks::COUNT]));
            self.minutes.len() - 1
        });
        let sum = &mut self.minutes[at].1[peak as usize];
        *sum = sum.saturating_add(amount);
    }

    /// Counts a request under a plan.
    pub fn plan(&mut self, plan: &Arc<str>) {
        match self.plans.iter_mut().find(|(known, _)| known == plan) {
            Some((_, requests)) => *requests += 1,
            None => self.plans.push((plan.clone(), 1)),
        }
    }

    /// Counts a refusal.
    pub fn refuse(&mut self, cause: Cause) {
        match self.causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, requests)) => *requests += 1,
            None => self.causes.push((cause, 1)),
        }
    }

    /// Counts what a proposed plan would have refused.
    pub fn shadow(&mut self, cause: Cause) {
        match self.shadows.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, requests)) => *requests += 1,
            None => self.shadows.push((cause, 1)),
        }
    }

    /// Adds another.
    pub fn merge(&mut self, other: &Self) {
        for count in Count::ALL {
            self.add(*count, other.counts[*count as usize]);
        }
        for (cause, n) in &other.causes {
            match self.causes.iter_mut().find(|(known, _)| known == cause) {
                Some((_, sum)) => *sum += n,
                None => self.causes.push((*cause, *n)),
            }
        }
        for (cause, n) in &other.shadows {
            match self.shadows.iter_mut().find(|(known, _)| known == cause) {
                Some((_, sum)) => *sum += n,
                None => self.shadows.push((*cause, *n)),
            }
        }
        for (minute, sums) in &other.minutes {
            for peak in Peaks::ALL {
                self.peak(*minute, *peak, sums[*peak as usize]);
            }
        }
        for (plan, n) in &other.plans {
            match self.plans.iter_mut().find(|(known, _)| known == plan) {
                Some((_, sum)) => *sum += n,
                None => self.plans.push((plan.clone(), *n)),
            }
        }
    }
}

/// A model, as it is told apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Model {
    pub upstream: Arc<str>,
    /// What the provider was asked for.
    pub asked: Arc<str>,
    /// What it says has answered.
    pub served: Arc<str>,
}

type Cells = HashMap<(CustomerId, u32), Cell>;
type Models = HashMap<(Model, u32), [u64; ModelCount::COUNT]>;

/// See the module.
#[derive(Debug, Default)]
pub struct Gather {
    parts: [Mutex<Cells>; PARTS],
    hasher: RandomState,
    cells: AtomicUsize,
    /// What belongs to nobody, by hour: requests without a customer, and customers beyond the bound.
    rest: Mutex<HashMap<u32, Cell>>,
    models: Mutex<(Models, Known)>,
}

/// The models of the latest day.
#[derive(Debug, Default)]
struct Known {
    day: u32,
    models: HashSet<Model>,
}

impl Known {
    fn admits(&mut self, model: &Model, day: u32) -> bool {
        if day > self.day {
            *self = Self { day, models: HashSet::default() };
        }
        if self.models.contains(model) {
            return true;
        }
        self.models.len() < MOST_MODELS && self.models.insert(model.clone())
    }
}

/// What was gathered, taken out.
#[derive(Debug, Default)]
pub struct Gathered {
    pub cells: Vec<((CustomerId, u32), Cell)>,
    pub rest: HashMap<u32, Cell>,
    pub models: Models,
}

impl Gathered {
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.rest.is_empty() && self.models.is_empty()
    }
}

impl Gather {
    /// Counts something of a customer in an hour. Gives whether there are many by now, and whether it was counted as the customer's.
    pub fn customer(&self, id: &CustomerId, hour: u32, add: impl FnOnce(&mut Cell)) -> Counted {
        let part = &self.parts[usize::try_from(self.hasher.hash_one(id) % PARTS as u64).unwrap_or(0)];
        let mut cells = part.lock();
        let key = (id.clone(), hour);
        if let Some(cell) = cells.get_mut(&key) {
            add(cell);
            return Counted::Theirs { many: false };
        }
        let before = self.cells.fetch_add(1, Ordering::Relaxed);
        if before >= MOST_CELLS {
            self.cells.fetch_sub(1, Ordering::Relaxed);
            drop(cells);
            self.nobody(hour, add);
            return Counted::Beyond;
        }
        add(cells.entry(key).or_default());
        Counted::Theirs { many: before + 1 == MANY_CELLS }
    }

    /// Counts something of nobody in particular.
    pub fn nobody(&self, hour: u32, add: impl FnOnce(&mut Cell)) {
        add(self.rest.lock().entry(hour).or_default());
    }

    /// Counts something of a model on a day.
    pub fn model(&self, model: Model, day: u32, add: impl FnOnce(&mut [u64; ModelCount::COUNT])) {
        let mut models = self.models.lock();
        let (sums, known) = &mut *models;
        if let Some(sum) = sums.get_mut(&(model.clone(), day)) {
            return add(sum);
        }
        let model = if known.admits(&model, day) {
            model
        } else {
            Model { upstream: model.upstream, asked: OTHER.into(), served: OTHER.into() }
        };
        add(sums.entry((model, day)).or_default());
    }

    /// Takes out everything.
    pub fn take(&self) -> Gathered {
        let mut cells = Vec::new();
        for part in &self.parts {
            let part = std::mem::take(&mut *part.lock());
            self.cells.fetch_sub(part.len(), Ordering::Relaxed);
            cells.extend(part);
        }
        let rest = std::mem::take(&mut *self.rest.lock());
        let models = std::mem::take(&mut self.models.lock().0);
        Gathered { cells, rest, models }
    }
}

/// Where something was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// In the customer's own hour. `many`: there are enough by now to be flushed.
    Theirs { many: bool },
    /// In everybody's only.
    Beyond,
}
