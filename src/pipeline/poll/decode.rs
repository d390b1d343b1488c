//! Decoding of payloads: asks once for each version of a schedule whether a handler here understands it.
//!
//! A decoder is the application's code. If it is slow, the jobs share the time that a poll has for decoding.
//! If it does not return, nothing more of its job is decoded until it does; the next poll takes its late
//! answer.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, TryRecvError, unbounded};
use rustc_hash::FxHashMap;

use super::sizes::POLL_LIMIT;
use crate::domain::{Boot, Entry, Event, ExecutionId, Pending, ScheduleId, Timestamp, Token};
use crate::store::LeftAlone;
use crate::time::Micros;

/// The most decoders that may hang at once, each of another job: each keeps a thread.
const MOST_HANGING: usize = 8;
/// The most schedules that a node's row says it leaves alone, and the longest reason there.
const MOST_TOLD: usize = 20;
const LONGEST_TOLD: usize = 100;
/// Verdicts in one generation: as many as one poll may ask for.
const GENERATION: usize = 2 * POLL_LIMIT;

/// Tells which rows this node can run: the jobs it knows, the payloads it can decode.
pub(crate) trait Catalog: Send + Sync + 'static {
    fn jobs(&self) -> Vec<String>;
    fn decodes(&self, job: &str, payload: &str) -> Result<(), String>;
    /// Whether the execution, which has a payload of its own, is left to other nodes.
    fn leaves(&self, _execution: ExecutionId, _token: Token, _boot: Boot) -> bool {
        false
    }

    /// Microseconds on any clock that shows what decoding takes.
    fn clock(&self) -> Micros;
}

/// Rows of one job, those due first in front.
pub(crate) type Rows = VecDeque<Arc<Entry>>;

/// Decodes payloads for so long, and one at least. What it came to is reported row by row, so that what is
/// known of the others stays known if one decoder does not return.
#[derive(Clone)]
pub(crate) struct Decode {
    pub jobs: Vec<Rows>,
    pub most: Micros,
    catalog: Arc<dyn Catalog>,
    reports: Sender<Report>,
}

enum Report {
    Begins(Arc<Entry>),
    Ends(Result<(), String>),
}

impl Decode {
    /// As if this row's decoder had been called and had not returned.
    #[cfg(test)]
    pub(crate) fn hang(&self, row: &Arc<Entry>) {
        self.reports.send(Report::Begins(Arc::clone(row))).ok();
    }

    pub(super) fn perform(self) {
        let Self { jobs, most, catalog, reports } = self;
        let clock = || catalog.clock();
        in_turn(jobs, most, clock, |row| {
            // Nobody reads them once the machine is gone.
            reports.send(Report::Begins(Arc::clone(row))).ok();
            reports.send(Report::Ends(catalog.decodes(&row.job, &row.payload))).ok();
        });
    }
}

/// Decodes the next row of the job that has taken least time, until `most` is used up.
pub(crate) fn in_turn(
    jobs: Vec<Rows>,
    most: Micros,
    clock: impl Fn() -> Micros,
    mut decode: impl FnMut(&Arc<Entry>),
) {
    let mut jobs: Vec<(Micros, Rows)> = jobs.into_iter().map(|rows| (Micros::ZERO, rows)).collect();
    let begin = clock();
    let mut now = begin;
    while let Some((spent, rows)) = jobs.iter_mut().min_by_key(|(spent, _)| *spent) {
        match rows.pop_front() {
            Some(row) => decode(&row),
            None => {
                jobs.retain(|(_, rows)| !rows.is_empty());
                continue;
            }
        }
        let before = std::mem::replace(&mut now, clock());
        *spent = *spent + (now - before);
        if now - begin >= most {
            return;
        }
    }
}

/// The known answers by version. Their number is bounded: those not asked for the longest go first.
#[derive(Default)]
struct Verdicts {
    recent: FxHashMap<ScheduleId, (i64, bool)>,
    before: FxHashMap<ScheduleId, (i64, bool)>,
}

impl Verdicts {
    fn get(&self, entry: &Entry) -> Option<bool> {
        let known = self.recent.get(&entry.id).or_else(|| self.before.get(&entry.id));
        known.filter(|(version, _)| *version == entry.version).map(|(_, decodes)| *decodes)
    }

    fn learn(&mut self, entry: &Entry, decodes: bool) {
        if self.recent.len() >= GENERATION {
            self.before = std::mem::take(&mut self.recent);
        }
        self.recent.insert(entry.id, (entry.version, decodes));
    }

    /// The verdict, which is kept for longer because it was asked for.
    fn ask(&mut self, entry: &Entry) -> Option<bool> {
        let known = self.get(entry);
        if let Some(decodes) = known
            && !self.recent.contains_key(&entry.id)
        {
            self.learn(entry, decodes);
        }
        known
    }
}

/// An operation under way, and the row that it decodes.
struct UnderWay {
    reports: Receiver<Report>,
    row: Option<Arc<Entry>>,
}

pub(super) struct Decoders {
    catalog: Arc<dyn Catalog>,
    verdicts: Verdicts,
    asked: Option<UnderWay>,
    /// Those given up on, whose decoder has not returned yet.
    hanging: Vec<UnderWay>,
    left_alone: LeftAloneList,
}

/// The schedules whose payloads cannot be decoded, as far as they are told to the other nodes.
#[derive(Default)]
struct LeftAloneList {
    schedules: BTreeMap<ScheduleId, LeftAlone>,
    has_changed: bool,
}

impl LeftAloneList {
    fn learn(&mut self, entry: &Entry, reason: Option<&str>) {
        let before = self.schedules.remove(&entry.id);
        self.has_changed |= before.is_some();
        if let Some(reason) = reason.filter(|_| self.schedules.len() < MOST_TOLD) {
            let reason = reason.chars().take(LONGEST_TOLD).collect();
            let it = LeftAlone { schedule: entry.id.0, version: entry.version, reason };
            self.schedules.insert(entry.id, it);
            self.has_changed = true;
        }
    }
}

impl Decoders {
    pub(super) fn new(catalog: Arc<dyn Catalog>) -> Self {
        Self {
            catalog,
            verdicts: Verdicts::default(),
            asked: None,
            hanging: Vec::new(),
            left_alone: LeftAloneList::default(),
        }
    }

    /// Whether the payload can be decoded, which nothing can be while its job's decoder hangs; `None` while
    /// that is not known.
    pub(super) fn verdict(&self, entry: &Entry) -> Option<bool> {
        self.verdicts.get(entry).or_else(|| self.holds(entry).then_some(false))
    }

    /// Whether handlers here can run the execution. One with a payload of its own is decoded as it is run.
    pub(super) fn takes(&self, pending: &Pending, boot: Boot) -> Option<bool> {
        match pending.payload {
            Some(_) => Some(!self.catalog.leaves(pending.id, pending.token, boot)),
            None => self.verdict(&pending.entry),
        }
    }

    fn holds(&self, entry: &Entry) -> bool {
        let same = |it: &UnderWay| it.row.as_ref().is_some_and(|row| row.job == entry.job);
        self.hanging.len() >= MOST_HANGING || self.hanging.iter().any(same)
    }

    /// Decodes those of the rows of which nothing is known, if there are any. Each comes with its due time.
    pub(super) fn ask<'a>(
        &mut self,
        rows: impl Iterator<Item = (Timestamp, &'a Arc<Entry>)>,
        most: Micros,
    ) -> Option<Decode> {
        let mut rows: Vec<(Timestamp, &Arc<Entry>)> =
            rows.filter(|(_, row)| self.verdicts.ask(row).is_none()).collect();
        rows.retain(|(_, row)| !self.holds(row));
        if rows.is_empty() {
            return None;
        }
        rows.sort_by_key(|(due, row)| (*due, row.id));
        let (mut seen, mut places) = (HashSet::new(), HashMap::new());
        let mut jobs: Vec<Rows> = Vec::new();
        for (_, row) in rows {
            if seen.insert((row.id, row.version)) {
                let place = *places.entry(&*row.job).or_insert(jobs.len());
                if place == jobs.len() {
                    jobs.push(Rows::new());
                }
                jobs[place].push_back(Arc::clone(row));
            }
        }
        let (sender, reports) = unbounded();
        self.asked = Some(UnderWay { reports, row: None });
        Some(Decode { jobs, most, catalog: Arc::clone(&self.catalog), reports: sender })
    }

    /// Takes in what decoders have said by now; tells of the rows that cannot be decoded.
    pub(super) fn listen(&mut self) -> Vec<Event> {
        let mut told = Vec::new();
        let left_alone = &mut self.left_alone;
        let mut hear = |verdicts: &mut Verdicts, it: &mut UnderWay| {
            loop {
                match it.reports.try_recv() {
                    Ok(Report::Begins(row)) => it.row = Some(row),
                    Ok(Report::Ends(said)) => {
                        let Some(row) = it.row.take() else { continue };
                        verdicts.learn(&row, said.is_ok());
                        left_alone.learn(&row, said.as_ref().err().map(String::as_str));
                        told.extend(said.err().map(|reason| undecodable(&row, reason)));
                    }
                    Err(error) => return error == TryRecvError::Empty,
                }
            }
        };
        self.asked.take_if(|it| !hear(&mut self.verdicts, it));
        self.hanging.retain_mut(|it| hear(&mut self.verdicts, it));
        told
    }

    /// The schedules that are left to other nodes, if others are than when this was last asked.
    pub(super) fn changes(&mut self) -> Option<Vec<LeftAlone>> {
        let has_changed = std::mem::take(&mut self.left_alone.has_changed);
        has_changed.then(|| self.left_alone.schedules.values().cloned().collect())
    }

    /// The operation was given up on. If a decoder is to blame, it hangs from now on, and that is told.
    pub(super) fn give_up(&mut self) -> Option<Event> {
        const HANGS: &str = "its decoder has not returned";
        let given_up = self.asked.take()?;
        let told = given_up.row.as_ref().map(|row| {
            self.left_alone.learn(row, Some(HANGS));
            undecodable(row, HANGS.to_owned())
        });
        self.hanging.extend(told.is_some().then_some(given_up));
        told
    }
}

fn undecodable(row: &Entry, reason: String) -> Event {
    Event::Undecodable { schedule: Arc::clone(&row.name), reason }
}

#[cfg(test)]
mod tests;
