//! Sync: the schedules of an owner become those that its code lists.

use std::collections::HashSet;
use std::fmt;

use super::{check, request};
use crate::api::config::check_name;
use crate::api::{Client, Schedule};
use crate::domain::{Difference, Error, ErrorKind};
use crate::store::audit::Attribution;
use crate::store::sync::{SyncAnswer, SyncOrder};
use crate::store::{Author, Definition, SyncStep, SyncedSchedule, Verbs};

request! {
    /// Makes the schedules of an owner be those of a list: creates those that are missing, changes what
    /// differs, and removes those of this owner that the list lacks, all in one transaction. Made by
    /// [`Client::sync`].
    ///
    /// The owner is a name for the part of the code that has the list, such as a service. The revision grows
    /// with that code: a build's number, or the seconds of its time. Call it whenever that code starts. If
    /// all is so, and the revision is known, it only reads. A lower revision writes nothing while a higher
    /// one is known: of two releases side by side the older one undoes nothing. Syncs of the same revision
    /// write what differs; so raise it with every release.
    ///
    /// Another owner's schedules are never touched, nor are those that nobody owns, unless it is to
    /// [adopt](Self::adopt) them: a name that is taken is an error, and then nothing is changed.
    ///
    /// What an operator has set stays: a pause; and the fields that somebody has [edited](Client::edit),
    /// until they are [given back](crate::request::Edit::give_back):
    /// [`ScheduleView::by_hand`](crate::ScheduleView::by_hand) tells which these are. A schedule that an
    /// operator has removed is made again by the next sync: pause one that is not to run.
    ///
    /// What another trigger or a removal ends is withdrawn as [`Client::ensure`] and [`Client::remove`] say;
    /// new schedules, and those with another trigger, fire first as those of [`Client::ensure`] do.
    ///
    /// ```
    /// use firetime::{Client, Job, Schedule, Synced, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const INVOICE: Job<String> = Job::new("invoice");
    /// let client = Client::connect("shop", &url)?;
    /// let at = |name: &str, cron: &str| -> Result<Schedule, Box<dyn std::error::Error>> {
    ///     let trigger = Trigger::cron(cron, "Europe/Berlin")?;
    ///     Ok(Schedule::new(name, INVOICE, &name.to_owned(), trigger)?)
    /// };
    /// let first = [at("daily", "0 0 2 * * ?")?, at("weekly", "0 0 3 ? * MON")?];
    /// let Synced::Changed(done) = client.sync("billing", 41, &first).run()? else { panic!() };
    /// assert_eq!(done.created().collect::<Vec<_>>(), ["daily", "weekly"]);
    /// assert_eq!(client.sync("billing", 41, &first).run()?, Synced::Unchanged);
    ///
    /// let second = [at("daily", "0 30 2 * * ?")?];
    /// let sync = client.sync("billing", 42, &second);
    /// println!("{}", sync.plan()?);
    /// sync.reason("release 42").run()?;
    /// assert_eq!(client.schedules()?.len(), 1);
    /// // The older release starts once more.
    /// let older = client.sync("billing", 41, &first).run()?;
    /// assert!(matches!(older, Synced::Stale { known: 42, .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    SyncSchedules {
        owner: String, revision: u64, definitions: Vec<Definition>, adopts: bool, allows_empty: bool
    } -> Synced
}

impl Client {
    /// Makes the schedules of an owner be those of a list: creates, changes and removes them in one
    /// transaction. `owner` has 1 to 100 characters without control characters, `revision` is at most 2^63-1.
    pub fn sync(&self, owner: &str, revision: u64, schedules: &[Schedule]) -> SyncSchedules<'_> {
        let definition = |schedule: &Schedule| Definition {
            author: Author::Owner(owner.to_owned()),
            ..schedule.definition(&self.application)
        };
        SyncSchedules {
            client: self,
            owner: owner.to_owned(),
            revision,
            definitions: schedules.iter().map(definition).collect(),
            adopts: false,
            allows_empty: false,
            by: self.attribution(),
        }
    }
}

impl SyncSchedules<'_> {
    /// Takes over schedules of the list that are there and belong to nobody, such as those that were
    /// [ensured](Client::ensure) before: they get this owner, and become as listed. Another owner's stay an
    /// error. Default: nobody's are an error, too.
    pub fn adopt(mut self) -> Self {
        self.adopts = true;
        self
    }

    /// Lets the list be empty: all schedules of the owner are removed. Default: an empty list is an error, as
    /// it is mostly a mistake.
    pub fn allow_empty(mut self) -> Self {
        self.allows_empty = true;
        self
    }

    /// What the request would come to now, for a look before a release: it only reads. Names that are
    /// another's are in the plan; [`run`](Self::run) refuses them.
    ///
    /// # Errors
    /// As [`run`](Self::run), but for names that are another's.
    pub fn plan(&self) -> Result<SyncPlan, Error> {
        let answer = self.client.store.plan_sync(&self.order()?).map_err(|error| self.explained(error))?;
        self.plan_of(answer)
    }

    /// Runs the request in a transaction of its own.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a name is another owner's, or nobody's and the request is not to adopt it; if
    /// a name is in the list twice; if the list is empty, and may not be; if the owner's name, the actor or
    /// the reason is too long or has control characters; or if a schedule could not be
    /// [ensured](Client::ensure). [`ErrorKind::Conflict`] if others keep changing the same schedules;
    /// [`ErrorKind::Data`] if a row cannot be changed as it is; or the database's failure. Nothing is changed
    /// then.
    pub fn run(self) -> Result<Synced, Error> {
        let synced = self.over(&*self.client.store)?;
        if let Synced::Changed(plan) = &synced {
            let written = plan.schedules.iter().filter(|schedule| schedule.step.writes());
            written.for_each(|schedule| self.client.announce(&schedule.name));
        }
        Ok(synced)
    }

    fn over(&self, verbs: &dyn Verbs) -> Result<Synced, Error> {
        let order = self.order()?;
        let answer = verbs.sync(&order).map_err(|error| self.explained(error))?;
        if order.is_stale(answer.known) {
            return Ok(Synced::Stale { known: known(answer.known).unwrap_or_default() });
        }
        let plan = self.plan_of(answer)?;
        let is_so = plan.schedules.iter().all(|schedule| !schedule.step.writes());
        Ok(if is_so { Synced::Unchanged } else { Synced::Changed(plan) })
    }

    fn plan_of(&self, answer: SyncAnswer) -> Result<SyncPlan, Error> {
        let (owner, revision) = (self.owner.clone(), self.revision);
        Ok(SyncPlan { owner, revision, known: known(answer.known), schedules: answer.schedules })
    }

    fn explained(&self, error: Error) -> Error {
        error.during(&format!("syncing the schedules of {:?}", self.owner))
    }

    fn order(&self) -> Result<SyncOrder, Error> {
        check(&self.by)?;
        check_name("the owner's name", &self.owner, 100)?;
        let refused = |text: String| Err(self.explained(Error::new(ErrorKind::Config, text)));
        let Ok(revision) = i64::try_from(self.revision) else {
            return refused(format!("revision {}: at most {} is possible", self.revision, i64::MAX));
        };
        if self.definitions.is_empty() && !self.allows_empty {
            return refused(
                "the list is empty, which would remove all of them: say so with allow_empty()".to_owned(),
            );
        }
        let mut names = HashSet::new();
        if let Some(twice) = self.definitions.iter().find(|definition| !names.insert(&definition.name)) {
            return refused(format!("schedule {:?} is in the list twice", twice.name));
        }
        let by = self.attribution();
        let definitions = self.definitions.iter().cloned();
        Ok(SyncOrder {
            application: self.client.application.clone(),
            owner: self.owner.clone(),
            revision,
            definitions: definitions.map(|definition| Definition { by: by.clone(), ..definition }).collect(),
            adopts: self.adopts,
            by,
        })
    }

    /// Without a reason the audit says which revision it was.
    fn attribution(&self) -> Attribution {
        let Attribution { actor, reason } = self.by.clone();
        let named = || format!("revision {} of {}", self.revision, self.owner);
        Attribution { actor, reason: if reason.is_empty() { named() } else { reason } }
    }
}

fn known(revision: Option<i64>) -> Option<u64> {
    revision.and_then(|revision| u64::try_from(revision).ok())
}

/// The answer to a [sync](crate::request::SyncSchedules).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Synced {
    /// All schedules were so. At most the higher revision was noted.
    Unchanged,
    /// Schedules were written: this was done.
    Changed(SyncPlan),
    /// A higher revision is known: nothing was written.
    #[non_exhaustive]
    Stale {
        /// That revision.
        known: u64,
    },
}

/// What a [sync](crate::request::SyncSchedules) would come to, or has come to. It is shown as lines for
/// people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncPlan {
    /// Whose schedules these are.
    pub owner: String,
    /// The revision of the list.
    pub revision: u64,
    /// The highest revision that was known before; none if the owner had never synced.
    pub known: Option<u64>,
    /// The schedules of the list, and those that it lacks, by name.
    pub schedules: Vec<SyncedSchedule>,
}

impl SyncPlan {
    /// Whether a higher revision is known, so that nothing is written.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.known > Some(self.revision)
    }

    /// The names of the schedules that are made.
    pub fn created(&self) -> impl Iterator<Item = &str> {
        self.named(|step| matches!(step, SyncStep::Created))
    }

    /// The names of those that become others, or the owner's.
    pub fn changed(&self) -> impl Iterator<Item = &str> {
        self.named(|step| !matches!(step, SyncStep::Created | SyncStep::Removed) && step.writes())
    }

    /// The names of those that are removed.
    pub fn removed(&self) -> impl Iterator<Item = &str> {
        self.named(|step| matches!(step, SyncStep::Removed))
    }

    /// The names that are another's, or nobody's: with any of them the sync is refused.
    pub fn refused(&self) -> impl Iterator<Item = &str> {
        self.named(|step| matches!(step, SyncStep::OfOther { .. } | SyncStep::OfNobody))
    }

    fn named(&self, is: fn(&SyncStep) -> bool) -> impl Iterator<Item = &str> {
        let schedules = self.schedules.iter().filter(move |schedule| is(&schedule.step));
        schedules.map(|schedule| &*schedule.name)
    }
}

impl fmt::Display for SyncPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, revision, known, schedules } = self;
        write!(f, "{owner}, revision {revision}")?;
        match known {
            Some(known) if self.is_stale() => write!(f, ": nothing is written, {known} is known")?,
            Some(known) => write!(f, ", known {known}")?,
            None => write!(f, ", never synced before")?,
        }
        for schedule in schedules {
            schedule_line(schedule, f)?;
        }
        let unchanged = schedules.iter().filter(|schedule| schedule.step == SyncStep::Unchanged);
        write!(f, "\n  unchanged: {}", unchanged.count())
    }
}

fn schedule_line(schedule: &SyncedSchedule, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let SyncedSchedule { name, step, withdraws, kept } = schedule;
    let (said, differences): (&str, &[Difference]) = match step {
        SyncStep::Unchanged => ("", &[]),
        SyncStep::Created => ("created", &[]),
        SyncStep::Changed { differences } => ("changed", differences),
        SyncStep::Adopted { differences } => ("adopted", differences),
        SyncStep::Quarantined { differences } => ("stays in error", differences),
        SyncStep::Removed => ("removed", &[]),
        SyncStep::OfOther { owner } => return write!(f, "\n  {name}: refused, it belongs to {owner}"),
        SyncStep::OfNobody => return write!(f, "\n  {name}: refused, it belongs to no owner"),
    };
    if !said.is_empty() {
        write!(f, "\n  {name}: {said}")?;
    }
    for Difference { field, was, becomes } in differences {
        write!(f, "\n    {field}: {} -> {}", shown(was), shown(becomes))?;
    }
    if let Some(withdraws) = withdraws {
        write!(f, "\n    withdraws {withdraws}")?;
    }
    for Difference { field, was, becomes } in kept {
        write!(f, "\n  {name}: {field} stays {} by hand, listed {}", shown(was), shown(becomes))?;
    }
    Ok(())
}

fn shown(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::tests::client;
    use crate::{Job, Trigger};

    const JOB: Job<()> = Job::new("job");

    fn hourly(name: &str) -> Schedule {
        Schedule::new(name, JOB, &(), Trigger::cron("0 0 * * * ?", "UTC").unwrap()).unwrap()
    }

    #[test]
    fn a_list_that_cannot_be_meant_is_refused() {
        let (client, announced) = client();
        let before = announced.load(std::sync::atomic::Ordering::Relaxed);
        let one = [hourly("t")];
        let long = "x".repeat(101);
        let refused = [
            (client.sync("billing", 1, &[]), "allow_empty()"),
            (client.sync("billing", 1, &[hourly("t"), hourly("t")]), "\"t\" is in the list twice"),
            (client.sync("", 1, &one), "the owner's name is empty"),
            (client.sync(&long, 1, &one), "101 characters"),
            (client.sync("a\nb", 1, &one), "control characters"),
            (client.sync("billing", u64::MAX, &one), "9223372036854775807"),
            (client.sync("billing", 1, &one).actor("a\nb"), "actor"),
            (client.sync("billing", 1, &[hourly("t").pause_after(9_999)]), "pause_after"),
            (client.sync("billing", 1, &[hourly("s")]), "adopt()"),
        ];
        for (request, word) in refused {
            let error = request.run().unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.to_string().contains(word), "{error}");
        }
        assert_eq!(announced.load(std::sync::atomic::Ordering::Relaxed), before);
        assert_eq!(client.schedules().unwrap().len(), 1);
    }

    #[test]
    fn a_plan_is_shown_in_lines() {
        let (client, announced) = client();
        let taken = client.sync("billing", 3, &[hourly("new"), hourly("s")]).plan().unwrap();
        assert_eq!(taken.refused().collect::<Vec<_>>(), ["s"]);
        let lines = "billing, revision 3, never synced before\n  new: created\n  s: refused, it belongs to no \
                     owner\n  unchanged: 0";
        assert_eq!(taken.to_string(), lines);
        let listed = |priority| client.sync("billing", 3, &[hourly("s").priority(priority)]).adopt();
        let plan = listed(7).plan().unwrap();
        assert!(plan.changed().eq(["s"]) && plan.created().count() == 0 && plan.removed().count() == 0);
        let text = plan.to_string();
        let (was, is) = ("every 3600000 ms", "cron 0 0 * * * ? [UTC]");
        assert!(text.contains(&format!("  s: adopted\n    trigger: {was} -> {is}\n")), "{text}");
        assert!(text.contains("    priority: 5 -> 7\n"), "{text}");
        let before = announced.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(listed(7).run().unwrap(), Synced::Changed(plan));
        assert_eq!(announced.load(std::sync::atomic::Ordering::Relaxed), before + 1);
        client.edit("s").priority(9).description("by hand").run().unwrap();
        let kept = listed(8).plan().unwrap().to_string();
        assert!(kept.contains("\n  s: priority stays 9 by hand, listed 8\n"), "{kept}");
        assert!(kept.contains("\n  s: description stays by hand by hand, listed none\n"), "{kept}");
        let older = client.sync("billing", 2, &[]).allow_empty().plan().unwrap();
        assert!(older.is_stale() && older.removed().eq(["s"]));
        assert!(older.to_string().starts_with("billing, revision 2: nothing is written, 3 is known\n"));
        assert_eq!(client.sync("billing", 2, &[]).allow_empty().run().unwrap(), Synced::Stale { known: 3 });
        let Synced::Changed(gone) = client.sync("billing", 3, &[]).allow_empty().run().unwrap() else {
            panic!()
        };
        assert!(gone.removed().eq(["s"]) && client.schedules().unwrap().is_empty());
        let audit = client.audit(&crate::AuditFilter::default()).unwrap();
        assert_eq!((&*audit[0].verb, &*audit[0].reason), ("remove", "revision 3 of billing"));
    }
}
