//! Operators and clients of a simulation: their changes of its schedules.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Made, Plans, Written};
use crate::domain::headers::Headers;
use crate::domain::{ExecutionId, ExecutionState, Millis, NextFire, ScheduleId, ScheduleState, Timestamp};
use crate::fixtures::Changes;
use crate::repair::{resume, skip};
use crate::sim::database::Database;
use crate::sim::jobs::{self, APPLICATION};
use crate::sim::judge::{self, Pause};
use crate::sim::sabotage::Sabotage;
use crate::sim::wire::Wire;
use crate::store::audit::{Attribution, AuditQuery};
use crate::store::enqueue::{DueAt, EnqueueOrder, Keyed, OnConflict, UniqueKey, queue_of};
use crate::store::order::{Cancel, ExecutionOrder, Ordered, Retry, RunOrder};
use crate::store::{Change, Definition, Ensured, ExecutionQuery, ExecutionRow, RemoveChange, Verbs};
use crate::trigger::{Delay, Trigger};

impl Plans {
    pub(super) fn any(&mut self) -> usize {
        usize::try_from(self.dice.below(self.made.len() as Millis)).unwrap()
    }

    /// Chooses a schedule and pauses it, or resumes it if it is paused. Returns the pause that has ended.
    pub(in crate::sim) fn pause_or_resume(&mut self, now: Millis, store: &Wire<'_>) -> Option<Pause> {
        let n = self.any();
        if self.made[n].removed.is_some() {
            return None;
        }
        if self.made[n].paused.is_some() {
            return self.resume(n, now, store);
        }
        let entry = store.find(APPLICATION, &self.made[n].definition.name).unwrap().unwrap();
        // An error means that the row is locked for longer than an operator waits.
        if store.pause(entry.id, entry.version, "sim", "sim").unwrap_or(false) {
            self.made[n].paused = Some(now);
        }
        None
    }

    fn resume(&mut self, n: usize, now: Millis, store: &Wire<'_>) -> Option<Pause> {
        let made = &mut self.made[n];
        let schedule = made.definition.name.clone();
        let find = || store.head.find(APPLICATION, &schedule).unwrap().unwrap();
        if store.is_locked(find().id) {
            return None;
        }
        let pause = Pause { schedule: schedule.clone(), from: made.paused.take()?, until: now };
        made.is_contained = false;
        while let Some(repair) = resume(&find(), Timestamp::at(now)) {
            // The store itself: an operator's call is whole.
            store.head.repair(&[repair]).unwrap();
        }
        Some(pause)
    }

    /// These schedules have paused themselves.
    pub(in crate::sim) fn note_contained(&mut self, contained: Vec<(String, Millis)>) {
        for (schedule, at) in &contained {
            let made = self.made.iter_mut().find(|it| it.definition.name == *schedule).unwrap();
            (made.paused, made.is_contained) = (Some(*at), true);
        }
        self.contained.extend(contained);
    }

    /// Schedules that paused themselves, and when.
    pub(in crate::sim) fn contained(&self) -> &[(String, Millis)] {
        &self.contained
    }

    /// Somebody resumes what has paused itself so long ago.
    pub(in crate::sim) fn resume_contained(
        &mut self,
        now: Millis,
        rest: Millis,
        store: &Wire<'_>,
    ) -> Vec<Pause> {
        let is_over = |made: &Made| made.is_contained && made.paused.is_some_and(|since| now - since >= rest);
        let over: Vec<usize> = (0..self.made.len()).filter(|n| is_over(&self.made[*n])).collect();
        over.into_iter().filter_map(|n| self.resume(n, now, store)).collect()
    }

    pub(in crate::sim) fn resume_all(&mut self, now: Millis, store: &Wire<'_>) -> Vec<Pause> {
        (0..self.made.len()).filter_map(|n| self.resume(n, now, store)).collect()
    }

    /// Somebody pauses a schedule by writing into its row, without telling anybody.
    pub(in crate::sim) fn pause_by_hand(
        &mut self,
        now: Millis,
        store: &Wire<'_>,
        write: impl FnOnce(ScheduleId),
    ) {
        let n = self.any();
        let entry = store.find(APPLICATION, &self.made[n].definition.name).unwrap().unwrap();
        if entry.state == ScheduleState::Active && !store.is_locked(entry.id) {
            write(entry.id);
            self.made[n].paused = Some(now);
        }
    }

    /// Another program enqueues an execution, with a key or without, or cancels those with a key.
    pub(in crate::sim) fn write_request(&mut self, database: &Database) {
        const JOB: &str = "steady";
        let payload = format!("\"request {}\"", self.written.len());
        let key = format!("written {}", self.dice.below(4));
        let (enqueues, is_keyed) = (!self.dice.one_in(5), self.dice.one_in(2));
        let (verb, arguments) = match (enqueues, is_keyed) {
            (true, true) => {
                ("enqueue", format!(r#"{{"job": "{JOB}", "payload": {payload}, "key": "{key}"}}"#))
            }
            (true, false) => ("enqueue", format!(r#"{{"job": "{JOB}", "payload": {payload}}}"#)),
            (false, _) => ("cancel", format!(r#"{{"job": "{JOB}", "key": "{key}"}}"#)),
        };
        if let Some(id) = database.request(verb, &arguments) {
            let key = (is_keyed || !enqueues).then_some(key);
            self.written.push(Written { id, payload: enqueues.then_some(payload), key });
        }
    }

    /// What became of what other programs wrote: the executions that were made are orders like any other.
    pub(in crate::sim) fn end_requests(&mut self, database: &Database) -> Vec<judge::Request> {
        let rows = database.requests();
        let mut requests = Vec::new();
        for Written { id, payload, key } in std::mem::take(&mut self.written) {
            let end = rows.get(&id).and_then(|row| row.ended.clone());
            let made =
                end.as_ref().and_then(|end| Some((end.answer.as_str(), end.execution?.0, end.at.millis())));
            match made {
                Some(("created", execution, _)) => {
                    self.orders.push(judge::Order { execution, payload });
                    self.keyed.extend(key.clone().map(|key| judge::Keyed { execution, key }));
                }
                Some(("cancelled" | "asked", execution, at)) => {
                    self.cancels.push(judge::Cancel { execution, at });
                }
                _ => {}
            }
            requests.push(judge::Request { id, subject: key, ended: end.map(|end| end.at.millis()) });
        }
        requests
    }

    /// Somebody enqueues some executions of a job, to be run at once or in a while.
    fn enqueue(&mut self, now: Millis, wire: &Wire<'_>) {
        let jobs = jobs::all();
        let job = jobs[usize::try_from(self.dice.below(jobs.len() as Millis)).unwrap()].clone();
        let first = self.orders.len();
        let count = 1 + usize::try_from(self.dice.below(4)).unwrap();
        let payloads: Vec<String> = (first..first + count).map(|n| format!("\"enqueued {n}\"")).collect();
        let due = match self.dice.below(3) {
            0 => DueAt::Instant(Timestamp::at(now + self.dice.below(30_000))),
            _ => DueAt::After(self.dice.below(2) * self.dice.below(30_000)),
        };
        let priority = self.dice.one_in(3).then(|| i32::try_from(self.dice.below(10)).unwrap());
        let (application, stored) = (APPLICATION.to_owned(), payloads.clone());
        let order = EnqueueOrder {
            application,
            job,
            groups: payloads.iter().map(|_| jobs::group(&mut self.dice)).collect(),
            payloads: stored,
            due,
            priority,
            key: None,
            lane: if first % 4 == 1 { "slow".to_owned() } else { String::new() },
            tags: (0..first % 3).map(|tag| format!("tag {tag}")).collect(),
            headers: Headers::new(),
            notifier: Arc::default(),
        };
        if self.dice.one_in(2) {
            return self.enqueue_keyed(order, wire);
        }
        // The store itself: a client's call is whole. Others may have drawn the same origins.
        let Ok(made) = wire.store.enqueue(&order) else { return };
        let orders = made.into_iter().zip(payloads);
        self.orders
            .extend(orders.map(|(id, payload)| judge::Order { execution: id.0, payload: Some(payload) }));
    }

    /// Somebody enqueues an execution of the first job, to be run at once.
    pub(in crate::sim) fn enqueue_at_once(&mut self, wire: &Wire<'_>) {
        let payload = format!("\"enqueued {}\"", self.orders.len());
        self.enqueue_of_group((0, "", 1), payload, DueAt::After(0), wire);
    }

    /// Somebody enqueues so many of a job's group.
    pub(in crate::sim) fn enqueue_of_group(
        &mut self,
        (job, group, count): (usize, &str, usize),
        payload: String,
        due: DueAt,
        wire: &Wire<'_>,
    ) {
        let order = EnqueueOrder {
            application: APPLICATION.to_owned(),
            job: jobs::all()[job].clone(),
            payloads: vec![payload.clone(); count],
            groups: vec![group.to_owned(); count],
            due,
            priority: None,
            key: None,
            lane: String::new(),
            tags: Vec::new(),
            headers: Headers::new(),
            notifier: Arc::default(),
        };
        let made = wire.store.enqueue(&order).unwrap();
        let order = |id: ExecutionId| judge::Order { execution: id.0, payload: Some(payload.clone()) };
        self.orders.extend(made.into_iter().map(order));
    }

    /// Somebody enqueues one with a key of which there are few.
    fn enqueue_keyed(&mut self, order: EnqueueOrder, wire: &Wire<'_>) {
        let key = format!("key-{}", self.dice.below(3));
        let on_conflict = if self.dice.one_in(2) { OnConflict::Replace } else { OnConflict::Existing };
        let payload = Some(order.payloads[0].clone());
        let unique = UniqueKey { key: key.clone(), per: None, on_conflict };
        let order = EnqueueOrder { payloads: order.payloads[..1].to_vec(), key: Some(unique), ..order };
        // The store itself: a client's call is whole. Others may have drawn the same origin.
        match wire.store.enqueue_unique(&order) {
            Ok(Keyed::Created(id)) => {
                self.orders.push(judge::Order { execution: id.0, payload });
                self.keyed.push(judge::Keyed { execution: id.0, key });
            }
            Ok(Keyed::Replaced(id)) => {
                let replaced = self.orders.iter_mut().filter(|order| order.execution == id.0);
                replaced.for_each(|order| order.payload.clone_from(&payload));
            }
            Ok(Keyed::Existing(_)) | Err(_) => {}
        }
    }

    /// Somebody asks for an extra execution of some schedule, at once or in a while, mostly with a payload of
    /// its own; or enqueues some of a job.
    pub(in crate::sim) fn order(&mut self, now: Millis, wire: &Wire<'_>) {
        if self.dice.one_in(2) {
            return self.enqueue(now, wire);
        }
        let n = self.any();
        let schedule = self.made[n].definition.name.clone();
        let payload = self.dice.one_in(2).then(|| format!("\"by hand {}\"", self.orders.len()));
        let at = self.dice.one_in(3).then(|| now + self.dice.below(30_000));
        let by = Attribution { actor: "sim".to_owned(), reason: String::new() };
        let application = APPLICATION.to_owned();
        let order = RunOrder {
            application,
            schedule,
            payload: payload.clone(),
            headers: Headers::new(),
            at: at.map(Timestamp::at),
            by,
        };
        let is_locked = |id| wire.is_locked(id);
        if wire.seen(APPLICATION, &order.schedule).unwrap().is_none_or(|seen| is_locked(seen.id)) {
            return;
        }
        // The store itself: an operator's call is whole.
        match wire.store.order(&order) {
            Ok(Ordered::Pending(execution)) => {
                self.orders.push(judge::Order { execution: execution.0, payload });
            }
            Ok(Ordered::Unknown) => assert!(self.made[n].removed.is_some() || wire.is_behind()),
            // Under a sabotage.
            Ok(Ordered::NotRunnable(_)) => {}
            Err(error) => assert!(wire.is_behind(), "{error}"),
        }
    }

    /// Somebody asks for another attempt at some execution that did not succeed.
    pub(in crate::sim) fn retry(&mut self, wire: &Wire<'_>) {
        let states = vec![ExecutionState::Failed, ExecutionState::Cancelled, ExecutionState::Abandoned];
        // Where there are several members, also what retention is about to remove.
        let limit = if wire.is_behind() { 1_000 } else { 100 };
        let ended = ExecutionQuery { states, limit, ..ExecutionQuery::default() };
        let ended = wire.store.executions(&ended).unwrap();
        if ended.is_empty() {
            return;
        }
        let keyed: Vec<&ExecutionRow> = ended.iter().filter(|row| row.key.is_some()).take(9).collect();
        let is_enqueued = |row: &&ExecutionRow| row.schedule.starts_with(&queue_of(""));
        let mut enqueued = ended.iter().rev().filter(is_enqueued).peekable();
        let rows = match wire.is_behind().then(|| self.dice.below(3)) {
            // Somebody else may enqueue another with its key.
            Some(0) if !keyed.is_empty() => keyed,
            // Retention may be about to remove it.
            Some(1) if enqueued.peek().is_some() => enqueued.take(9).collect(),
            _ => ended.iter().collect(),
        };
        let row = rows[usize::try_from(self.dice.below(rows.len() as Millis)).unwrap()];
        let (execution, application) = (ExecutionId(row.id), APPLICATION.to_owned());
        let order = ExecutionOrder::new(application, execution, Attribution::default());
        // The store itself: an operator's call is whole.
        match wire.store.retry(&order) {
            Ok(Retry::Pending(attempt)) => drop(self.retries.insert(attempt.0)),
            Ok(_) => {}
            Err(error) => assert!(wire.is_behind(), "{error}"),
        }
    }

    /// The attempts that somebody asked for.
    pub(in crate::sim) fn retries(&self) -> BTreeSet<i64> {
        self.retries.clone()
    }

    /// Somebody skips the next occurrence of some schedule. Returns the pause that has ended with the last
    /// one.
    pub(in crate::sim) fn skip(&mut self, now: Millis, wire: &Wire<'_>) -> Option<Pause> {
        let n = self.any();
        let schedule = self.made[n].definition.name.clone();
        let entry = wire.find(APPLICATION, &schedule).unwrap()?;
        let at = entry.cursor.next.at()?;
        if wire.is_locked(entry.id) {
            return None;
        }
        // Now and then somebody is too late: that one has passed.
        let named = if self.dice.one_in(4) { entry.cursor.prev.unwrap_or(at) } else { at };
        let at = if wire.is(Sabotage::SkipTheNext) { at } else { named };
        let repair = skip(&entry, at, wire.now().unwrap())?;
        let is_last = repair.to.next == NextFire::Never;
        // The store itself: an operator's call is whole.
        if !wire.store.apply_one(Change::Repair(repair)).unwrap().is_done() {
            return None;
        }
        self.skips.push((schedule.clone(), named.millis()));
        let from = self.made[n].paused.take_if(|_| is_last)?;
        Some(Pause { schedule, from, until: now })
    }

    /// What somebody skipped.
    pub(in crate::sim) fn skips(&self) -> Vec<(String, Millis)> {
        self.skips.clone()
    }

    /// Somebody cancels some execution that has not ended.
    pub(in crate::sim) fn cancel(&mut self, now: Millis, wire: &Wire<'_>) {
        let states = vec![ExecutionState::Pending, ExecutionState::Claimed, ExecutionState::Running];
        let open = ExecutionQuery { states, limit: 1_000, ..ExecutionQuery::default() };
        let open = wire.store.executions(&open).unwrap();
        if open.is_empty() {
            return;
        }
        let row = &open[usize::try_from(self.dice.below(open.len() as Millis)).unwrap()];
        let by = Attribution { actor: "sim".to_owned(), reason: String::new() };
        let execution = ExecutionId(row.id);
        let order = ExecutionOrder::new(APPLICATION.to_owned(), execution, by);
        if wire.seen(APPLICATION, &row.schedule).unwrap().is_some_and(|seen| wire.is_locked(seen.id)) {
            return;
        }
        // The store itself: an operator's call is whole.
        match wire.store.cancel(&order) {
            Ok(Cancel::Done | Cancel::Asked { .. }) if wire.is_behind() => self.note_cancelled(now, wire),
            Ok(Cancel::Done | Cancel::Asked { .. }) => {
                self.cancels.push(judge::Cancel { execution: row.id, at: now });
            }
            Ok(_) => {}
            Err(error) => assert!(wire.is_behind(), "{error}"),
        }
    }

    /// Notes which executions were cancelled last: those behind the ones that were meant, where these had
    /// ended.
    fn note_cancelled(&mut self, now: Millis, wire: &Wire<'_>) {
        let (verb, actor) = (Some("cancel".to_owned()), Some("sim".to_owned()));
        let application = APPLICATION.to_owned();
        let query = AuditQuery { application, verb, actor, limit: 20, ..AuditQuery::default() };
        for row in wire.head.audit(&query).unwrap() {
            let execution = row.target.split_once(" of ").and_then(|(id, _)| id.parse().ok());
            let execution = execution.filter(|id: &i64| self.cancels.iter().all(|it| it.execution != *id));
            self.cancels.extend(execution.map(|execution| judge::Cancel { execution, at: now }));
        }
    }

    /// What somebody cancelled.
    pub(in crate::sim) fn cancels(&self) -> Vec<judge::Cancel> {
        self.cancels.clone()
    }

    /// What was enqueued with a key.
    pub(in crate::sim) fn keyed(&self) -> Vec<judge::Keyed> {
        self.keyed.clone()
    }

    /// What was asked for.
    pub(in crate::sim) fn orders(&self) -> Vec<judge::Order> {
        self.orders.clone()
    }

    /// Some schedule is removed. Returns the pause that has ended with that.
    pub(in crate::sim) fn remove(&mut self, now: Millis, wire: &Wire<'_>) -> Option<Pause> {
        let n = self.any();
        let made = &mut self.made[n];
        let schedule = made.definition.name.clone();
        let seen = wire.seen(APPLICATION, &schedule).unwrap()?;
        if made.removed.is_some() || wire.is_locked(seen.id) {
            return None;
        }
        let (application, database) = (APPLICATION.to_owned(), wire.now().unwrap());
        let removal = RemoveChange { application, seen, reason: "sim".to_owned(), now: database };
        // The store itself: an operator's call is whole.
        assert!(wire.store.apply_one(Change::Remove(removal)).unwrap().is_done());
        made.removed = Some(now);
        let generation = *made.generations.keys().next_back().expect("it has been planned");
        made.ended.insert(generation, database.millis());
        Some(Pause { schedule, from: made.paused.take()?, until: now })
    }

    /// The removals, those that last included.
    pub(in crate::sim) fn removals(&self) -> Vec<Pause> {
        let lasting = self.made.iter().filter_map(|made| {
            let schedule = made.definition.name.clone();
            Some(Pause { schedule, from: made.removed?, until: Millis::MAX })
        });
        self.removals.iter().cloned().chain(lasting).collect()
    }

    /// Some schedule gets another payload or another trigger. With a trigger, occurrences that were planned
    /// and not begun are withdrawn; one without a time left completes even a paused schedule. Returns the
    /// pause that has ended with that.
    pub(in crate::sim) fn edit(&mut self, now: Millis, store: &Wire<'_>) -> Option<Pause> {
        let n = self.any();
        let entry = store.find(APPLICATION, &self.made[n].definition.name).unwrap().unwrap();
        if self.made[n].removed.is_none() && self.dice.one_in(2) && !store.is_locked(entry.id) {
            let made = &mut self.made[n];
            made.definition.payload = made.payloads.len().to_string();
            made.payloads.push((now, made.definition.payload.clone()));
            assert_ne!(store.ensure(&made.definition).unwrap(), Ensured::Unchanged);
            return None;
        }
        if let (Trigger::Delay(_), true) = (&self.made[n].definition.trigger, self.dice.one_in(2)) {
            return self.edit_delay(n, now, store);
        }
        let start = now + self.dice.below(5_000);
        if store.is_locked(entry.id) || start >= self.ends {
            return None;
        }
        let (trigger, times) = match self.dice.below(3) {
            0 => self.short_trigger(now),
            kind => self.trigger(kind == 1, start),
        };
        let start = times.first().copied().unwrap_or(start);
        self.re_time(n, now, start, (trigger, times), store)
    }

    /// Another delay: it counts from the end of the run that is under way, if one is.
    fn edit_delay(&mut self, n: usize, now: Millis, store: &Wire<'_>) -> Option<Pause> {
        /// With less than this left it would fire no more.
        const LAST_DELAY: Millis = 10_000;
        let made = &mut self.made[n];
        let find = || store.find(APPLICATION, &made.definition.name).unwrap().unwrap();
        let (entry, start) = (find(), made.definition.start);
        let is_over = entry.state == ScheduleState::Complete || now + LAST_DELAY > self.ends;
        if made.removed.is_some() || store.is_locked(entry.id) || is_over {
            return None;
        }
        let delay = 1_000 * (1 + self.dice.below(7));
        let trigger = Trigger::Delay(Delay::new(start.map(Timestamp::millis), delay).unwrap());
        let definition = Definition { trigger, ..made.definition.clone() };
        if store.ensure(&definition).unwrap() != Ensured::Unchanged {
            let edited = find();
            let first = edited.cursor.next.at();
            made.ended.insert(entry.generation, store.now().unwrap().millis());
            assert_eq!(first.is_none(), entry.cursor.next == NextFire::AfterRun, "{edited:?}");
            let generation = edited.generation;
            made.generations.insert(generation, Vec::new());
            made.delays.insert(
                generation,
                judge::Delay { first: first.map(Timestamp::millis), delay, ends: self.ends },
            );
        }
        made.definition = definition;
        None
    }

    /// Some schedule gets a trigger that lay ahead when the transaction began which commits it now.
    pub(in crate::sim) fn edit_belatedly(&mut self, now: Millis, store: &Wire<'_>) -> Option<Pause> {
        let n = self.any();
        let entry = store.find(APPLICATION, &self.made[n].definition.name).unwrap().unwrap();
        if store.is_locked(entry.id) {
            return None;
        }
        let begun = now - 120_000 - self.dice.below(60_000);
        let (trigger, times) = self.short_trigger(begun);
        self.re_time(n, now, times[0], (trigger, times), store)
    }

    /// Gives a schedule another trigger. Returns the pause that has ended with that, if any.
    fn re_time(
        &mut self,
        n: usize,
        now: Millis,
        start: Millis,
        (trigger, times): (Trigger, Vec<Millis>),
        store: &Wire<'_>,
    ) -> Option<Pause> {
        let schedule = self.made[n].definition.name.clone();
        let entry = store.find(APPLICATION, &schedule).unwrap().unwrap();
        let definition =
            Definition { trigger, start: Some(Timestamp::at(start)), ..self.made[n].definition.clone() };
        let ensured = store.ensure(&definition).unwrap();
        if ensured == Ensured::Created {
            let from = self.made[n].removed.take().expect("it has been removed");
            self.removals.push(Pause { schedule: schedule.clone(), from, until: now });
        }
        if ensured != Ensured::Unchanged {
            let database = store.now().unwrap();
            // A removed schedule may have been skipped ahead: made again it knows nothing of the future.
            let is_believed = |prev: &Timestamp| ensured != Ensured::Created || *prev <= database;
            let prev = entry.cursor.prev.filter(is_believed);
            let times = expected(&definition.trigger, times, prev.map(Timestamp::millis), database.millis());
            self.made[n].generations.insert(entry.generation + 1, times);
            // That of a removed schedule ended before.
            self.made[n].ended.entry(entry.generation).or_insert(database.millis());
            if prev != entry.cursor.prev {
                self.made[n].unpreceded.insert(entry.generation + 1);
            }
            self.made[n].definition = definition;
        }
        let is_paused = store.find(APPLICATION, &schedule).unwrap().unwrap().state == ScheduleState::Paused;
        let from = self.made[n].paused.take_if(|_| !is_paused)?;
        Some(Pause { schedule, from, until: now })
    }
}

/// Of a new trigger's times those from now on. If a simple trigger's have all passed, those not planned
/// before; a one-shot's in any case.
fn expected(trigger: &Trigger, times: Vec<Millis>, prev: Option<Millis>, now: Millis) -> Vec<Millis> {
    let is_new = |at: &Millis| prev.is_none_or(|prev| *at > prev);
    let ahead: Vec<Millis> = times.iter().copied().filter(|at| *at >= now && is_new(at)).collect();
    match trigger {
        Trigger::Simple(simple) if ahead.is_empty() && simple.interval_ms() == 0 => times,
        Trigger::Simple(_) if ahead.is_empty() => times.into_iter().filter(is_new).collect(),
        _ => ahead,
    }
}
