//! Executions that are enqueued.

use super::{change, node};
use crate::domain::headers;
use crate::domain::{ExecutionId, ExecutionState, JobSpec, Millis, Reason, ScheduleId, Timestamp, Token};
use crate::store::columns::{NO_PRIORITY, NONE, Settings, When};
use crate::store::enqueue::{
    DueAt, EnqueueOrder, Keyed, OnConflict, QueueRow, first_origin, queue_of, read_tags,
};
use crate::store::news::News;
use crate::store::order::ExecutionOrder;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::misfire::purge;
use crate::store::sql::poll::news;
use crate::store::sql::session::batch::{BatchRows, delete};
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, answer, listed, sql};
use crate::store::sql::session::{Session, now};
use crate::store::{Applied, Change};
use crate::time::{Clock, Now};

/// Inserts the executions, and before the first of a job its queue.
pub(crate) fn enqueue(session: &mut dyn Session, order: &EnqueueOrder) -> Step<Vec<ExecutionId>> {
    enqueue_into(session, order, None)
}

/// The same within a caller's transaction. An INSERT with a SELECT locks what it reads, too: see
/// [`named`](super::named).
pub(crate) fn enqueue_joined(session: &mut dyn Session, order: &EnqueueOrder) -> Step<Vec<ExecutionId>> {
    let queue = if session.dialect().locks_gaps() { queue_id(session, order)? } else { None };
    enqueue_into(session, order, queue)
}

/// The job's queue is found by its id, if that is known.
fn enqueue_into(
    session: &mut dyn Session,
    order: &EnqueueOrder,
    queue: Option<ScheduleId>,
) -> Step<Vec<ExecutionId>> {
    if order.payloads.is_empty() {
        return Ok(Vec::new());
    }
    let origins: Vec<i64> = (fresh_origin()..).take(order.payloads.len()).collect();
    let now = host_time();
    let news = order.news(order.due(now.db), now.db, now.boot);
    if let Some(ids) = insert(session, order, queue, &origins, news)? {
        return Ok(ids);
    }
    make_queue(session, &order.application, &order.job)?;
    let queue = queue_id(session, order)?;
    insert(session, order, queue, &origins, news)?.ok_or_else(|| unseen(order))
}

/// The job's queue is there, but an older snapshot of the caller's does not show it.
fn unseen(order: &EnqueueOrder) -> Fault {
    let problem = format!("the queue of job {:?} was made since the transaction began", order.job.name);
    Fault::new(FaultKind::Conflict, problem)
}

/// It keeps neighbours in time together.
fn fresh_origin() -> i64 {
    first_origin(host_time().db, Token::fresh().0.as_u128())
}

fn host_time() -> Now {
    Clock::default().now()
}

/// Inserts one execution with a key, unless another keeps that. Locks the key's row first, then its
/// execution's, so that requests with one key run one after another.
pub(crate) fn enqueue_unique(session: &mut dyn Session, order: &EnqueueOrder) -> Step<Keyed> {
    let missing = |what: &str| Fault::undecodable(format!("job {:?}: {what}", order.job.name));
    let unique = order.key.as_ref().ok_or_else(|| missing("an execution without a key"))?;
    let queue = match queue_id(session, order)? {
        Some(queue) => queue,
        None => {
            make_queue(session, &order.application, &order.job)?;
            queue_id(session, order)?.ok_or_else(|| unseen(order))?
        }
    };
    let now = now(session)?;
    let due = order.due(now);
    let (key, origin) =
        (KeyRow { queue, key: unique.key.clone(), period: unique.period(due) }, fresh_origin());
    let keeper = key.take(session, origin)?;
    if keeper != origin
        && let Some(open) = key.open_attempt(session, keeper)?
    {
        let change = Change::Replace(order.replacing(open.id, open.token, due));
        let may_replace = unique.on_conflict == OnConflict::Replace && open.is_waiting();
        if !may_replace || change::apply(session, &[change])? != [Applied::Done] {
            return Ok(Keyed::Existing(open.id));
        }
        remove_tags(session, queue, &[(keeper, &open.tags)])?;
        insert_tags(session, order, Some(queue), &[keeper])?;
        news::tell_of(session, order.news(due, now, host_time().boot), &order.application)?;
        return Ok(Keyed::Replaced(open.id));
    }
    if keeper != origin {
        key.give(session, keeper, origin)?;
    }
    let (news, order) =
        (order.news(due, now, host_time().boot), EnqueueOrder { due: DueAt::Instant(due), ..order.clone() });
    let ids = insert_some(session, &order, (Some(queue), Some(&key)), 0, &[origin], news)?;
    insert_tags(session, &order, Some(queue), &[origin])?;
    ids.first().copied().map(Keyed::Created).ok_or_else(|| missing("nothing was inserted"))
}

/// The id of the job's queue, if it has one.
fn queue_id(session: &mut dyn Session, order: &EnqueueOrder) -> Step<Option<ScheduleId>> {
    let question = sql("SELECT e.id FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.name = ?");
    let question = question.bind(order.application.as_str()).bind(queue_of(&order.job.name));
    session.one(&question, |row| row.int().map(ScheduleId))
}

/// A row of QRTZ_KEY.
struct KeyRow {
    queue: ScheduleId,
    key: String,
    period: Millis,
}

impl KeyRow {
    /// Makes the row if it is missing, and locks it: the origin of the execution that it names.
    fn take(&self, session: &mut dyn Session, origin: i64) -> Step<i64> {
        let dialect = session.dialect();
        let insert =
            sql("INSERT INTO QRTZ_KEY (unique_key, execute_id, key_period, origin) VALUES (?, ?, ?, ?)");
        let insert = insert.bind(self.key.as_str()).bind(self.queue).bind(self.period).bind(origin);
        session.execute(&insert.push(&dialect.or_leave("QRTZ_KEY", "origin")))?;
        let row = "SELECT k.origin FROM QRTZ_KEY k WHERE k.unique_key = ? AND k.execute_id = ? \
                   AND k.key_period = ?";
        let row = sql(row).bind(self.key.as_str()).bind(self.queue).bind(self.period);
        let row = row.push(&dialect.lock("k"));
        session
            .one(&row, Row::int)?
            .ok_or_else(|| Fault::new(FaultKind::Conflict, "the key of an execution was removed meanwhile"))
    }

    /// The key, whose row is locked, is this execution's from now on. Written in any case: a caller with an
    /// older snapshot must not take the execution for one that has ended. The table of changes has no entry
    /// for it: under the lock there is nothing that could be lost.
    fn give(&self, session: &mut dyn Session, from: i64, to: i64) -> Step<()> {
        let update = sql(format!(
            "UPDATE QRTZ_KEY SET origin = ?{} WHERE unique_key = ? AND execute_id = ? AND key_period = ? \
             AND origin = ?",
            session.dialect().and_touch()
        ));
        let update = update.bind(to).bind(self.key.as_str()).bind(self.queue).bind(self.period);
        session.execute(&update.bind(from)).map(drop)
    }

    /// The last attempt at the execution of this origin, if that has not ended. Where a caller's snapshot
    /// turns out to be older, rows are locked to be seen. An outcome may be inserting the next attempt: then
    /// the question is repeated until it names the same one.
    fn open_attempt(&self, session: &mut dyn Session, origin: i64) -> Step<Option<LastAttempt>> {
        let question = sql(format!(
            "SELECT {} FROM QRTZ_RUN r \
             WHERE r.execute_id = ? AND r.generation = 0 AND r.origin = ? AND r.unique_key = ? \
             AND COALESCE(r.key_period, {NONE}) = ? ORDER BY r.attempt DESC LIMIT 1",
            LastAttempt::columns()
        ));
        let question = question.bind(self.queue).bind(origin).bind(self.key.as_str()).bind(self.period);
        let lock = session.dialect().lock_to_see("r");
        let last = session.one(&question, LastAttempt::read)?;
        let is_current = match &last {
            Some(last) => !has_changed(session, last.id)?,
            None => lock.is_empty(),
        };
        if is_current {
            return Ok(last.filter(LastAttempt::is_open));
        }
        let (question, mut seen) = (question.push(&lock), None);
        loop {
            let Some(last) = session.one(&question, LastAttempt::read)? else { return Ok(None) };
            if seen.replace(last.id) == Some(last.id) {
                return Ok(Some(last).filter(LastAttempt::is_open));
            }
        }
    }
}

/// Whether an execution's row is another than a caller's snapshot shows; it is locked to be seen. Whatever
/// inserts an attempt behind this one changes this one's row, too: if it has not changed, a plain read shows
/// all that follow. To lock the place where one would be inserted would hold up others, on MariaDB at
/// REPEATABLE READ: claims of the schedule, and whatever is enqueued for the job.
pub(crate) fn has_changed(session: &mut dyn Session, execution: ExecutionId) -> Step<bool> {
    let lock = session.dialect().lock_to_see("r");
    if lock.is_empty() {
        return Ok(false);
    }
    let shown =
        sql("SELECT r.state, r.claim_token, r.touched FROM QRTZ_RUN r WHERE r.id = ?").bind(execution.0);
    let present = shown.clone().push(&lock);
    let read = |row: &mut Row| Ok((row.loose_text()?, row.loose_text()?, row.maybe_int()?));
    Ok(session.one(&shown, read)? != session.one(&present, read)?)
}

answer! {
    /// The last attempt at an enqueued execution.
    struct LastAttempt() {
        id: ExecutionId = "r.id", |row| row.int().map(ExecutionId);
        reason: String = "r.reason", Row::loose_text;
        state: Option<ExecutionState> = "r.state", Row::word;
        // One that cannot be read was written by hand: nothing is under the nil token.
        token: Token = "r.claim_token", |row| Ok(row.token()?.unwrap_or(Token(uuid::Uuid::nil())));
        finished: Option<Timestamp> = "r.finished_time", Row::time;
        tags: Vec<String> = "r.tags", tags;
    }
}

impl LastAttempt {
    fn is_open(&self) -> bool {
        match self.state {
            Some(ExecutionState::TimedOut) => self.finished.is_none(),
            Some(state) => !state.is_terminal(),
            None => true,
        }
    }

    /// It waits as it was enqueued.
    fn is_waiting(&self) -> bool {
        self.state == Some(ExecutionState::Pending) && self.reason == Reason::Enqueued.as_str()
    }
}

pub(crate) fn tags(row: &mut Row) -> Step<Vec<String>> {
    Ok(read_tags(row.maybe_text()?.as_deref()))
}

/// An enqueued execution that has a key.
pub(crate) struct KeyedExecution {
    origin: i64,
    key: KeyRow,
    /// The origin of the execution that the key's row names.
    named: i64,
}

/// The key of an execution of the application, if it has one, with its row locked.
pub(crate) fn key_of(session: &mut dyn Session, order: &ExecutionOrder) -> Step<Option<KeyedExecution>> {
    let question = sql("SELECT r.execute_id, r.origin, r.unique_key, r.key_period FROM QRTZ_RUN r \
                        WHERE r.id = ? AND r.application = ? AND r.unique_key IS NOT NULL");
    let question = question.bind(order.execution.0).bind(order.application.as_str());
    let Some(mut row) = session.rows(&question)?.pop() else { return Ok(None) };
    let (queue, origin) = (ScheduleId(row.int()?), row.int()?);
    let key = KeyRow { queue, key: row.text()?, period: row.maybe_int()?.unwrap_or(NONE) };
    let named = key.take(session, origin)?;
    Ok(Some(KeyedExecution { origin, key, named }))
}

impl KeyedExecution {
    /// Another execution that has not ended and has its key.
    pub(crate) fn keeper(&self, session: &mut dyn Session) -> Step<Option<ExecutionId>> {
        if self.named == self.origin {
            return Ok(None);
        }
        Ok(self.key.open_attempt(session, self.named)?.map(|open| open.id))
    }

    /// It goes on, and has the key again.
    pub(crate) fn retake(&self, session: &mut dyn Session) -> Step<()> {
        self.key.give(session, self.named, self.origin)
    }
}

/// The ids, or none if the job has no queue yet.
fn insert(
    session: &mut dyn Session,
    order: &EnqueueOrder,
    queue: Option<ScheduleId>,
    origins: &[i64],
    news: News,
) -> Step<Option<Vec<ExecutionId>>> {
    let mut ids = Vec::with_capacity(order.payloads.len());
    let size = session.dialect().batch();
    for (first, origins) in (0..).step_by(size).zip(origins.chunks(size)) {
        let inserted = insert_some(session, order, (queue, None), first, origins, news)?;
        if inserted.is_empty() {
            return Ok(None);
        }
        ids.extend(inserted);
        insert_tags(session, order, queue, origins)?;
    }
    Ok(Some(ids))
}

/// Lets executions of these origins be found by their tags, if they have some.
fn insert_tags(
    session: &mut dyn Session,
    order: &EnqueueOrder,
    queue: Option<ScheduleId>,
    origins: &[i64],
) -> Step<()> {
    let dialect = session.dialect();
    for tag in &order.tags {
        let want = BatchRows::new(origins.iter().copied()).same("tag", tag.as_str());
        let insert = sql("INSERT INTO QRTZ_TAG (tag, execute_id, origin) SELECT w.tag, e.id, w.id FROM ");
        let insert = insert.want(dialect, &want).push(&format!(" {} ", dialect.join()));
        let insert = insert.and(queue_row(dialect, order, queue)).push(" WHERE w.id <> -1");
        session.execute(&insert).map_err(taken)?;
    }
    Ok(())
}

/// The row `e` of the job's queue, as what is joined.
fn queue_row(dialect: Dialect, order: &EnqueueOrder, queue: Option<ScheduleId>) -> Statement {
    match queue {
        Some(id) => sql(format!("{} ON e.id = ?", dialect.by_id("QRTZ_EXECUTE", "e"))).bind(id),
        None => sql("QRTZ_EXECUTE e ON e.application = ? AND e.name = ?")
            .bind_all((order.application.as_str(), queue_of(&order.job.name))),
    }
}

/// An origin has to be drawn anew.
fn taken(fault: Fault) -> Fault {
    match fault.kind {
        FaultKind::Duplicate => {
            Fault { kind: FaultKind::Conflict, ..fault }.with("others have drawn the same origins")
        }
        _ => fault,
    }
}

/// Executions of these origins are found by these tags no more.
pub(crate) fn remove_tags(
    session: &mut dyn Session,
    queue: ScheduleId,
    executions: &[(i64, &Vec<String>)],
) -> Step<()> {
    let of_one = |(origin, tags): &(i64, &Vec<String>)| {
        let origin = *origin;
        tags.iter().map(move |tag| (origin, tag.clone())).collect::<Vec<_>>()
    };
    let tags: Vec<(i64, String)> = executions.iter().flat_map(of_one).collect();
    purge::remove(session, &tags, |dialect, tags| {
        let want = BatchRows::new(tags.iter().map(|(origin, _)| *origin))
            .texts("tag", tags.iter().map(|(_, tag)| tag.clone()))
            .same("queue", queue.0);
        let condition = "t.tag = w.tag AND t.execute_id = w.queue AND t.origin = w.id";
        delete(dialect, ("QRTZ_TAG", "t"), &want, condition)
    })?;
    Ok(())
}

/// Inserts as many executions as there are origins, from the order's `first` on; into a queue that is known,
/// and under a key.
fn insert_some(
    session: &mut dyn Session,
    order: &EnqueueOrder,
    (queue, key): (Option<ScheduleId>, Option<&KeyRow>),
    first: usize,
    origins: &[i64],
    news: News,
) -> Step<Vec<ExecutionId>> {
    let dialect = session.dialect();
    let (at, delay) = order.due_columns();
    let tokens = origins.iter().map(|_| Token::fresh().to_string());
    let part = first..first + origins.len();
    let want = BatchRows::new(origins.iter().copied())
        .texts("payload", order.payloads[part.clone()].iter().cloned())
        .texts("token", tokens)
        .same("at", at)
        .same("delay", delay)
        .same("reason", Reason::Enqueued.as_str())
        .same("priority", order.priority_column())
        .same("lane", order.lane.as_str())
        .same("tags", order.tags_column().unwrap_or_default())
        .same("headers", headers::column(&order.headers).unwrap_or_default())
        .same("unique_key", key.map_or("", |key| &key.key))
        .same("key_period", key.map_or(NONE, |key| key.period));
    let want = match order.groups.is_empty() {
        true => want.same("group_key", ""),
        false => want.texts("group_key", order.groups[part].iter().cloned()),
    };
    // The limit keeps the clock from being read for each row and column anew.
    let due = "CASE WHEN w.at < 0 THEN c.now + w.delay ELSE w.at END";
    let insert = sql(format!(
        "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, attempt, state, \
         reason, cause, due_time, claim_token, payload, priority, unique_key, key_period, group_key, lane, \
         tags, headers) SELECT e.application, e.id, 0, w.id, {due}, 1, 'PENDING', w.reason, w.reason, {due}, \
         w.token, w.payload, NULLIF(w.priority, {NO_PRIORITY}), NULLIF(w.unique_key, ''), \
         NULLIF(w.key_period, {NONE}), NULLIF(w.group_key, ''), NULLIF(w.lane, ''), NULLIF(w.tags, ''), \
         NULLIF(w.headers, '') FROM "
    ))
    .want(dialect, &want)
    .push(&format!(
        " {join} (SELECT {} AS now LIMIT 1) AS c ON 1 = 1 {join} ",
        dialect.clock(),
        join = dialect.join()
    ))
    .and(queue_row(dialect, order, queue))
    .push(" WHERE w.id <> -1");
    let rows = if dialect.returns_inserted_rows() {
        let insert = insert.push(" RETURNING id, origin");
        session.rows(&news::tell(session.tells(), news, insert, &order.application)).map_err(taken)?
    } else {
        let made = session.execute(&insert).map_err(taken)?;
        let rows = session.rows(&inserted(order, origins))?;
        if rows.len() != made {
            return Err(unseen(order));
        }
        rows
    };
    let read = |mut row: Row| Ok((row.int().map(ExecutionId)?, row.int()?));
    let mut ids: Vec<(ExecutionId, i64)> = rows.into_iter().map(read).collect::<Step<_>>()?;
    ids.sort_unstable_by_key(|(_, origin)| *origin);
    Ok(ids.into_iter().map(|(id, _)| id).collect())
}

/// What was inserted with these origins, which follow each other.
fn inserted(order: &EnqueueOrder, origins: &[i64]) -> Statement {
    sql("SELECT r.id, r.origin FROM QRTZ_RUN r WHERE r.execute_id = \
         (SELECT e.id FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.name = ?) \
         AND r.generation = 0 AND r.origin >= ? AND r.origin <= ?")
    .bind_all((order.application.as_str(), queue_of(&order.job.name)))
    .bind_all((origins.first().copied().unwrap_or_default(), origins.last().copied().unwrap_or_default()))
}

/// The job's queue, unless another has made it meanwhile.
fn make_queue(session: &mut dyn Session, application: &str, job: &JobSpec) -> Step<()> {
    let now = now(session)?;
    let id = node::job(session, application, job, now)?;
    let row = QueueRow::new(job, id).map_err(|error| Fault::undecodable(error.to_string()))?;
    let cells = [row.settings.cells(), row.when.cells()].concat();
    let insert = sql(format!(
        "INSERT INTO QRTZ_EXECUTE (application, name, shard, state, {}, {}) VALUES (?, ?, 0, ?{})",
        listed("", Settings::COLUMNS),
        listed("", When::COLUMNS),
        ", ?".repeat(cells.len())
    ));
    let insert = insert.bind(application).bind(row.name).bind(QueueRow::STATE.stored());
    let insert = cells.into_iter().fold(insert, Statement::bind);
    session.execute(&insert.push(&session.dialect().or_leave("QRTZ_EXECUTE", "name"))).map(drop)
}
