//! Instants, spans and names as sentences have them.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::api::{AuditView, NodeView};
use crate::domain::text::shortened;

/// Of an error so many characters stand in a sentence.
const LONGEST: usize = 300;

pub(super) fn instant(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string()
}

/// The same, to the second.
pub(super) fn second(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// An instant that a row may lack.
pub(super) fn known(at: Option<DateTime<Utc>>) -> String {
    at.map_or_else(|| "an unknown instant".to_owned(), instant)
}

/// `3 ms`, `1.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`.
pub(super) fn span(span: TimeDelta) -> String {
    let millis = span.num_milliseconds().max(0);
    let both = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    };
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis % 1_000 / 100),
        60..3_600 => both(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => both(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => both(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// The same of a span that cannot be negative.
pub(super) fn length(it: Duration) -> String {
    span(TimeDelta::from_std(it).unwrap_or(TimeDelta::MAX))
}

/// From one instant to another, if both are known.
pub(super) fn between(from: Option<DateTime<Utc>>, to: Option<DateTime<Utc>>) -> Option<String> {
    Some(span(to? - from?))
}

/// `1 occurrence`, `2 occurrences`.
pub(super) fn counted(count: i64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `41, 42 and 43`.
pub(super) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// ` ("why")`, if somebody said why.
pub(super) fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason:?})") }
}

/// Who did something, and why.
pub(super) fn by(actor: &str, reason: &str) -> String {
    let actor = if actor.is_empty() { "somebody" } else { actor };
    format!("{actor}{}", because(reason))
}

pub(super) fn by_whom(entry: &AuditView) -> String {
    by(&entry.actor, &entry.reason)
}

/// The first line of an error, shortened.
pub(super) fn error(text: &str) -> String {
    shortened(text.lines().next().unwrap_or_default(), LONGEST)
}

/// A node by its host and process, while its row is there.
pub(super) fn node(id: Option<&str>, nodes: &[NodeView]) -> String {
    let Some(id) = id else { return "an unknown node".to_owned() };
    match nodes.iter().find(|node| node.id == id) {
        Some(node) => format!("node {id} ({}, process {})", node.host_name, node.pid),
        None => format!("node {id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units_at_most() {
        let said = |millis| span(TimeDelta::milliseconds(millis));
        let minute = 60_000;
        for (millis, expected) in [
            (-5, "0 ms"),
            (3, "3 ms"),
            (1_290, "1.2 s"),
            (59_999, "59.9 s"),
            (minute, "1 min"),
            (4 * minute + 10_999, "4 min 10 s"),
            (60 * minute, "1 h"),
            (125 * minute, "2 h 5 min"),
            (24 * 60 * minute, "1 d"),
            (76 * 60 * minute, "3 d 4 h"),
        ] {
            assert_eq!(said(millis), expected, "{millis}");
        }
    }

    #[test]
    fn items_are_listed_as_people_do() {
        let list = |items: &[&str]| listed(&items.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(list(&[]), "");
        assert_eq!(list(&["41"]), "41");
        assert_eq!(list(&["41", "42"]), "41 and 42");
        assert_eq!(list(&["41", "42", "43"]), "41, 42 and 43");
        assert_eq!((counted(1, "node"), counted(2, "node")), ("1 node".to_owned(), "2 nodes".to_owned()));
        assert_eq!(
            (by("", ""), by("ann", "stocktaking")),
            ("somebody".to_owned(), "ann (\"stocktaking\")".into())
        );
    }
}
