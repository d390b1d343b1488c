//! `why`: what became of an occurrence or an execution, in one sentence, and what it is known from.

use std::io::Write;

use chrono::{DateTime, Utc};
use firetime::{Client, ErrorKind, Why};

use crate::failure::{Failure, Result};
use crate::inspect::{Kind, connect, find_application, names, of_execution};
use crate::output::{self, Output};
use crate::target::Target;
use crate::text::escaped;

/// What is asked about.
#[derive(Debug)]
pub(crate) enum Occasion {
    /// Of a schedule of this name: at this fire time, or the last that has come.
    Occurrence(String, Option<DateTime<Utc>>),
    Execution(i64),
}

pub(crate) fn why(target: &Target, occasion: &Occasion, output: Output, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    let why = match occasion {
        Occasion::Execution(id) => of_execution(&client, target, *id, client.why(*id))?,
        Occasion::Occurrence(name, at) => of_occurrence(&client, target, name, *at)?,
    };
    if output == Output::Json {
        return output::json(out, &why);
    }
    writeln!(out, "{}", escaped(&why.sentence))?;
    writeln!(out)?;
    let evidence: Vec<_> = why.evidence.iter().map(|it| (it.what.as_str(), it.known.clone())).collect();
    output::properties(out, &evidence)
}

fn of_occurrence(
    client: &Client,
    target: &Target,
    name: &str,
    at: Option<DateTime<Utc>>,
) -> std::result::Result<Why, Failure> {
    let found = match at {
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
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            find_application(client, target)?;
            Err(Failure::not_found("schedule", name, names(client, Kind::Schedule)?))
        }
        found => Ok(found?),
    }
}

/// The last fire time of a schedule that has come.
fn last_come(client: &Client, name: &str) -> std::result::Result<Option<DateTime<Utc>>, firetime::Error> {
    let (schedule, now) = (client.schedule(name)?.schedule, client.now()?);
    let has_come = |at: &DateTime<Utc>| *at <= now;
    Ok(schedule.next.filter(has_come).or(schedule.prev.filter(has_come)))
}
