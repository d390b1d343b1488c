//! The misfire handler: one node at a time repairs what the flow left behind, under the same guards as every
//! claim.
//!
//! [`repair`](crate::repair) holds the pure decisions. The machine looks, decides and repairs in passes:
//! executions of dead nodes, misfires, broken rows, retention. A pass goes on page by page while there is
//! work. With every interval it stands for election again and takes back the executions of nodes that have
//! died meanwhile. Two handlers at once only waste work: every repair is guarded by what it saw.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::domain::{Entry, Error, Event, ExecutionId, Kind, Millis, ScheduleId};
use crate::machine::{Machine, Operation, Step};
use crate::repair::{self, MOST_PASSED, decide, recover_apart};
use crate::store::{
    Broken, BrokenPage, BrokenQuery, Lane, Purge, Purged, Reason, Repair, Revocation, Stalled, StalledQuery,
    Store, StrandedPage, Unstarted,
};
use crate::time::{Now, Window, is_election_due};

/// Schedules or executions per look.
const LOOK: usize = 4_000;
/// The most broken rows per look.
const MOST_BROKEN: usize = 200;
/// The most rows that one transaction of repairs or revocations writes, and how many the first one may.
const MOST_ROWS: usize = 2_000;
/// A page that takes longer is followed by one of half its rows,
const SLOW: Millis = 1_000;
/// and one that takes less by a larger one.
const QUICK: Millis = 250;
/// Rows a pass walks over in search of those nobody understands. A walk over more takes more passes.
const STEP: usize = 50_000;
const FAILURE_PAUSE: Millis = 1_000;
/// After the database refused a row for what it holds, before the next is tried.
const ROW_PAUSE: Millis = 50;
/// Before the id of every schedule.
const FIRST: ScheduleId = ScheduleId(i64::MIN);
/// Occurrences per purge.
const CHUNK: usize = 1_000;
/// A walk of purges is begun anew after this part of the retention,
const WALKS: Millis = 100;
/// and at least this often.
const WALK_AGAIN: Millis = 3_600_000;

#[derive(Clone)]
pub(crate) enum MisfireOp {
    Elect { application: String, now: Millis, interval: Millis },
    Stalled(StalledQuery),
    Repair(Vec<Repair>),
    Stranded(String, ExecutionId),
    Revoke(Vec<Revocation>),
    Broken(BrokenQuery),
    Quarantine(Broken),
    Purge(Purge),
}

pub(crate) enum MisfireAnswer {
    Elected(bool),
    Stalled(Stalled),
    Repaired(Vec<bool>),
    Stranded(StrandedPage),
    Revoked(Vec<bool>),
    Broken(BrokenPage),
    Quarantined(Broken, bool),
    Purged(Purged),
}

impl Operation for MisfireOp {
    type Answer = MisfireAnswer;

    fn name(&self) -> &'static str {
        match self {
            Self::Elect { .. } => "electing the misfire handler",
            Self::Stalled(_) => "looking for misfires",
            Self::Repair(_) => "repairing misfires",
            Self::Stranded(..) => "looking for executions of dead nodes",
            Self::Revoke(_) => "taking executions back from dead nodes",
            Self::Broken(_) => "looking for broken rows",
            Self::Quarantine(_) => "putting a broken row into quarantine",
            Self::Purge(_) => "purging the ledger",
        }
    }

    fn perform(self, store: &dyn Store) -> Result<MisfireAnswer, Error> {
        match self {
            Self::Elect { application, now, interval } => {
                store.elect(&application, now, interval).map(MisfireAnswer::Elected)
            }
            Self::Stalled(query) => store.stalled(&query).map(MisfireAnswer::Stalled),
            Self::Repair(repairs) => store.repair(&repairs).map(MisfireAnswer::Repaired),
            Self::Stranded(application, after) => {
                store.stranded(&application, after, LOOK).map(MisfireAnswer::Stranded)
            }
            Self::Revoke(revocations) => store.revoke(&revocations).map(MisfireAnswer::Revoked),
            Self::Broken(query) => store.broken(&query).map(MisfireAnswer::Broken),
            Self::Quarantine(broken) => {
                store.quarantine(&broken).map(|won| MisfireAnswer::Quarantined(broken, won))
            }
            Self::Purge(purge) => store.purge(&purge).map(MisfireAnswer::Purged),
        }
    }
}

pub(crate) enum MisfireInput {
    /// A poll ended: time to try for election if the mark is due.
    Polled {
        app: bool,
        node: bool,
        election: Option<Millis>,
        late: bool,
        /// No schedule is due before this.
        from: Millis,
    },
    Stop,
}

pub(crate) enum MisfireOutput {
    WakePoll,
    Event(Event),
}

/// A schedule that fell behind, with what earlier repairs of it left unstarted.
struct Overdue {
    entry: Entry,
    unstarted: Vec<Unstarted>,
}

impl Overdue {
    /// What `repair` leaves of it, if it does not reach the present: that is repaired next.
    fn after(&self, repair: &Repair) -> Option<Self> {
        let is_behind = repair.to.next.is_some_and(|next| next <= repair.now);
        // A repair raises the version.
        let (cursor, version) = (repair.to, repair.version + 1);
        is_behind
            .then(|| Self { entry: Entry { cursor, version, ..self.entry.clone() }, unstarted: Vec::new() })
    }
}

/// A part of a pass still to do. Lists are worked off page by page.
#[derive(Clone)]
enum Task {
    Ask(MisfireOp),
    Repair(VecDeque<Arc<Overdue>>),
    Revoke(VecDeque<Revocation>),
}

/// The page under way.
struct Page {
    /// What it is about.
    list: Task,
    rows: usize,
    sent: Millis,
    /// What its repairs leave of schedules that are too far behind for one, by their places.
    left: Vec<(usize, Arc<Overdue>)>,
}

pub(crate) struct MisfireMachine {
    application: String,
    window: Window,
    /// The remaining tasks of the pass, in order.
    todo: VecDeque<Task>,
    /// The page under way, if the operation under way is one.
    page: Option<Page>,
    /// The row to quarantine concerns itself alone.
    one_row: bool,
    /// The operation under way is the look for misfires.
    is_look: bool,
    /// The most rows the next page writes, and any.
    rows: usize,
    most_rows: usize,
    /// When (boot clock) the pass stands for election again.
    renews_at: Millis,
    /// When (boot clock) the machine stands for election although no poll has ended.
    alone_at: Option<Millis>,
    /// The pass goes on with retention once `todo` is empty.
    purging: bool,
    /// Where the walk over the schedules goes on, and when (boot clock) it begins anew.
    purged: String,
    walk_at: Millis,
    /// The application is switched on: cursors may be moved.
    cursors: bool,
    /// This node is switched on: it may be elected.
    node: bool,
    /// Something is late; otherwise nothing can have stalled.
    late: bool,
    /// No schedule is due before this.
    from: Millis,
    repaired: bool,
    /// Where the step of the walk in search of broken rows began, and where the next one does if nothing cuts
    /// this short.
    walked: ScheduleId,
    walks_on: ScheduleId,
    hold: Millis,
    outbox: VecDeque<MisfireOutput>,
    stopping: bool,
}

impl MisfireMachine {
    pub(crate) fn new(application: String, window: Window) -> Self {
        Self {
            application,
            window,
            todo: VecDeque::new(),
            page: None,
            one_row: false,
            is_look: false,
            rows: MOST_ROWS,
            most_rows: MOST_ROWS,
            renews_at: Millis::MAX,
            alone_at: None,
            purging: false,
            purged: String::new(),
            walk_at: Millis::MIN,
            cursors: true,
            node: true,
            late: true,
            from: 0,
            repaired: false,
            walked: FIRST,
            walks_on: FIRST,
            hold: Millis::MIN,
            outbox: VecDeque::new(),
            stopping: false,
        }
    }

    /// A sabotage: each transaction repairs one schedule.
    #[cfg(test)]
    pub(crate) fn one_by_one(self) -> Self {
        Self { rows: 1, most_rows: 1, ..self }
    }

    fn is_idle(&self) -> bool {
        self.todo.is_empty() && !self.purging
    }

    fn stand_for_election(&mut self, now: Now) {
        self.renews_at = Millis::MAX;
        self.todo.push_front(Task::Ask(MisfireOp::Elect {
            application: self.application.clone(),
            now: now.db,
            interval: self.window.election,
        }));
    }

    /// A pass, or its renewal, takes back the dead nodes' work first: it has waited longest.
    fn elected(&mut self, now: Now) {
        self.renews_at = now.boot.saturating_add(self.window.election);
        if self.todo.is_empty() {
            self.begin_pass(now);
        }
        self.todo.push_front(self.stranded(ExecutionId(i64::MIN)));
    }

    fn begin_pass(&mut self, now: Now) {
        if self.cursors && self.late {
            self.todo.push_back(self.stalled(now, None));
        }
        if self.cursors {
            self.walked = self.walks_on;
            let (application, after) = (self.application.clone(), self.walked);
            self.todo.push_back(Task::Ask(MisfireOp::Broken(BrokenQuery {
                application,
                after,
                step: STEP,
                from: self.from,
                before: if self.late { self.left_behind(now) } else { Millis::MIN },
                limit: MOST_BROKEN,
            })));
        }
        self.purging |= self.window.retention.is_some() && now.boot >= self.walk_at;
    }

    /// The pass's next chunk of retention, if it is time for one.
    fn purge(&mut self) -> Option<MisfireOp> {
        if !std::mem::take(&mut self.purging) {
            return None;
        }
        let keep = self.window.retention?;
        let (application, after) = (self.application.clone(), self.purged.clone());
        Some(MisfireOp::Purge(Purge { application, after, keep, limit: CHUNK }))
    }

    fn purged(&mut self, purged: Purged, now: Now) {
        let Purged { occurrences, schedules, nodes, .. } = purged;
        if occurrences + schedules + nodes > 0 {
            let event = Event::Purged { occurrences, schedules, nodes };
            self.outbox.push_back(MisfireOutput::Event(event));
        }
        self.purging = purged.next.is_some();
        if !self.purging {
            let keep = self.window.retention.unwrap_or(Millis::MAX);
            self.walk_at = now.boot.saturating_add((keep / WALKS).min(WALK_AGAIN));
        }
        self.purged = purged.next.unwrap_or_default();
    }

    /// Due occurrences since then are the polls' alone.
    fn left_behind(&self, now: Now) -> Millis {
        now.db - self.window.least_threshold()
    }

    fn stranded(&self, after: ExecutionId) -> Task {
        Task::Ask(MisfireOp::Stranded(self.application.clone(), after))
    }

    fn stalled(&self, now: Now, lanes: Option<Vec<Lane>>) -> Task {
        Task::Ask(MisfireOp::Stalled(StalledQuery {
            application: self.application.clone(),
            from: self.from,
            before: self.left_behind(now),
            lanes,
            limit: LOOK,
        }))
    }

    fn found_stranded(&mut self, page: StrandedPage, now: Now) {
        if let Some(last) = page.next {
            self.todo.push_front(self.stranded(last));
        }
        self.todo.push_front(Task::Revoke(recover_apart(page.stranded, now.db).into()));
    }

    fn found_stalled(&mut self, page: Stalled, now: Now) {
        if !page.next.is_empty() {
            self.todo.push_front(self.stalled(now, Some(page.next)));
        }
        let mut unstarted: HashMap<ScheduleId, Vec<Unstarted>> = HashMap::new();
        for it in page.unstarted {
            unstarted.entry(it.schedule).or_default().push(it);
        }
        let overdue = page.entries.into_iter().map(|entry| {
            let unstarted = unstarted.remove(&entry.id).unwrap_or_default();
            Arc::new(Overdue { entry, unstarted })
        });
        self.todo.push_front(Task::Repair(overdue.collect()));
    }

    /// The next operation of the pass. Repairs are decided only now: what was found may have waited for its
    /// turn.
    fn next_op(&mut self, now: Now) -> Option<MisfireOp> {
        (self.one_row, self.is_look) = (false, false);
        loop {
            match self.todo.pop_front()? {
                Task::Ask(op) => {
                    self.one_row = matches!(op, MisfireOp::Quarantine(_));
                    self.is_look = matches!(op, MisfireOp::Stalled(_));
                    return Some(op);
                }
                Task::Repair(list) => {
                    if let Some(op) = self.repair(list, now) {
                        return Some(op);
                    }
                }
                Task::Revoke(list) => {
                    if let Some(op) = self.revoke(list, now) {
                        return Some(op);
                    }
                }
            }
        }
    }

    /// The first page of a list of schedules; at least one, however many rows and occurrences it takes.
    fn repair(&mut self, mut list: VecDeque<Arc<Overdue>>, now: Now) -> Option<MisfireOp> {
        let (least, mut rows, mut searched) = (self.window.least_threshold(), 0, 0);
        let (mut page, mut repairs, mut left) = (VecDeque::new(), Vec::new(), Vec::new());
        while searched < MOST_PASSED
            && let Some(overdue) = list.pop_front()
        {
            let Some(repair) = decide(&overdue.entry, &overdue.unstarted, now.db, least) else { continue };
            if !repairs.is_empty() && rows + repair.writes() > self.rows {
                list.push_front(overdue);
                break;
            }
            rows += repair.writes();
            searched += repair::searched(&overdue.entry, &repair);
            left.extend(overdue.after(&repair).map(|overdue| (page.len(), Arc::new(overdue))));
            repairs.push(repair);
            page.push_back(overdue);
        }
        if !list.is_empty() {
            self.todo.push_front(Task::Repair(list));
        }
        if repairs.is_empty() || !self.cursors {
            return None;
        }
        self.page = Some(Page { list: Task::Repair(page), rows, sent: now.boot, left });
        Some(MisfireOp::Repair(repairs))
    }

    /// The first page of a list of executions: each is a row, and mostly another that follows it.
    fn revoke(&mut self, mut list: VecDeque<Revocation>, now: Now) -> Option<MisfireOp> {
        let rest = list.split_off(list.len().min((self.rows / 2).max(1)));
        if !rest.is_empty() {
            self.todo.push_front(Task::Revoke(rest));
        }
        if list.is_empty() {
            return None;
        }
        let revocations = list.iter().cloned().collect();
        let (rows, left) = (2 * list.len(), Vec::new());
        self.page = Some(Page { rows, list: Task::Revoke(list), sent: now.boot, left });
        Some(MisfireOp::Revoke(revocations))
    }

    /// A page has been written; what was won is told.
    fn page_done(&mut self, won: &[bool], now: Now) {
        let Some(Page { list, rows, sent, left }) = self.page.take() else { return };
        match now.boot - sent {
            took if took > SLOW => self.rows = (rows / 2).max(1),
            took if took < QUICK => self.rows = (self.rows * 2).min(self.most_rows),
            _ => {}
        }
        match list {
            Task::Repair(page) => {
                for (overdue, _) in page.iter().zip(won).filter(|(_, won)| **won) {
                    self.repaired(&overdue.entry.name, "misfire repaired");
                }
            }
            Task::Revoke(page) => {
                page.iter().zip(won).filter(|(_, won)| **won).for_each(|(it, _)| self.revoked(it));
            }
            Task::Ask(_) => {}
        }
        let left: VecDeque<_> =
            left.into_iter().filter(|(n, _)| won.get(*n) == Some(&true)).map(|(_, it)| it).collect();
        if !left.is_empty() {
            // Behind all others.
            self.todo.push_back(Task::Repair(left));
        }
        if !matches!(self.todo.front(), Some(Task::Repair(_) | Task::Revoke(_))) {
            self.wake_poll();
        }
    }

    fn repaired(&mut self, schedule: &Arc<str>, what: &'static str) {
        self.repaired = true;
        let schedule = Arc::clone(schedule);
        self.outbox.push_back(MisfireOutput::Event(Event::Repaired { schedule, what }));
    }

    fn revoked(&mut self, revocation: &Revocation) {
        let (schedule, execution) = (&revocation.stranded.name, revocation.stranded.id);
        self.repaired(schedule, "execution taken back from a dead node");
        if revocation.reason == Reason::AttemptsExhausted {
            let (schedule, deaths) = (Arc::clone(schedule), revocation.stranded.deaths.saturating_add(1));
            self.outbox.push_back(MisfireOutput::Event(Event::Exhausted { schedule, execution, deaths }));
        }
    }

    /// A failed page is tried again as a smaller one, until the row that fails is alone: it is left to the
    /// next pass, and does not keep the others from being repaired.
    fn failed(&mut self, error: Error, now: Now) {
        let is_rows_own = error.kind() == Kind::Data;
        let (mut pause, mut is_told) = (FAILURE_PAUSE, true);
        match self.page.take() {
            Some(Page { list, rows, .. }) => {
                self.rows = (rows / 2).max(1);
                pause = if is_rows_own { ROW_PAUSE } else { FAILURE_PAUSE };
                if list.len() > 1 {
                    is_told = !is_rows_own;
                    self.todo.push_front(list);
                }
            }
            // Misfires are looked for again with the next pass; the rest of this one does not depend on them.
            None if self.is_look => {}
            None if self.one_row
                && matches!(error.kind(), Kind::Data | Kind::Refused | Kind::Unavailable) =>
            {
                pause = ROW_PAUSE;
            }
            None => self.drop_rest(),
        }
        self.hold = now.boot + pause;
        if is_told {
            let event = Event::StoreFailed { operation: "misfire handling", error };
            self.outbox.push_back(MisfireOutput::Event(event));
        }
    }

    /// What is left of the pass is left to the next, or to another node.
    fn drop_rest(&mut self) {
        if self.todo.iter().any(|task| matches!(task, Task::Ask(MisfireOp::Quarantine(_)))) {
            self.walks_on = self.walked;
        }
        self.todo.clear();
        self.purging = false;
        self.wake_poll();
    }

    fn wake_poll(&mut self) {
        if std::mem::take(&mut self.repaired) {
            self.outbox.push_back(MisfireOutput::WakePoll);
        }
    }

    /// Stands for election although no poll has ended for two poll intervals: whatever keeps polls from
    /// ending, dead nodes' work is taken back. Anything may be late then.
    fn act_alone(&mut self, now: Now) {
        let alone_at = *self.alone_at.get_or_insert(now.boot + 2 * self.window.poll);
        if now.boot >= alone_at && self.is_idle() && self.node {
            self.late = true;
            self.alone_at = Some(now.boot + self.window.election);
            self.stand_for_election(now);
        }
    }
}

impl Task {
    fn len(&self) -> usize {
        match self {
            Self::Ask(_) => 1,
            Self::Repair(list) => list.len(),
            Self::Revoke(list) => list.len(),
        }
    }
}

impl Machine for MisfireMachine {
    type Op = MisfireOp;
    type Input = MisfireInput;
    type Output = MisfireOutput;

    fn next(&mut self, now: Now) -> Step<MisfireOp, MisfireOutput> {
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.stopping {
            return Step::Stop;
        }
        if now.boot < self.hold {
            return Step::Wait(self.hold);
        }
        self.act_alone(now);
        if now.boot >= self.renews_at && !self.is_idle() {
            if self.node { self.stand_for_election(now) } else { self.drop_rest() }
        }
        if let Some(op) = self.next_op(now) {
            return Step::Do(op);
        }
        let wait = Step::Wait(self.alone_at.filter(|_| self.node).unwrap_or(Millis::MAX));
        self.purge().map_or(wait, Step::Do)
    }

    fn done(&mut self, now: Now, answer: Result<MisfireAnswer, Error>) {
        match answer {
            Ok(MisfireAnswer::Elected(true)) => self.elected(now),
            Ok(MisfireAnswer::Elected(false)) => self.drop_rest(),
            Ok(MisfireAnswer::Stalled(page)) => self.found_stalled(page, now),
            Ok(MisfireAnswer::Repaired(won) | MisfireAnswer::Revoked(won)) => self.page_done(&won, now),
            Ok(MisfireAnswer::Stranded(page)) => self.found_stranded(page, now),
            Ok(MisfireAnswer::Broken(page)) => {
                self.walks_on = page.next.unwrap_or(FIRST);
                let quarantines = page.broken.into_iter().map(|row| Task::Ask(MisfireOp::Quarantine(row)));
                self.todo.extend(quarantines);
            }
            Ok(MisfireAnswer::Quarantined(broken, won)) => {
                if won {
                    let event = Event::Quarantined { schedule: broken.name, reason: broken.reason };
                    self.outbox.push_back(MisfireOutput::Event(event));
                }
            }
            Ok(MisfireAnswer::Purged(purged)) => self.purged(purged, now),
            Err(error) => self.failed(error, now),
        }
    }

    fn receive(&mut self, now: Now, input: MisfireInput) {
        match input {
            MisfireInput::Polled { app, node, election, late, from } => {
                (self.cursors, self.node, self.late, self.from) = (app, node, late, from);
                self.alone_at = Some(now.boot + 2 * self.window.poll);
                let due = is_election_due(election, now.db, self.window.election);
                if node && due && self.is_idle() {
                    self.stand_for_election(now);
                }
            }
            MisfireInput::Stop => self.stopping = true,
        }
    }
}

#[cfg(test)]
mod tests;
