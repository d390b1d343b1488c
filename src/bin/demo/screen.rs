//! The screen of the demo.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use serde_json::json;

use super::cluster::NAMES;
use super::plan::{LASTS, Planned};
use super::stage::Stage;
use super::verdict::Verdict;
use crate::failure::Result;
use crate::output::{self, Output};
use crate::text::escaped;
use crate::when::{self, time_of_day};

/// The most problems listed one by one.
const LISTED: usize = 20;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "1;31";
const GREEN: &str = "1;32";
/// One colour for each node.
const NODES: [&str; NAMES.len()] = ["36", "33", "35"];

/// Standard output: the demo as it happens for people, only the verdict as JSON.
pub(super) struct Screen<'a> {
    out: &'a mut dyn Write,
    output: Output,
    colour: bool,
}

impl<'a> Screen<'a> {
    pub(super) fn new(out: &'a mut dyn Write, output: Output) -> Self {
        let colour =
            std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        Self { out, output, colour }
    }

    pub(super) fn opening(&mut self, stage: &Stage) -> Result {
        let names = NAMES.join(", ");
        let (what, name) = match &stage.file {
            Some(file) => ("one SQLite file", file.display().to_string()),
            None => ("your database, as the application", stage.target.application.clone()),
        };
        self.line(&format!("Three nodes, {names}, each a process of its own, share {what}:"))?;
        self.line(&escaped(&name))?;
        self.line("Starting them ...")
    }

    #[cfg(feature = "console")]
    pub(super) fn console(&mut self, address: std::net::SocketAddr) -> Result {
        self.line(&format!("Watch it in a browser: http://{address}/ (it shows all, and changes nothing)\n"))
    }

    #[cfg(feature = "console")]
    pub(super) fn console_stays(&mut self, address: std::net::SocketAddr) -> Result {
        self.line(&format!("\nThe console stays open at http://{address}/: press Enter to end it"))
    }

    pub(super) fn plan(&mut self, plan: &[Planned], start: i64) -> Result {
        let (from, to) = (time_of_day(start * 1_000), time_of_day((start + LASTS) * 1_000));
        self.line(&format!(
            "\nFrom {from} to {to} UTC they run these schedules. Half-way one node is killed with\n\
             SIGKILL; the others notice its death within 8 s and run again what it was at.\n"
        ))?;
        for one in plan {
            let count = one.fire_times.len();
            self.line(&format!("  {:<14} {:<44} {count:>3} fire times", one.name, one.rule))?;
        }
        self.line("")?;
        let heading = "time (UTC)    node  schedule       fire time      begun after";
        self.line(&self.painted(BOLD, heading))
    }

    pub(super) fn begun(
        &mut self,
        number: usize,
        schedule: &str,
        fire_time: i64,
        attempt: u32,
        at: i64,
    ) -> Result {
        let time = self.painted(DIM, &time_of_day(at));
        let name = self.painted(NODES[number], NAMES[number]);
        let (planned, late) = (time_of_day(fire_time), at - fire_time);
        let again =
            if attempt > 1 { self.painted(BOLD, &format!("  attempt {attempt}")) } else { String::new() };
        let schedule = escaped(schedule);
        self.line(&format!("{time}  {name}     {schedule:<14} {planned}  {late:>8} ms{again}"))
    }

    pub(super) fn note(&mut self, what: &str) -> Result {
        self.aside(BOLD, what)
    }

    pub(super) fn loud(&mut self, what: &str) -> Result {
        self.aside(RED, what)
    }

    fn aside(&mut self, colour: &str, what: &str) -> Result {
        let time = self.painted(DIM, &time_of_day(when::now().timestamp_millis()));
        let what = self.painted(colour, &format!("--- {}", escaped(what)));
        self.line(&format!("{time}  {what}"))
    }

    pub(super) fn verdict(&mut self, verdict: &Verdict, took: Duration, stage: &Stage) -> Result {
        if self.output == Output::Json {
            let mut document = json!(verdict);
            document["clean"] = verdict.is_clean().into();
            document["milliseconds"] = json!(took.as_millis());
            document["application"] = stage.target.application.as_str().into();
            output::json(self.out, &document)?;
            return Ok(self.out.flush()?);
        }
        self.line("")?;
        self.line(&self.painted(BOLD, "The ledger's verdict"))?;
        for (word, count, meaning) in counts(verdict) {
            self.line(&format!("  {word:<14} {count:>4}  {meaning}"))?;
        }
        for problem in verdict.problems.iter().take(LISTED) {
            let problem = self.painted(RED, &escaped(problem));
            self.line(&format!("  problem: {problem}"))?;
        }
        if verdict.problems.len() > LISTED {
            self.line(&format!("  and {} more", verdict.problems.len() - LISTED))?;
        }
        let word =
            if verdict.is_clean() { self.painted(GREEN, "clean") } else { self.painted(RED, "NOT CLEAN") };
        self.line(&format!("{word}, after {:.1} s", took.as_secs_f64()))?;
        if let Some(command) = stage.look() {
            self.line("Look at what it left there with")?;
            self.line(&format!("  {}", escaped(&command)))?;
        }
        Ok(())
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Shown at once.
    fn line(&mut self, text: &str) -> Result {
        if self.output == Output::Table {
            writeln!(self.out, "{text}")?;
            self.out.flush()?;
        }
        Ok(())
    }
}

/// What is always shown, and what only if there is any.
fn counts(verdict: &Verdict) -> impl Iterator<Item = (&'static str, usize, &'static str)> {
    let always = [
        ("planned", verdict.planned, "counted without the database and without the cron engine"),
        ("fired", verdict.fired, "succeeded, each once"),
        ("skipped", verdict.skipped, "deliberately not run"),
        ("pending", verdict.pending, "not ended yet"),
        ("missing", verdict.missing, "planned, but the ledger knows nothing of them"),
        ("duplicates", verdict.duplicates, "handlers begun that should not have been"),
        ("recovered", verdict.recovered, "run again because their node was killed at them"),
    ];
    let perhaps = [
        ("failed", verdict.failed, "ended badly"),
        ("unplanned", verdict.unplanned, "fired or skipped, but nobody planned them"),
        ("contradictions", verdict.contradictions, "between the ledger and what the nodes said"),
    ];
    always.into_iter().chain(perhaps.into_iter().filter(|(_, count, _)| *count > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nodes_and_rows_say_steers_no_terminal() {
        let nasty = "s\u{1b}[2J\r\n\u{202e}";
        let mut out = Vec::new();
        let mut screen = Screen { out: &mut out, output: Output::Table, colour: true };
        screen.begun(0, nasty, 1_000, 2, 2_000).unwrap();
        screen.note(nasty).unwrap();
        screen.loud(nasty).unwrap();
        let verdict = Verdict { problems: vec![nasty.to_owned()], ..Verdict::default() };
        let stage = Stage::in_file(nasty.into(), None).unwrap();
        screen.verdict(&verdict, Duration::ZERO, &stage).unwrap();
        screen.opening(&stage).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.matches(r"s\u{1b}[2J\r\n\u{202e}").count() == 6, "{text}");
        assert!(!text.contains("\u{1b}[2J") && !text.contains(['\r', '\u{202e}']), "{text:?}");
    }
}
