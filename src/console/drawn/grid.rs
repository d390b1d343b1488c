//! The grid of a schedule: what became of its occurrences, day by hour, and what is to come.

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, Days, NaiveDate, TimeDelta, Timelike, Utc, Weekday};

use crate::console::web::query::Query;
use crate::console::words::zone::{beginning, hour_of, shown};
use crate::console::words::{Mark, counted};
use crate::{Cause, ExecutionState, ExecutionView};

/// So many days are shown, today with them.
pub(super) const DAYS: u64 = 8;
/// A start is late from here on.
const LATE: TimeDelta = TimeDelta::seconds(1);
/// What a cell takes of the picture, with its margin; and where the first one begins.
const CELL: (i64, i64) = (36, 20);
const ORIGIN: (i64, i64) = (88, 20);
/// The width of a cell, and of one of two that share an hour.
const WIDTH: i64 = 33;
const HALF: i64 = 16;

/// What became of occurrences within an hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hour {
    ran: i64,
    late: i64,
    failed: i64,
    skipped: i64,
    running: i64,
    waits: i64,
    /// To come.
    planned: i64,
}

/// A cell as it is drawn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) x: i64,
    pub(crate) y: i64,
    pub(crate) width: i64,
    pub(crate) class: &'static str,
    /// The shape that says what the colour says.
    pub(crate) mark: Option<Mark>,
    pub(crate) title: String,
    /// The address at which it tells why.
    pub(crate) to: String,
    pub(crate) is_picked: bool,
}

/// The name of a row.
pub(crate) struct Day {
    pub(crate) y: i64,
    pub(crate) name: String,
    pub(crate) is_weekend: bool,
}

/// The grid as it is drawn.
pub(crate) struct Grid {
    pub(crate) days: Vec<Day>,
    /// The names of the columns, each with its place.
    pub(crate) hours: Vec<(i64, String)>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) width: i64,
    pub(crate) height: i64,
}

/// The first instant of the grid.
pub(crate) fn begin(now: DateTime<Utc>) -> DateTime<Utc> {
    beginning(first_day(now))
}

fn first_day(now: DateTime<Utc>) -> NaiveDate {
    let today = now.with_timezone(&shown()).date_naive();
    today.checked_sub_days(Days::new(DAYS - 1)).unwrap_or(today)
}

impl Grid {
    /// Of these executions, and of fire times to come.
    pub(crate) fn new(
        rows: &[ExecutionView],
        planned: &[DateTime<Utc>],
        now: DateTime<Utc>,
        picked: Option<DateTime<Utc>>,
        name: &str,
    ) -> Self {
        let first = first_day(now);
        let days = (0..=DAYS).filter_map(|day| first.checked_add_days(Days::new(day)));
        let days: Vec<NaiveDate> = days.collect();
        let last = days.last().map_or(now, |day| beginning(*day));
        let days = days.windows(2).zip(0..).map(|(pair, place)| Day {
            y: ORIGIN.1 + place * CELL.1 + 13,
            name: pair[0].format("%a %-d %b").to_string() + &length(pair[0], pair[1]),
            is_weekend: matches!(pair[0].weekday(), Weekday::Sat | Weekday::Sun),
        });
        let hours = hours(rows, planned, now);
        let within = hours.iter().filter(|(at, _)| **at >= begin(now) && **at < last);
        let cells = within.map(|(at, hour)| {
            let wall = at.with_timezone(&shown());
            let place = (wall.date_naive() - first).num_days();
            let (class, mark) = hour.shown();
            let title = format!("{}: {}", wall.format("%a %-d %b %H:%M %Z"), hour.words());
            let query = Query::default().with("name", name).with("at", at.format("%Y-%m-%dT%H:%M:%SZ"));
            let (shift, width) = pass(*at);
            Cell {
                x: ORIGIN.0 + i64::from(wall.hour()) * CELL.0 + shift,
                y: ORIGIN.1 + place * CELL.1,
                width,
                class,
                mark: mark.filter(|_| width == WIDTH),
                title,
                to: format!("{}#why", query.of("schedule")),
                is_picked: picked == Some(*at),
            }
        });
        Self {
            days: days.collect(),
            hours: (0..24).map(|hour| (ORIGIN.0 + hour * CELL.0 + 16, format!("{hour:02}"))).collect(),
            cells: cells.collect(),
            width: ORIGIN.0 + 24 * CELL.0 + 2,
            height: ORIGIN.1 + i64::try_from(DAYS).unwrap_or_default() * CELL.1 + 2,
        }
    }
}

/// ` 23 h` of a day on which the clocks change.
fn length(day: NaiveDate, next: NaiveDate) -> String {
    let span = beginning(next) - beginning(day);
    if span == TimeDelta::days(1) { String::new() } else { format!(" {} h", span.num_minutes() / 60) }
}

/// Where a cell lies within its hour, and its width: the two passes of an hour that comes twice share it.
fn pass(begin: DateTime<Utc>) -> (i64, i64) {
    let hour = |at: DateTime<Utc>| {
        let wall = at.with_timezone(&shown());
        (wall.date_naive(), wall.hour())
    };
    let (before, behind) = (begin - TimeDelta::milliseconds(1), hour_of(begin).1);
    if hour(behind) == hour(begin) {
        (0, HALF)
    } else if hour(before) == hour(begin) {
        (WIDTH - HALF, HALF)
    } else {
        (0, WIDTH)
    }
}

/// The hours in which there is something.
fn hours(
    rows: &[ExecutionView],
    planned: &[DateTime<Utc>],
    now: DateTime<Utc>,
) -> BTreeMap<DateTime<Utc>, Hour> {
    let mut hours: BTreeMap<DateTime<Utc>, Hour> = BTreeMap::new();
    // Of all attempts at a fire time, reruns among them, one that has succeeded counts, or else the last.
    let mut decisive: BTreeMap<DateTime<Utc>, &ExecutionView> = BTreeMap::new();
    let mut spans: Vec<(DateTime<Utc>, DateTime<Utc>)> = Vec::new();
    for row in rows.iter().filter(|row| !matches!(row.cause, Cause::ByHand { .. })) {
        let Some(at) = row.fire_time else { continue };
        if let Some(last) = row.last_fire_time.filter(|_| row.count > 1) {
            add_span(&mut hours, row.count.cast_signed(), (at, last), now);
            spans.push((at, last));
            continue;
        }
        let known = decisive.entry(at).or_insert(row);
        let is_better = known.state != ExecutionState::Succeeded
            && (row.state == ExecutionState::Succeeded || row.id > known.id);
        if is_better {
            *known = row;
        }
    }
    for (at, row) in decisive {
        let hour = hours.entry(hour_of(at).0).or_default();
        // A rerun of one of many counts in its place.
        if row.origin != 0 && spans.iter().any(|(from, until)| (*from..=*until).contains(&at)) {
            hour.skipped = (hour.skipped - 1).max(0);
        }
        let is_late = row.started.zip(row.due).is_some_and(|(started, due)| started - due >= LATE);
        match row.state.as_str() {
            "SUCCEEDED" if is_late => hour.late += 1,
            "SUCCEEDED" => hour.ran += 1,
            "RUNNING" => hour.running += 1,
            "PENDING" | "CLAIMED" => hour.waits += 1,
            "FAILED" | "TIMED_OUT" | "ABANDONED" => hour.failed += 1,
            _ => hour.skipped += 1,
        }
    }
    for at in planned {
        hours.entry(hour_of(*at).0).or_default().planned += 1;
    }
    hours
}

/// Adds a span of skipped occurrences to the hours that it reaches into: those whose shares nobody knows
/// exactly are spread evenly, as an interval or a cron of one rhythm has them.
fn add_span(
    hours: &mut BTreeMap<DateTime<Utc>, Hour>,
    count: i64,
    (from, until): (DateTime<Utc>, DateTime<Utc>),
    now: DateTime<Utc>,
) {
    let whole = (until - from).num_milliseconds().max(1);
    // How many of them are due at or before an instant.
    let through = |at: DateTime<Utc>| {
        let part = (at - from).num_milliseconds().clamp(-1, whole);
        if part < 0 { 0 } else { 1 + i128::from(part) * i128::from(count - 1) / i128::from(whole) }
    };
    let mut hour = hour_of(from).0.max(begin(now));
    while hour <= until.min(now) {
        let next = hour_of(hour).1;
        let end = next - TimeDelta::milliseconds(1);
        let within = through(end) - through(hour - TimeDelta::milliseconds(1));
        if within > 0 {
            hours.entry(hour).or_default().skipped += i64::try_from(within).unwrap_or(i64::MAX);
        }
        hour = next;
    }
}

impl Hour {
    /// The gravest of what is in it.
    fn shown(&self) -> (&'static str, Option<Mark>) {
        match self {
            Self { failed: 1.., .. } => ("c-failed", Some(Mark::Failed)),
            Self { late: 1.., .. } => ("c-late", Some(Mark::Late)),
            Self { skipped: 1.., .. } => ("c-skipped", Some(Mark::Skipped)),
            Self { running: 1.., .. } => ("c-running", Some(Mark::Running)),
            Self { waits: 1.., .. } => ("c-waits", None),
            Self { ran: 1.., .. } => ("c-ran", None),
            _ => ("c-next", None),
        }
    }

    fn words(&self) -> String {
        let parts = [
            (self.ran, "ran"),
            (self.late, "ran late"),
            (self.failed, "failed"),
            (self.skipped, "skipped"),
            (self.running, "running"),
            (self.waits, "waiting"),
            (self.planned, "to come"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        parts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }
}

/// How many occurrences are drawn, for those who see no picture.
pub(crate) fn described(grid: &Grid) -> String {
    format!("Occurrences by day and hour: {}", counted(grid.cells.len(), "hour"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::words::zone::{ZonePick, within};

    #[test]
    fn an_hour_shows_the_gravest_of_what_is_in_it() {
        let hour = Hour { ran: 11, failed: 1, ..Hour::default() };
        assert_eq!((hour.shown().0, hour.words().as_str()), ("c-failed", "11 ran, 1 failed"));
        let hour = Hour { ran: 1, planned: 2, ..Hour::default() };
        assert_eq!((hour.shown().0, hour.words().as_str()), ("c-ran", "1 ran, 2 to come"));
        assert_eq!(Hour { planned: 1, ..Hour::default() }.shown(), ("c-next", None));
    }

    /// A skipped span is one row of the ledger, whatever it stands for.
    #[test]
    fn a_span_counts_its_occurrences_in_each_hour() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let mut hours = BTreeMap::new();
        // Every minute from 10:30 to 12:29.
        let span = (at("2026-11-29T10:30:00Z"), at("2026-11-29T12:29:00Z"));
        add_span(&mut hours, 120, span, at("2026-11-29T13:00:00Z"));
        let counts: Vec<i64> = hours.values().map(|hour| hour.skipped).collect();
        assert_eq!(counts, [30, 60, 30]);
        let mut daily = BTreeMap::new();
        let span = (at("2026-11-27T02:30:00Z"), at("2026-11-29T02:30:00Z"));
        add_span(&mut daily, 3, span, at("2026-11-29T13:00:00Z"));
        let days: Vec<String> = daily.keys().map(|hour| hour.format("%d %H").to_string()).collect();
        assert_eq!(days, ["27 02", "28 02", "29 02"], "no hour between");
        assert!(daily.values().all(|hour| hour.skipped == 1));
    }

    #[test]
    fn an_hour_that_comes_twice_has_a_cell_for_each_pass() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let berlin = ZonePick::of(&Query::read("zone=Europe/Berlin"), &axum::http::HeaderMap::new());
        let now = at("2026-10-27T10:00:00Z");
        let planned = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"].map(at);
        let picked = Some(at("2026-10-25T01:00:00Z"));
        let grid = within(&berlin, || Grid::new(&[], &planned, now, picked, "a"));
        let cells: Vec<_> = grid.cells.iter().map(|cell| (cell.x - 88, cell.width, cell.is_picked)).collect();
        assert_eq!(cells, [(72, 16, false), (89, 16, true), (108, 33, false)]);
        let titles: Vec<&str> = grid.cells.iter().map(|cell| cell.title.as_str()).collect();
        assert_eq!(titles[..2], ["Sun 25 Oct 02:00 CEST: 1 to come", "Sun 25 Oct 02:00 CET: 1 to come"]);
        let days: Vec<&str> = grid.days.iter().map(|day| day.name.as_str()).collect();
        assert_eq!(days[5..], ["Sun 25 Oct 25 h", "Mon 26 Oct", "Tue 27 Oct"]);
        assert_eq!(within(&berlin, || begin(now)), at("2026-10-19T22:00:00Z"));
        assert_eq!(begin(now), at("2026-10-20T00:00:00Z"));
    }

    #[test]
    fn fire_times_to_come_lie_in_their_cells() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let (now, next) = (at("2026-11-29T10:00:00Z"), at("2026-11-29T12:05:00Z"));
        let grid =
            Grid::new(&[], &[next, at("2026-12-09T00:00:00Z")], now, Some(at("2026-11-29T12:00:00Z")), "a b");
        let [cell] = &grid.cells[..] else { panic!("{:?}", grid.cells) };
        assert_eq!((cell.x, cell.y, cell.class, cell.is_picked), (88 + 12 * 36, 20 + 7 * 20, "c-next", true));
        assert_eq!(cell.title, "Sun 29 Nov 12:00 UTC: 1 to come");
        assert_eq!(cell.to, "schedule?name=a+b&at=2026-11-29T12%3A00%3A00Z#why");
    }
}
