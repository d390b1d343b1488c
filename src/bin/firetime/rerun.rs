//! `rerun` and `backfill`: what was missed is run. Without `--yes` the plan is shown and nothing is changed.

use std::io::Write;
use std::time::Duration;

use chrono::{DateTime, Utc};
use firetime::{Client, ErrorKind, ExecutionState, Reran, RerunCancelled, RerunFate, RerunPlan, UnknownSpan};
use serde::Serialize;

use crate::control::{Subject, of_schedule};
use crate::failure::{Failure, Result};
use crate::output::{self, Output};
use crate::target::Target;
use crate::text::escaped;
use crate::when::utc;

/// What is asked for, of the schedule that the subject names.
#[derive(Debug)]
pub(crate) struct Rerun {
    pub(crate) which: Which,
    /// Without it the plan is shown.
    pub(crate) yes: bool,
    pub(crate) output: Output,
}

#[derive(Debug)]
pub(crate) enum Which {
    /// Occurrences as the ledger has them.
    Ended {
        states: Vec<ExecutionState>,
        reason: Option<String>,
        since: Option<DateTime<Utc>>,
        until: Option<DateTime<Utc>>,
        pace: Option<Duration>,
    },
    /// The fire times of the trigger.
    Planned { since: DateTime<Utc>, until: DateTime<Utc>, pace: Option<Duration> },
    /// The end of a rerun.
    Cancel(i64),
}

pub(crate) fn rerun(target: &Target, rerun: &Rerun, subject: &Subject, out: &mut dyn Write) -> Result {
    let client = subject.client(target)?;
    let Rerun { which, yes, output } = rerun;
    let (name, why) = (&subject.name, &subject.reason);
    match which {
        Which::Cancel(origin) => cancel(&client, *origin, why, *output, out),
        Which::Ended { states, reason, since, until, pace } => {
            let request = client.rerun(name).reason(why);
            let request = states.iter().fold(request, |request, state| request.state(*state));
            let request = reason.iter().fold(request, |request, reason| request.state_reason(reason));
            let request = since.iter().fold(request, |request, since| request.since(*since));
            let request = until.iter().fold(request, |request, until| request.until(*until));
            let request = pace.iter().fold(request, |request, pace| request.pace(*pace));
            match yes {
                true => told(name, of_schedule(&client, name, request.run())?, *output, out),
                false => preview(&of_schedule(&client, name, request.plan())?, *output, out),
            }
        }
        Which::Planned { since, until, pace } => {
            let request = client.backfill(name, *since..*until).reason(why);
            let request = pace.iter().fold(request, |request, pace| request.pace(*pace));
            match yes {
                true => told(name, of_schedule(&client, name, request.run())?, *output, out),
                false => preview(&of_schedule(&client, name, request.plan())?, *output, out),
            }
        }
    }
}

/// No occurrence is left.
const NOTHING_TO_RUN: &str = "there is no such occurrence, or all have succeeded or not ended";

/// Shows the plan. Nothing was changed, which is no success: `--yes` is missing.
fn preview(plan: &RerunPlan, output: Output, out: &mut dyn Write) -> Result {
    match output {
        Output::Json => output::json(out, plan)?,
        Output::Table if plan.occurrences.is_empty() && plan.unknown.is_empty() => {}
        Output::Table => show(plan, out)?,
    }
    let count = |fate| plan.count(fate);
    let [run, succeeded, open] = [RerunFate::Run, RerunFate::Succeeded, RerunFate::Open].map(count);
    let unknown = unknown(&plan.unknown).map_or_else(String::new, |unknown| format!(", {unknown}"));
    let rest = rest(plan.rest_from).map_or_else(String::new, |rest| format!("; {rest}"));
    if run == 0 {
        return Err(Failure::Usage(format!("nothing was changed: {NOTHING_TO_RUN}{unknown}{rest}")));
    }
    let (occurrences, them) = if run == 1 { ("occurrence", "it") } else { ("occurrences", "them") };
    let left_out = match (succeeded, open) {
        (0, 0) => String::new(),
        _ => format!(", left out are {succeeded} that succeeded and {open} that have not ended"),
    };
    Err(Failure::Usage(format!(
        "nothing was changed: {run} {occurrences} would be run{left_out}{unknown}{rest}; say --yes to run {them}"
    )))
}

fn show(plan: &RerunPlan, out: &mut dyn Write) -> Result {
    let occurrences = plan.occurrences.iter().map(|it| {
        let what = match it.fate {
            RerunFate::Run => "would be run".to_owned(),
            RerunFate::Succeeded => "has succeeded".to_owned(),
            RerunFate::Open => "has not ended".to_owned(),
            other => format!("{other:?}"),
        };
        let was = it.state.as_ref().map_or_else(
            || "not in the ledger".to_owned(),
            |state| format!("{} {}", state.as_str().to_lowercase(), it.reason).trim_end().to_owned(),
        );
        vec![utc(Some(it.fire_time)), String::new(), was, what]
    });
    let unknown = plan.unknown.iter().map(|span| {
        let what = format!("{} with unknown fire times: the trigger of then is not known", span.count);
        vec![utc(Some(span.first)), utc(Some(span.last)), String::new(), what]
    });
    output::table(out, ["FIRE TIME (UTC)", "UNTIL", "WAS", "WHAT"], occurrences.chain(unknown))
}

/// How many occurrences are not run because nobody knows their fire times, if there are some.
fn unknown(spans: &[UnknownSpan]) -> Option<String> {
    let count: u64 = spans.iter().map(|span| span.count).sum();
    (count > 0).then(|| format!("{count} have unknown fire times"))
}

/// What to do for the rest, if the request did not look at all.
fn rest(from: Option<DateTime<Utc>>) -> Option<String> {
    let from = from?.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    Some(format!("one command looks at 1000: for the rest go on with --since {from}"))
}

/// The answer, for scripts.
#[derive(Serialize)]
struct Told {
    answer: &'static str,
    /// As `executions` lists it.
    origin: Option<String>,
    count: usize,
    unknown: Vec<UnknownSpan>,
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    rest_from: Option<DateTime<Utc>>,
}

fn told(name: &str, answer: Reran, output: Output, out: &mut dyn Write) -> Result {
    let (told, said) = match answer {
        Reran::Ordered { origin, count, unknown, rest_from, .. } => {
            let (executions, them) =
                if count == 1 { ("execution waits", "it") } else { ("executions wait", "them") };
            let said =
                format!("{count} {executions} for a node; `firetime rerun --cancel {origin}` ends {them}");
            (Told { answer: "ordered", origin: Some(origin.to_string()), count, unknown, rest_from }, said)
        }
        Reran::NotRunnable(state) => {
            let said = format!("nothing was changed, it is {state}");
            (
                Told { answer: "not_runnable", origin: None, count: 0, unknown: Vec::new(), rest_from: None },
                said,
            )
        }
        Reran::Nothing { unknown, rest_from, .. } => {
            let said = format!("nothing was changed: {NOTHING_TO_RUN}");
            (Told { answer: "nothing", origin: None, count: 0, unknown, rest_from }, said)
        }
        other => return Err(Failure::Failed(format!("{other:?}"))),
    };
    if output == Output::Json {
        return output::json(out, &told);
    }
    writeln!(out, "{}: {said}", escaped(name))?;
    if let Some(unknown) = unknown(&told.unknown) {
        writeln!(out, "{unknown}, and are not run")?;
    }
    if let Some(rest) = rest(told.rest_from) {
        writeln!(out, "{rest}")?;
    }
    Ok(())
}

/// The answer to a cancel, for scripts.
#[derive(Serialize)]
struct Ended {
    answer: &'static str,
    cancelled: usize,
    asked: usize,
}

fn cancel(client: &Client, origin: i64, why: &str, output: Output, out: &mut dyn Write) -> Result {
    let answer = client.cancel_rerun(origin).reason(why).run().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::NotFound(format!(
            "there is no rerun {origin}: `firetime audit --verb rerun --output wide` lists them by their ids"
        )),
        _ => error.into(),
    })?;
    let (ended, said) = match answer {
        RerunCancelled::Cancelled { cancelled, asked, .. } => {
            let said = format!("{cancelled} executions were cancelled, {asked} run and are asked to end");
            (Ended { answer: "cancelled", cancelled, asked }, said)
        }
        RerunCancelled::AlreadyEnded => {
            let said = "nothing was changed: all of its executions have ended, or were asked to";
            (Ended { answer: "already_ended", cancelled: 0, asked: 0 }, said.to_owned())
        }
        other => return Err(Failure::Failed(format!("{other:?}"))),
    };
    match output {
        Output::Json => output::json(out, &ended),
        Output::Table => Ok(writeln!(out, "rerun {origin}: {said}")?),
    }
}
