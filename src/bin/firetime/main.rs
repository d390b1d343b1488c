//! The `firetime` program: looks at a cluster, prepares its database, answers questions about cron
//! expressions, and shows a cluster at work (`firetime demo`).
//!
//! ```text
//! args     text -> Command, once
//! logging  log4rs
//! inspect  migrate, nodes, schedules, executions
//! cron     cron next; batch: a file of questions, one answer a line
//! demo/    three processes, one of them killed, and the ledger's verdict
//! output   tables for people, JSON for scripts
//! failure  what went wrong, and its exit code
//! ```

mod args;
mod batch;
mod cron;
mod demo;
mod failure;
mod inspect;
mod logging;
mod output;
// The library's own file: a public function would be a promise to keep.
#[path = "../../text.rs"]
mod text;
mod when;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Command, RawArgs};
use failure::Failure;

fn main() -> ExitCode {
    if let Err(failure) = args::without_controls(std::env::args_os()) {
        return ended(Err(failure));
    }
    match RawArgs::try_parse() {
        Ok(args) => ended(run(args)),
        // Asking for help is no error, and clap knows where each belongs.
        Err(asked) => match answer(&asked) {
            Ok(()) => ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(failure::USAGE)),
            Err(error) => ended(Err(error.into())),
        },
    }
}

/// What clap has to say. It repeats arguments as they are: they may come from elsewhere and steer a terminal.
fn answer(asked: &clap::Error) -> io::Result<()> {
    if !asked.use_stderr() {
        return asked.print();
    }
    let mut stderr = io::stderr().lock();
    asked.render().to_string().lines().try_for_each(|line| writeln!(stderr, "{}", text::escaped(line)))
}

fn run(args: RawArgs) -> Result<(), Failure> {
    let invocation = args.resolve(|name| std::env::var_os(name), when::now())?;
    logging::start(&invocation.logging)?;
    let mut out = BufWriter::new(io::stdout().lock());
    match invocation.command {
        Command::Migrate(database, output) => inspect::migrate(&database, output, &mut out),
        Command::Nodes(target) => inspect::nodes(&target, &mut out),
        Command::Schedules(target) => inspect::schedules(&target, &mut out),
        Command::Executions(target, filter) => inspect::executions(&target, &filter, &mut out),
        Command::CronNext(question, output) => cron::next(&question, output, &mut out),
        Command::CronBatch(source) => cron::batch(&source, &mut out),
        Command::Demo(options) => demo::run(&options, &mut out),
        Command::DemoNode(database) => {
            drop(out);
            return demo::node(&database);
        }
    }?;
    Ok(out.flush()?)
}

/// Says what went wrong on standard error and gives the exit code.
fn ended(result: Result<(), Failure>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    if let Some(message) = failure.message() {
        // With standard error closed there is nobody left to tell.
        writeln!(io::stderr(), "firetime: {}", text::escaped(&message)).ok();
    }
    ExitCode::from(failure.code())
}
