//! Whether the ledger accounts for every occurrence that the triggers demanded. The fire times are listed day
//! by day, not searched for as the engine does, and come from the triggers' history.

mod account;
mod answer;
#[cfg(feature = "certificate")]
mod certificate;
mod demand;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use chrono::{DateTime, Utc};

use self::account::{Account, Span, shown};
pub use self::answer::{Accounted, Flaw, FlawKind, Verification};
#[cfg(feature = "certificate")]
pub use self::certificate::{Certificate, CertifiedSchedule, CertifiedTrigger};
use self::read::{Ledger, Witness};
use super::{Client, config};
use crate::domain::{Error, ErrorKind, Timestamp, Word};
use crate::store::Store;

/// So many flaws are named.
const NAMED: usize = 1_000;

/// Verifies the ledger. Made by [`Client::verify`].
#[derive(Debug)]
#[must_use = "a request does nothing until it is run: `.run()` or `.await`"]
pub struct Verify<'a> {
    client: &'a Client,
    range: (Bound<DateTime<Utc>>, Bound<DateTime<Utc>>),
    schedule: Option<String>,
}

impl Client {
    /// Verifies that each occurrence which the triggers demanded in a range of fire times has run, was
    /// skipped or withdrawn, or waits. What has no row, what no trigger demanded, and what contradicts
    /// itself is named.
    ///
    /// It reads all rows of that range, page by page, and changes nothing. The triggers are those of the
    /// history that each creation, edit and removal writes; their fire times are listed day by day, in
    /// another way than nodes find them. Enqueued executions are not part of it. Of a fixed delay the rows'
    /// links alone are verified. What retention has removed is left out: [`Verification::is_cut_short`] says
    /// so.
    ///
    /// Without an end the range ends now, by the database's clock; a later one, too.
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
    /// let verified = client.verify(..).run()?;
    /// assert!(verified.is_whole());
    /// assert_eq!((verified.schedules, verified.demanded()), (1, 0), "nothing was due yet");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(&self, range: impl RangeBounds<DateTime<Utc>>) -> Verify<'_> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        Verify { client: self, range, schedule: None }
    }
}

impl Verify<'_> {
    /// Verifies this schedule alone. Default: all of the application.
    pub fn schedule(mut self, name: &str) -> Self {
        self.schedule = Some(name.to_owned());
        self
    }

    /// Verifies.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the application has no schedule of this name;
    /// [`ErrorKind::Config`] if the range ends before it begins; or the database's failure.
    pub fn run(self) -> Result<Verification, Error> {
        self.with(&mut ())
    }

    fn with(&self, witness: &mut dyn Witness) -> Result<Verification, Error> {
        let Client { application, store, .. } = self.client;
        if let Some(name) = &self.schedule {
            config::check_schedule_name(name)?;
            store.seen(application, name)?.ok_or_else(|| self.client.unknown(name))?;
        }
        verified(&**store, application, self.schedule.as_deref(), self.span()?, witness)
    }

    /// Without an end it ends now.
    fn span(&self) -> Result<Span, Error> {
        let from = match self.range.0 {
            Bound::Included(from) => Timestamp::from(from),
            Bound::Excluded(from) => Timestamp::from(from).saturating_add(1),
            Bound::Unbounded => Timestamp::MIN,
        };
        let until = match self.range.1 {
            Bound::Included(until) => Timestamp::from(until).saturating_add(1),
            Bound::Excluded(until) => Timestamp::from(until),
            Bound::Unbounded => Timestamp::MAX,
        };
        let now = self.client.store.now()?;
        let (ends, until) = if until > now { ("now, at", now) } else { ("at", until) };
        if from > until {
            let [from, until] = [from, until].map(|at| shown(Some(at)));
            let problem = format!("the range begins at {from}, but ends {ends} {until}");
            return Err(Error::new(ErrorKind::Config, problem));
        }
        Ok(Span { from, until })
    }
}

/// Verifies on the blocking pool of the tokio runtime that it is awaited in, with the errors of
/// [`run`](Verify::run); [`ErrorKind::Config`] outside of one.
#[cfg(feature = "tokio")]
impl IntoFuture for Verify<'_> {
    type Output = Result<Verification, Error>;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, range, schedule } = self;
        let client = client.clone();
        let run = move || Verify { client: &client, range, schedule }.run();
        Box::pin(crate::api::awaited::run("verifying the ledger", run))
    }
}

/// The ledger of an application within a span, as far as retention has left it.
fn verified(
    store: &dyn Store,
    application: &str,
    name: Option<&str>,
    asked: Span,
    witness: &mut dyn Witness,
) -> Result<Verification, Error> {
    let begins = store.ledger_from(application)?;
    let from = begins.map_or(asked.from, |begins| asked.from.max(begins));
    let span = Span { from, ..asked };
    let mut accounts = Accounts::default();
    let ledger = Ledger::new(store, application, span)?;
    let schedules = ledger.walk(name, witness, |account| accounts.add(account))?;
    // What retention has removed meanwhile is no flaw.
    let removed = store.ledger_from(application)?.filter(|begins| *begins > from);
    if let Some(begins) = removed.and_then(Timestamp::utc) {
        accounts.flaws.retain(|flaw| flaw.at.is_none_or(|at| at >= begins));
    }
    Ok(accounts.verification(application, span, from > asked.from, schedules))
}

/// What an auditor finds in the ledger of an application as it is, but for schedules that were in ERROR:
/// there somebody has broken a row by hand.
#[cfg(test)]
pub(crate) fn flaws(store: &dyn Store, application: &str) -> Vec<String> {
    let span = Span { from: Timestamp::MIN, until: store.now().unwrap() };
    let verified = verified(store, application, None, span, &mut ()).unwrap();
    let flaws = verified.flaws.into_iter().filter(|flaw| flaw.kind != FlawKind::InError);
    flaws.map(|flaw| format!("{flaw:?}")).collect()
}

/// The accounts of all schedules together.
#[derive(Default)]
struct Accounts {
    rows: u64,
    occurrences: BTreeMap<(String, String), u64>,
    waiting: u64,
    paused: u64,
    by_hand: u64,
    flaws: Vec<Flaw>,
    more: u64,
}

impl Accounts {
    fn add(&mut self, account: Account) {
        self.rows += account.rows;
        self.waiting += account.waiting;
        self.paused += account.paused;
        self.by_hand += account.by_hand;
        for (end, count) in account.occurrences {
            *self.occurrences.entry(end).or_default() += count;
        }
        let named = account.flaws.len().min(NAMED - self.flaws.len());
        self.more += (account.flaws.len() - named) as u64;
        self.flaws.extend(account.flaws.into_iter().take(named));
    }

    fn verification(self, application: &str, span: Span, is_cut_short: bool, schedules: u64) -> Verification {
        Verification {
            application: application.to_owned(),
            since: Some(span.from).filter(|from| *from != Timestamp::MIN).and_then(Timestamp::utc),
            until: span.until.utc().unwrap_or(DateTime::<Utc>::MAX_UTC),
            is_cut_short,
            schedules,
            rows: self.rows,
            occurrences: accounted(&self.occurrences),
            waiting: self.waiting,
            paused: self.paused,
            by_hand: self.by_hand,
            flaws: self.flaws,
            more_flaws: self.more,
        }
    }
}

fn accounted(occurrences: &BTreeMap<(String, String), u64>) -> Vec<Accounted> {
    let accounted = |((state, reason), count): (&(String, String), &u64)| Accounted {
        state: Word::read(state),
        reason: reason.clone(),
        occurrences: *count,
    };
    occurrences.iter().map(accounted).collect()
}
