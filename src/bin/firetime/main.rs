//! The `firetime` program: looks at a cluster, prepares its database, answers questions about cron
//! expressions, and shows a cluster at work (`firetime demo`).
//!
//! ```text
//! args     text -> Command, once
//! target   what a command works on: an application and its database
//! logging  log4rs
//! inspect  migrate, and the listings
//! show     one schedule or execution whole
//! check    whether an application is well
//! verify   whether its ledger is whole
//! replay   its past, played again with a change
//! exporter the cluster's figures for Prometheus
//! console  web pages
//! add      schedules add and set, jobs enqueue
//! control  the commands that change something
//! rerun    rerun and backfill
//! cron     cron next; batch: a file of questions, one answer a line
//! output   tables for people, JSON for scripts
//! help     completions, man pages
//! failure  what went wrong, and its exit code
//! ```
//!
//! The demo is an application with processes and a judge of its own, and lies beside the operators' commands.

mod add;
mod args;
mod batch;
mod check;
#[cfg(feature = "console")]
mod console;
mod control;
mod cron;
#[path = "../demo/mod.rs"]
mod demo;
mod exporter;
mod failure;
mod help;
mod inspect;
mod logging;
mod logs;
mod output;
#[cfg(feature = "testing")]
mod replay;
mod rerun;
mod show;
mod target;
// The library's own file: a public function would be a promise to keep.
#[path = "../../domain/text.rs"]
mod text;
mod verify;
mod when;
mod why;

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Command, RawArgs};
use failure::{Failure, Result};

fn main() -> ExitCode {
    if let Err(failure) = without_controls(std::env::args_os()) {
        return ended(Err(failure));
    }
    match RawArgs::try_parse() {
        Ok(args) => ended(run(args)),
        // Asking for help is no error, and clap knows where each belongs.
        Err(asked) if asked.use_stderr() && std::env::args_os().any(|argument| is_url(&argument)) => {
            let message = format!(
                "a database's URL is no argument, since others could see it there: set {} or name a file with \
                 --database-url-file",
                target::URL_VARIABLE
            );
            ended(Err(Failure::Usage(message)))
        }
        Err(asked) => match answer(&asked) {
            Ok(()) => ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(failure::USAGE)),
            Err(error) => ended(Err(error.into())),
        },
    }
}

/// Refuses arguments with control characters: none is a name, and every complaint would repeat them.
fn without_controls(arguments: impl Iterator<Item = OsString>) -> Result {
    for (n, argument) in arguments.enumerate() {
        let text = argument.to_string_lossy();
        // A tab may stand between a cron expression's fields.
        if text.contains(|c: char| c.is_control() && c != '\t') {
            return Err(Failure::Usage(format!("argument {n} has control characters: {text:?}")));
        }
    }
    Ok(())
}

/// Whether an argument, or the value of an option, is a database's URL.
fn is_url(argument: &OsStr) -> bool {
    let argument = argument.to_string_lossy();
    let value = if argument.starts_with('-') { argument.split_once('=') } else { None };
    let text = value.map_or(&*argument, |(_, value)| value);
    let schemes = ["sqlite:", "postgres://", "postgresql://", "mysql://", "mariadb://"];
    schemes.iter().any(|scheme| text.starts_with(scheme))
}

/// What clap has to say. It repeats arguments as they are: they may come from elsewhere and steer a terminal.
fn answer(asked: &clap::Error) -> io::Result<()> {
    if !asked.use_stderr() {
        return asked.print();
    }
    let mut stderr = io::stderr().lock();
    asked.render().to_string().lines().try_for_each(|line| writeln!(stderr, "{}", text::escaped(line)))
}

fn run(args: RawArgs) -> Result {
    let invocation = args.resolve(|name| std::env::var_os(name), when::now())?;
    logging::start(&invocation.logging)?;
    let mut out = BufWriter::new(io::stdout().lock());
    match invocation.command {
        Command::Migrate(database, output) => inspect::migrate(&database, output, &mut out),
        Command::List(target, listing, how) => inspect::list(&target, &listing, &how, &mut out),
        Command::Check(target, output) => check::check(&target, output, &mut out),
        Command::Why(target, occasion, output) => why::why(&target, &occasion, output, &mut out),
        Command::Verify(target, audit, output) => verify::verify(&target, &audit, output, &mut out),
        #[cfg(feature = "testing")]
        Command::Replay(target, changes, output) => replay::replay(&target, &changes, output, &mut out),
        #[cfg(feature = "console")]
        Command::Console(target, serving) => console::serve(&target, serving, &mut out),
        #[cfg(feature = "console")]
        Command::HashPassword => console::hash(&mut out),
        #[cfg(feature = "console")]
        Command::NewToken(name, role) => console::new_token(&name, role, &mut out),
        Command::Export(target, listen) => exporter::serve(&target, listen, &mut out),
        Command::ShowSchedule(target, name, output) => show::schedule(&target, &name, output, &mut out),
        Command::ShowExecution(target, id, output) => show::execution(&target, id, output, &mut out),
        Command::Logs(target, id, form) => logs::logs(&target, id, form, &mut out),
        Command::Enqueue(target, execution, output) => add::enqueue(&target, &execution, output, &mut out),
        Command::Add(target, schedule, subject) => add::add(&target, &schedule, &subject, &mut out),
        Command::Set(target, schedule, subject) => add::set(&target, &schedule, &subject, &mut out),
        Command::Change(target, verb, subject) => control::change(&target, &verb, &subject, &mut out),
        Command::Rerun(target, rerun, subject) => rerun::rerun(&target, &rerun, &subject, &mut out),
        Command::CronNext(question, output) => cron::next(&question, output, &mut out),
        Command::CronBatch(source) => cron::batch(&source, &mut out),
        Command::Completions(shell) => help::completions(shell, &mut out),
        Command::Man(folder) => help::man(&folder, &mut out),
        Command::Demo(options) => demo::run(&options, &mut out),
        Command::DemoNode(target) => {
            drop(out);
            return demo::node(&target);
        }
    }?;
    Ok(out.flush()?)
}

/// Says what went wrong on standard error and gives the exit code.
fn ended(result: Result) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    if let Some(message) = failure.message() {
        // With standard error closed there is nobody left to tell.
        writeln!(io::stderr(), "firetime: {}", text::escaped(&message)).ok();
    }
    ExitCode::from(failure.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_known_behind_an_option_too() {
        for argument in [
            "mysql://me:secret@host/x",
            "mariadb://me@host/x",
            "--database=postgres://host/x",
            "sqlite:shop.db",
        ] {
            assert!(is_url(OsStr::new(argument)), "{argument}");
        }
        for argument in ["--database", "shop.db", "https://host/x", "tag=sqlite:x"] {
            assert!(!is_url(OsStr::new(argument)), "{argument}");
        }
    }

    #[test]
    fn arguments_with_control_characters_are_refused_with_their_place() {
        let line = |last: &str| ["firetime", "cron", "next", last].map(OsString::from).into_iter();
        assert!(without_controls(line("0\t0\t3 * * ?")).is_ok());
        let failure = without_controls(line("a\u{1b}[2J")).unwrap_err();
        assert_eq!(failure.message().unwrap(), r#"argument 3 has control characters: "a\u{1b}[2J""#);
        for control in ["a\nb", "\r", "\0", "\u{9b}1m", "\u{7f}"] {
            assert_eq!(without_controls(line(control)).unwrap_err().code(), 2, "{control:?}");
        }
    }
}
