//! Whole clusters at work: node processes on one database, measured from outside. `scripts/bench.sh --help`
//! says how to run it and what the figures mean.
//!
//! ```text
//! arguments  text -> Arguments, once
//! server     PostgreSQL, MariaDB or a folder of SQLite files; a fresh database for every run
//! load       the schedules of a workload
//! limit      what the database could do if there were no scheduler
//! node       a node process, and the harness's handle on it
//! run        one run: load, wait, watch, count
//! enqueue    one run of executions that are enqueued
//! figures    one run as a line of JSON; medians of several
//! process    CPU time and memory, from /proc
//! ```

#![allow(clippy::disallowed_methods, reason = "a bench reads the real clock and sleeps until its start")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]

mod arguments;
mod enqueue;
mod figures;
mod limit;
mod load;
mod node;
mod process;
mod run;
mod server;
mod spans;

use std::error::Error;
use std::process::{Command, ExitCode};

use arguments::{Arguments, Workload};
use server::Server;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments = Arguments::read();
    let done = match std::env::var(node::DATABASE) {
        Ok(url) => node::main(&url, &arguments).map(|()| ExitCode::SUCCESS),
        Err(_) => bench(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("bench: {error:#}");
        ExitCode::FAILURE
    })
}

fn bench(arguments: &Arguments) -> Result<ExitCode> {
    let Some(server) = Server::find(arguments)? else { return beside_a_server(arguments) };
    let total = arguments.runs * arguments.nodes.len();
    let mut all = Vec::new();
    // Turn by turn: what else the machine does meanwhile meets each number of nodes alike.
    for turn in 0..arguments.runs {
        for (n, nodes) in arguments.nodes.iter().enumerate() {
            eprintln!(
                "run {} of {total}: {}, {}, {nodes} nodes (turn {})",
                turn * arguments.nodes.len() + n + 1,
                arguments.workload.name(),
                server.kind.name(),
                turn + 1
            );
            let line = match arguments.workload {
                Workload::Enqueue => {
                    serde_json::to_string(&enqueue::one_by_one(&server, arguments, *nodes)?)?
                }
                Workload::Bulk => serde_json::to_string(&enqueue::together(&server, arguments, *nodes)?)?,
                Workload::Waiting => serde_json::to_string(&enqueue::waiting(&server, arguments)?)?,
                _ => {
                    if arguments.beside {
                        let figures = run::run(&server, &arguments.unwatched(), *nodes)?;
                        println!("{}", serde_json::to_string(&figures)?);
                        all.push(figures);
                    }
                    let figures = run::run(&server, arguments, *nodes)?;
                    let line = serde_json::to_string(&figures)?;
                    all.push(figures);
                    line
                }
            };
            println!("{line}");
        }
    }
    if (arguments.runs > 1 || arguments.beside) && !all.is_empty() {
        eprint!("{}", figures::medians(&all));
    }
    if arguments.beside {
        eprint!("{}", figures::ratios(&all));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs this again with a private server, of which it then knows by its environment.
fn beside_a_server(arguments: &Arguments) -> Result<ExitCode> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/with-servers.sh");
    let status = Command::new(script)
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env("FIRETIME_SERVERS", arguments.servers())
        .env_remove("FIRETIME_FAST_SERVERS")
        .status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
