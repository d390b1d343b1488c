//! From the command line to a [`Command`]: once, here; behind it there are only values that make sense.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use clap::{ArgAction, Args, Parser, Subcommand};
use firetime::{AuditFilter, Cron, ExecutionFilter, ExecutionState};

use crate::control::{Order, Verb};
use crate::cron::{Question, Source};
use crate::demo;
use crate::failure::{EXIT_CODES, Failure};
use crate::logging::Logging;
use crate::output::Output;
use crate::target::{Database, Target, URL_VARIABLE};
use crate::when::{self, When};

/// Where a system keeps its user's name.
const USER_VARIABLES: [&str; 2] = ["USER", "LOGNAME"];
const APPLICATION_VARIABLE: &str = "FIRETIME_APPLICATION";

const DATABASE_HELP: &str = "\
The database's URL (sqlite:FILE, postgres://..., mysql://...) is read from the environment variable
FIRETIME_DATABASE_URL or from the file that --database-url-file names. It is never shown.";

/// A cluster-safe job scheduler: several servers, one schedule, nothing but the database they share.
#[derive(Debug, Parser)]
#[command(name = "firetime", version, after_help = EXIT_CODES)]
pub(crate) struct RawArgs {
    /// Logs more: information, details, everything
    #[arg(short, long, action = ArgAction::Count, global = true)]
    verbose: u8,
    /// Logs as this log4rs configuration (YAML) says; without it warnings go to standard error
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "verbose")]
    log_config: Option<PathBuf>,
    #[command(flatten)]
    cluster: RawCluster,
    #[command(subcommand)]
    command: RawCommand,
}

/// Which cluster: before the command or behind it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which cluster")]
struct RawCluster {
    /// The application's name
    #[arg(long, env = APPLICATION_VARIABLE, hide_env_values = true, value_name = "NAME", global = true)]
    application: Option<String>,
    /// Reads the database's URL from this file instead of FIRETIME_DATABASE_URL
    #[arg(long, value_name = "FILE", global = true)]
    database_url_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum RawCommand {
    /// Creates or upgrades firetime's tables
    #[command(after_help = DATABASE_HELP)]
    Migrate(RawOutput),
    /// Shows a cluster at work: three processes, one killed half-way, and the ledger's verdict
    ///
    /// Starts three nodes on a SQLite file of its own, shows every execution as it happens, kills one node
    /// with SIGKILL, and at the end compares the ledger and what the nodes said with what was planned,
    /// which is counted without the database and without the cron engine. Takes about half a minute; ends
    /// with code 3 if the verdict is not clean.
    Demo {
        /// Keeps the database in this folder; default: a temporary one, deleted at the end
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
        #[command(flatten)]
        output: RawOutput,
    },
    /// One node of the demo
    #[command(hide = true)]
    DemoNode,
    /// Lists an application's nodes, newest first
    #[command(after_help = DATABASE_HELP)]
    Nodes(RawOutput),
    /// Lists an application's schedules by name, or changes one
    #[command(after_help = DATABASE_HELP, args_conflicts_with_subcommands = true)]
    Schedules {
        #[command(subcommand)]
        verb: Option<RawScheduleVerb>,
        #[command(flatten)]
        output: RawOutput,
    },
    /// Lists an application's executions, newest first, or changes one
    #[command(after_help = DATABASE_HELP, args_conflicts_with_subcommands = true)]
    Executions {
        #[command(subcommand)]
        verb: Option<RawExecutionVerb>,
        #[command(flatten)]
        filter: RawFilter,
        #[command(flatten)]
        output: RawOutput,
    },
    /// Lists who changed what in an application, newest first
    #[command(after_help = DATABASE_HELP)]
    Audit {
        #[command(flatten)]
        filter: RawAuditFilter,
        #[command(flatten)]
        output: RawOutput,
    },
    /// Answers questions about cron expressions
    #[command(subcommand)]
    Cron(RawCron),
}

#[derive(Debug, Subcommand)]
enum RawScheduleVerb {
    /// Lists them (as without a verb)
    List(RawOutput),
    /// Pauses one: nothing planned of it is claimed until it is resumed
    Pause(RawOrder),
    /// Ends a pause: what was planned meanwhile is skipped
    Resume(RawOrder),
    /// Runs one once more, now or later, beside what is planned
    Run {
        #[command(flatten)]
        order: RawOrder,
        /// What the handler is given instead of the schedule's payload, as JSON
        #[arg(long, value_name = "JSON", value_parser = json)]
        payload: Option<serde_json::Value>,
        /// When: 2025-01-31T09:00:00Z (RFC 3339); default: at once
        #[arg(long, value_name = "TIME")]
        at: Option<DateTime<Utc>>,
    },
    /// Skips the next occurrence of one
    Skip {
        #[command(flatten)]
        order: RawOrder,
        /// Its fire time, as `firetime schedules` shows it: 2025-01-31T09:00:00Z (RFC 3339)
        #[arg(value_name = "TIME")]
        fire_time: DateTime<Utc>,
    },
    /// Removes one: nothing of it is claimed any more, what waits is cancelled, what runs ends normally
    Remove {
        #[command(flatten)]
        order: RawOrder,
        /// Removes it; without this it is only told what would be removed
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
enum RawExecutionVerb {
    /// Cancels one: at once if it has not begun, otherwise its handler is asked to end
    Cancel(RawOrder),
    /// Makes another attempt at one that is failed, cancelled or abandoned
    Retry(RawOrder),
}

/// A change of one thing.
#[derive(Debug, Args)]
struct RawOrder {
    /// Its name, or an execution's id
    #[arg(value_name = "NAME")]
    name: String,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Who changes it, for the audit; default: the system's user
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

#[derive(Debug, Args)]
struct RawAuditFilter {
    /// Only of the schedule of this name
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Only by this actor
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only of this verb: ensure, pause, resume, trigger, skip, cancel,
    /// retry, remove
    #[arg(long, value_name = "VERB")]
    verb: Option<String>,
    /// Only since then: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 1d ago
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    since: Option<When>,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

#[derive(Debug, Args)]
struct RawOutput {
    /// Tables for people (instants in UTC), or one JSON document for scripts (instants in epoch milliseconds
    /// UTC)
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    output: Output,
}

#[derive(Debug, Args)]
struct RawFilter {
    /// Only these states, separated by commas: pending, claimed, running, succeeded, failed, ...
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = state)]
    state: Vec<ExecutionState>,
    /// Only of the schedule of this name
    #[arg(long, value_name = "NAME")]
    schedule: Option<String>,
    /// Only of the node whose id begins like this
    #[arg(long, value_name = "ID", value_parser = node_prefix)]
    node: Option<String>,
    /// Only with a fire time since then, whenever they ran: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h,
    /// 1d ago
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    since: Option<When>,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

#[derive(Debug, Subcommand)]
enum RawCron {
    /// Lists the next fire times of an expression, or of each line of a file
    #[command(after_help = "\
Each line of the file is EXPR, ZONE, AFTER_MS and COUNT (1 to 100000), separated by tabs; AFTER_MS is
in epoch milliseconds and the fire times are strictly later. Each line is answered by one line, in order:
`ok` and the fire times in epoch milliseconds, with `end` behind them if there are no more than those;
or `err` and the reason; separated by tabs.")]
    Next(RawNext),
}

#[derive(Debug, Args)]
struct RawNext {
    /// A cron expression in Quartz's dialect: second minute hour day-of-month month day-of-week [year]
    #[arg(value_name = "EXPR", required_unless_present = "file")]
    expression: Option<String>,
    /// The time zone, an IANA name such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,
    /// Fire times after this: RFC 3339, an age such as 15m, or epoch milliseconds; default: now
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse_or_millis)]
    after: Option<When>,
    /// How many
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    /// Answers each line of this file (`-`: standard input), one line each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["expression", "zone", "after", "count", "output"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    output: RawOutput,
}

/// What the program is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    Migrate(Database, Output),
    Demo(demo::Options),
    DemoNode(Database),
    Nodes(Target),
    Schedules(Target),
    Executions(Target, ExecutionFilter),
    Change(Target, Verb, Order),
    Audit(Target, AuditFilter),
    CronNext(Question, Output),
    CronBatch(Source),
}

/// A command, and how it logs.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) logging: Logging,
    pub(crate) command: Command,
}

impl RawArgs {
    /// Makes sense of what was asked; `variable` looks into the environment.
    pub(crate) fn resolve(
        self,
        variable: impl Fn(&str) -> Option<OsString>,
        now: DateTime<Utc>,
    ) -> Result<Invocation, Failure> {
        let logging = match (&self.log_config, &self.command) {
            (Some(path), _) => Logging::File(path.clone()),
            // The demo itself shows what a node would warn of.
            (None, RawCommand::DemoNode) if self.verbose == 0 => Logging::Stderr(log::LevelFilter::Error),
            (None, _) => Logging::verbose(self.verbose),
        };
        let database = || self.cluster.database(&variable);
        let target = |output: RawOutput| self.cluster.target(&variable, output.output);
        let command = match self.command {
            RawCommand::Migrate(output) => Command::Migrate(database()?, output.output),
            RawCommand::Demo { keep, output } => {
                Command::Demo(demo::Options { keep, output: output.output, logging: logging.clone() })
            }
            RawCommand::DemoNode => Command::DemoNode(database()?),
            RawCommand::Nodes(output) => Command::Nodes(target(output)?),
            RawCommand::Schedules { verb: None, output } => Command::Schedules(target(output)?),
            RawCommand::Schedules { verb: Some(verb), .. } => {
                let (verb, order) = match verb {
                    RawScheduleVerb::List(output) => {
                        return Ok(Invocation { logging, command: Command::Schedules(target(output)?) });
                    }
                    RawScheduleVerb::Pause(order) => (Verb::Pause, order),
                    RawScheduleVerb::Resume(order) => (Verb::Resume, order),
                    RawScheduleVerb::Run { order, payload, at } => (Verb::Run { payload, at }, order),
                    RawScheduleVerb::Skip { order, fire_time } => (Verb::Skip(fire_time), order),
                    RawScheduleVerb::Remove { order, yes } => (Verb::Remove { yes }, order),
                };
                let output = RawOutput { output: Output::Table };
                Command::Change(target(output)?, verb, order.resolve(&variable))
            }
            RawCommand::Audit { filter, output } => Command::Audit(target(output)?, filter.resolve(now)),
            RawCommand::Executions { verb: Some(verb), .. } => {
                let (verb, order) = match verb {
                    RawExecutionVerb::Cancel(order) => (Verb::Cancel, order),
                    RawExecutionVerb::Retry(order) => (Verb::Retry, order),
                };
                let output = RawOutput { output: Output::Table };
                Command::Change(target(output)?, verb, order.resolve(&variable))
            }
            RawCommand::Executions { verb: None, filter, output } => {
                Command::Executions(target(output)?, filter.resolve(now))
            }
            RawCommand::Cron(RawCron::Next(next)) => next.resolve(now)?,
        };
        Ok(Invocation { logging, command })
    }
}

impl RawCluster {
    fn target(&self, variable: impl Fn(&str) -> Option<OsString>, output: Output) -> Result<Target, Failure> {
        let application = self.application.clone().filter(|name| !name.is_empty()).ok_or_else(|| {
            Failure::Usage(format!(
                "which application? Name it with --application or set {APPLICATION_VARIABLE}"
            ))
        })?;
        Ok(Target { application, database: self.database(variable)?, output })
    }

    fn database(&self, variable: impl Fn(&str) -> Option<OsString>) -> Result<Database, Failure> {
        let url = match (&self.database_url_file, variable(URL_VARIABLE)) {
            (Some(path), _) => read_url(path)?,
            (None, Some(url)) => {
                url.into_string().map_err(|_| Failure::Usage(format!("{URL_VARIABLE} is not UTF-8")))?
            }
            (None, None) => String::new(),
        };
        match url.trim() {
            "" => Err(Failure::Usage(format!(
                "which database? Set {URL_VARIABLE} or name a file with --database-url-file"
            ))),
            url => Ok(Database { url: url.to_owned() }),
        }
    }
}

fn read_url(path: &Path) -> Result<String, Failure> {
    /// More is no URL.
    const LONGEST: u64 = 64 * 1_024;
    let mut url = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_string(&mut url))
        .map_err(|error| Failure::Usage(format!("--database-url-file {}: {error}", path.display())))?;
    Ok(url)
}

impl RawOrder {
    fn resolve(self, variable: impl Fn(&str) -> Option<OsString>) -> Order {
        let user = || USER_VARIABLES.iter().find_map(|name| variable(name)?.into_string().ok());
        let actor = self.actor.or_else(user).filter(|name| !name.is_empty());
        Order { name: self.name, actor, reason: self.reason }
    }
}

impl RawAuditFilter {
    fn resolve(self, now: DateTime<Utc>) -> AuditFilter {
        AuditFilter {
            target: self.target,
            actor: self.actor,
            verb: self.verb,
            since: self.since.map(|since| since.from(now)),
            limit: usize::try_from(self.limit).unwrap_or(usize::MAX),
        }
    }
}

impl RawFilter {
    fn resolve(self, now: DateTime<Utc>) -> ExecutionFilter {
        ExecutionFilter {
            schedule: self.schedule,
            states: self.state,
            node: self.node,
            since: self.since.map(|since| since.from(now)),
            limit: usize::try_from(self.limit).unwrap_or(usize::MAX),
        }
    }
}

impl RawNext {
    fn resolve(self, now: DateTime<Utc>) -> Result<Command, Failure> {
        let question = match (self.file, self.expression) {
            (Some(path), _) => return Ok(Command::CronBatch(Source::named(path))),
            (None, Some(expression)) => Question {
                cron: Cron::parse(&expression, &self.zone)?,
                after: self.after.map_or(now, |after| after.from(now)).timestamp_millis(),
                count: self.count,
            },
            (None, None) => return Err(Failure::Usage("which expression? Write one, or --file".to_owned())),
        };
        Ok(Command::CronNext(question, self.output.output))
    }
}

fn json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| format!("no JSON: {error}; a text is written '\"text\"'"))
}

fn state(word: &str) -> Result<ExecutionState, String> {
    word.trim().to_uppercase().replace('-', "_").parse().map_err(|_| {
        let allowed: Vec<String> =
            ExecutionState::ALL.iter().map(|state| state.as_str().to_lowercase()).collect();
        format!("no such state; there are {}", allowed.join(", "))
    })
}

fn node_prefix(text: &str) -> Result<String, String> {
    let id = text.trim().to_lowercase();
    if !id.is_empty() && id.len() <= 36 && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        Ok(id)
    } else {
        Err("write the beginning of a node's id: hexadecimal digits and `-`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn resolve(line: &[&str], url: Option<&str>) -> Result<Command, Failure> {
        let args = RawArgs::try_parse_from(["firetime"].iter().chain(line))
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let variable = |name: &str| url.filter(|_| name == URL_VARIABLE).map(OsString::from);
        Ok(args.resolve(variable, "2025-01-02T00:00:00Z".parse().unwrap())?.command)
    }

    fn refused(line: &[&str]) -> String {
        let failure = resolve(line, Some("sqlite:x.db")).unwrap_err();
        assert_eq!(failure.code(), 2);
        failure.message().unwrap()
    }

    #[test]
    fn the_command_line_is_consistent() {
        RawArgs::command().debug_assert();
    }

    #[test]
    fn executions_take_states_node_and_since() {
        let line = [
            "executions",
            "--application",
            "shop",
            "--state",
            "claimed,Running,timed-out",
            "--node",
            "1F",
            "--since",
            "1d",
        ];
        let Command::Executions(target, filter) = resolve(&line, Some("sqlite:x.db")).unwrap() else {
            panic!()
        };
        assert_eq!(target.application, "shop");
        assert_eq!(
            filter.states,
            [ExecutionState::Claimed, ExecutionState::Running, ExecutionState::TimedOut]
        );
        assert_eq!(filter.node.as_deref(), Some("1f"));
        assert_eq!(filter.since, Some("2025-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(filter.limit, 1_000);
    }

    #[test]
    fn the_cluster_is_named_before_the_command_or_behind_it() {
        for line in [["--application", "shop", "nodes"], ["nodes", "--application", "shop"]] {
            let Command::Nodes(target) = resolve(&line, Some("sqlite:x.db")).unwrap() else { panic!() };
            assert_eq!(target.application, "shop");
        }
        assert!(refused(&["nodes"]).contains("FIRETIME_APPLICATION"));
        assert!(refused(&["--application", "", "nodes"]).contains("--application"));
    }

    #[test]
    fn an_unknown_state_is_answered_with_those_there_are() {
        let message = refused(&["executions", "--application", "shop", "--state", "claimed,runing"]);
        assert!(
            message.contains("runing") && message.contains("running") && message.contains("skipped"),
            "{message}"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let app = ["executions", "--application", "shop"];
        for rest in
            [["--node", ""], ["--node", "x%"], ["--since", "tomorrow"], ["--limit", "0"], ["--output", "xml"]]
        {
            refused(&[&app[..], &rest[..]].concat());
        }
        refused(&["cron", "next"]);
        refused(&["cron", "next", "* * * * * ?", "--count", "0"]);
        refused(&["cron", "next", "* * * * * ?", "--file", "-"]);
        refused(&["nodes", "--application", "shop", "-v", "--log-config", "x.yaml"]);
        assert!(refused(&["cron", "next", "* * * * *"]).contains("seconds come first"));
        assert!(refused(&["cron", "next", "* * * * * ?", "--zone", "Mars"]).contains("Mars"));
    }

    #[test]
    fn without_a_database_the_two_ways_to_name_one_are_told() {
        for url in [None, Some(""), Some(" \n")] {
            let message = resolve(&["migrate"], url).unwrap_err().message().unwrap();
            assert!(message.contains("FIRETIME_DATABASE_URL") && message.contains("--database-url-file"));
        }
    }

    #[test]
    fn the_url_file_wins_and_the_url_is_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        std::fs::write(&file, "postgres://me:secret@host/db\n").unwrap();
        let line = ["migrate", "--database-url-file", file.to_str().unwrap()];
        let command = resolve(&line, Some("sqlite:other.db")).unwrap();
        let Command::Migrate(database, _) = &command else { panic!() };
        assert_eq!(database.url, "postgres://me:secret@host/db");
        assert!(!format!("{command:?}").contains("secret"));
    }

    #[test]
    fn cron_next_reads_milliseconds_before_1970_too() {
        let line = ["cron", "next", "@daily", "--after", "-1", "--zone", "Asia/Tokyo"];
        let Command::CronNext(question, Output::Table) = resolve(&line, None).unwrap() else { panic!() };
        assert_eq!((question.after, question.count, question.cron.zone()), (-1, 10, "Asia/Tokyo"));
    }
}
