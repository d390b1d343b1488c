//! The schema's versions: numbered SQL files, run in order, one booting node at a time.
//!
//! PostgreSQL and SQLite run them in one transaction. MariaDB commits at every DDL statement, so there
//! each statement can be repeated, and a version's row in QRTZ_SCHEMA is written last: a crash in between
//! is mended by the next run.
//!
//! On PostgreSQL a version that changes a table begins with the statement that takes the strongest lock on
//! it (ALTER TABLE). Taken later, that lock could wait for a running node's transaction, which waits for a
//! weaker lock that the migration has.

use super::connection::target::Target;
use super::dialect::Dialect;
use super::dialect::database::{SCHEMA_WAIT, schema_is_locked};
use super::session::Session;
use super::session::fault::{Fault, FaultKind, Step};
use super::session::statement::{Statement, single, sql};
use crate::domain::{Error, ErrorKind, Millis};
use crate::store::{Result, StoreLimits};

/// A version of the schema, and for each database the SQL that makes it out of the version before: an empty
/// text if nothing changes there.
#[derive(Clone, Copy)]
pub(crate) struct Migration<'a> {
    version: i64,
    /// The version that a build must know at least to work on this one: the same, unless it only adds to what
    /// that build uses.
    needs: i64,
    name: &'a str,
    sqlite: &'a str,
    postgres: &'a str,
    mysql: &'a str,
}

/// In the order of their versions.
pub(crate) const MIGRATIONS: &[Migration<'_>] = &[Migration {
    version: 1,
    needs: 1,
    name: "tables",
    sqlite: include_str!("../../../migrations/sqlite/0001_tables.sql"),
    postgres: include_str!("../../../migrations/postgres/0001_tables.sql"),
    mysql: include_str!("../../../migrations/mysql/0001_tables.sql"),
}];

/// The row that is there while a member of a Galera cluster migrates.
const LOCK: i64 = -1;

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS QRTZ_SCHEMA (version BIGINT NOT NULL PRIMARY KEY, \
     needs BIGINT NOT NULL, name VARCHAR(100) NOT NULL, applied_time BIGINT NOT NULL)";

/// The schema version this build works with.
pub(crate) const VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// How long opening a connection and reading the schema's version may take. A migration's own statements have
/// no limit.
const LIMITS: StoreLimits = StoreLimits { call: 60_000, connections: 1, spare: 0 };

/// What a migration did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationReport {
    /// The schema's version now.
    pub version: i64,
    /// The versions this run added, with their names; empty if there was nothing to do.
    pub applied: Vec<(i64, String)>,
}

impl<'a> Migration<'a> {
    fn statements(&self, dialect: Dialect) -> impl Iterator<Item = &'a str> + use<'a> {
        let text = dialect.choose(self.sqlite, self.postgres, self.mysql);
        text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty())
    }
}

/// Brings the database's schema to this build's version. Several nodes may do so at once. A newer one that
/// only adds to it is left as it is.
///
/// # Errors
/// [`ErrorKind::Schema`] if the schema is newer in another way; it is then left as it is, too.
/// [`ErrorKind::Config`] behind a pooler whose clients share sessions.
pub fn migrate(url: &str) -> Result<MigrationReport> {
    migrate_by(url, MIGRATIONS)
}

fn migrate_by(url: &str, migrations: &[Migration<'_>]) -> Result<MigrationReport> {
    let target = Target::parse(url)?;
    let mut session = target.connect_first(LIMITS).map_err(failed)?;
    bring_up(session.as_mut(), migrations).map_err(|fault| failed(target.clean(fault)))
}

/// Whether the database's schema is one that this build works with: its own, or a newer one that only adds to
/// it.
///
/// # Errors
/// [`ErrorKind::Schema`] if it is missing, older or too new; says which and what to do.
/// [`ErrorKind::Config`] behind a pooler whose clients share sessions.
pub(crate) fn check_schema(url: &str) -> Result<()> {
    let target = Target::parse(url)?;
    if let Some(file) = target.missing_file().map(|file| target.redact(file)) {
        let message =
            format!("there is no database file {file:?}: run `firetime migrate` if it is to be made");
        return Err(Error::new(ErrorKind::Schema, message));
    }
    let mut session = target.connect_first(LIMITS).map_err(failed)?;
    let installed = installed(session.as_mut()).map_err(|fault| failed(target.clean(fault)))?;
    fits(installed, VERSION).map_err(|message| Error::new(ErrorKind::Schema, message))
}

/// A schema as its database has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Installed {
    version: i64,
    /// What a build must know at least.
    needs: i64,
}

impl Installed {
    const NONE: Self = Self { version: 0, needs: 0 };

    fn suits(self, known: i64) -> bool {
        self.version == known || (self.version > known && self.needs <= known)
    }
}

/// Whether a build that knows this version works on the installed one; the error says what to do if not.
fn fits(installed: Option<Installed>, needed: i64) -> std::result::Result<(), String> {
    let hint =
        "run `firetime migrate`, call firetime::migrate(url), or let the scheduler migrate at its start";
    match installed {
        Some(installed) if installed.suits(needed) => Ok(()),
        Some(Installed { version, .. }) if version > needed => Err(newer(version, needed)),
        Some(Installed { version, .. }) => {
            Err(format!("the database's schema is version {version}, this firetime needs {needed}: {hint}"))
        }
        None => Err(format!(
            "the database has no firetime tables yet, or none that this role may see: {hint}; a role that \
             does not own them has the grants of docs/deployments.md"
        )),
    }
}

fn newer(installed: i64, needed: i64) -> String {
    format!(
        "the database's schema is version {installed}, newer than this firetime's {needed}: use a newer \
         firetime"
    )
}

fn failed(fault: Fault) -> Error {
    let schema = "the schema of the database";
    match fault.kind {
        FaultKind::Lost => {
            fault.error(ErrorKind::Unavailable, &format!("{schema}: the database cannot be reached"))
        }
        FaultKind::Busy | FaultKind::Deadlock => fault.error(ErrorKind::Unavailable, schema),
        FaultKind::Senseless => Error::new(ErrorKind::Config, fault.message),
        _ => fault.error(ErrorKind::Schema, schema),
    }
}

/// Brings a session's database to the last of these versions, under a lock that only one session holds at a
/// time.
pub(crate) fn bring_up(session: &mut dyn Session, migrations: &[Migration<'_>]) -> Step<MigrationReport> {
    let database = session.dialect().database();
    database.lift_limits(session)?;
    database.lock_schema(session)?;
    let report = apply(session, migrations);
    let unlocked = database.unlock_schema(session, report.is_ok());
    report.and_then(|report| unlocked.map(|()| report))
}

fn apply(session: &mut dyn Session, migrations: &[Migration<'_>]) -> Step<MigrationReport> {
    let last = migrations.last().map_or(0, |migration| migration.version);
    let before = installed(session)?.unwrap_or(Installed::NONE);
    if before.suits(last) {
        return Ok(MigrationReport { version: before.version, applied: Vec::new() });
    }
    if before.version > last {
        return Err(Fault::new(FaultKind::Refused, newer(before.version, last)));
    }
    session.wait();
    session.batch(VERSIONS).map_err(may_not)?;
    if !session.certifies() {
        return add(session, migrations, before.version);
    }
    let unlock = lock_cluster(session)?;
    // Another member may have finished meanwhile.
    let report =
        installed(session).and_then(|before| add(session, migrations, before.map_or(0, |it| it.version)));
    let unlocked = session.execute(&unlock);
    report.and_then(|report| unlocked.map(|_| report))
}

/// Keeps the other members of a Galera cluster out, whose named locks are their own: two that make a view at
/// once would hold each other, and the cluster, up for ever. The lock is a row; gives the statement that
/// removes it. One that is older than an hour was left by a process that died.
fn lock_cluster(session: &mut dyn Session) -> Step<Statement> {
    const STALE: Millis = 3_600_000;
    let (clock, owner) = (session.dialect().clock(), format!("locked by {}", uuid::Uuid::new_v4()));
    let stale =
        format!("DELETE FROM QRTZ_SCHEMA WHERE version = {LOCK} AND applied_time < {clock} - {STALE}");
    let insert = format!(
        "INSERT INTO QRTZ_SCHEMA (version, needs, name, applied_time) VALUES ({LOCK}, 0, ?, {clock})"
    );
    let unlock = format!("DELETE FROM QRTZ_SCHEMA WHERE version = {LOCK} AND name = ?");
    let faster = |fault: &Fault| fault.kind == FaultKind::Duplicate || fault.kind.passes();
    for _ in 0..2 * SCHEMA_WAIT {
        let removed = session.execute(&sql(stale.as_str())).map(drop);
        let locked = removed.and_then(|()| session.execute(&sql(insert.as_str()).bind(owner.as_str())));
        match locked {
            Ok(_) => return Ok(sql(unlock).bind(owner.as_str())),
            Err(fault) if !faster(&fault) => return Err(fault),
            Err(_) => session.rows(&sql("SELECT SLEEP(0.5) AS slept")).map(drop)?,
        }
    }
    Err(schema_is_locked())
}

/// Adds the versions behind this one.
fn add(session: &mut dyn Session, migrations: &[Migration<'_>], before: i64) -> Step<MigrationReport> {
    let dialect = session.dialect();
    let last = migrations.last().map_or(0, |migration| migration.version);
    let mut applied = Vec::new();
    for migration in migrations.iter().filter(|migration| migration.version > before) {
        for statement in migration.statements(dialect) {
            session.batch(statement).map_err(may_not)?;
        }
        let insert = format!(
            "INSERT INTO QRTZ_SCHEMA (version, needs, name, applied_time) VALUES (?, ?, ?, {})",
            dialect.clock()
        );
        session.execute(&sql(insert).bind(migration.version).bind(migration.needs).bind(migration.name))?;
        applied.push((migration.version, migration.name.to_owned()));
    }
    Ok(MigrationReport { version: last, applied })
}

/// A refusal of what changes the schema, with its likely reason: the database's words may be in any language.
fn may_not(fault: Fault) -> Fault {
    match fault.kind {
        FaultKind::Refused => fault.with(
            "if this role may not change the schema, run `firetime migrate` as the role that owns the tables",
        ),
        _ => fault,
    }
}

/// The schema as QRTZ_SCHEMA says; `None` without that table or a row in it.
fn installed(session: &mut dyn Session) -> Step<Option<Installed>> {
    let exists = sql(session.dialect().schema_table());
    if single(session.rows(&exists)?)? == 0 {
        return Ok(None);
    }
    let question = "SELECT COALESCE(MAX(version), 0) AS version, COALESCE(MAX(needs), 0) AS needs \
                    FROM QRTZ_SCHEMA";
    let rows = session.rows(&sql(question)).map_err(|fault| fault.with("its version cannot be read"))?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(None) };
    let installed = Installed { version: row.int()?, needs: row.int()? };
    Ok(Some(installed).filter(|it| it.version > 0))
}

/// Whether a later release has changed the schema: rows may hold words that this build does not know.
pub(crate) fn is_newer(session: &mut dyn Session) -> Step<bool> {
    Ok(installed(session)?.is_some_and(|it| it.version > VERSION))
}

#[cfg(test)]
#[cfg_attr(
    not(all(feature = "postgres", feature = "mysql")),
    allow(unused, reason = "many cases are for one of these databases")
)]
mod tests;
