//! Instants and spans as pages show them.

use std::time::Duration;

use askama::Template;
use askama::filters::HtmlSafe;
use chrono::{DateTime, Datelike, TimeDelta, Utc};

use super::zone::shown;

/// For so long what is to happen may be under way; from then on it is overdue.
const DUE: TimeDelta = TimeDelta::seconds(5);

/// An instant: near ones as a span from now, all exactly on demand.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"<time datetime="{{ iso }}" title="{{ exact }}"{% if is_near %} data-near="{% if is_next %}next{% else %}1{% endif %}"{% endif %}>{{ said }}</time>"#,
    ext = "html"
)]
pub(crate) struct Moment {
    iso: String,
    /// Whether it is told as a span from now, which goes on.
    is_near: bool,
    /// Whether something is to happen then.
    is_next: bool,
    /// With its zone.
    pub(crate) exact: String,
    pub(crate) said: String,
}

impl HtmlSafe for Moment {}

impl Moment {
    /// As seen from now.
    pub(crate) fn new(at: DateTime<Utc>, now: DateTime<Utc>) -> Self {
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
    pub(crate) fn next(at: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        let (late, known) = (now - at, Self::new(at, now));
        let said = match late < DUE {
            _ if late < TimeDelta::zero() => known.said,
            true => "now".to_owned(),
            false => format!("overdue by {}", span(late)),
        };
        Self { is_next: true, said, ..known }
    }

    /// The same, shown exactly.
    pub(crate) fn exactly(at: DateTime<Utc>) -> Self {
        Self { iso: at.to_rfc3339(), is_near: false, is_next: false, exact: exact(at), said: exact(at) }
    }

    /// An instant that may be unknown.
    pub(crate) fn some(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Option<Self> {
        at.map(|at| Self::new(at, now))
    }
}

/// `2026-11-29 10:05:00.000 UTC`, in the zone of the page.
pub(crate) fn exact(at: DateTime<Utc>) -> String {
    at.with_timezone(&shown()).format("%Y-%m-%d %H:%M:%S%.3f %Z").to_string()
}

/// `10:05`, or `10:05:30` if there are seconds, in the zone of the page.
pub(crate) fn clock(at: DateTime<Utc>) -> String {
    let wall = at.with_timezone(&shown());
    let form = if at.timestamp() % 60 == 0 { "%H:%M" } else { "%H:%M:%S" };
    wall.format(form).to_string()
}

/// A span in two units at most; one that is negative is none.
pub(crate) fn span(span: TimeDelta) -> String {
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

/// The same of a span that cannot be negative.
pub(crate) fn length(it: Duration) -> String {
    span(TimeDelta::from_std(it).unwrap_or(TimeDelta::MAX))
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
}
