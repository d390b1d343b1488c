//! Instants, spans and states as pages show them.

use askama::Template;
use askama::filters::HtmlSafe;
use chrono::{DateTime, Datelike, TimeDelta, Utc};

use super::zone::shown;
use crate::ScheduleView;

/// For so long what is to happen may be under way; from then on it is overdue.
const DUE: TimeDelta = TimeDelta::seconds(5);

/// What a state means: its colour, and the shape that says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Ran,
    Running,
    Waits,
    Late,
    Failed,
    Skipped,
}

impl Mark {
    /// The class that gives it its colour.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Running => "running",
            Self::Waits => "waits",
            Self::Late => "late",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// The shape of a state, for those who see no colours.
#[derive(Clone, Copy, Debug, Template)]
#[template(path = "console/glyph.html")]
pub(super) struct Glyph(pub(super) Mark);

impl HtmlSafe for Glyph {}

/// A state: its shape and its word.
#[derive(Clone, Debug, Template)]
#[template(source = r#"<span class="state">{{ Glyph(*mark) }}<b>{{ word }}</b></span>"#, ext = "html")]
pub(super) struct Badge {
    pub(super) mark: Mark,
    pub(super) word: String,
}

impl HtmlSafe for Badge {}

impl Badge {
    pub(super) fn new(mark: Mark, word: impl Into<String>) -> Self {
        Self { mark, word: word.into() }
    }

    /// That of an execution's state.
    pub(super) fn of_execution(state: &str) -> Self {
        let (mark, word) = match state {
            "PENDING" => (Mark::Waits, "waits"),
            "CLAIMED" => (Mark::Waits, "claimed"),
            "RUNNING" => (Mark::Running, "running"),
            "SUCCEEDED" => (Mark::Ran, "ran"),
            "FAILED" => (Mark::Failed, "failed"),
            "TIMED_OUT" => (Mark::Failed, "timed out"),
            "ABANDONED" => (Mark::Failed, "abandoned"),
            "CANCELLED" => (Mark::Skipped, "cancelled"),
            "SKIPPED" => (Mark::Skipped, "skipped"),
            "WITHDRAWN" => (Mark::Skipped, "withdrawn"),
            other => (Mark::Late, other),
        };
        Self::new(mark, word)
    }

    /// That of a schedule's state, a job's, a node's or the application's.
    pub(super) fn of_state(state: &str) -> Self {
        let mark = match state {
            "active" => Mark::Ran,
            "paused" | "draining" | "drained" | "init" => Mark::Waits,
            "complete" => Mark::Skipped,
            _ => Mark::Failed,
        };
        Self::new(mark, state)
    }
}

/// An instant: near ones as a span from now, all exactly on demand.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"<time datetime="{{ iso }}" title="{{ exact }}"{% if is_near %} data-near="{% if is_next %}next{% else %}1{% endif %}"{% endif %}>{{ said }}</time>"#,
    ext = "html"
)]
pub(super) struct Moment {
    iso: String,
    /// Whether it is told as a span from now, which goes on.
    is_near: bool,
    /// Whether something is to happen then.
    is_next: bool,
    /// With its zone.
    pub(super) exact: String,
    pub(super) said: String,
}

impl HtmlSafe for Moment {}

impl Moment {
    /// As seen from now.
    pub(super) fn new(at: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        let away = at - now;
        let zone = shown();
        let (wall, today) = (at.with_timezone(&zone), now.with_timezone(&zone));
        let said = match (away.abs() < TimeDelta::hours(1), away < TimeDelta::zero()) {
            (true, true) => format!("{} ago", span(-away)),
            (true, false) => format!("in {}", span(away)),
            _ if wall.date_naive() == today.date_naive() => wall.format("today %H:%M:%S").to_string(),
            _ if wall.year() == today.year() => wall.format("%a %-d %b %H:%M").to_string(),
            _ => wall.format("%-d %b %Y %H:%M").to_string(),
        };
        let is_near = away.abs() < TimeDelta::hours(1);
        Self { iso: at.to_rfc3339(), is_near, is_next: false, exact: exact(at), said }
    }

    /// When something is to happen: once that has passed, it is due, and then overdue.
    pub(super) fn next(at: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        let (late, known) = (now - at, Self::new(at, now));
        let said = match late < DUE {
            _ if late < TimeDelta::zero() => known.said,
            true => "now".to_owned(),
            false => format!("overdue by {}", span(late)),
        };
        Self { is_next: true, said, ..known }
    }

    /// The same, shown exactly.
    pub(super) fn exactly(at: DateTime<Utc>) -> Self {
        Self { iso: at.to_rfc3339(), is_near: false, is_next: false, exact: exact(at), said: exact(at) }
    }

    /// An instant that may be unknown.
    pub(super) fn some(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Option<Self> {
        at.map(|at| Self::new(at, now))
    }
}

/// `2026-11-29 10:05:00.000 UTC`, in the zone of the page.
pub(super) fn exact(at: DateTime<Utc>) -> String {
    at.with_timezone(&shown()).format("%Y-%m-%d %H:%M:%S%.3f %Z").to_string()
}

/// `10:05`, or `10:05:30` if there are seconds, in the zone of the page.
pub(super) fn clock(at: DateTime<Utc>) -> String {
    let wall = at.with_timezone(&shown());
    let form = if at.timestamp() % 60 == 0 { "%H:%M" } else { "%H:%M:%S" };
    wall.format(form).to_string()
}

/// A span in two units at most; one that is negative is none.
pub(super) fn span(span: TimeDelta) -> String {
    let millis = span.num_milliseconds().max(0);
    let both = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    };
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis} ms"),
        1..10 => format!("{seconds}.{} s", millis % 1_000 / 100),
        10..60 => format!("{seconds} s"),
        60..600 => both(seconds / 60, "min", seconds % 60, "s"),
        600..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => both(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => both(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// The span of so many milliseconds.
pub(super) fn millis(millis: u64) -> String {
    span(TimeDelta::milliseconds(i64::try_from(millis).unwrap_or(i64::MAX / 2)))
}

/// A schedule's trigger in words, or else as it is written.
pub(super) fn trigger(schedule: &ScheduleView) -> String {
    match schedule.trigger_words.as_str() {
        "" => in_words(&schedule.trigger),
        words => words.to_owned(),
    }
}

/// A trigger as it is described, with spans in place of milliseconds.
pub(super) fn in_words(trigger: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in trigger.split(' ') {
        let count =
            words.last().filter(|_| word.trim_end_matches(',') == "ms").and_then(|it| it.parse().ok());
        match (count, words.last_mut()) {
            (Some(count), Some(last)) => *last = millis(count) + word.trim_start_matches("ms"),
            _ => words.push(word.to_owned()),
        }
    }
    words.join(" ")
}

/// `1 node`, `2 nodes`; the count with commas between thousands.
pub(super) fn counted(count: impl TryInto<i64>, noun: &str) -> String {
    let count: i64 = count.try_into().unwrap_or(i64::MAX);
    format!("{} {noun}{}", number(count), if count == 1 { "" } else { "s" })
}

/// `12,345`
pub(super) fn number(number: impl TryInto<i64>) -> String {
    let number: i64 = number.try_into().unwrap_or(i64::MAX);
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The beginning of a text's first line.
pub(super) fn first_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let mut begin: String = line.chars().take(LONGEST).collect();
    if begin.len() < line.len() {
        begin.push('…');
    }
    begin
}

/// `paused by ann: stock-taking`
pub(super) fn because(state: &str, by: &str, reason: &str) -> String {
    match (by, first_line(reason)) {
        ("", reason) if reason.is_empty() => state.to_owned(),
        ("", reason) => format!("{state}: {reason}"),
        (by, reason) if reason.is_empty() => format!("{state} by {by}"),
        (by, reason) => format!("{state} by {by}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn near_instants_are_told_from_now_and_all_exactly_on_demand() {
        let now = at("2026-11-29T10:00:00Z");
        let said = |text: &str| Moment::new(at(text), now).said;
        assert_eq!(said("2026-11-29T10:04:10Z"), "in 4 min 10 s");
        assert_eq!(said("2026-11-29T09:59:59.700Z"), "300 ms ago");
        assert_eq!(said("2026-11-29T08:05:00Z"), "today 08:05:00");
        assert_eq!(said("2026-11-26T22:05:00Z"), "Thu 26 Nov 22:05");
        assert_eq!(said("2027-01-01T00:00:00Z"), "1 Jan 2027 00:00");
        let shown = Moment::new(at("2026-11-29T10:04:10Z"), now).to_string();
        assert!(shown.contains("title=\"2026-11-29 10:04:10.000 UTC\""), "{shown}");
    }

    #[test]
    fn what_is_to_happen_is_due_and_then_overdue() {
        let now = at("2026-11-29T10:00:00Z");
        let said = |text: &str| Moment::next(at(text), now).said;
        assert_eq!(said("2026-11-29T10:04:10Z"), "in 4 min 10 s");
        assert_eq!(said("2026-11-29T09:59:55.001Z"), "now");
        assert_eq!(said("2026-11-29T09:59:46Z"), "overdue by 14 s");
        assert_eq!(said("2026-11-29T07:55:00Z"), "overdue by 2 h 5 min");
        let shown = Moment::next(now, now).to_string();
        assert!(shown.contains(" data-near=\"next\""), "{shown}");
    }

    #[test]
    fn a_states_word_is_escaped_and_has_its_shape() {
        let shown = Badge::of_execution("<b>").to_string();
        assert!(shown.contains("&#60;b&#62;") && shown.contains("<svg class=\"g late\""), "{shown}");
    }

    #[test]
    fn triggers_have_spans() {
        assert_eq!(in_words("every 900000 ms"), "every 15 min");
        assert_eq!(in_words("every 2500 ms, 7 times"), "every 2.5 s, 7 times");
        assert_eq!(in_words("cron 0 5 * * * ? [UTC]"), "cron 0 5 * * * ? [UTC]");
        assert_eq!(in_words("ms x ms"), "ms x ms");
    }

    #[test]
    fn numbers_have_commas_and_nouns_their_plural() {
        assert_eq!([number(0), number(999), number(-1_000)], ["0", "999", "-1,000"]);
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!((counted(1, "node"), counted(2_000, "node")), ("1 node".into(), "2,000 nodes".into()));
    }

    #[test]
    fn a_reason_is_one_line() {
        assert_eq!(because("paused", "ann", "\nstock-taking\nagain"), "paused by ann: stock-taking");
        assert_eq!(because("paused", "", ""), "paused");
        assert_eq!(first_line(&"x".repeat(300)).chars().count(), 201);
    }
}
