//! `why`: what became of an occurrence or an execution, in one sentence, and what it is known from; or of all
//! occurrences of a day, in a line each.

use std::collections::BTreeMap;
use std::io::Write;

use chrono::{DateTime, NaiveDate, Utc};
use firetime::{Client, ErrorKind, Fate, Why};
use serde_json::{Value, json};

use crate::failure::{Failure, Result};
use crate::inspect::{Kind, connect, find_application, names, of_execution};
use crate::output::{self, Output};
use crate::target::Target;
use crate::text::escaped;
use crate::when::{Moment, utc};

/// Of a day so many occurrences are looked at.
const MOST: usize = 1_000;
/// Of more than so many those that were due and did not succeed are shown, at most so many.
const SHOWN: usize = 50;

/// What is asked about.
#[derive(Debug)]
pub(crate) enum Occasion {
    /// Of a schedule of this name: at this fire time, or the last that has come.
    Occurrence(String, Option<DateTime<Utc>>),
    /// All of a day, by the wall clock of the schedule's time zone.
    Day(String, NaiveDate),
    Execution(i64),
}

impl Occasion {
    pub(crate) fn of(schedule: String, moment: Option<Moment>) -> Self {
        match moment {
            Some(Moment::Day(day)) => Self::Day(schedule, day),
            Some(Moment::At(at)) => Self::Occurrence(schedule, Some(at)),
            None => Self::Occurrence(schedule, None),
        }
    }
}

pub(crate) fn why(target: &Target, occasion: &Occasion, output: Output, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    let why = match occasion {
        Occasion::Execution(id) => of_execution(&client, target, *id, client.why(*id))?,
        Occasion::Occurrence(name, at) => of_occurrence(&client, target, name, *at)?,
        Occasion::Day(name, day) => return of_day(&client, (target, name), *day, output, out),
    };
    if output == Output::Json {
        return output::json(out, &why);
    }
    tell(&why, out)
}

fn tell(why: &Why, out: &mut dyn Write) -> Result {
    writeln!(out, "{}", escaped(&why.sentence))?;
    writeln!(out)?;
    let evidence: Vec<_> = why.evidence.iter().map(|it| (it.what.as_str(), it.known.clone())).collect();
    output::properties(out, &evidence)
}

fn of_day(
    client: &Client,
    (target, name): (&Target, &str),
    day: NaiveDate,
    output: Output,
    out: &mut dyn Write,
) -> Result {
    let range = found(client, target, name, client.day_of(name, day))?;
    let (mut answers, mut next) = (Vec::new(), Some(range.start));
    while let Some(since) = next.filter(|_| answers.len() < MOST) {
        let page = client.why_between(name, since..range.end)?;
        answers.extend(page.answers);
        next = page.next;
    }
    if output == Output::Json {
        let next = next.map(|at| at.timestamp_millis());
        return output::json(out, &json!({ "answers": answers, "next": next }));
    }
    match &answers[..] {
        [] => {
            let (since, until) = (utc(Some(range.start)), utc(Some(range.end)));
            writeln!(out, "{:?} has no fire time on {day}, from {since} until {until} (UTC)", escaped(name))?;
        }
        [one] => tell(one, out)?,
        some if some.len() <= SHOWN => lines(out, some.iter())?,
        many => summary(out, many)?,
    }
    if let Some(next) = next {
        let (count, next) = (answers.len(), utc(Some(next)));
        writeln!(
            out,
            "\nThese are the first {count} of the day: ask for those from {next} (UTC) on one by one"
        )?;
    }
    Ok(())
}

/// A line for each.
fn lines<'a>(out: &mut dyn Write, answers: impl Iterator<Item = &'a Why>) -> Result {
    let late = |why: &Why| {
        why.late.as_ref().map_or_else(|| "-".to_owned(), |late| format!("{} ms", late.lateness.as_millis()))
    };
    let row =
        |why: &Why| vec![utc(why.at), word(why.fate), why.reason.clone(), late(why), why.sentence.clone()];
    output::table(out, ["FIRE TIME (UTC)", "FATE", "REASON", "LATE", "WHY"], answers.map(row))
}

/// How many there are of each fate and reason, and the first that were due and did not succeed, or of a time
/// to come the first.
fn summary(out: &mut dyn Write, answers: &[Why]) -> Result {
    let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for why in answers {
        *counts.entry((word(why.fate), &why.reason)).or_default() += 1;
    }
    let rows =
        counts.into_iter().map(|((fate, reason), count)| vec![count.to_string(), fate, reason.to_owned()]);
    output::table(out, ["COUNT", "FATE", "REASON"], rows)?;
    let is_other = |why: &&Why| !matches!(why.fate, Fate::Succeeded | Fate::Planned);
    let mut shown: Vec<&Why> = answers.iter().filter(is_other).collect();
    let mut which = "that did not succeed";
    if shown.is_empty() {
        which = "to come";
        shown = answers.iter().filter(|why| why.fate == Fate::Planned).collect();
    }
    if shown.is_empty() {
        return Ok(());
    }
    let (most, all) = (shown.len().min(SHOWN), shown.len());
    writeln!(out, "\nThe first {most} of {all} {which}:")?;
    lines(out, shown.into_iter().take(SHOWN))
}

/// As JSON has it, with blanks.
fn word(fate: Fate) -> String {
    match serde_json::to_value(fate) {
        Ok(Value::String(word)) => word.replace('_', " "),
        _ => format!("{fate:?}"),
    }
}

fn of_occurrence(
    client: &Client,
    target: &Target,
    name: &str,
    at: Option<DateTime<Utc>>,
) -> std::result::Result<Why, Failure> {
    let answer = match at {
        Some(at) => client.why_at(name, at),
        None => match last_come(client, name) {
            Ok(Some(at)) => client.why_at(name, at),
            Ok(None) => {
                return Err(Failure::Usage(format!("schedule {name:?} has no fire time yet: name one")));
            }
            Err(error)
                if error.kind() == ErrorKind::NotFound && client.why_at(name, client.now()?).is_ok() =>
            {
                return Err(Failure::Usage(format!("schedule {name:?} was removed: name a fire time")));
            }
            Err(error) => Err(error),
        },
    };
    found(client, target, name, answer)
}

/// The answer about a schedule, or which names there are.
fn found<T>(
    client: &Client,
    target: &Target,
    name: &str,
    answer: std::result::Result<T, firetime::Error>,
) -> std::result::Result<T, Failure> {
    match answer {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            find_application(client, target)?;
            Err(Failure::not_found("schedule", name, names(client, Kind::Schedule)?))
        }
        answer => Ok(answer?),
    }
}

/// The last fire time of a schedule that has come.
fn last_come(client: &Client, name: &str) -> std::result::Result<Option<DateTime<Utc>>, firetime::Error> {
    let (schedule, now) = (client.schedule(name)?.schedule, client.now()?);
    let has_come = |at: &DateTime<Utc>| *at <= now;
    Ok(schedule.next.filter(has_come).or(schedule.prev.filter(has_come)))
}
