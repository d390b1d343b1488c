//! What the handlers of an execution have said.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use firetime::{Client, ExecutionLogs, ExecutionState, ExecutionView, LogLine, Progress};

use crate::failure::Result;
use crate::inspect::{connect, of_execution};
use crate::output::{self, Column, ListOutput, Output};
use crate::target::Target;
use crate::text::escaped;
use crate::when::utc;

/// Between two looks for what was said since.
const PAUSE: Duration = Duration::from_secs(1);

/// How lines are written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogForm {
    List(ListOutput),
    /// As they are said, until the execution has ended.
    Follow(Output),
}

pub(crate) const LINES: &[Column<LogLine>] = &[
    Column::new("TIME (UTC)", |line| utc(line.at)),
    Column::new("ATTEMPT", |line| line.attempt.to_string()),
    Column::new("LEVEL", |line| line.level.as_str().to_owned()),
    Column::new("LINE", |line| line.text.clone()),
    Column::wide("EXECUTION", |line| line.execution.to_string()),
    Column::wide("FENCE", |line| line.fence.to_string()),
    Column::wide("NUMBER", |line| line.number.to_string()),
];

pub(crate) fn logs(target: &Target, id: i64, form: LogForm, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    let logs = of_execution(&client, target, id, client.logs(id))?;
    match form {
        LogForm::List(output) => output::list(out, output, LINES, &logs.lines),
        LogForm::Follow(output) => follow(&client, id, output, out),
    }
}

/// How far a handler has come, for people.
pub(crate) fn progress(progress: Progress) -> String {
    format!("{} of {}", progress.done, progress.total)
}

/// A line's place among all of its execution.
type Place = (u32, i64, u64);

fn place(line: &LogLine) -> Place {
    (line.attempt, line.fence, line.number)
}

fn follow(client: &Client, id: i64, output: Output, out: &mut dyn Write) -> Result {
    let (mut last, mut told): (Option<Place>, _) = (None, None);
    // Nobody sends: it only waits.
    let (_nobody, nothing) = mpsc::channel::<()>();
    loop {
        // Before the lines: what it said last is stored before its end.
        let has_ended = has_ended(client.execution(id)?.last());
        let ExecutionLogs { lines, progress, .. } = client.logs(id)?;
        for line in lines.iter().filter(|line| last.is_none_or(|last| place(line) > last)) {
            write(line, output, out)?;
        }
        last = last.max(lines.last().map(place));
        if progress != told
            && let (Some(progress), Output::Table) = (progress, output)
        {
            writeln!(out, "progress: {}", self::progress(progress))?;
        }
        told = progress;
        out.flush()?;
        if has_ended {
            return Ok(());
        }
        nothing.recv_timeout(PAUSE).ok();
    }
}

/// Whether an execution has ended for good whose last attempt this is. One that ran out of time goes on while
/// its handler does: a retry may follow.
fn has_ended(last: &ExecutionView) -> bool {
    match last.state.known() {
        Some(ExecutionState::TimedOut) => last.finished.is_some(),
        state => state.is_some_and(ExecutionState::is_terminal),
    }
}

fn write(line: &LogLine, output: Output, out: &mut dyn Write) -> Result {
    match output {
        Output::Json => output::json(out, line),
        Output::Table => {
            let (at, level, text) = (utc(line.at), line.level.as_str(), escaped(&line.text));
            Ok(writeln!(out, "{at}  {level:<5}  {text}")?)
        }
    }
}
