//! Large payloads: pages leave them out, and a poll fetches them behind its last page.
//!
//! One poll brings a bounded number of bytes. Jobs take turns, so that none keeps another's payloads out.
//! Rows whose payload is not fetched are cut off.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::rows::PolledRows;
use super::sizes::{PAGE, PAGE_BYTES, PAYLOADS, POLL_BYTES};
use crate::domain::{Entry, Pending, ScheduleId, Timestamp};
use crate::store::LargePayload;

/// A payload to fetch, of a schedule in this version.
struct MissingPayload {
    id: ScheduleId,
    version: i64,
    bytes: usize,
}

/// The large payloads of one poll.
#[derive(Default)]
pub(super) struct Payloads {
    /// Bytes of the payloads that pages left out.
    pub(super) large: HashMap<ScheduleId, usize>,
    /// The chosen ones that are not fetched yet.
    wanted: VecDeque<MissingPayload>,
    fetched: HashMap<ScheduleId, Arc<str>>,
}

impl Payloads {
    pub(super) fn is_large(&self, entry: &Entry) -> bool {
        self.large.contains_key(&entry.id)
    }

    /// Chooses the large payloads to fetch: of each job in turn that of the schedule due first, until the
    /// bytes are used up. The last may exceed them, or a larger payload would never come.
    ///
    /// Each row comes with its due time.
    pub(super) fn choose<'a>(&mut self, rows: impl Iterator<Item = (Timestamp, &'a Arc<Entry>)>) {
        let is_large = |(_, entry): &(Timestamp, &Arc<Entry>)| self.is_large(entry);
        let mut all: Vec<(Timestamp, &Arc<Entry>)> = rows.filter(is_large).collect();
        all.sort_by_key(|(due, entry)| (*due, entry.id));
        let (mut seen, mut turns) = (HashSet::new(), HashMap::new());
        let mut in_turn: Vec<(usize, &Arc<Entry>)> = Vec::new();
        for (_, entry) in all {
            if seen.insert(entry.id) {
                let turn = turns.entry(&*entry.job).or_insert(0);
                in_turn.push((*turn, entry));
                *turn += 1;
            }
        }
        in_turn.sort_by_key(|(turn, _)| *turn);
        let mut used = 0;
        let affordable = in_turn.into_iter().map_while(|(_, entry)| {
            let bytes = self.large.get(&entry.id).copied().unwrap_or(0);
            let affordable = used < POLL_BYTES;
            used += bytes;
            affordable.then_some(MissingPayload { id: entry.id, version: entry.version, bytes })
        });
        self.wanted = affordable.collect();
    }

    /// Whether another call fetches payloads. When the poll's time is over only the first does, or none would
    /// ever come.
    pub(super) fn goes_on(&self, in_time: bool) -> bool {
        !self.wanted.is_empty() && (self.fetched.is_empty() || in_time)
    }

    /// The schedules whose payloads the next call fetches, where a page has `limit` rows.
    pub(super) fn batch(&self, limit: usize) -> Vec<ScheduleId> {
        self.wanted.iter().take(self.fitting(limit)).map(|it| it.id).collect()
    }

    /// How many payloads fit a call's bytes: one at least.
    fn fitting(&self, limit: usize) -> usize {
        let most = PAGE_BYTES / PAGE * limit;
        let mut used = 0;
        let fits = self.wanted.iter().take_while(|it| {
            let first = used == 0;
            used += it.bytes;
            first || used <= most
        });
        fits.take(PAYLOADS).count()
    }

    /// Takes in the payloads of the [batch](Self::batch) asked for. A row in another version was changed
    /// meanwhile, and comes with the next poll.
    pub(super) fn fetched(&mut self, limit: usize, payloads: Vec<LargePayload>) {
        let asked = self.fitting(limit);
        let versions: HashMap<ScheduleId, i64> =
            self.wanted.drain(..asked).map(|it| (it.id, it.version)).collect();
        let same = |it: &LargePayload| versions.get(&it.id) == Some(&it.version);
        self.fetched.extend(payloads.into_iter().filter(same).map(|it| (it.id, it.payload)));
    }

    /// Puts the fetched payloads into their rows, and cuts off the rows whose payload is missing.
    pub(super) fn complete(&self, brought: &mut PolledRows) {
        let mut made: HashMap<ScheduleId, Arc<Entry>> = HashMap::new();
        let mut whole = |entry: Arc<Entry>| {
            if !self.is_large(&entry) {
                return Some(entry);
            }
            let payload = Arc::clone(self.fetched.get(&entry.id)?);
            let known =
                made.entry(entry.id).or_insert_with(|| Arc::new(Entry { payload, ..Entry::clone(&entry) }));
            // A PENDING execution's cursor is not used.
            let same = known.cursor == entry.cursor && known.version == entry.version;
            Some(if same {
                Arc::clone(known)
            } else {
                Arc::new(Entry { payload: Arc::clone(&known.payload), ..Entry::clone(&entry) })
            })
        };
        let before = brought.count();
        brought.entries = std::mem::take(&mut brought.entries).into_iter().filter_map(&mut whole).collect();
        let pendings = std::mem::take(&mut brought.pendings).into_iter();
        brought.pendings = pendings
            .filter_map(|it| match it.payload {
                Some(_) => Some(it),
                None => whole(Arc::clone(&it.entry)).map(|entry| Pending { entry, ..it }),
            })
            .collect();
        brought.complete &= before == brought.count();
    }
}

#[cfg(test)]
mod tests;
