//! The lines of the log: most events are one each, and what repeats itself is told at its begin, once a
//! minute and at its end. Pure.

use std::sync::Arc;

use log::Level;
use rustc_hash::FxHashMap;

use crate::domain::{Attempt, Boot, ErrorKind, Event, ExecutionState, Millis};

/// What goes on is told of so often.
const EVERY: Millis = 60_000;
/// An outage is over once a poll ends so long after the last failure.
const QUIET: Millis = 3_000;
/// Jobs whose executions are left to other nodes are remembered.
const MOST_JOBS: usize = 1_000;

/// A line of the log.
#[derive(Debug)]
pub(super) enum Line<'e> {
    Event(&'e Event),
    Text(Level, String),
}

/// Calls of the database fail because it does not answer.
#[derive(Debug)]
struct Outage {
    since: Boot,
    last: Boot,
    told: Boot,
    failures: u64,
}

/// Executions of a job that this node cannot decode go to others.
#[derive(Debug)]
struct LeftAlone {
    told: Boot,
    untold: u64,
}

#[derive(Debug, Default)]
pub(super) struct LogLines {
    outage: Option<Outage>,
    left_alone: FxHashMap<Arc<str>, LeftAlone>,
    /// The first of the executions that were taken back since the last other event, and how many there were.
    taken_back: Option<(Attempt, u64)>,
}

impl LogLines {
    /// The lines that are due with an event.
    pub(super) fn of<'e>(&mut self, event: &'e Event, now: Boot) -> Vec<Line<'e>> {
        if let Event::TakenBack { attempt } = event {
            let (_, count) = self.taken_back.get_or_insert_with(|| (attempt.clone(), 0));
            *count += 1;
            return Vec::new();
        }
        let mut lines: Vec<Line> = self.turn_ends().into_iter().collect();
        match event {
            Event::StoreFailed { error, .. }
                if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown) =>
            {
                lines.extend(self.failed(event, now));
            }
            Event::Finished { attempt, state: ExecutionState::Pending, error: Some(_), .. } => {
                lines.extend(self.left_alone(event, &attempt.job, now));
            }
            Event::Polled { .. } => {
                lines.extend(self.answered(now));
                lines.push(Line::Event(event));
            }
            _ => lines.push(Line::Event(event)),
        }
        lines
    }

    /// Whether an outage goes on, which only the next polls can end.
    pub(super) fn has_outage(&self) -> bool {
        self.outage.is_some()
    }

    /// What was held back while more of it came: no other event is at hand.
    pub(super) fn turn_ends(&mut self) -> Option<Line<'static>> {
        let (first, count) = self.taken_back.take()?;
        let event = Event::TakenBack { attempt: first };
        let more = if count > 1 { format!("; so were {} more", count - 1) } else { String::new() };
        Some(Line::Text(event.level(), format!("{event}{more}")))
    }

    fn failed<'e>(&mut self, event: &'e Event, now: Boot) -> Option<Line<'e>> {
        let Some(outage) = &mut self.outage else {
            self.outage = Some(Outage { since: now, last: now, told: now, failures: 1 });
            return Some(Line::Event(event));
        };
        (outage.last, outage.failures) = (now, outage.failures + 1);
        (now - outage.told >= EVERY).then(|| {
            outage.told = now;
            let (seconds, failures) = ((now - outage.since) / 1_000, outage.failures);
            let text =
                format!("the database has not answered for {seconds} s ({failures} calls failed): {event}");
            Line::Text(event.level(), text)
        })
    }

    /// A poll has ended.
    fn answered(&mut self, now: Boot) -> Option<Line<'static>> {
        let Outage { since, last, failures, .. } =
            self.outage.take_if(|outage| now - outage.last >= QUIET)?;
        let calls = if failures == 1 { "1 call" } else { &*format!("{failures} calls") };
        let text = format!("the database answers again; {calls} failed within {} ms", last - since);
        Some(Line::Text(Level::Warn, text))
    }

    fn left_alone<'e>(&mut self, event: &'e Event, job: &Arc<str>, now: Boot) -> Option<Line<'e>> {
        let Some(left) = self.left_alone.get_mut(job) else {
            if self.left_alone.len() >= MOST_JOBS {
                self.left_alone.clear();
            }
            self.left_alone.insert(Arc::clone(job), LeftAlone { told: now, untold: 0 });
            return Some(Line::Event(event));
        };
        left.untold += 1;
        (now - left.told >= EVERY).then(|| {
            left.told = now;
            let others = std::mem::take(&mut left.untold).saturating_sub(1);
            let since = format!("; so often since the last line: {others}");
            Line::Text(event.level(), format!("{event}{}", if others > 0 { &since } else { "" }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Cause, Error, ExecutionId};
    use std::time::Duration;

    fn attempt(execution: i64) -> Attempt {
        let (schedule, job) = ("s".into(), "mail".into());
        Attempt { execution: ExecutionId(execution), schedule, job, number: 1 }
    }

    fn said(lines: &mut LogLines, event: &Event, now: Millis) -> Vec<String> {
        let said = lines.of(event, Boot::at(now)).into_iter();
        said.map(|line| match line {
            Line::Event(event) => event.to_string(),
            Line::Text(_, text) => text,
        })
        .collect()
    }

    #[test]
    fn an_outage_is_a_line_at_its_begin_one_a_minute_and_one_at_its_end() {
        let mut lines = LogLines::default();
        let failed = |kind| Event::StoreFailed { operation: "polling", error: Error::new(kind, "refused") };
        let polled = Event::Polled { tick: None, planned: 0, pending: 0, took: Duration::ZERO };
        let mut told = Vec::new();
        for second in 0..150 {
            told.extend(said(&mut lines, &failed(ErrorKind::Unavailable), 1_000 * second));
        }
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[1].starts_with("the database has not answered for 60 s (61 calls failed): "),
            "{told:?}"
        );
        // One that answers meanwhile ends nothing.
        assert_eq!(said(&mut lines, &polled, 150_000).len(), 1);
        let end = said(&mut lines, &polled, 152_500);
        assert_eq!(end[0], "the database answers again; 150 calls failed within 149000 ms");
        assert_eq!(said(&mut lines, &polled, 157_500).len(), 1);
        // A row's own failure is no outage.
        let told: usize = (0..5).map(|_| said(&mut lines, &failed(ErrorKind::Data), 160_000).len()).sum();
        assert_eq!(told, 5);
    }

    #[test]
    fn the_executions_of_a_dead_node_are_one_line() {
        let mut lines = LogLines::default();
        for execution in 7..107 {
            assert!(said(&mut lines, &Event::TakenBack { attempt: attempt(execution) }, 0).is_empty());
        }
        let told = said(&mut lines, &Event::ClockJumped, 0);
        assert_eq!(told.len(), 2);
        assert_eq!(told[0], "\"s\": execution 7 was taken back from a dead node; so were 99 more");
        assert!(lines.turn_ends().is_none());
        said(&mut lines, &Event::TakenBack { attempt: attempt(1) }, 0);
        let Some(Line::Text(Level::Info, text)) = lines.turn_ends() else { panic!("one line") };
        assert_eq!(text, "\"s\": execution 1 was taken back from a dead node");
    }

    #[test]
    fn a_payload_that_cannot_be_decoded_is_told_of_once_a_minute() {
        let mut lines = LogLines::default();
        let event = Event::Finished {
            attempt: attempt(1),
            cause: Cause::Enqueued,
            lateness: Duration::ZERO,
            took: Duration::ZERO,
            state: ExecutionState::Pending,
            error: Some("cannot decode".to_owned()),
            retry: None,
        };
        let told: Vec<String> = (0..14).flat_map(|n| said(&mut lines, &event, 5_000 * n)).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[1].ends_with("; so often since the last line: 11"), "{told:?}");
    }
}
