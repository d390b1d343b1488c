//! The schedules of an application: by name, or those that need people first.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};

use crate::console::asked::Asked;
use crate::console::changes::bulk::{BulkOrder, BulkVerb};
use crate::console::changes::button::Button;
use crate::console::changes::order::Order;
use crate::console::drawn::strip::Strip;
use crate::console::filter;
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query::{self, Query};
use crate::console::web::trouble::Trouble;
use crate::console::words::{
    Badge, Mark, Moment, because, counted, first_line, length, number, span, trigger,
};
use crate::{
    Client, ScheduleFilter, ScheduleId, SchedulePage, ScheduleState, ScheduleView, Standing, Target,
};

/// So many are on a page.
const PAGE: usize = 50;
/// So many of those that need people are counted.
const NEEDING: usize = 100;
/// So many schedules are counted.
pub(crate) const COUNTED: usize = 1_000;

#[derive(Template)]
#[template(path = "console/schedules.html")]
pub(super) struct SchedulesPage {
    frame: Frame,
    heading: String,
    summary: String,
    /// Whether some need people, and others are shown too.
    has_more_needs: bool,
    text: String,
    state: String,
    job: String,
    /// Whether those that need people come first.
    is_neglected_first: bool,
    /// The states that may be picked, each with its words.
    states: &'static [(&'static str, &'static str)],
    rows: Vec<Row>,
    /// What may be done to all of them.
    bulk: Vec<Button>,
    /// What the words that lead to the next page say.
    next_words: &'static str,
    /// The address of the page behind this one, and of the first.
    next: Option<String>,
    first: Option<String>,
}

struct Row {
    name: String,
    to: String,
    job: String,
    description: String,
    trigger: String,
    /// When, of a trigger that fires once.
    once: Option<Moment>,
    badge: Badge,
    reason: String,
    strip: Strip,
    last: Option<Moment>,
    next: Option<Moment>,
    never: &'static str,
    button: Option<Button>,
}

/// What may be picked of states: the words of [`Standing`].
const STATES: [(&str, &str); 11] = [
    ("neglected", "needs you"),
    ("error", "in error"),
    ("contained", "paused itself"),
    ("overdue", "overdue"),
    ("unmet", "expected, and has not succeeded"),
    ("unclaimed", "nobody can run"),
    ("left-alone", "left alone"),
    ("held", "held by a pause above"),
    ("active", "active"),
    ("paused", "paused"),
    ("complete", "complete"),
];

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

pub(super) fn make(client: &Client, asked: &Asked) -> Result<SchedulesPage, Trouble> {
    let frame = Frame::new(asked, client.application(), "schedules", "Schedules");
    let text = |name| asked.query.text(name).unwrap_or_default();
    let filter = ScheduleFilter { limit: PAGE, ..filter::schedules(&asked.query)? };
    let mut page = client.find_schedules(&filter)?;
    asked.masks.schedules(&mut page.schedules);
    let (needing, total) = (needing(client)?, client.count_schedules(COUNTED)?);
    let first = filter.after.is_some().then(|| asked.query.clone().without("after").of("schedules"));
    let next = page.next.as_ref();
    let next = next.map(|next| asked.query.clone().without("after").with("after", next).of("schedules"));
    let mut strips = Strip::all(client, &page.schedules)?;
    let rows: Vec<Row> =
        page.schedules.iter().map(|schedule| row(schedule, &mut strips, &frame, page.now)).collect();
    Ok(SchedulesPage {
        bulk: bulk(&page.schedules, &asked.query, &frame),
        frame,
        heading: heading(needing, total),
        summary: summary(&filter, &page, total),
        has_more_needs: needing > 0 && filter.standing != Some(Standing::Neglected),
        text: asked.query.typed("q").unwrap_or_default().to_owned(),
        state: text("state"),
        job: text("job"),
        is_neglected_first: filter.neglected_first,
        states: &STATES,
        rows,
        next_words: if page.schedules.len() < PAGE { "Look on" } else { "Next page" },
        next,
        first,
    })
}

/// What may be done to all of a filter: whatever some of those that are shown are in a state for.
fn bulk(shown: &[ScheduleView], list: &Query, frame: &Frame) -> Vec<Button> {
    let each = |(verb, state, label): (BulkVerb, ScheduleState, &str)| {
        let has_some = shown.iter().any(|it| it.state == state);
        has_some
            .then(|| Button::new(frame, label, &Order::Bulk(Box::new(BulkOrder::of(verb, list)))))
            .flatten()
    };
    let verbs = [
        (BulkVerb::Pause, ScheduleState::Active, "Pause all of these"),
        (BulkVerb::Resume, ScheduleState::Paused, "Resume all of these"),
    ];
    verbs.into_iter().filter_map(each).collect()
}

/// How many schedules need people, as far as they are counted.
fn needing(client: &Client) -> Result<usize, Trouble> {
    let standing = Some(Standing::Neglected);
    let filter = ScheduleFilter { standing, limit: NEEDING, ..ScheduleFilter::default() };
    Ok(client.find_schedules(&filter)?.schedules.len())
}

fn heading(needing: usize, total: usize) -> String {
    match needing {
        0 if total == 0 => "There are no schedules yet".to_owned(),
        0 => "All schedules are well".to_owned(),
        1 => "One schedule needs you".to_owned(),
        NEEDING.. => format!("{NEEDING} schedules or more need you"),
        many => format!("{} schedules need you", number(many)),
    }
}

fn summary(filter: &ScheduleFilter, page: &SchedulePage, total: usize) -> String {
    let more = if total >= COUNTED { " or more" } else { "" };
    let all = format!("{}{more}", counted(total, "schedule"));
    let is_filtered = filter.text.is_some() || filter.job.is_some() || filter.standing.is_some();
    let shown = number(page.schedules.len());
    match (page.next.is_some() && page.schedules.len() < PAGE, is_filtered || filter.after.is_some()) {
        (true, _) => format!(
            "{shown} among the {} looked at, of {all}: look on for more.",
            counted(page.looked, "schedule")
        ),
        (false, true) => format!("{shown} shown of {all}."),
        (false, false) => format!("{all} in all."),
    }
}

fn row(
    schedule: &ScheduleView,
    strips: &mut BTreeMap<ScheduleId, Strip>,
    frame: &Frame,
    now: DateTime<Utc>,
) -> Row {
    let target = || Target::schedule(&schedule.name);
    let button = match schedule.state.as_str() {
        "active" => Button::new(frame, "Run now", &Order::Run(schedule.name.clone())),
        "paused" => Button::new(frame, "Resume", &Order::Resume(target())),
        _ => None,
    };
    let (badge, reason) = state_of(schedule, now);
    let is_once = schedule.trigger == "once";
    Row {
        name: schedule.name.clone(),
        to: query::schedule(&schedule.name),
        job: schedule.job.clone(),
        description: first_line(&schedule.description),
        trigger: if is_once { "once".to_owned() } else { trigger(schedule) },
        once: if is_once { Moment::some(schedule.next.or(schedule.prev), now) } else { None },
        badge,
        reason,
        strip: strips.remove(&schedule.id).unwrap_or_default(),
        last: Moment::some(schedule.prev, now),
        next: next_of(schedule, now),
        never: match schedule.state.as_str() {
            "active" => "once its run has ended",
            "paused" => "paused",
            _ => "–",
        },
        button,
    }
}

/// When it fires next; while something holds it, nobody expects it to.
pub(super) fn next_of(schedule: &ScheduleView, now: DateTime<Utc>) -> Option<Moment> {
    let at = schedule.next.filter(|_| schedule.state == ScheduleState::Active)?;
    Some(if schedule.held_by.is_empty() { Moment::next(at, now) } else { Moment::new(at, now) })
}

/// A schedule's state, and why it is in it, or does not what its state says.
pub(super) fn state_of(schedule: &ScheduleView, now: DateTime<Utc>) -> (Badge, String) {
    let ScheduleView { state, paused_by, reason, held_by, left_alone, unmet, .. } = schedule;
    let until =
        schedule.paused_until.map(|at| format!(", until {}", Moment::exactly(at).said)).unwrap_or_default();
    match state.as_str() {
        "paused" if paused_by == "firetime" => {
            (Badge::new(Mark::Failed, "paused itself"), first_line(reason))
        }
        "paused" => {
            (Badge::of_state(state.as_str()), because("", paused_by, reason).trim().to_owned() + &until)
        }
        "error" => (Badge::of_state("error"), first_line(reason)),
        "active" if !held_by.is_empty() => {
            (Badge::new(Mark::Waits, "held"), format!("its {held_by} is paused"))
        }
        "active" if schedule.nodes == 0 => {
            let since = schedule.nobody_since.map(|at| format!(" for {}", span(now - at)));
            let reason =
                format!("no live node that claims has a handler for its job{}", since.unwrap_or_default());
            (Badge::new(Mark::Failed, "nobody can run it"), reason)
        }
        "active" if !left_alone.is_empty() => (Badge::new(Mark::Late, "left alone"), left_alone.clone()),
        "active" if schedule.overdue(now).is_some() => {
            let overdue = schedule.overdue(now).map(length).unwrap_or_default();
            (Badge::new(Mark::Late, "overdue"), format!("should have fired {overdue} ago"))
        }
        "active" => match unmet {
            Some(at) => {
                let reason = format!("has not succeeded since {}", Moment::exactly(*at).said);
                (Badge::new(Mark::Late, "expected"), reason)
            }
            None => (Badge::of_state(state.as_str()), String::new()),
        },
        _ => (Badge::of_state(state.as_str()), first_line(reason)),
    }
}
