//! What the runs of an execution have said: one row for each execution that has said something.
//!
//! A run is known by its fence and its lines by their numbers, so that saying the same again, or late,
//! changes nothing.

use crate::domain::{ExecutionId, Line, MOST_LINES, Progress, Timestamp, Token, payload};

/// What a run has said so far: its newest lines, and how far it has come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said {
    pub execution: ExecutionId,
    /// The guard: it is under this token, and RUNNING, or ended by its own run.
    pub token: Token,
    pub fence: i64,
    pub lines: Vec<Line>,
    pub progress: Option<Progress>,
    pub now: Timestamp,
}

impl Said {
    /// How many bytes its lines have.
    pub(crate) fn size(&self) -> usize {
        self.lines.iter().map(|line| line.text.len()).sum()
    }
}

/// What the row of an execution holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SaidRow {
    /// Each with the fence of its run, in the order in which they were said.
    pub lines: Vec<(i64, Line)>,
    pub progress: Option<Progress>,
    /// When it was last said.
    pub changed: Timestamp,
}

/// What an attempt has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaidBy {
    pub execution: ExecutionId,
    pub attempt: i64,
    pub said: SaidRow,
}

impl SaidRow {
    /// The row once this is said, too. Of what was said later than this nothing is lost.
    pub(crate) fn and(mut self, said: &Said) -> Self {
        let key = |(fence, line): &(i64, Line)| (*fence, line.number);
        for line in &said.lines {
            let line = (said.fence, line.clone());
            if let Err(place) = self.lines.binary_search_by_key(&key(&line), key) {
                self.lines.insert(place, line);
            }
        }
        let excess = self.lines.len().saturating_sub(MOST_LINES);
        self.lines.drain(..excess);
        if said.now >= self.changed {
            (self.progress, self.changed) = (said.progress.or(self.progress), said.now);
        }
        self
    }

    /// The lines as JSON. In ASCII: whatever the database's encoding, it can hold them.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has columns"))]
    pub(crate) fn text(&self) -> String {
        let line = |(fence, line): &(i64, Line)| {
            (*fence, line.number, line.at.millis(), line.level.as_str(), line.text.clone())
        };
        let lines: Vec<_> = self.lines.iter().map(line).collect();
        // Numbers and texts: there is nothing that JSON cannot say.
        payload::encode(&lines).map_or_else(|_| "[]".to_owned(), |json| payload::in_ascii(&json))
    }

    /// The lines of a row; none if somebody wrote something else there.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has columns"))]
    pub(crate) fn lines(text: &str) -> Vec<(i64, Line)> {
        let lines: Vec<(i64, u64, i64, String, String)> = payload::decode(text).unwrap_or_default();
        let line = |(fence, number, at, level, text): (i64, u64, i64, String, String)| {
            (fence, Line { number, at: Timestamp::at(at), level: level.parse().unwrap_or_default(), text })
        };
        let mut lines: Vec<(i64, Line)> = lines.into_iter().map(line).collect();
        lines.sort_by_key(|(fence, line)| (*fence, line.number));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::LogLevel;

    fn line(number: u64) -> Line {
        let (at, level) = (Timestamp::at(1_000), LogLevel::Warn);
        Line { number, at, level, text: format!("ünïcode ☕ \u{1b}[2J\0 {number}") }
    }

    fn said(fence: i64, numbers: std::ops::Range<u64>, progress: Option<u64>, now: i64) -> Said {
        Said {
            execution: ExecutionId(1),
            token: Token::fresh(),
            fence,
            lines: numbers.map(line).collect(),
            progress: progress.map(|done| Progress::new(done, 9)),
            now: Timestamp::at(now),
        }
    }

    fn numbers(row: &SaidRow) -> Vec<(i64, u64)> {
        row.lines.iter().map(|(fence, line)| (*fence, line.number)).collect()
    }

    #[test]
    fn saying_the_same_again_or_late_changes_nothing() {
        let (early, later) = (said(4, 0..2, Some(1), 10), said(4, 0..3, Some(2), 20));
        let row = SaidRow::default().and(&early).and(&later);
        assert_eq!(numbers(&row), [(4, 0), (4, 1), (4, 2)]);
        assert_eq!((row.progress, row.changed), (Some(Progress::new(2, 9)), Timestamp::at(20)));
        assert_eq!(row.clone().and(&later).and(&early), row);
    }

    #[test]
    fn the_next_run_goes_on_behind_what_was_said() {
        let row = SaidRow::default().and(&said(4, 0..2, Some(7), 10)).and(&said(6, 0..1, None, 20));
        assert_eq!(numbers(&row), [(4, 0), (4, 1), (6, 0)]);
        assert_eq!(row.progress, Some(Progress::new(7, 9)), "until it says of its own");
    }

    #[test]
    fn the_newest_lines_are_kept() {
        let first = SaidRow::default().and(&said(4, 0..150, None, 10));
        let row = first.and(&said(6, 0..100, None, 20));
        assert_eq!((row.lines.len(), numbers(&row)[0], numbers(&row)[199]), (MOST_LINES, (4, 50), (6, 99)));
        let later = row.and(&said(6, 40..240, None, 30));
        assert_eq!((later.lines.len(), numbers(&later)[0]), (MOST_LINES, (6, 40)));
    }

    #[test]
    fn lines_are_read_as_they_were_written_and_others_are_none() {
        let row = SaidRow::default().and(&said(-4, 0..3, None, 10));
        assert!(row.text().is_ascii());
        assert_eq!(SaidRow::lines(&row.text()), row.lines);
        for none in ["", "{}", "[[1]]", "null"] {
            assert_eq!(SaidRow::lines(none), []);
        }
    }
}
