//! Definitions: making and changing schedules, on our own connections or on a caller's.

use super::connection::Dialect;
use super::entry::{self, Payload, Raw};
use super::session::{Fault, Nature, Session};
use super::statement::{Statement, Value, guarded_by, single, sql};
use super::{node, now};
use crate::domain::{Cursor, Entry, Error, Millis, ScheduleState, shards};
use crate::store::columns::Column;
use crate::store::guard;
use crate::store::when::{self, NONE, Present, When};
use crate::store::{Definition, Ensured, Result};
use crate::trigger::{Timing, Trigger};

type Step<T> = std::result::Result<T, Fault>;

/// A database connection of the application's own.
///
/// A schedule made on it belongs to the transaction open on it: it appears with everything else the
/// transaction does, or not at all. Without an open transaction it is made in one of its own. The
/// connection must lead to the database firetime uses, with firetime's tables found without a prefix.
///
/// Implemented for diesel's `SqliteConnection`, `PgConnection` and `MysqlConnection`, and for nothing else;
/// a pooled connection is given as `&mut *pooled`.
pub trait CallerConnection: joined::Joined {}

pub(super) mod joined {
    use super::{Ensured, Fault, Session, Step};

    /// Runs statements inside the connection's transaction, under a savepoint.
    pub trait Joined {
        #[doc(hidden)]
        fn joined(&mut self, body: &mut dyn FnMut(&mut dyn Session) -> Step<Ensured>) -> Step<Ensured>;
    }

    /// How a diesel transaction of ours ends early.
    pub(super) enum Abort {
        Fault(Fault),
        Diesel(diesel::result::Error),
    }

    impl From<diesel::result::Error> for Abort {
        fn from(error: diesel::result::Error) -> Self {
            Self::Diesel(error)
        }
    }
}

macro_rules! caller_connection {
    ($connection:ty) => {
        impl CallerConnection for $connection {}

        impl joined::Joined for $connection {
            fn joined(&mut self, body: &mut dyn FnMut(&mut dyn Session) -> Step<Ensured>) -> Step<Ensured> {
                use joined::Abort;
                let ended = diesel::Connection::transaction(self, |session: &mut Self| {
                    body(session).map_err(Abort::Fault)
                });
                ended.map_err(|abort| match abort {
                    Abort::Fault(fault) => fault,
                    Abort::Diesel(error) => Fault::new(Nature::Unknown, error.to_string()),
                })
            }
        }
    };
}

#[cfg(feature = "sqlite")]
caller_connection!(diesel::SqliteConnection);
#[cfg(feature = "postgres")]
caller_connection!(diesel::PgConnection);
#[cfg(feature = "mysql")]
caller_connection!(diesel::MysqlConnection);

/// Makes or changes a schedule on the caller's connection, inside their open transaction if there is one.
pub(crate) fn ensure_in(connection: &mut dyn CallerConnection, definition: &Definition) -> Result<Ensured> {
    connection.joined(&mut |session| ensure(session, definition)).map_err(|fault| {
        Error::new(fault.nature.kind(), format!("ensure schedule {:?}: {}", definition.name, fault.message))
    })
}

pub(super) fn ensure(session: &mut dyn Session, definition: &Definition) -> Step<Ensured> {
    check(definition)?;
    let now = now(session)?;
    let timing = timing(definition, now)?;
    let when = when::storable(&timing, now).map_err(|problem| senseless(definition, problem))?;
    let present = present(session, definition, &timing, now)?;
    if let Some(stored) = load(session, &definition.application, &definition.name)? {
        return change(session, definition, &stored, &timing, &when, present);
    }
    let (job, _) = node::job(session, &definition.application, &definition.job, now)?;
    if made(session, &insert(definition, job, &timing, &when, present))? {
        return Ok(Ensured::Created);
    }
    // Another made it first.
    match load(session, &definition.application, &definition.name)? {
        Some(stored) => change(session, definition, &stored, &timing, &when, present),
        None => {
            Err(Fault::new(Nature::Conflict, format!("schedule {:?} was deleted meanwhile", definition.name)))
        }
    }
}

/// Only a one-shot in the past asks for more than the time.
fn present(
    session: &mut dyn Session,
    definition: &Definition,
    timing: &Timing,
    now: Millis,
) -> Step<Present> {
    if !when::is_past_one_shot(timing, now) {
        return Ok(Present::at(now));
    }
    let mark = sql("SELECT COALESCE(MAX(ledger_from), -1) FROM QRTZ_APP WHERE application = ?");
    let ledger_from = single(session.rows(&mark.bind(definition.application.as_str()))?)?;
    Ok(Present { now, ledger_from })
}

fn timing(definition: &Definition, now: Millis) -> Step<Timing> {
    let anchor = if is_anchored(definition) { None } else { Some(now) };
    Timing::new(definition.trigger.clone(), definition.start.or(anchor), definition.end)
        .map_err(|error| senseless(definition, error))
}

fn senseless(definition: &Definition, problem: impl std::fmt::Display) -> Fault {
    Fault::new(Nature::Senseless, format!("schedule {:?}: {problem}", definition.name))
}

/// The same limits on every database: SQLite would store more, the others would refuse.
fn check(definition: &Definition) -> Step<()> {
    let limits = [
        ("application", &definition.application, 50),
        ("schedule", &definition.name, 200),
        ("job", &definition.job.name, 200),
    ];
    for (what, text, limit) in limits {
        let length = text.chars().count();
        if length == 0 || length > limit || text.contains('\0') {
            let problem = format!(
                "the {what}'s name has {length} characters: 1 to {limit} are possible, none of them NUL"
            );
            return Err(Fault::new(Nature::Senseless, problem));
        }
    }
    if let Some(problem) = definition.oversized() {
        return Err(senseless(definition, problem));
    }
    if definition.payload.contains('\0') {
        return Err(Fault::new(
            Nature::Senseless,
            format!("the payload of schedule {:?} holds a NUL", definition.name),
        ));
    }
    Ok(())
}

/// Whether the definition says by itself when its trigger starts.
fn is_anchored(definition: &Definition) -> bool {
    match &definition.trigger {
        Trigger::Simple(simple) => simple.start_ms().or(definition.start).is_some(),
        Trigger::Cron(_) => true,
    }
}

/// A row as it is stored, with what an edit compares.
struct Stored {
    id: i64,
    /// The one its name asks for.
    shard: i64,
    version: i64,
    generation: i64,
    state: String,
    when: When,
    prev: Value,
    next: Value,
    job: i64,
    payload: String,
    priority: i64,
    misfire: String,
    threshold: i64,
}

impl Stored {
    fn is_broken(&self) -> bool {
        self.state == ScheduleState::Error.as_str()
    }

    fn has_trigger(&self, definition: &Definition, when: &When) -> bool {
        self.when.same(when, is_anchored(definition))
    }

    fn has_rest(&self, definition: &Definition, job: i64) -> bool {
        self.job == job
            && self.payload == definition.payload
            && self.priority == i64::from(definition.priority)
            && self.misfire == definition.misfire.as_str()
            && self.threshold == definition.threshold
    }
}

fn load(session: &mut dyn Session, application: &str, name: &str) -> Step<Option<Stored>> {
    let question = sql(
        "SELECT id, version, generation, state, job_type, cron, zone_id, repeat_count, repeat_interval, start_time, \
                        end_time, dst_gap, dst_overlap, prev_fire_time, next_fire_time, pid, payload, priority, \
                        misfire, threshold FROM QRTZ_EXECUTE WHERE application = ? AND name = ?",
    );
    let Some(mut row) = session.rows(&question.bind(application).bind(name))?.pop() else { return Ok(None) };
    Ok(Some(Stored {
        id: row.int()?,
        shard: shards::of(name),
        version: row.loose_int()?,
        generation: row.loose_int()?,
        state: row.loose_text()?,
        when: entry::when(&mut row)?,
        prev: row.next()?,
        next: row.next()?,
        job: row.loose_int()?,
        payload: row.loose_text()?,
        priority: row.maybe_int()?.unwrap_or(i64::MIN),
        misfire: row.loose_text()?,
        threshold: row.loose_int()?,
    }))
}

/// Inserts a row unless its unique key is taken; whether it did. MariaDB counts a row it leaves alone like
/// one it makes, but an INSERT that fails there leaves the transaction as it was.
fn made(session: &mut dyn Session, insert: &Statement) -> Step<bool> {
    if session.dialect() == Dialect::Mysql {
        return match session.execute(insert) {
            Err(fault) if fault.nature == Nature::Duplicate => Ok(false),
            ended => ended.map(|_| true),
        };
    }
    let insert = insert.clone().push(&session.dialect().or_leave("QRTZ_EXECUTE", "name"));
    Ok(session.execute(&insert)? == 1)
}

fn insert(definition: &Definition, job: i64, timing: &Timing, when: &When, present: Present) -> Statement {
    let Cursor { prev, next } = when::planned(timing, None, present);
    let insert = sql(
        "INSERT INTO QRTZ_EXECUTE (application, name, shard, state, prev_fire_time, next_fire_time, pid, \
                      payload, priority, misfire, threshold, job_type, cron, zone_id, repeat_count, \
                      repeat_interval, start_time, end_time, dst_gap, dst_overlap) \
                      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    );
    let insert = insert
        .bind(definition.application.as_str())
        .bind(definition.name.as_str())
        .bind(shards::of(&definition.name))
        .bind(state_at(next).as_str())
        .bind(prev)
        .bind(next);
    bind_when(bind_rest(insert, definition, job), when)
}

fn bind_rest(statement: Statement, definition: &Definition, job: i64) -> Statement {
    statement
        .bind(job)
        .bind(definition.payload.as_str())
        .bind(i64::from(definition.priority))
        .bind(definition.misfire.as_str())
        .bind(definition.threshold)
}

fn bind_when(statement: Statement, when: &When) -> Statement {
    let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    statement
        .bind(when.job_type.as_str())
        .bind(text(&when.cron))
        .bind(text(&when.zone_id))
        .bind(when.repeat_count)
        .bind(when.repeat_interval)
        .bind(when.start_time)
        .bind(when.end_time)
        .bind(when.dst_gap.as_str())
        .bind(when.dst_overlap.as_str())
}

fn change(
    session: &mut dyn Session,
    definition: &Definition,
    stored: &Stored,
    timing: &Timing,
    when: &When,
    present: Present,
) -> Step<Ensured> {
    let (job, _) = node::job(session, &definition.application, &definition.job, present.now)?;
    let has_trigger = stored.has_trigger(definition, when);
    let stays_broken = stored.is_broken() && has_trigger;
    if has_trigger && stored.has_rest(definition, job) {
        return Ok(if stays_broken { Ensured::Quarantined } else { Ensured::Unchanged });
    }
    for (column, value) in [("version", stored.version), ("generation", stored.generation)] {
        when::count(column, value).map_err(|problem| {
            Fault::undecodable(format!("schedule {:?}: {problem}: mend the row by hand", definition.name))
        })?;
    }
    let update = sql(
        "UPDATE QRTZ_EXECUTE SET version = version + 1, pid = ?, payload = ?, priority = ?, misfire = ?, \
                      threshold = ?",
    );
    let update = bind_rest(update, definition, job);
    let (update, guard) = if has_trigger {
        (update, &guard::EDIT)
    } else if stored.is_broken() {
        // Nothing moves its cursor, which may be NULL and equal nothing.
        (retime(update, stored, timing, when, present), &guard::EDIT)
    } else {
        (retime(update, stored, timing, when, present), &guard::RETIME)
    };
    let update = guarded_by(update, guard, |statement, column| match column {
        Column::Id => statement.equals(column, stored.id),
        Column::State => statement.equals(column, stored.state.as_str()),
        Column::PrevFireTime => statement.equals(column, stored.prev.clone()),
        Column::NextFireTime => statement.equals(column, stored.next.clone()),
        Column::Version => statement.equals(column, stored.version),
        _ => column.absent(statement),
    });
    if session.execute(&update)? == 1 {
        Ok(if stays_broken { Ensured::Quarantined } else { Ensured::Changed })
    } else {
        Err(Fault::new(
            Nature::Conflict,
            format!("schedule {:?} was changed or claimed meanwhile", definition.name),
        ))
    }
}

/// A new trigger plans anew, in a generation of its own; a pause stays a pause. The last fire time of a
/// broken row is not believed.
fn retime(update: Statement, stored: &Stored, timing: &Timing, when: &When, present: Present) -> Statement {
    let prev = match stored.prev {
        Value::Int(prev) if prev != NONE && !stored.is_broken() => Some(prev),
        _ => None,
    };
    let cursor = when::planned(timing, prev, present);
    let update = if stored.is_broken() { update.push(", shard = ?").bind(stored.shard) } else { update };
    let kept = [ScheduleState::Paused.as_str(), ScheduleState::Init.as_str()];
    let state = if cursor.next.is_some() && kept.contains(&stored.state.as_str()) {
        stored.state.as_str()
    } else {
        state_at(cursor.next).as_str()
    };
    let update = update.push(
        ", job_type = ?, cron = ?, zone_id = ?, repeat_count = ?, repeat_interval = ?, start_time = ?, end_time = ?, \
         dst_gap = ?, dst_overlap = ?",
    );
    bind_when(update, when)
        .push(", generation = generation + 1, prev_fire_time = ?, next_fire_time = ?, state = ?")
        .bind(cursor.prev)
        .bind(cursor.next)
        .bind(state)
}

fn state_at(next: Option<Millis>) -> ScheduleState {
    if next.is_some() { ScheduleState::Active } else { ScheduleState::Complete }
}

pub(super) fn find(session: &mut dyn Session, application: &str, name: &str) -> Step<Option<Entry>> {
    let question = sql(format!(
        "SELECT {} FROM {} WHERE e.application = ? AND e.name = ?",
        entry::columns(Payload::Whole),
        entry::TABLES
    ));
    let Some(mut row) = session.rows(&question.bind(application).bind(name))?.pop() else { return Ok(None) };
    let unreadable = |reason| Fault::undecodable(format!("schedule {name:?} of {application:?}: {reason}"));
    Raw::read(&mut row)?.understand().map(Some).map_err(unreadable)
}
