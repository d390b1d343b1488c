//! `cron next`: the fire times of one expression, or of each line of a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde::Serialize;

pub(crate) use crate::batch::Question;
use crate::batch::answer_lines;
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::when::utc;

/// Where the lines come from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Stdin,
    File(PathBuf),
}

impl Source {
    pub(crate) fn named(path: PathBuf) -> Self {
        if path.as_os_str() == "-" { Self::Stdin } else { Self::File(path) }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    expression: &'a str,
    zone: &'a str,
    fire_times: Vec<i64>,
    /// No fire time follows the last of these.
    exhausted: bool,
}

pub(crate) fn next(question: &Question, output: Output, out: &mut dyn Write) -> Result {
    let fire_times: Vec<DateTime<Utc>> = question.fire_times().collect();
    let zone = question.cron.zone();
    let last = fire_times.last().copied().unwrap_or(question.after);
    let exhausted = question.cron.next_after(last).is_none();
    if output == Output::Json {
        let expression = question.cron.expression();
        let fire_times = fire_times.iter().map(DateTime::timestamp_millis).collect();
        return output::json(out, &Answer { expression, zone, fire_times, exhausted });
    }
    let local: Option<Tz> = zone.parse().ok();
    let rows = fire_times.into_iter().map(|at| {
        let shown = local.map(|zone| at.with_timezone(&zone).format("%a %Y-%m-%d %H:%M:%S %:z").to_string());
        vec![utc(Some(at)), shown.unwrap_or_default()]
    });
    output::table(out, ["UTC", zone], rows)?;
    if exhausted {
        writeln!(out, "no more fire times")?;
    }
    Ok(())
}

/// Answers each line with one line.
pub(crate) fn batch(source: &Source, out: &mut dyn Write) -> Result {
    match source {
        Source::Stdin => answer_lines(io::stdin().lock(), out)?,
        Source::File(path) => {
            let file = File::open(path).map_err(|error| Failure::file("opening", path, &error))?;
            answer_lines(file, out)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use firetime::Cron;

    use super::*;

    #[test]
    fn a_single_question_shows_utc_and_local_time() {
        let cron = Cron::parse("0 0 9 1 1 ? 2025", "Europe/Berlin").unwrap();
        let question = Question { cron, after: DateTime::UNIX_EPOCH, count: 3 };
        let mut out = Vec::new();
        next(&question, Output::Table, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("2025-01-01 08:00:00.000  Wed 2025-01-01 09:00:00 +01:00"), "{text}");
        assert!(text.ends_with("no more fire times\n"), "{text}");
    }
}
