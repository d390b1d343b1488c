//! Claims of planned occurrences: the cursor move, and the execution it leaves. In how many statements a
//! database makes them is in its room. And how statements find the executions that claims have won.

use rustc_hash::FxHashMap;

use crate::domain::{ExecutionId, Occurrence, ScheduleState};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::batch::{BatchRows, guarded, update};
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, sql};
use crate::store::{ClaimRequest, guard};

pub(crate) type PlannedRequest<'a> = (&'a ClaimRequest, &'a Occurrence);

/// What locking, moving and inserting read of a batch.
pub(crate) const LOCKED: &[&str] = &["id", "state", "prev_fire_time", "next_fire_time", "version"];
const MOVED: &[&str] = &["id", "state", "prev_fire_time", "next_fire_time", "version", "following"];
const INSERTED: &[&str] =
    &["id", "prev_fire_time", "next_fire_time", "following", "token", "node", "claimed", "started", WAITED];

/// The column of a batch that has what each execution waited for; there only if one of them did.
pub(crate) const WAITED: &str = "waited";
/// What is stored of that.
pub(crate) const NULL_IF_NONE: &str = "NULLIF(w.waited, '')";

impl BatchRows {
    /// With what each request waited for, if one of them did.
    pub(crate) fn waited<'a>(self, requests: impl Iterator<Item = &'a ClaimRequest> + Clone) -> Self {
        if requests.clone().all(|request| request.waited.is_none()) {
            return self;
        }
        let text = |it: &ClaimRequest| it.waited.as_ref().map_or_else(String::new, ToString::to_string);
        self.texts(WAITED, requests.map(text))
    }
}

pub(crate) fn planned_want(planned: &[PlannedRequest<'_>]) -> BatchRows {
    let requests = || planned.iter().map(|(request, _)| *request);
    let occurrences = || planned.iter().map(|(_, occurrence)| *occurrence);
    BatchRows::new(occurrences().map(|it| it.entry.id.0))
        .same("state", ScheduleState::Active.stored())
        .times("prev_fire_time", occurrences().map(|it| it.prev))
        .times("next_fire_time", occurrences().map(|it| it.at))
        .ints("version", occurrences().map(|it| it.entry.version))
        .times("following", occurrences().map(|it| it.following.column()))
        .texts("token", requests().map(|it| it.token.to_string()))
        .alike("node", requests().map(|it| it.node))
        .alike("claimed", requests().map(|it| it.now))
        .times("started", requests().map(ClaimRequest::started))
        .waited(requests())
}

/// A claim puts its execution into this state.
pub(crate) const CLAIMED_OR_RUNNING: &str = "CASE WHEN w.started = -1 THEN 'CLAIMED' ELSE 'RUNNING' END";

/// The cursor move of a planned claim, but for the fence.
const MOVE: [(&str, &str); 4] = [
    ("prev_fire_time", "w.next_fire_time"),
    ("next_fire_time", "w.following"),
    ("state", "CASE WHEN w.following = -1 THEN 'COMPLETE' ELSE 'EXECUTING' END"),
    // A figure for people, which stands still before it overflows.
    (
        "time_triggered",
        "CASE WHEN e.time_triggered < 9000000000000000000 THEN e.time_triggered + 1 \
         ELSE e.time_triggered END",
    ),
];

/// Takes the slot for the occurrence that `w` names, where executions do not overlap.
const TAKE_SLOT: [(&str, &str); 3] = [
    ("slot_generation", "CASE WHEN e.overlap = 'ALLOW' THEN e.slot_generation ELSE e.generation END"),
    ("slot_origin", "CASE WHEN e.overlap = 'ALLOW' THEN e.slot_origin ELSE 0 END"),
    ("slot_time", "CASE WHEN e.overlap = 'ALLOW' THEN e.slot_time ELSE w.next_fire_time END"),
];

/// What a planned claim of these assigns to the schedule's row.
pub(crate) fn moves(dialect: Dialect, has_slots: bool) -> Vec<(&'static str, String)> {
    let slot = TAKE_SLOT.into_iter().filter(|_| has_slots);
    let fence = std::iter::once(("fence", dialect.next_fence("e.fence")));
    fence.chain(MOVE.into_iter().chain(slot).map(|(column, value)| (column, value.to_owned()))).collect()
}

/// Whether executions of some of these schedules must not overlap.
pub(crate) fn have_slots(planned: &[PlannedRequest<'_>]) -> bool {
    planned.iter().any(|(_, occurrence)| occurrence.entry.overlap.has_slot())
}

/// The executions `h` that keep the slot of the schedule `e`: those at its occurrence that have not ended,
/// and one whose handler runs on beyond its time limit. What waits for its retry since before the schedule's
/// trigger changed does not: its due time may lie far ahead.
pub(crate) fn holding(dialect: Dialect) -> String {
    dialect.seek("h.execute_id", "e.id")
        + " AND h.generation = e.slot_generation AND h.origin = e.slot_origin \
           AND h.scheduled_time = e.slot_time AND (h.state IN ('CLAIMED', 'RUNNING') OR (h.state = 'PENDING' \
           AND h.generation = e.generation) OR (h.state = 'TIMED_OUT' AND h.finished_time = -1))"
}

/// Whether the holder `h` has yet to begin.
pub(crate) const IS_LATE: &str =
    "CASE WHEN h.state = 'CLAIMED' OR (h.state = 'PENDING' AND h.reason = 'given back') THEN 1 ELSE 0 END";

/// Joins `w` with the schedules `e` of this column that have a slot, and with the executions `h` that
/// keep it.
pub(crate) fn join_holders(dialect: Dialect, schedule: &str) -> String {
    format!(
        " {join} QRTZ_EXECUTE e ON {} AND e.overlap <> 'ALLOW' {join} QRTZ_RUN h ON {}",
        dialect.seek("e.id", schedule),
        holding(dialect),
        join = dialect.join()
    )
}

/// That nothing keeps the slot of the schedule `e`, or that it has none. Where rows are locked one by one
/// another claim may have committed between the statement's snapshot, in which it reads the ledger, and the
/// lock: then the fence of that snapshot is not the row's.
pub(crate) fn slot_is_free(dialect: Dialect) -> String {
    let snapshot = dialect.seek("s.id", "e.id");
    let unchanged = format!("e.fence = (SELECT s.fence FROM QRTZ_EXECUTE s WHERE {snapshot}) AND ");
    format!(
        "(e.overlap = 'ALLOW' OR ({}NOT EXISTS (SELECT 1 FROM QRTZ_RUN h WHERE {})))",
        if dialect.has_row_locks() { unchanged } else { String::new() },
        holding(dialect)
    )
}

/// What a planned claim compares, and that the fence can grow: a claim that overflowed it would fail with its
/// whole batch, by an error that only its text tells from others.
pub(crate) fn claimable(dialect: Dialect) -> String {
    guarded(dialect, &guard::CLAIM, "e") + " AND e.fence <> 9223372036854775807"
}

/// The executions of claims `w`, whose schedules' columns are those of `schedule`; their source follows.
pub(crate) fn insert_of(schedule: &str, want: &BatchRows) -> String {
    let (column, value) = match want.has(WAITED) {
        true => (", waited_for", format!(", {NULL_IF_NONE}")),
        false => ("", String::new()),
    };
    format!(
        "INSERT INTO QRTZ_RUN (application, execute_id, generation, scheduled_time, attempt, state, \
         due_time, claim_token, fence, node, claimed_time, started_time, prev_fire_time, \
         following_fire_time{column}) SELECT {schedule}.application, {schedule}.id, {schedule}.generation, \
         w.next_fire_time, 1, {CLAIMED_OR_RUNNING}, w.next_fire_time, w.token, {schedule}.fence, w.node, \
         w.claimed, w.started, w.prev_fire_time, w.following{value} FROM "
    )
}

/// Moves cursors; the slots are not looked at.
pub(crate) fn move_cursors(dialect: Dialect, want: &BatchRows) -> Statement {
    update(dialect, ("QRTZ_EXECUTE", "e"), &moves(dialect, false), &want.of(MOVED), &claimable(dialect))
}

/// Moves the cursors of schedules whose slots are free, and takes these.
pub(crate) fn move_cursors_and_slots(dialect: Dialect, want: &BatchRows) -> Statement {
    let condition = format!("{} AND {}", claimable(dialect), slot_is_free(dialect));
    update(dialect, ("QRTZ_EXECUTE", "e"), &moves(dialect, true), &want.of(MOVED), &condition)
}

/// Takes the slots of schedules whose rows this transaction has locked.
pub(crate) fn take_slots(dialect: Dialect, want: &BatchRows) -> Statement {
    let condition = dialect.seek("e.id", "w.id");
    update(dialect, ("QRTZ_EXECUTE", "e"), &TAKE_SLOT, &want.of(&["id", "next_fire_time"]), &condition)
}

/// Inserts an execution for each row of `want`, whose cursor has been moved by this transaction.
pub(crate) fn insert_moved(dialect: Dialect, want: &BatchRows) -> Statement {
    let want = want.of(INSERTED);
    sql(insert_of("e", &want))
        .want(dialect, &want)
        .push(&format!(" {} QRTZ_EXECUTE e ON e.id = w.id", dialect.join()))
}

/// The executions of all that were wanted; that one is missing is a fault.
pub(crate) fn all_of(want: &BatchRows, inserted: Found) -> Step<Found> {
    if inserted.len() == want.len() { Ok(inserted) } else { Err(other_number()) }
}

pub(crate) fn other_number() -> Fault {
    Fault::new(FaultKind::Conflict, "an INSERT of executions made another number of rows")
}

/// A claim that was won.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Win {
    pub execution: ExecutionId,
    pub fence: i64,
}

/// Won claims by a key.
pub(crate) type Found = FxHashMap<i64, Win>;

/// What `find` finds for each batch of `rows`, of a size that one statement takes.
pub(crate) fn in_batches<R>(
    session: &mut dyn Session,
    rows: &[R],
    find: impl Fn(&mut dyn Session, &[R]) -> Step<Found>,
) -> Step<Found> {
    let mut found = Found::default();
    for rows in rows.chunks(session.dialect().batch()) {
        found.extend(find(session, rows)?);
    }
    Ok(found)
}

/// Reads rows of three numbers: a key, an execution, its fence.
pub(crate) fn by_first_column(rows: Vec<Row>) -> Step<Found> {
    let no_fence = |_| Fault::undecodable("the schedule's fence is no number or can grow no more".to_owned());
    let read = |mut row: Row| {
        let (key, execution) = (row.int()?, ExecutionId(row.int()?));
        Ok((key, Win { execution, fence: row.int().map_err(no_fence)? }))
    };
    rows.into_iter().map(read).collect()
}

/// The executions that carry the wanted tokens: by the column `by`, their ids and fences.
pub(crate) fn mine(session: &mut dyn Session, want: &BatchRows, by: &str, condition: &str) -> Step<Found> {
    let dialect = session.dialect();
    let question =
        sql(format!("SELECT {by}, r.id AS execution, r.fence FROM ")).want(dialect, want).push(&format!(
            " {} QRTZ_RUN r ON {condition} AND r.claim_token = w.token AND r.state IN ('CLAIMED', 'RUNNING')",
            dialect.join()
        ));
    by_first_column(session.rows(&question)?)
}
