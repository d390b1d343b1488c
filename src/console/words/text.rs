//! Triggers, counts and reasons as pages say them.

use std::time::Duration;

use super::moment::length;
use crate::{Cause, ScheduleView};

/// A schedule's trigger in words, or else as it is written.
pub(crate) fn trigger(schedule: &ScheduleView) -> String {
    match schedule.trigger_words.as_str() {
        "" => in_words(&schedule.trigger),
        words => words.to_owned(),
    }
}

/// A trigger as it is described, with spans in place of milliseconds.
pub(crate) fn in_words(trigger: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in trigger.split(' ') {
        let count =
            words.last().filter(|_| word.trim_end_matches(',') == "ms").and_then(|it| it.parse().ok());
        match (count, words.last_mut()) {
            (Some(count), Some(last)) => {
                *last = length(Duration::from_millis(count)) + word.trim_start_matches("ms")
            }
            _ => words.push(word.to_owned()),
        }
    }
    words.join(" ")
}

/// `1 node`, `2 nodes`; the count with commas between thousands.
pub(crate) fn counted(count: impl TryInto<i64>, noun: &str) -> String {
    let count: i64 = count.try_into().unwrap_or(i64::MAX);
    format!("{} {noun}{}", number(count), if count == 1 { "" } else { "s" })
}

/// `12,345`
pub(crate) fn number(number: impl TryInto<i64>) -> String {
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
pub(crate) fn first_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let mut begin: String = line.chars().take(LONGEST).collect();
    if begin.len() < line.len() {
        begin.push('…');
    }
    begin
}

/// `paused by ann: stock-taking`
pub(crate) fn because(state: &str, by: &str, reason: &str) -> String {
    match (by, first_line(reason)) {
        ("", reason) if reason.is_empty() => state.to_owned(),
        ("", reason) => format!("{state}: {reason}"),
        (by, reason) if reason.is_empty() => format!("{state} by {by}"),
        (by, reason) => format!("{state} by {by}: {reason}"),
    }
}

/// `by hand by ann: stock-taking`
pub(crate) fn cause(cause: &Cause) -> String {
    let (by, reason) = cause.asked().unwrap_or_default();
    because(cause.as_str(), by, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

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
