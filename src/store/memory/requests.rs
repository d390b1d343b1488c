//! Requests that other programs have written.

use std::cell::RefCell;

use super::MemoryStore;
use super::hooks::HeldKey;
use super::rows::{RequestEnd, RequestRow};
use super::tables::Tables;
use crate::domain::text::{escaped, shortened};
use crate::domain::{Entry, Error, ErrorKind, ExecutionId, Timestamp};
use crate::store::audit::AuditEntry;
use crate::store::enqueue::{EnqueueOrder, Keyed};
use crate::store::order::{Cancel, ExecutionOrder, Ordered, Retry, RunOrder};
use crate::store::request::{Answered, CarriedOut, Request, RequestQuery};
use crate::store::rerun::{Reran, RerunCancel, RerunCancelled, RerunOrder};
use crate::store::switch::{PassedQuery, SwitchOrder, Switched};
use crate::store::sync::{SyncAnswer, SyncOrder};
use crate::store::{
    Applied, Carrier, Change, Completed, Definition, Ensured, ExecutionChange, ExecutionQuery, ExecutionRow,
    Result, ScheduleRow, SeenSchedule, Verbs,
};

impl MemoryStore {
    /// From now on requests are carried out whatever their rows say.
    pub(crate) fn carry_out_again(&self) {
        self.tables().hooks.requests_unguarded = true;
    }

    /// Inserts a request, as another program does; its id.
    pub(crate) fn request(&self, application: &str, verb: &str, arguments: &str) -> Result<i64> {
        let (application, verb, arguments) = (application.to_owned(), verb.to_owned(), arguments.to_owned());
        let row = RequestRow { application, verb, arguments, ended: None };
        self.transaction(|tables| {
            let id = tables.fresh_id();
            tables.requests.insert(id, row.clone());
            Ok(id)
        })
    }

    /// All requests, by id.
    pub(crate) fn written_requests(&self) -> Vec<(i64, RequestRow)> {
        self.read(|tables| tables.requests.iter().map(|(id, row)| (*id, row.clone())).collect())
    }

    /// In one transaction, or two if it is refused.
    pub(super) fn carried_out(&self, request: &Request, carrier: &dyn Carrier) -> Result<CarriedOut> {
        let refusal = RefCell::new(None);
        let carried = self.transaction(|tables| {
            *refusal.borrow_mut() = None;
            if !tables.is_open(request.id) {
                return Ok(CarriedOut::Ended);
            }
            if tables.hooks.held.contains(&HeldKey::Request(request.id)) {
                return Ok(CarriedOut::Held);
            }
            let asked = match &request.asked {
                Ok(asked) => asked,
                Err(problem) => return tables.end_request(request.id, false, None, problem),
            };
            let within = Within(RefCell::new(tables));
            let answered = carrier.carry_out(asked, &request.actor, &within)?;
            let tables = within.0.into_inner();
            match answered {
                Answered::Done { execution, answer } => {
                    tables.end_request(request.id, true, execution, answer)
                }
                Answered::Refused(reason) => {
                    *refusal.borrow_mut() = Some(reason);
                    Err(Error::new(ErrorKind::Refused, "taken back"))
                }
            }
        });
        match refusal.into_inner() {
            Some(reason) => self.transaction(|tables| match tables.is_open(request.id) {
                true => tables.end_request(request.id, false, None, &reason),
                false => Ok(CarriedOut::Ended),
            }),
            None => carried,
        }
    }
}

impl Tables {
    pub(super) fn request_page(&self, query: &RequestQuery) -> Vec<Request> {
        let open = self.requests.range(query.after.saturating_add(1)..);
        let open = open.filter(|(_, row)| row.ended.is_none() && row.application == query.application);
        let read =
            |(id, row): (&i64, &RequestRow)| Request::read(*id, String::new(), &row.verb, &row.arguments);
        open.take(query.limit).map(read).collect()
    }

    pub(super) fn has_requests(&self, application: &str) -> bool {
        self.requests.values().any(|row| row.ended.is_none() && row.application == application)
    }

    fn is_open(&self, request: i64) -> bool {
        self.hooks.requests_unguarded || self.requests.get(&request).is_some_and(|row| row.ended.is_none())
    }

    fn end_request(
        &mut self,
        request: i64,
        is_done: bool,
        execution: Option<ExecutionId>,
        answer: &str,
    ) -> Result<CarriedOut> {
        let end = RequestEnd { is_done, execution, answer: answer.to_owned(), at: self.now };
        if let Some(row) = self.requests.get_mut(&request) {
            row.ended = Some(end);
        }
        Ok(if is_done { CarriedOut::Done } else { CarriedOut::Refused(answer.to_owned()) })
    }

    /// By the names of the columns; None if there is no such row or column.
    pub(super) fn get_request(&self, id: i64, column: &str) -> Option<Option<String>> {
        let row = self.requests.get(&id)?;
        let end = row.ended.as_ref();
        Some(match column {
            "state" => {
                Some(end.map_or("REQUESTED", |end| if end.is_done { "DONE" } else { "REFUSED" }).to_owned())
            }
            "answer" => Some(end.map_or(String::new(), |end| shortened(&escaped(&end.answer), 499))),
            "execution_id" => end.and_then(|end| end.execution).map(|id| id.0.to_string()),
            _ => return None,
        })
    }

    pub(super) fn set_request(&mut self, id: i64, column: &str, at: Option<Timestamp>) -> Option<()> {
        let end = self.requests.get_mut(&id)?.ended.as_mut().filter(|_| column == "ended_time")?;
        end.at = at?;
        Some(())
    }

    pub(super) fn purge_requests(&mut self, application: &str, before: Timestamp) {
        let is_old = |row: &RequestRow| row.ended.as_ref().is_some_and(|end| end.at < before);
        self.requests.retain(|_, row| row.application != application || !is_old(row));
    }
}

/// A client's verbs within a transaction.
struct Within<'t>(RefCell<&'t mut Tables>);

impl Verbs for Within<'_> {
    fn find(&self, application: &str, name: &str) -> Result<Option<Entry>> {
        self.0.borrow().find(application, name)
    }

    fn seen(&self, application: &str, name: &str) -> Result<Option<SeenSchedule>> {
        Ok(self.0.borrow().seen(application, name))
    }

    fn schedule(&self, application: &str, name: &str) -> Result<Option<ScheduleRow>> {
        let rows = self.0.borrow().schedule_rows(Some(application));
        Ok(rows.into_iter().find(|row| row.name == name))
    }

    fn now(&self) -> Result<Timestamp> {
        Ok(self.0.borrow().now)
    }

    fn apply(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        self.0.borrow_mut().apply(changes)
    }

    fn apply_audited(&self, change: Change, entry: &AuditEntry) -> Result<Applied> {
        self.0.borrow_mut().apply_audited(&change, entry)
    }

    fn ensure(&self, definition: &Definition) -> Result<Ensured> {
        self.0.borrow_mut().ensure(definition)
    }

    fn sync(&self, order: &SyncOrder) -> Result<SyncAnswer> {
        self.0.borrow_mut().sync(order)
    }

    fn order(&self, order: &RunOrder) -> Result<Ordered> {
        self.0.borrow_mut().order(order)
    }

    fn rerun(&self, order: &RerunOrder) -> Result<Reran> {
        self.0.borrow_mut().rerun(order)
    }

    fn cancel_rerun(&self, order: &RerunCancel) -> Result<RerunCancelled> {
        self.0.borrow_mut().cancel_rerun(order)
    }

    fn enqueue(&self, order: &EnqueueOrder) -> Result<Vec<ExecutionId>> {
        self.0.borrow_mut().enqueue(order)
    }

    fn enqueue_unique(&self, order: &EnqueueOrder) -> Result<Keyed> {
        self.0.borrow_mut().enqueue_unique(order)
    }

    fn complete(&self, outcome: &ExecutionChange) -> Result<Completed> {
        self.0.borrow_mut().complete(outcome)
    }

    fn checkpoint(&self, checkpoint: &ExecutionChange) -> Result<Applied> {
        Ok(self.apply(&[checkpoint.clone().into()])?[0])
    }

    fn cancel(&self, order: &ExecutionOrder) -> Result<Cancel> {
        self.0.borrow_mut().cancel(order)
    }

    fn retry(&self, order: &ExecutionOrder) -> Result<Retry> {
        self.0.borrow_mut().retry(order)
    }

    fn switch(&self, order: &SwitchOrder) -> Result<Switched> {
        self.0.borrow_mut().switch(order)
    }

    fn passed(&self, query: &PassedQuery) -> Result<Vec<Entry>> {
        Ok(self.0.borrow().passed(query))
    }

    fn executions(&self, filter: &ExecutionQuery) -> Result<Vec<ExecutionRow>> {
        Ok(self.0.borrow().execution_rows(filter))
    }
}
