//! A certificate of the ledger: what there was, and a hash chain over its rows by which a later look tells
//! whether they have changed.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::account::{Account, Span};
use super::answer::{Accounted, Flaw, FlawKind, Verification};
use super::read::{Attempts, Witness};
use super::{Verify, accounted, verified};
use crate::api::Client;
use crate::domain::{Error, ErrorKind, ExecutionId, ExecutionState, Millis, ScheduleId, Timestamp};
use crate::store::columns::NONE;
use crate::store::ledger::{LedgerLine, LedgerSchedule, TriggerPeriod};

/// The version of what is hashed, and how.
const FORMAT: u32 = 1;

/// What ended less long ago is not sealed: a transaction that stored it may not have been committed yet.
const SETTLED: Millis = 60_000;

/// What the ledger held of a range, for auditors: counts by schedule and reason, the triggers' history, and
/// for each schedule a hash chain over its rows. Made by [`Verify::certify`], written and read as JSON;
/// instants are epoch milliseconds UTC.
///
/// It seals the rows of occurrences that had ended a minute before it was made: when they were planned,
/// claimed, started and ended, how, why and where, their errors and results. It proves that these have not
/// changed since, if it is kept where whoever can change the database cannot change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Certificate {
    /// How its hashes are made: 1.
    pub format: u32,
    /// The application.
    pub application: String,
    /// The schedule, if it is of one alone.
    pub schedule: Option<String>,
    /// The first fire time; none if the ledger was read from its beginning.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub since: Option<DateTime<Utc>>,
    /// Fire times before this one.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub until: DateTime<Utc>,
    /// Rows that ended up to then are sealed, by the database's clock.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub sealed: DateTime<Utc>,
    /// Whether the ledger was whole: see [`Verification::is_whole`].
    pub is_whole: bool,
    /// By id.
    pub schedules: Vec<CertifiedSchedule>,
    /// Executions of occurrences that had not ended: these are not sealed.
    pub open: Vec<ExecutionId>,
    /// The highest id of an execution that was there: what has a higher one came later.
    pub last: ExecutionId,
    /// How many rows are sealed.
    pub rows: u64,
    /// SHA-256 over all of the above, hexadecimal.
    pub hash: String,
}

/// A schedule in a [`Certificate`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CertifiedSchedule {
    /// Its id.
    pub id: ScheduleId,
    /// Its name.
    pub schedule: String,
    /// The triggers it has had, the first first.
    pub triggers: Vec<CertifiedTrigger>,
    /// Its planned occurrences in the range, by state and reason.
    pub occurrences: Vec<Accounted>,
    /// How many rows are sealed.
    pub rows: u64,
    /// The end of the chain: SHA-256 of the hash before it and the last row, hexadecimal.
    pub hash: String,
}

/// A trigger in a [`Certificate`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CertifiedTrigger {
    /// Which of the schedule's triggers.
    pub generation: i64,
    /// What it says: `cron 0 30 2 * * ? [Europe/Berlin]`, `every 60000 ms`.
    pub trigger: String,
    /// When it was set.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub since: Option<DateTime<Utc>>,
    /// The first fire time that was planned by it; none if there was none.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub first: Option<DateTime<Utc>>,
    /// When another took its place, or the schedule was removed; none of the present one.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub until: Option<DateTime<Utc>>,
    /// The window that it is kept to; of an interval its first fire time.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub starts: Option<DateTime<Utc>>,
    /// The end of that window.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub ends: Option<DateTime<Utc>>,
    /// The last fire time that had been claimed or passed when it ended.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub last: Option<DateTime<Utc>>,
    /// The schedule's state until then; empty of the present one.
    pub state: String,
    /// How many of its rows are sealed.
    pub rows: u64,
}

impl Verify<'_> {
    /// Verifies, and makes a certificate of what there is. It is made of a ledger with flaws, too:
    /// [`Certificate::is_whole`].
    ///
    /// ```
    /// use firetime::{Client, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Trigger::cron("0 0 2 * * ?", "UTC")?;
    /// client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// let (verified, certificate) = client.verify(..).certify()?;
    /// assert!(verified.is_whole() && certificate.is_whole);
    /// assert_eq!(certificate.schedules[0].triggers[0].trigger, "cron 0 0 2 * * ? [UTC]");
    /// assert!(client.verify_against(&certificate)?.is_whole(), "nothing has changed since");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Verify::run`].
    pub fn certify(self) -> Result<(Verification, Certificate), Error> {
        let sealed = self.client.store.now()?.saturating_sub(SETTLED);
        let mut sealer = Sealer::new(sealed, None);
        let verification = self.with(&mut sealer)?;
        let certificate = sealer.certificate(self.schedule, &verification);
        Ok((verification, certificate))
    }
}

impl Client {
    /// Verifies the range of a certificate, and whether its rows and triggers are still those it was made of.
    /// What has changed is a flaw: [`FlawKind::Changed`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if it is of another application or of a later version of firetime, or its own
    /// hashes contradict each other; [`ErrorKind::NotFound`] if retention has removed rows of its range
    /// since; or as [`Verify::run`].
    pub fn verify_against(&self, certificate: &Certificate) -> Result<Verification, Error> {
        let refused = |problem: String| Error::new(ErrorKind::Config, problem);
        if certificate.application != self.application {
            let problem = format!("the certificate is of application {:?}", certificate.application);
            return Err(refused(format!("{problem}, not of {:?}", self.application)));
        }
        if certificate.format != FORMAT {
            return Err(refused(format!(
                "the certificate has format {}, {FORMAT} is known",
                certificate.format
            )));
        }
        if certificate.whole_hash() != certificate.hash {
            let problem = "the certificate was changed: its hash is not that of its contents";
            return Err(refused(problem.to_owned()));
        }
        let from = certificate.since.map_or(Timestamp::MIN, Timestamp::from);
        if let Some(begins) = self.store.ledger_from(&self.application)?.filter(|begins| *begins > from) {
            let begins = begins.utc().map_or_else(String::new, crate::api::words::instant);
            let problem = format!(
                "rows of the certificate's range are not there to be compared: retention has removed what was \
                 planned before {begins}; verify against a backup of the database from before"
            );
            return Err(Error::new(ErrorKind::NotFound, problem));
        }
        let span = Span { from, until: certificate.until.into() };
        let mut sealer = Sealer::new(certificate.sealed.into(), Some(certificate));
        let name = certificate.schedule.as_deref();
        let mut verification = verified(&*self.store, &self.application, name, span, &mut sealer)?;
        verification.flaws.extend(sealer.gone());
        Ok(verification)
    }
}

/// Makes the hash chains.
struct Sealer<'a> {
    sealed: Timestamp,
    against: Option<&'a Certificate>,
    /// Of the certificate that is compared.
    was_open: HashSet<ExecutionId>,
    certified: HashMap<ScheduleId, &'a CertifiedSchedule>,
    /// Of the schedule that is seen now.
    chain: Chain,
    last: Option<ExecutionId>,
    done: Vec<(CertifiedSchedule, Vec<ExecutionId>)>,
}

#[derive(Default)]
struct Chain {
    hash: [u8; 32],
    /// By generation.
    rows: HashMap<i64, u64>,
    open: Vec<ExecutionId>,
    last: Option<ExecutionId>,
}

impl Witness for Sealer<'_> {
    fn begin(&mut self, schedule: &LedgerSchedule) {
        // It is seen once more: its rows were read while they changed.
        self.done.retain(|(done, _)| done.id != schedule.id);
        let begin = (schedule.id, &schedule.name);
        self.chain = Chain { hash: chained(&[0; 32], &begin), ..Chain::default() };
    }

    fn see(&mut self, attempts: Attempts) {
        let is_over = |line: &LedgerLine| {
            let ended = line.state.parse().is_ok_and(ExecutionState::is_terminal);
            ended && line.finished.is_some_and(|finished| finished <= self.sealed)
        };
        self.chain.last = attempts.iter().map(|line| Some(line.id)).fold(self.chain.last, Option::max);
        let sealed: Vec<&LedgerLine> = match self.against {
            Some(certificate) => {
                let was_there = |id| id <= certificate.last && !self.was_open.contains(&id);
                attempts.iter().filter(|line| is_over(line) && was_there(line.id)).collect()
            }
            None if attempts.iter().all(is_over) => attempts.iter().collect(),
            None => return self.chain.open.extend(attempts.iter().map(|line| line.id)),
        };
        for line in sealed {
            self.chain.hash = chained(&self.chain.hash, &row(line));
            *self.chain.rows.entry(line.place.generation).or_default() += 1;
        }
    }

    fn end(&mut self, schedule: &LedgerSchedule, account: &Account) -> Vec<Flaw> {
        let Chain { hash, rows, open, last } = std::mem::take(&mut self.chain);
        self.last = self.last.max(last);
        let of = |generation| rows.get(&generation).copied().unwrap_or_default();
        let certified = |period: &TriggerPeriod| certified(period, of(period.generation));
        let triggers = schedule.triggers.iter().map(certified).collect();
        let rows = rows.values().sum();
        let (occurrences, hash) = (accounted(&account.occurrences), hexadecimal(&hash));
        let (id, name) = (schedule.id, schedule.name.clone());
        let now = CertifiedSchedule { id, schedule: name, triggers, occurrences, rows, hash };
        let flaws = if self.against.is_some() { self.compare(&now) } else { Vec::new() };
        self.done.push((now, open));
        flaws
    }
}

impl<'a> Sealer<'a> {
    fn new(sealed: Timestamp, against: Option<&'a Certificate>) -> Self {
        let schedules = against.into_iter().flat_map(|certificate| &certificate.schedules);
        Self {
            sealed,
            against,
            was_open: against.map_or_else(HashSet::new, |it| it.open.iter().copied().collect()),
            certified: schedules.map(|it| (it.id, it)).collect(),
            chain: Chain::default(),
            last: None,
            done: Vec::new(),
        }
    }

    fn certificate(self, schedule: Option<String>, of: &Verification) -> Certificate {
        let (schedules, open): (Vec<_>, Vec<_>) = self.done.into_iter().unzip();
        let certificate = Certificate {
            format: FORMAT,
            application: of.application.clone(),
            schedule,
            since: of.since,
            until: of.until,
            sealed: self.sealed.utc().unwrap_or_default(),
            is_whole: of.is_whole(),
            rows: schedules.iter().map(|it| it.rows).sum(),
            hash: String::new(),
            schedules,
            open: open.into_iter().flatten().collect(),
            last: self.last.unwrap_or(ExecutionId(0)),
        };
        Certificate { hash: certificate.whole_hash(), ..certificate }
    }

    /// What is no longer as it was certified.
    fn compare(&self, now: &CertifiedSchedule) -> Vec<Flaw> {
        let Some(was) = self.certified.get(&now.id) else {
            let is_new = now.rows == 0;
            let what = format!("{} rows, none of which was certified", now.rows);
            return if is_new { Vec::new() } else { vec![changed(&now.schedule, &what)] };
        };
        let mut flaws = Vec::new();
        if (now.rows, &now.hash) != (was.rows, &was.hash) {
            let what = match now.rows == was.rows {
                true => format!("its {} rows are no longer as they were certified", was.rows),
                false => format!("{} rows were certified, {} are there", was.rows, now.rows),
            };
            flaws.push(changed(&now.schedule, &what));
        }
        // Retention removes the history of a generation once no row of it is left.
        let is_there =
            |was: &CertifiedTrigger| now.triggers.iter().find(|it| it.generation == was.generation);
        let stays = |was: &&CertifiedTrigger| match is_there(was) {
            Some(now) => was.stands_as(now),
            None => was.until.is_some() && was.rows == 0,
        };
        if let Some(gone) = was.triggers.iter().find(|was| !stays(was)) {
            let what =
                format!("its trigger of generation {} is no longer as it was certified", gone.generation);
            flaws.push(changed(&now.schedule, &what));
        }
        flaws
    }

    /// Schedules that were certified and are not there.
    fn gone(&self) -> Vec<Flaw> {
        let there: HashSet<ScheduleId> = self.done.iter().map(|(done, _)| done.id).collect();
        let certified = self.against.into_iter().flat_map(|certificate| &certificate.schedules);
        // Retention removes a removed schedule once no row of it is left.
        let gone = certified.filter(|it| !there.contains(&it.id) && it.rows > 0);
        gone.map(|it| changed(&it.schedule, "it was certified, and is not there")).collect()
    }
}

fn changed(schedule: &str, what: &str) -> Flaw {
    Flaw {
        kind: FlawKind::Changed,
        schedule: Some(schedule.to_owned()),
        generation: 0,
        at: None,
        last: None,
        occurrences: 0,
        execution: None,
        sentence: format!("{schedule}: {what}"),
    }
}

impl CertifiedTrigger {
    /// Whether it is as it was, but for its end, if it had not ended, and what was sealed since.
    fn stands_as(&self, now: &Self) -> bool {
        let now = Self { rows: self.rows, ..now.clone() };
        if self.until.is_some() {
            return *self == now;
        }
        *self == Self { until: None, last: None, state: String::new(), ..now }
    }
}

fn certified(period: &TriggerPeriod, rows: u64) -> CertifiedTrigger {
    let TriggerPeriod { generation, begun, first, ref when, ref end } = *period;
    let instant = |millis: Option<Millis>| millis.filter(|it| *it != NONE).map(Timestamp::at);
    CertifiedTrigger {
        generation,
        trigger: when.describe(),
        since: begun.utc(),
        first: first.and_then(Timestamp::utc),
        until: end.as_ref().and_then(|end| end.at.utc()),
        starts: instant(when.start_time).and_then(Timestamp::utc),
        ends: instant(when.end_time).and_then(Timestamp::utc),
        last: end.as_ref().and_then(|end| end.last?.utc()),
        state: end.as_ref().map_or_else(String::new, |end| end.state.clone()),
        rows,
    }
}

impl Certificate {
    /// Over all but the hash itself.
    fn whole_hash(&self) -> String {
        hexadecimal(&chained(&[0; 32], &Self { hash: String::new(), ..self.clone() }))
    }
}

/// A row as it is hashed: all that tells what became of it.
fn row(line: &LedgerLine) -> impl Serialize + '_ {
    let place = line.place;
    let millis = |at: Option<Timestamp>| at.map(Timestamp::millis);
    (
        (
            line.id.0,
            place.schedule.0,
            place.generation,
            place.origin,
            place.scheduled.millis(),
            place.attempt,
        ),
        (millis(line.until), line.occurrences, &line.state, &line.reason, &line.cause, line.holder),
        (line.due.millis(), line.fence, &line.node, millis(line.claimed), millis(line.started)),
        (millis(line.finished), millis(line.prev), millis(line.following), &line.error, &line.result),
    )
}

fn chained(before: &[u8; 32], next: &impl Serialize) -> [u8; 32] {
    // Numbers and texts: this cannot fail.
    let next = serde_json::to_vec(next).unwrap_or_default();
    Sha256::new().chain_update(before).chain_update(next).finalize().into()
}

fn hexadecimal(hash: &[u8]) -> String {
    let digits = hash.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
