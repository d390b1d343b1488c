//! Reads schedules and the ledger's rows, page by page, and has them accounted for.

use std::collections::VecDeque;

use super::account::{Account, Accountant, Span};
use super::answer::{Flaw, FlawKind};
use super::demand::demands;
use crate::domain::{Error, ScheduleId};
use crate::store::Store;
use crate::store::ledger::{
    LedgerLine, LedgerPage, LedgerRange, LedgerSchedule, LinePlace, LineQuery, LinesBy,
};

/// So many schedules are read at once, and so many rows.
const SCHEDULES: usize = 500;
const ROWS: usize = 5_000;
/// The same where each page gathers all rows of the range.
const GATHERED: usize = 20_000;

/// An application's ledger within a span.
pub(super) struct Ledger<'a> {
    store: &'a dyn Store,
    application: &'a str,
    span: Span,
    by: LinesBy,
}

/// The attempts at one occurrence, in the order of their numbers.
pub(super) type Attempts = Vec<LedgerLine>;

/// Takes each occurrence of a schedule in the order of the ledger, beside the account.
pub(super) trait Witness {
    /// The rows of this schedule follow. It may be begun twice: what was seen of it before does not count.
    fn begin(&mut self, schedule: &LedgerSchedule);
    fn see(&mut self, attempts: Attempts);
    /// The schedule's rows came to this.
    fn end(&mut self, schedule: &LedgerSchedule, account: &Account) -> Vec<Flaw>;
}

/// Nobody wants to see them.
impl Witness for () {
    fn begin(&mut self, _: &LedgerSchedule) {}
    fn see(&mut self, _: Attempts) {}
    fn end(&mut self, _: &LedgerSchedule, _: &Account) -> Vec<Flaw> {
        Vec::new()
    }
}

impl<'a> Ledger<'a> {
    pub(super) fn new(store: &'a dyn Store, application: &'a str, span: Span) -> Result<Self, Error> {
        let (from, before) = (span.from, span.until);
        let range = LedgerRange { application: application.to_owned(), from, before, page: GATHERED };
        Ok(Self { store, application, span, by: store.ledger_lines_by(&range)? })
    }

    /// Accounts for all schedules, or for the one of this name.
    pub(super) fn walk(
        &self,
        name: Option<&str>,
        witness: &mut dyn Witness,
        mut told: impl FnMut(Account),
    ) -> Result<u64, Error> {
        let (mut after, mut count) = (ScheduleId(i64::MIN), 0);
        let mut lines = self.lines(after, ScheduleId(i64::MAX));
        loop {
            let page = self.schedules(after, name, SCHEDULES)?;
            let Some(last) = page.last().map(|last| last.id) else { break };
            // A page of gathered rows has those of many pages of schedules.
            if name.is_some() {
                lines = self.lines(before(last), last);
            } else if self.by == LinesBy::Key {
                lines = self.lines(after, last);
            }
            for schedule in &page {
                self.orphans(&mut lines, schedule.id, &mut told)?;
                let account = self.account(schedule, &mut lines, witness)?;
                // A node may have moved the cursor, or somebody edited the trigger, between the two reads.
                let is_sure = account.flaws.is_empty();
                told(if is_sure { account } else { self.account_again(schedule, witness)? });
            }
            count += page.len() as u64;
            after = last;
            if name.is_some() || page.len() < SCHEDULES {
                break;
            }
        }
        if name.is_none() {
            if self.by == LinesBy::Key {
                lines = self.lines(after, ScheduleId(i64::MAX));
            }
            self.orphans(&mut lines, ScheduleId(i64::MAX), &mut told)?;
        }
        Ok(count)
    }

    fn schedules(
        &self,
        after: ScheduleId,
        name: Option<&str>,
        limit: usize,
    ) -> Result<Vec<LedgerSchedule>, Error> {
        let (application, name) = (self.application.to_owned(), name.map(str::to_owned));
        self.store.ledger_schedules(&LedgerPage { application, name, after, limit })
    }

    fn lines(&self, after: ScheduleId, through: ScheduleId) -> Lines<'a> {
        let by = self.by;
        let query = LineQuery {
            by,
            application: self.application.to_owned(),
            after: LinePlace::behind(after),
            through,
            from: self.span.from,
            before: self.span.until,
            limit: if by == LinesBy::Key { ROWS } else { GATHERED },
        };
        Lines { store: self.store, query, read: VecDeque::new(), is_last: false }
    }

    fn account(
        &self,
        schedule: &LedgerSchedule,
        lines: &mut Lines<'_>,
        witness: &mut dyn Witness,
    ) -> Result<Account, Error> {
        let demands = demands(schedule, self.span.until);
        let mut accountant = Accountant::new(schedule, &demands, self.span);
        witness.begin(schedule);
        while let Some(line) = lines.next_of(schedule.id)? {
            // A generation that began after the schedule was read is not part of this.
            if line.place.generation <= schedule.generation
                && let Some(attempts) = accountant.take(line)
            {
                witness.see(attempts);
            }
        }
        let (mut account, attempts) = accountant.finish();
        attempts.into_iter().for_each(|attempts| witness.see(attempts));
        let flaws = witness.end(schedule, &account);
        account.flaws.extend(flaws);
        Ok(account)
    }

    /// Reads a schedule and its rows once more.
    fn account_again(&self, schedule: &LedgerSchedule, witness: &mut dyn Witness) -> Result<Account, Error> {
        let again = self.schedules(before(schedule.id), Some(&schedule.name), 1)?;
        let Some(schedule) = again.first() else { return Ok(Account::default()) };
        self.account(schedule, &mut self.lines(before(schedule.id), schedule.id), witness)
    }

    /// Rows before those of a schedule belong to none that is there.
    fn orphans(
        &self,
        lines: &mut Lines<'_>,
        end: ScheduleId,
        told: &mut impl FnMut(Account),
    ) -> Result<(), Error> {
        while let Some(first) = lines.next_before(end)? {
            let (id, mut rows) = (first.place.schedule, 1);
            while lines.next_of(id)?.is_some() {
                rows += 1;
            }
            let is_there = self.schedules(before(id), None, 1)?.first().is_some_and(|it| it.id == id);
            // It was made, or removed with its rows, since the schedules were read.
            if is_there || self.lines(before(id), id).next_of(id)?.is_none() {
                continue;
            }
            let at = first.place.scheduled.utc();
            let sentence = format!("{rows} rows belong to schedule {}, which is not there", id.0);
            let flaw = Flaw {
                kind: FlawKind::Orphaned,
                schedule: None,
                generation: first.place.generation,
                at,
                last: None,
                occurrences: rows,
                execution: Some(first.id),
                sentence,
            };
            told(Account { rows, flaws: vec![flaw], ..Account::default() });
        }
        Ok(())
    }
}

/// Behind this place a schedule is the first.
fn before(schedule: ScheduleId) -> ScheduleId {
    ScheduleId(schedule.0.saturating_sub(1))
}

/// The rows of some schedules, in the order of their key.
struct Lines<'a> {
    store: &'a dyn Store,
    query: LineQuery,
    read: VecDeque<LedgerLine>,
    is_last: bool,
}

impl Lines<'_> {
    fn fill(&mut self) -> Result<(), Error> {
        if self.read.is_empty() && !self.is_last {
            self.read = self.store.ledger_lines(&self.query)?.into();
            self.is_last = self.read.len() < self.query.limit;
            if let Some(last) = self.read.back() {
                self.query.after = last.place;
            }
        }
        Ok(())
    }

    fn next_if(&mut self, wanted: impl Fn(ScheduleId) -> bool) -> Result<Option<LedgerLine>, Error> {
        self.fill()?;
        let is_wanted = self.read.front().is_some_and(|line| wanted(line.place.schedule));
        Ok(if is_wanted { self.read.pop_front() } else { None })
    }

    fn next_of(&mut self, schedule: ScheduleId) -> Result<Option<LedgerLine>, Error> {
        self.next_if(|id| id == schedule)
    }

    fn next_before(&mut self, schedule: ScheduleId) -> Result<Option<LedgerLine>, Error> {
        self.next_if(|id| id < schedule)
    }
}
