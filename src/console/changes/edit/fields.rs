//! The fields of a schedule as texts that people read and write.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::console::words::instant::instant;
use crate::console::words::span::span_text;
use crate::{MisfirePolicy, Overlap, ScheduleDetails, Trigger};

/// The fields of the form, in its order.
pub(super) const FIELDS: [&str; 18] = [
    "kind",
    "cron",
    "cron_zone",
    "span",
    "times",
    "at",
    "starts",
    "ends",
    "payload",
    "description",
    "priority",
    "misfire",
    "threshold",
    "time_limit",
    "overlap",
    "waiting",
    "pause_after",
    "expected_by",
];

/// The fields that make the trigger.
pub(super) const TRIGGER: [&str; 6] = ["kind", "cron", "cron_zone", "span", "times", "at"];

/// The texts of a schedule's fields, those that it has.
pub(super) fn of(details: &ScheduleDetails) -> Vec<(&'static str, String)> {
    let exact = |at: Option<DateTime<Utc>>| at.map(written).unwrap_or_default();
    let some = |span: Option<Duration>| span.map(span_text).unwrap_or_default();
    let overlap = details.overlap.to_string();
    let (overlap, waiting) = overlap.split_once(' ').unwrap_or((&overlap, ""));
    let mut fields = trigger(details);
    // What begins at its start by itself says so there.
    let starts = if is_cron(details) { exact(details.starts) } else { String::new() };
    fields.extend([
        ("starts", starts),
        ("ends", exact(details.ends)),
        ("payload", details.payload.replace("\r\n", "\n")),
        ("description", details.schedule.description.clone()),
        ("priority", details.priority.to_string()),
        ("misfire", details.misfire.to_string()),
        ("threshold", span_text(details.schedule.misfire_threshold)),
        ("time_limit", some(details.time_limit)),
        ("overlap", overlap.to_owned()),
        ("waiting", waiting.to_owned()),
        ("pause_after", details.pause_after.map(|count| count.to_string()).unwrap_or_default()),
        ("expected_by", some(details.schedule.expected_by)),
    ]);
    fields
}

fn is_cron(details: &ScheduleDetails) -> bool {
    matches!(details.rule, Some(Trigger::Cron(_)))
}

fn trigger(details: &ScheduleDetails) -> Vec<(&'static str, String)> {
    let kind = |kind: &str| ("kind", kind.to_owned());
    match &details.rule {
        Some(Trigger::Cron(cron)) => {
            vec![kind("cron"), ("cron", cron.expression().to_owned()), ("cron_zone", cron.zone().to_owned())]
        }
        Some(Trigger::Simple(simple)) if simple.repeat_count() == Some(0) => {
            vec![kind("once"), ("at", simple.start().map(written).unwrap_or_default())]
        }
        Some(Trigger::Simple(simple)) => {
            let times = simple.repeat_count().map(|repeats| repeats.saturating_add(1).to_string());
            let times = times.unwrap_or_default();
            vec![kind("every"), ("span", span_text(simple.interval())), ("times", times)]
        }
        Some(Trigger::Delay(delay)) => vec![kind("after"), ("span", span_text(delay.delay()))],
        _ => vec![kind("cron")],
    }
}

/// An instant as [`instant`] reads it, whatever zone the page is in.
fn written(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

pub(super) fn time(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, String> {
    instant(text, now).map_err(|trouble| trouble.said)
}

pub(super) fn whole<T: std::str::FromStr>(text: &str, help: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| help.to_owned())
}

pub(super) fn misfire(text: &str) -> Result<MisfirePolicy, String> {
    text.parse().map_err(|_| "Pick one of the policies.".to_owned())
}

pub(super) fn overlap(rule: &str, waiting: &str) -> Result<Overlap, (&'static str, String)> {
    if rule != "QUEUE" {
        return rule.parse().map_err(|_| ("overlap", "Pick one of the rules.".to_owned()));
    }
    let text = format!("QUEUE {}", waiting.trim());
    text.parse().map_err(|_| ("waiting", "Say how many may wait: a whole number.".to_owned()))
}

/// A text in 64 bits, by which a form knows whether a field is still as it was (FNV-1a).
pub(super) fn digest(text: &str) -> u64 {
    let (basis, prime) = (0xcbf2_9ce4_8422_2325_u64, 0x0000_0100_0000_01b3);
    text.bytes().fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(prime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_back_as_they_are_written() {
        let now: DateTime<Utc> = "2026-11-29T10:00:00Z".parse().unwrap();
        for text in ["2026-11-29T10:05:00Z", "2026-11-29T10:05:00.250Z"] {
            let at: DateTime<Utc> = text.parse().unwrap();
            assert_eq!(time(&written(at), now), Ok(at));
        }
        assert!(time("soon", now).unwrap_err().contains("is no instant"));
    }

    #[test]
    fn texts_that_differ_have_other_digests() {
        assert_ne!(digest("5"), digest("6"));
        assert_ne!(digest(""), digest(" "));
        assert_eq!(digest(""), 0xcbf2_9ce4_8422_2325);
    }
}
