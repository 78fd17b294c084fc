//! Settlements: which calls a batch takes, in which order, and what their answers say.

use super::slots::Group;
use super::{PER_SCRIPT, RedisLedger, call, reply, stands};
use crate::domain::Timestamp;
use crate::limit::Settlement;
use crate::store::StoreError;
use std::collections::BTreeMap;

/// Settlements sent in one round trip; a longer batch takes several, so that admissions get in between.
const SETTLEMENTS_PER_CALL: usize = 32;

impl RedisLedger {
    /// Settles in every group, whatever the lines mention: a reservation may hold there what its gateway never heard of.
    ///
    /// In two round trips where only one group has budgets of a reservation: the hold tells whether its rates were charged, and the
    /// other group has none to tell it by.
    pub(super) async fn settle_all(&self, batch: &[Settlement], now: Option<Timestamp>) -> Result<(), StoreError> {
        let groups = self.servers.groups();
        for part in batch.chunks(SETTLEMENTS_PER_CALL) {
            let (mut first, mut then) = (Vec::new(), Vec::new());
            for (n, settlement) in part.iter().enumerate() {
                let budgets = |group| call::lines_in(group, settlement).any(|line| line.claim.is_budget());
                let rates = |group| call::lines_in(group, settlement).next().is_some();
                for &group in groups {
                    let asks = !budgets(group) && rates(group) && groups.iter().any(|group| budgets(*group));
                    if asks { &mut then } else { &mut first }.push((n, group, true));
                }
            }
            let known = self.settle_in(part, &first, now).await?;
            let known = || first.iter().zip(&known);
            for (n, _, charged) in &mut then {
                // Of what has no budgets nothing needs to be known.
                let told = |group| call::lines_in(group, &part[*n]).any(|line| line.claim.is_budget());
                *charged = known().all(|((of, group, _), known)| of != n || *known || !told(*group));
            }
            self.settle_in(part, &then, now).await?;
        }
        Ok(())
    }

    /// One round trip of settlements: which one, in which group, and whether its rates were charged. Whether each hold was known. Those
    /// whose keys lie in one slot are one call.
    async fn settle_in(
        &self,
        part: &[Settlement],
        calls: &[(usize, Group, bool)],
        now: Option<Timestamp>,
    ) -> Result<Vec<bool>, StoreError> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let mut together: BTreeMap<u16, Vec<(usize, Group)>> = BTreeMap::new();
        for (place, (n, group, _)) in calls.iter().enumerate() {
            together.entry(group.slot(&part[*n].customer.owner)).or_default().push((place, *group));
        }
        let mut batches = Vec::new();
        for (slot, ends) in &together {
            // Two groups never share a slot, but that is for hashing to say: a call is about one of them.
            for ends in ends.chunk_by(|(_, one), (_, other)| one == other) {
                batches.extend(ends.chunks(PER_SCRIPT).map(|ends| (*slot, ends)));
            }
        }
        let sha = self.servers.scripts().settle();
        let command = |(slot, ends): &(u16, &[(usize, Group)])| {
            let settlements: Vec<_> = ends.iter().map(|(place, _)| (&part[calls[*place].0], calls[*place].2)).collect();
            let (command, told) = call::settle(sha, ends[0].1, &settlements, &self.floors, now);
            ((*slot, command), told)
        };
        let (commands, told): (Vec<_>, Vec<_>) = batches.iter().map(command).unzip();
        let replies = self.servers.all(commands).await?;
        let mut known = vec![false; calls.len()];
        for (((_, ends), reply), told) in batches.iter().zip(replies).zip(told) {
            let lines = |(place, group): &(usize, Group)| call::changed_in(*group, &part[calls[*place].0]);
            let budgets = |end: &(usize, Group)| lines(end).filter(|line| line.claim.is_budget()).count();
            let all = match stands::settled(&reply, &told, ends.iter().map(lines))? {
                Some(all) => all,
                None => reply::settled(&reply, ends.iter().map(budgets))?,
            };
            for ((place, group), settled) in ends.iter().zip(all) {
                self.floors.settled(call::lines_in(*group, &part[calls[*place].0]), &settled);
                known[*place] = settled.known;
            }
        }
        Ok(known)
    }
}
