//! Strips: what became of a schedule's last occurrences, one mark each, the newest last.

use std::collections::BTreeMap;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::{Glyph, Mark, exact, number, span};
use crate::{Client, PastOccurrence, ScheduleId, ScheduleView};

/// So many occurrences have a mark.
const MARKS: usize = 30;
/// A start is late from here on.
const LATE: chrono::TimeDelta = chrono::TimeDelta::seconds(1);

#[derive(Debug, Default, Template)]
#[template(path = "console/strip.html")]
pub(crate) struct Strip {
    marks: Vec<StripMark>,
}

impl HtmlSafe for Strip {}

#[derive(Debug)]
struct StripMark {
    glyph: Glyph,
    to: String,
    title: String,
}

impl Strip {
    /// Those of some schedules, by their ids.
    pub(crate) fn all(
        client: &Client,
        schedules: &[ScheduleView],
    ) -> Result<BTreeMap<ScheduleId, Self>, Trouble> {
        let ids: Vec<ScheduleId> = schedules.iter().map(|schedule| schedule.id).collect();
        let mut strips: BTreeMap<ScheduleId, Self> = BTreeMap::new();
        for past in client.past(&ids, MARKS)? {
            strips.entry(past.schedule).or_default().marks.push(StripMark::new(&past));
        }
        strips.values_mut().for_each(|strip| strip.marks.reverse());
        Ok(strips)
    }
}

impl StripMark {
    fn new(past: &PastOccurrence) -> Self {
        let late = past.due.zip(past.started).map(|(due, started)| started - due);
        let late = late.filter(|late| *late >= LATE);
        let (mark, word) = match past.state.as_str() {
            "SUCCEEDED" if late.is_some() => (Mark::Late, "ran late"),
            "SUCCEEDED" => (Mark::Ran, "ran"),
            "RUNNING" => (Mark::Running, "running"),
            "PENDING" | "CLAIMED" => (Mark::Waits, "waits"),
            "FAILED" => (Mark::Failed, "failed"),
            "TIMED_OUT" => (Mark::Failed, "timed out"),
            "ABANDONED" => (Mark::Failed, "abandoned"),
            "CANCELLED" => (Mark::Skipped, "cancelled"),
            "WITHDRAWN" => (Mark::Skipped, "withdrawn"),
            _ => (Mark::Skipped, "skipped"),
        };
        let at = past.fire_time.map(exact).unwrap_or_default();
        let last = past.last_fire_time.filter(|_| past.count > 1);
        let span_of = last.map(|last| format!(" to {}, {} occurrences", exact(last), number(past.count)));
        let more = [
            late.map(|late| format!(" by {}", span(late))),
            (past.attempt > 1).then(|| format!(", attempt {}", past.attempt)),
            (!past.reason.is_empty()).then(|| format!(": {}", past.reason.replace('_', " "))),
        ];
        let more: String = more.into_iter().flatten().collect();
        Self {
            glyph: Glyph(mark),
            to: query::execution(past.execution),
            title: format!("{at}{}: {word}{more}", span_of.unwrap_or_default()),
        }
    }
}
