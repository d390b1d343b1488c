//! Pages of schedules, for people.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::api::client::{Above, Client};
use crate::api::{ScheduleView, config};
use crate::domain::{Error, ErrorKind, ScheduleState, Timestamp, UnknownWord};
use crate::store;
use crate::store::figures::REPAIRED;
use crate::store::schedules::{Among, ScheduleKey, ScheduleQuery};
use crate::time::span;

/// Which schedules to list ([`Client::find_schedules`]). Default: all by name, the first 1,000.
///
/// ```
/// use firetime::{Client, Job, Schedule, ScheduleFilter, Standing, Trigger};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// # firetime::migrate(&url)?;
/// # const REPORT: Job<()> = Job::new("report");
/// let client = Client::connect("shop", &url)?;
/// for name in ["daily-eu", "daily-us", "hourly"] {
///     let trigger = Trigger::cron("0 30 2 * * ?", "UTC")?;
///     client.ensure(&Schedule::new(name, REPORT, &(), trigger)?).run()?;
/// }
/// let filter = ScheduleFilter { text: Some("daily".to_owned()), limit: 1, ..ScheduleFilter::default() };
/// let first = client.find_schedules(&filter)?;
/// let second = client.find_schedules(&ScheduleFilter { after: first.next, ..filter })?;
/// assert_eq!((&*first.schedules[0].name, &*second.schedules[0].name), ("daily-eu", "daily-us"));
/// assert!(second.next.is_none());
/// // No node has a handler for them.
/// let filter = ScheduleFilter { standing: Some(Standing::Unclaimed), ..ScheduleFilter::default() };
/// assert_eq!(client.find_schedules(&filter)?.schedules.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// End a literal with `..Default::default()`: releases may add fields.
#[derive(Clone, Debug)]
pub struct ScheduleFilter {
    /// Only with this text in their name, their job's name or their description, in any case.
    pub text: Option<String>,
    /// Only of the job of this name.
    pub job: Option<String>,
    /// Only of this owner ([`Client::sync`]).
    pub owner: Option<String>,
    /// Only those that stand so.
    pub standing: Option<Standing>,
    /// First those that are [neglected](Standing::Neglected), the gravest first: in error, paused by
    /// themselves, overdue (the longest first), and so on; then all others by name. Default: all by name.
    pub neglected_first: bool,
    /// Only what follows this in the list: [`SchedulePage::next`] of the page before.
    pub after: Option<SchedulePlace>,
    /// At most so many. Default: 1,000. With `usize::MAX` all.
    pub limit: usize,
}

impl Default for ScheduleFilter {
    fn default() -> Self {
        let (text, job, owner, standing) = (None, None, None, None);
        let (neglected_first, after, limit) = (false, None, 1_000);
        Self { text, job, owner, standing, neglected_first, after, limit }
    }
}

/// How schedules stand. One may stand in several ways at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standing {
    /// In error: its row cannot be understood, and it does not fire.
    Error,
    /// It has paused itself, after failures or deaths in a row.
    Contained,
    /// It is active and nothing holds it, and its next fire time passed longer ago than its misfire threshold
    /// and half a minute.
    Overdue,
    /// An occurrence has not succeeded in the time in which it was expected, nor has a later one.
    Unmet,
    /// It is active and nothing holds it, and no live node that claims has a handler for its job.
    Unclaimed,
    /// It is active, and live nodes leave it alone, as they cannot decode its payload.
    LeftAlone,
    /// Any of the above: it needs people.
    Neglected,
    /// It is active, and its job or its application is paused.
    Held,
    /// Its state is `active`.
    Active,
    /// Its state is `paused`.
    Paused,
    /// Its state is `complete`.
    Complete,
}

impl Standing {
    /// All there are.
    pub const ALL: &'static [Self] = &[
        Self::Neglected,
        Self::Error,
        Self::Contained,
        Self::Overdue,
        Self::Unmet,
        Self::Unclaimed,
        Self::LeftAlone,
        Self::Held,
        Self::Active,
        Self::Paused,
        Self::Complete,
    ];

    /// Those that need people, the gravest first.
    const TROUBLES: [Self; 6] =
        [Self::Error, Self::Contained, Self::Overdue, Self::Unmet, Self::Unclaimed, Self::LeftAlone];

    /// Its word: `error`, `contained`, `overdue`, `unmet`, `unclaimed`, `left-alone`, `neglected`, `held`,
    /// `active`, `paused` or `complete`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Contained => "contained",
            Self::Overdue => "overdue",
            Self::Unmet => "unmet",
            Self::Unclaimed => "unclaimed",
            Self::LeftAlone => "left-alone",
            Self::Neglected => "neglected",
            Self::Held => "held",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Complete => "complete",
        }
    }

    /// Whether a schedule stands so at an instant of the database's clock.
    #[must_use]
    pub fn is_of(self, schedule: &ScheduleView, now: DateTime<Utc>) -> bool {
        let is_active = schedule.state == ScheduleState::Active;
        let fires = is_active && schedule.held_by.is_empty();
        match self {
            Self::Error | Self::Active | Self::Paused | Self::Complete => {
                schedule.state.as_str() == self.as_str()
            }
            Self::Contained => schedule.state == ScheduleState::Paused && schedule.paused_by == FIRETIME,
            Self::Overdue => fires && schedule.nodes > 0 && schedule.overdue(now).is_some(),
            Self::Unmet => schedule.unmet.is_some(),
            Self::Unclaimed => fires && schedule.nodes == 0,
            Self::LeftAlone => is_active && !schedule.left_alone.is_empty(),
            Self::Neglected => Self::trouble(schedule, now).is_some(),
            Self::Held => is_active && !schedule.held_by.is_empty(),
        }
    }

    /// The gravest of what makes a schedule need people; none if nothing does.
    #[must_use]
    pub fn trouble(schedule: &ScheduleView, now: DateTime<Utc>) -> Option<Self> {
        Self::TROUBLES.into_iter().find(|standing| standing.is_of(schedule, now))
    }
}

impl FromStr for Standing {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.iter().find(|standing| standing.as_str() == word);
        found.copied().ok_or_else(|| UnknownWord::new("standing of schedules", word))
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl ScheduleView {
    /// For how long it should have been moved on, at an instant of the database's clock: since its misfire
    /// threshold has passed, and half a minute, in which the misfire handler has had its turn.
    #[must_use]
    pub fn overdue(&self, now: DateTime<Utc>) -> Option<Duration> {
        let overdue = (now - self.next?).to_std().ok()?;
        (overdue > self.misfire_threshold.saturating_add(span(REPAIRED))).then_some(overdue)
    }
}

/// A page of schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulePage {
    /// In the order of the list.
    pub schedules: Vec<ScheduleView>,
    /// Where the next page begins; none if there is none.
    ///
    /// A page looks at 10,000 schedules at most, or at as many as it may have. If it ends with fewer than it
    /// may have, and there is a next one, the rest has not been looked at yet.
    pub next: Option<SchedulePlace>,
    /// How many schedules were looked at.
    pub looked: usize,
    /// When that was, by the database's clock.
    pub now: DateTime<Utc>,
}

/// Where a page of schedules begins, as a text: it is good for the same filter alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulePlace {
    section: usize,
    key: Option<ScheduleKey>,
}

impl fmt::Display for SchedulePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            None => write!(f, "{}", self.section),
            Some(ScheduleKey::Name(name)) => write!(f, "{}.n.{name}", self.section),
            Some(ScheduleKey::Due(at, id)) => write!(f, "{}.d.{}.{id}", self.section, at.millis()),
        }
    }
}

impl FromStr for SchedulePlace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text).ok_or_else(|| {
            let message = format!("{text:?} is no place in a list of schedules: see SchedulePage::next");
            Error::new(ErrorKind::Config, message)
        })
    }
}

impl SchedulePlace {
    fn parse(text: &str) -> Option<Self> {
        let (section, key) = match text.split_once('.') {
            None => (text, None),
            Some((section, key)) => (section, Some(key)),
        };
        let key = match key.map(|key| key.split_once('.')) {
            None => None,
            Some(Some(("n", name))) => Some(ScheduleKey::Name(name.to_owned())),
            Some(Some(("d", due))) => {
                let (at, id) = due.split_once('.')?;
                Some(ScheduleKey::Due(Timestamp::at(at.parse().ok()?), id.parse().ok()?))
            }
            Some(_) => return None,
        };
        Some(Self { section: section.parse().ok()?, key })
    }
}

impl Serialize for SchedulePlace {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A part of a list: where its schedules are looked for, and which of these it has.
struct Section {
    among: Among,
    state: Option<ScheduleState>,
    paused_by: Option<&'static str>,
    is_of: IsOf,
}

enum IsOf {
    Any,
    Standing(Standing),
    /// Those of which nothing is graver.
    Trouble(Standing),
    NoTrouble,
}

impl Section {
    fn has(&self, schedule: &ScheduleView, now: DateTime<Utc>) -> bool {
        match self.is_of {
            IsOf::Any => true,
            IsOf::Standing(standing) => standing.is_of(schedule, now),
            IsOf::Trouble(standing) => Standing::trouble(schedule, now) == Some(standing),
            IsOf::NoTrouble => Standing::trouble(schedule, now).is_none(),
        }
    }

    fn key(&self, schedule: &ScheduleView, next: Option<Timestamp>) -> ScheduleKey {
        match self.among {
            Among::Due { .. } => ScheduleKey::Due(next.unwrap_or(Timestamp::MIN), schedule.id.get()),
            _ => ScheduleKey::Name(schedule.name.clone()),
        }
    }

    fn new(standing: Standing, filter: &ScheduleFilter, above: &Above, now: Timestamp) -> Self {
        let of = |mut jobs: Vec<String>| {
            jobs.retain(|job| filter.job.as_ref().is_none_or(|wanted| wanted == job));
            jobs
        };
        let active = Some(ScheduleState::Active);
        let (among, state) = match standing {
            Standing::Error => (Among::InState(ScheduleState::Error), None),
            Standing::Paused | Standing::Contained => (Among::InState(ScheduleState::Paused), None),
            Standing::Overdue => {
                let (jobs, from) = (of(above.claimed_jobs()), Timestamp::EPOCH);
                (Among::Due { jobs, from, until: now - REPAIRED }, None)
            }
            Standing::Unmet => (Among::Unmet, None),
            Standing::Unclaimed => (Among::ActiveOf(of(above.unclaimed_jobs())), None),
            Standing::LeftAlone => (Among::Ids(above.left_schedules()), None),
            Standing::Held if above.is_paused() => (Among::All, active),
            Standing::Held => (Among::ActiveOf(of(above.paused_jobs())), None),
            Standing::Active => match &filter.job {
                Some(job) => (Among::ActiveOf(vec![job.clone()]), None),
                None => (Among::All, active),
            },
            Standing::Complete => (Among::All, Some(ScheduleState::Complete)),
            Standing::Neglected => (Among::All, None),
        };
        let paused_by = (standing == Standing::Contained).then_some(FIRETIME);
        Self { among, state, paused_by, is_of: IsOf::Standing(standing) }
    }

    /// The parts of a list.
    fn all(filter: &ScheduleFilter, above: &Above, now: Timestamp) -> Vec<Self> {
        let trouble = |standing| {
            let is_of = IsOf::Trouble(standing);
            Self { is_of, ..Self::new(standing, filter, above, now) }
        };
        let rest = |is_of| Self { among: Among::All, state: None, paused_by: None, is_of };
        let troubles = Standing::TROUBLES.map(trouble);
        match (filter.standing, filter.neglected_first) {
            (Some(Standing::Neglected), _) => troubles.into(),
            (Some(standing), _) => vec![Self::new(standing, filter, above, now)],
            (None, true) => troubles.into_iter().chain([rest(IsOf::NoTrouble)]).collect(),
            (None, false) => vec![rest(IsOf::Any)],
        }
    }
}

/// Who pauses a schedule by its own rule.
const FIRETIME: &str = "firetime";
/// Of so many schedules a page looks at most, if it may not have more.
const LOOK: usize = 10_000;

impl Client {
    /// A page of the application's schedules as the [filter](ScheduleFilter) has them. However many there
    /// are, it looks at a bounded number of them: see [`SchedulePage::next`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if nothing can have a name that it asks for, or if the place is of another
    /// filter's list; or the database's failure.
    pub fn find_schedules(&self, filter: &ScheduleFilter) -> Result<SchedulePage, Error> {
        config::check_filter([
            ("the text", &filter.text, 500),
            ("the job's name", &filter.job, 200),
            ("the owner", &filter.owner, 100),
        ])?;
        self.find_under(&self.above()?, filter, self.store.now()?)
    }

    /// The same, of what is known already of jobs and nodes.
    pub(super) fn find_under(
        &self,
        above: &Above,
        filter: &ScheduleFilter,
        at: Timestamp,
    ) -> Result<SchedulePage, Error> {
        let now = at.utc().ok_or_else(|| Error::new(ErrorKind::Data, "the clock is beyond the calendar"))?;
        let sections = Section::all(filter, above, at);
        let begin = filter.after.clone().unwrap_or(SchedulePlace { section: 0, key: None });
        if begin.section >= sections.len() {
            let message = format!("{begin} is a place in another list of schedules than this filter's");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let mut page = Page { filter, now, rows: Vec::new(), looked: 0 };
        for (section, it) in sections.iter().enumerate().skip(begin.section) {
            let mut key = begin.key.clone().filter(|_| section == begin.section);
            loop {
                if page.rows.len() > filter.limit || page.looked >= LOOK.max(filter.limit) {
                    return Ok(page.ended(SchedulePlace { section, key }));
                }
                let found = self.store.schedule_page(&page.query(self.application(), it, key))?;
                page.looked += found.looked;
                page.add(section, it, above, found.rows);
                key = found.next;
                if key.is_none() {
                    break;
                }
            }
        }
        Ok(page.whole())
    }

    /// How many schedules the application has. Of more than `most`, that many: counting all of a million
    /// would take long.
    ///
    /// # Errors
    /// The database's failure.
    pub fn count_schedules(&self, most: usize) -> Result<usize, Error> {
        self.store.count_schedules(&self.application, most)
    }
}

/// A page as it is filled.
struct Page<'f> {
    filter: &'f ScheduleFilter,
    now: DateTime<Utc>,
    /// One more than the page may have, if there is one.
    rows: Vec<(SchedulePlace, ScheduleView)>,
    looked: usize,
}

impl Page<'_> {
    fn query(&self, application: &str, section: &Section, after: Option<ScheduleKey>) -> ScheduleQuery {
        let filter = self.filter;
        ScheduleQuery {
            application: application.to_owned(),
            among: section.among.clone(),
            text: filter.text.clone(),
            job: filter.job.clone(),
            owner: filter.owner.clone(),
            state: section.state,
            paused_by: section.paused_by,
            after,
            limit: filter.limit.saturating_add(1).saturating_sub(self.rows.len()),
            look: LOOK.max(filter.limit).saturating_sub(self.looked),
        }
    }

    fn add(&mut self, section: usize, of: &Section, above: &Above, rows: Vec<store::ScheduleRow>) {
        for row in rows {
            let next = row.next;
            let view = above.view(row);
            if of.has(&view, self.now) {
                let key = Some(of.key(&view, next));
                self.rows.push((SchedulePlace { section, key }, view));
            }
        }
    }

    /// The page, with the next one where its last schedule or the look has ended.
    fn ended(self, look: SchedulePlace) -> SchedulePage {
        let is_full = self.rows.len() > self.filter.limit;
        let last = self.filter.limit.checked_sub(1).and_then(|last| self.rows.get(last));
        let next = if is_full { last.map(|(place, _)| place.clone()) } else { Some(look) };
        SchedulePage { next, ..self.all() }
    }

    /// The page, behind which nothing may follow.
    fn whole(self) -> SchedulePage {
        match self.rows.len() > self.filter.limit {
            true => self.ended(SchedulePlace { section: 0, key: None }),
            false => self.all(),
        }
    }

    fn all(self) -> SchedulePage {
        let schedules = self.rows.into_iter().take(self.filter.limit).map(|(_, view)| view).collect();
        SchedulePage { schedules, next: None, looked: self.looked, now: self.now }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::{JobPolicy, JobSpec, NodeId};
    use crate::fixtures::{Changes, definition, new_node};
    use crate::store::memory::MemoryStore;
    use crate::store::{Store, UnreadableRow, Verbs};
    use crate::trigger::{Simple, Trigger};

    const START: Timestamp = Timestamp::at(2_000_000_000_000);

    /// Schedules that stand in many ways, in an order of their names that is none of their troubles.
    fn troubled() -> Client {
        let store = Arc::new(MemoryStore::default());
        store.set_time(START);
        let jobs = vec![JobSpec::new("job", JobPolicy::DEFAULT)];
        store.register(&new_node(NodeId::fresh(), "app", jobs, START)).unwrap();
        let make = |name: &str, seconds: i64, job: &str| {
            let simple = Simple::new(Some((START + seconds * 1_000).millis()), 3_600_000, -1).unwrap();
            let wanted = definition(name, Trigger::Simple(simple));
            let job = JobSpec::new(job, JobPolicy::DEFAULT);
            store.ensure(&store::Definition { job, ..wanted }).unwrap();
            store.seen("app", name).unwrap().unwrap()
        };
        make("a-fine", 7_200, "job");
        make("b-late", 20, "job");
        let contained = make("c-contained", 7_200, "job");
        assert!(store.pause(contained.id, contained.version, "firetime", "deaths").unwrap());
        let paused = make("d-paused", 20, "job");
        assert!(store.pause(paused.id, paused.version, "ann", "").unwrap());
        let (seen, reason) = (make("e-error", 7_200, "job"), "no cron".to_owned());
        assert!(store.quarantine(&UnreadableRow { seen, name: "e-error".into(), reason }).unwrap());
        make("f-later", 10, "job");
        make("g-nobodys", 20, "other");
        store.set_time(START + 600_000);
        Client::over("app", store, Arc::default(), |_| {})
    }

    /// The names of all pages of so many.
    fn paged(client: &Client, filter: &ScheduleFilter, limit: usize) -> Vec<String> {
        let (mut names, mut after): (Vec<String>, Option<SchedulePlace>) = (Vec::new(), None);
        loop {
            let page = client.find_schedules(&ScheduleFilter { after, limit, ..filter.clone() }).unwrap();
            assert!(page.schedules.len() == limit || page.next.is_none(), "{page:?}");
            names.extend(page.schedules.into_iter().map(|it| it.name));
            after = page.next.map(|next| next.to_string().parse().unwrap());
            if after.is_none() {
                return names;
            }
        }
    }

    #[test]
    fn those_that_need_people_come_first_the_gravest_before_all() {
        let client = troubled();
        let first = ScheduleFilter { neglected_first: true, ..ScheduleFilter::default() };
        let troubles = ["e-error", "c-contained", "f-later", "b-late", "g-nobodys"];
        for limit in [1, 2, 3, 7, 100] {
            let names = paged(&client, &first, limit);
            assert_eq!(names[..5], troubles, "the longest overdue first, by {limit}");
            assert_eq!(names[5..], ["a-fine", "d-paused"], "by {limit}");
            let all = ScheduleFilter { neglected_first: false, ..first.clone() };
            assert!(paged(&client, &all, limit).is_sorted() && paged(&client, &all, limit).len() == 7);
        }
    }

    #[test]
    fn schedules_are_found_by_how_they_stand() {
        let client = troubled();
        let of = |standing| {
            let standing = Some(standing);
            paged(&client, &ScheduleFilter { standing, ..ScheduleFilter::default() }, 2)
        };
        assert_eq!(of(Standing::Error), ["e-error"]);
        assert_eq!(of(Standing::Contained), ["c-contained"]);
        assert_eq!(of(Standing::Overdue), ["f-later", "b-late"]);
        assert_eq!(of(Standing::Unclaimed), ["g-nobodys"]);
        assert_eq!(of(Standing::Paused), ["c-contained", "d-paused"]);
        assert_eq!(of(Standing::Active), ["a-fine", "b-late", "f-later", "g-nobodys"]);
        assert_eq!(of(Standing::Neglected).len(), 5);
        assert_eq!(
            (of(Standing::Unmet), of(Standing::Held), of(Standing::Complete)),
            (vec![], vec![], vec![])
        );
        client.pause(crate::Target::job("job")).run().unwrap();
        assert_eq!(of(Standing::Held), ["a-fine", "b-late", "f-later"]);
        assert_eq!(of(Standing::Overdue), [""; 0], "they are held");
        client.pause(crate::Target::application()).run().unwrap();
        assert_eq!(of(Standing::Held), ["a-fine", "b-late", "f-later", "g-nobodys"]);
    }

    #[test]
    fn a_place_of_another_list_is_refused() {
        let after = Some("3.n.a".parse().unwrap());
        let refused = troubled().find_schedules(&ScheduleFilter { after, ..ScheduleFilter::default() });
        assert!(refused.unwrap_err().to_string().contains("another list"));
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let name = ScheduleKey::Name("a.n.b ü".to_owned());
        for key in [None, Some(name), Some(ScheduleKey::Due(Timestamp::at(-7), 9))] {
            let place = SchedulePlace { section: 3, key };
            assert_eq!(place.to_string().parse::<SchedulePlace>().unwrap(), place);
        }
        for text in ["", "x", "1.", "1.q.x", "1.d.7", "1.d.x.7", "-1.n.a"] {
            let error = text.parse::<SchedulePlace>().unwrap_err().to_string();
            assert!(error.contains("no place in a list of schedules"), "{text}: {error}");
        }
    }

    #[test]
    fn a_standing_is_read_as_it_is_written() {
        for standing in Standing::ALL {
            assert_eq!(standing.as_str().parse::<Standing>().unwrap(), *standing);
        }
        let error = "late".parse::<Standing>().unwrap_err().to_string();
        assert_eq!(error, "\"late\" is not a standing of schedules");
    }
}
