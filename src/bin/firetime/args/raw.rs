//! The command line as clap reads it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgGroup, Args, Parser, Subcommand};
use firetime::{
    ExecutionState, MisfirePolicy, Overlap, ScheduleField, ScheduleFilter, SchedulePlace, Standing,
};
use serde_json::value::RawValue;

#[cfg(feature = "console")]
use super::console::{RawConsole, RawConsoleVerb};
use super::examples;
#[cfg(feature = "testing")]
use super::replay::RawReplay;
use crate::add::Clearable;
use crate::failure::EXIT_CODES;
use crate::output::{ListOutput, Output};
use crate::target::APPLICATION_VARIABLE;
use crate::when::{self, Moment, When};

/// A cluster-safe job scheduler: several servers, one schedule, nothing but the database they share.
#[derive(Debug, Parser)]
#[command(name = "firetime", version, after_help = EXIT_CODES)]
pub(crate) struct RawArgs {
    /// Logs more: -v information, -vv details, -vvv everything; default: warnings
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(super) verbose: u8,
    /// Logs as this log4rs configuration (YAML) says; without it warnings go to standard error
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "verbose")]
    pub(super) log_config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) cluster: RawCluster,
    #[command(subcommand)]
    pub(super) command: RawCommand,
}

/// Which cluster: before the command or behind it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which cluster")]
pub(super) struct RawCluster {
    /// The application's name
    #[arg(long, env = APPLICATION_VARIABLE, hide_env_values = true, value_name = "APPLICATION", global = true)]
    pub(super) application: Option<String>,
    /// Reads the database's URL from this file instead of FIRETIME_DATABASE_URL
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) database_url_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RawCommand {
    /// Creates or upgrades firetime's tables
    #[command(after_help = examples::DATABASE)]
    Migrate(RawOutput),
    /// Says whether an application is healthy, and of each problem its place and its remedy
    ///
    /// Looks for live nodes and their heartbeats, stuck handlers, jobs that no live node has a handler for,
    /// schedules that are in error, overdue, or paused by firetime, late executions, and what somebody has
    /// paused. Ends with code 3 if there is a problem.
    #[command(after_help = examples::CHECK)]
    Check(RawOutput),
    /// Says why a schedule's occurrence, or an execution, ran or did not, and what that is known from
    ///
    /// It is told from the ledger, the audit and the rows as they are now. What retention has removed, or
    /// nobody wrote, is said to be unknown.
    #[command(after_help = examples::WHY)]
    #[command(group = ArgGroup::new("of").required(true).args(["schedule", "execution"]))]
    Why {
        /// The schedule's name
        #[arg(value_name = "SCHEDULE")]
        schedule: Option<String>,
        /// The occurrence's fire time: '2025-01-31 09:00:00.000' (UTC), or 2025-01-31T09:00:00Z (RFC 3339);
        /// or the day of several, 2025-01-31, in the time zone of the schedule; default: the last fire time
        /// that has come
        #[arg(value_name = "TIME", value_parser = when::parse_moment, conflicts_with = "execution")]
        fire_time: Option<Moment>,
        /// The execution of this id instead
        #[arg(long, value_name = "ID", value_parser = when::parse_id)]
        execution: Option<i64>,
        #[command(flatten)]
        output: RawOutput,
    },
    /// Says whether the ledger accounts for every occurrence that the triggers demanded, and what it lacks
    ///
    /// Lists the fire times of each trigger that a schedule has had, counted without the engine, and compares
    /// them with the ledger: each has run, was skipped or withdrawn, or waits. Changes nothing. Ends with
    /// code 3 if something is wrong. What retention has removed is left out.
    #[command(after_help = examples::VERIFY)]
    Verify {
        /// Of this schedule alone
        #[arg(value_name = "SCHEDULE")]
        schedule: Option<String>,
        /// Only fire times since then: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 30d ago
        #[arg(long, value_name = "WHEN", allow_hyphen_values = true, value_parser = when::parse)]
        since: Option<When>,
        /// Only fire times before then; default: now
        #[arg(long, value_name = "WHEN", allow_hyphen_values = true, value_parser = when::parse)]
        until: Option<When>,
        /// Writes a certificate of what there is to this file, which must not be there yet
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
        /// Verifies what this certificate is of, and whether its rows and triggers have changed since
        #[arg(long, value_name = "FILE", conflicts_with_all = ["schedule", "since", "until", "certificate"])]
        against: Option<PathBuf>,
        #[command(flatten)]
        output: RawOutput,
    },
    /// Plays an application's past again, in memory, with a change: what would have run, been late, skipped
    ///
    /// Its schedules are as they are now, and each run takes as long as it took then, and ends as it did. The
    /// past is played with the change and without; what differs is shown as `without -> with`. RAN THEN is
    /// what the ledger says: where RAN differs from it, something was otherwise then that a replay cannot
    /// know, such as an earlier trigger, a pause or a dead node. Reads the database, and changes nothing.
    #[cfg(feature = "testing")]
    #[command(after_help = examples::REPLAY)]
    Replay {
        #[command(flatten)]
        replay: Box<RawReplay>,
        #[command(flatten)]
        output: RawOutput,
    },
    /// Serves the figures of an application's cluster to Prometheus, until it is ended
    ///
    /// GET /metrics reads them from the database, at most once in 5 s. For applications that have no route of
    /// their own for their nodes' metrics. docs/guide/observing.md lists the figures. Whoever reaches the
    /// address can read the names of jobs and schedules.
    #[command(after_help = examples::EXPORTER)]
    Exporter {
        /// The address and port to listen on
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9464")]
        listen: SocketAddr,
    },
    /// Serves the console, web pages on an application's cluster, until it is ended
    ///
    /// They show what needs people, the schedules, executions, jobs, nodes and the audit, and can do what the
    /// other commands can. Without a login it listens on this machine alone, and whoever reaches it may do
    /// everything; --users has people log in, and --trust-header leaves that to a proxy. docs/console.md
    /// tells more.
    #[cfg(feature = "console")]
    #[command(after_help = examples::CONSOLE, args_conflicts_with_subcommands = true)]
    Console {
        #[command(subcommand)]
        verb: Option<RawConsoleVerb>,
        #[command(flatten)]
        console: Box<RawConsole>,
    },
    /// Shows a cluster at work: three processes, one killed half-way, and the ledger's verdict
    ///
    /// Starts three nodes on a SQLite file of its own or on a database of yours, shows every execution as it
    /// happens, kills one node with SIGKILL, and at the end compares the ledger and the nodes' reports with
    /// the planned fire times, counted without the database and without the cron engine. Takes about half a
    /// minute; ends with code 3 if the verdict is not clean.
    Demo(RawDemo),
    /// One node of the demo
    #[command(hide = true)]
    DemoNode,
    /// Lists an application's schedules by name, shows one, makes one, or changes one
    #[command(after_help = examples::SCHEDULES, args_conflicts_with_subcommands = true)]
    Schedules {
        #[command(subcommand)]
        verb: Option<RawScheduleVerb>,
        #[command(flatten)]
        filter: RawSchedules,
        #[command(flatten)]
        list: RawList,
    },
    /// Lists an application's executions, newest first, shows one, or changes some
    #[command(after_help = examples::EXECUTIONS, args_conflicts_with_subcommands = true)]
    Executions {
        #[command(subcommand)]
        verb: Option<RawExecutionVerb>,
        #[command(flatten)]
        filter: Box<RawFilter>,
        #[command(flatten)]
        page: RawPage,
        #[command(flatten)]
        list: RawList,
    },
    /// Lists an application's nodes, newest first, or pauses, drains or resumes one
    #[command(after_help = examples::NODES, args_conflicts_with_subcommands = true)]
    Nodes(RawListed<RawNodeVerb>),
    /// Lists an application's jobs by name, enqueues an execution of one, or pauses or resumes one
    #[command(after_help = examples::JOBS, args_conflicts_with_subcommands = true)]
    Jobs(RawListed<RawJobVerb>),
    /// Lists the database's applications by name, or pauses or resumes the one of --application
    #[command(after_help = examples::DATABASE, args_conflicts_with_subcommands = true)]
    Apps(RawListed<RawAppVerb>),
    /// Lists who changed what in an application, newest first
    #[command(after_help = examples::AUDIT)]
    Audit {
        #[command(flatten)]
        filter: RawAuditFilter,
        #[command(flatten)]
        list: RawList,
    },
    /// Counts the attempts that have ended, by state, with how late they began and how long they took
    ///
    /// Skipped occurrences, and executions that were cancelled before they began, are no attempts: see
    /// executions --state.
    #[command(after_help = examples::OUTCOMES)]
    Outcomes {
        #[command(flatten)]
        filter: RawOutcomes,
        #[command(flatten)]
        list: RawList,
    },
    /// Runs occurrences of a schedule that did not succeed, each under its own fire time, or ends that
    ///
    /// Without --yes it lists them: which would be run, and which have succeeded or have not ended.
    #[command(after_help = examples::RERUN)]
    #[command(group = ArgGroup::new("what").required(true).args(["schedule", "cancel"]))]
    Rerun(Box<RawRerun>),
    /// Runs a schedule for the fire times that its trigger has in a span of time, such as before it was made
    ///
    /// Without --yes it lists them: which would be run, and which have succeeded or have not ended.
    #[command(after_help = examples::BACKFILL)]
    Backfill(RawBackfill),
    /// Answers questions about cron expressions
    #[command(subcommand)]
    Cron(RawCron),
    /// Writes a shell's completions to standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Writes a man page for each command
    Man {
        /// The folder to write them to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// A command on things of one kind: without a verb it lists them.
#[derive(Debug, Args)]
pub(super) struct RawListed<V: Subcommand> {
    #[command(subcommand)]
    pub(super) verb: Option<V>,
    #[command(flatten)]
    pub(super) list: RawList,
}

#[derive(Debug, Subcommand)]
pub(super) enum RawScheduleVerb {
    /// Lists them (as without a verb)
    List {
        #[command(flatten)]
        filter: RawSchedules,
        #[command(flatten)]
        list: RawList,
    },
    /// Shows one whole: its payload, its next fire times, what became of it
    Show {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        output: RawOutput,
    },
    /// Makes one; shows its next five fire times first
    #[command(after_help = examples::ADD)]
    Add(Box<RawAdd>),
    /// Changes the fields of one that are named, and tells what they were
    ///
    /// A field that is not named stays as it is: nothing has a default here.
    #[command(after_help = examples::SET)]
    Set(Box<RawSet>),
    /// Pauses one: nothing planned of it is claimed until it is resumed
    Pause(RawPause),
    /// Ends a pause: what was planned meanwhile is skipped
    Resume(RawSubject),
    /// Runs one once more, now or later, beside what is planned
    Run {
        #[command(flatten)]
        subject: RawSubject,
        /// What the handler is given instead of the schedule's payload, as JSON
        #[arg(long, value_name = "JSON", value_parser = json)]
        payload: Option<Box<RawValue>>,
        /// When: 2025-01-31T09:00:00Z (RFC 3339), or in 90s, 15m, 2h, 1d; default: at once
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse_ahead)]
        at: Option<When>,
    },
    /// Skips the next occurrence of one
    Skip {
        #[command(flatten)]
        subject: RawSubject,
        /// Its fire time, as `firetime schedules` shows it: '2025-01-31 09:00:00.000' (UTC), or
        /// 2025-01-31T09:00:00Z (RFC 3339)
        #[arg(value_name = "TIME", value_parser = when::parse_fire_time)]
        fire_time: DateTime<Utc>,
    },
    /// Removes one: nothing of it is claimed any more, what waits is cancelled, what runs ends normally
    Remove {
        #[command(flatten)]
        subject: RawSubject,
        /// Asks what runs of it to end, too
        #[arg(long)]
        cancel_running: bool,
        /// Removes it; without this it is only told what would be removed
        #[arg(long)]
        yes: bool,
        /// Tells what would be cancelled and withdrawn, and removes nothing
        #[arg(long, conflicts_with = "yes")]
        dry_run: bool,
    },
}

/// Where the demo runs, and how it is watched.
#[derive(Debug, Args)]
pub(super) struct RawDemo {
    /// Runs on the database of FIRETIME_DATABASE_URL or --database-url-file, in a new application of its
    /// own whose rows stay there; makes firetime's tables if there are none
    #[arg(long)]
    pub(super) database: bool,
    /// Keeps the SQLite file in this folder; default: a temporary one, deleted at the end
    #[arg(long, value_name = "DIR", conflicts_with_all = ["database", "database_url_file"])]
    pub(super) keep: Option<PathBuf>,
    /// Opens the console on it, which shows all of it and changes nothing, and leaves it open until you
    /// press Enter
    #[cfg(feature = "console")]
    #[arg(long)]
    pub(super) console: bool,
    /// The console's address and port, of this machine alone; port 0 is a free one
    #[cfg(feature = "console")]
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", requires = "console")]
    pub(super) listen: std::net::SocketAddr,
    #[command(flatten)]
    pub(super) output: RawOutput,
}

/// Which schedules are listed.
#[derive(Debug, Args)]
pub(super) struct RawSchedules {
    /// Only those that live in the code of this owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Only those with this text in their name, their job's name or their description, in any case
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only those of this job
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only those that stand so: neglected stands for error, contained (paused by itself), overdue, unmet
    /// (not succeeded in time), unclaimed (no live node can run it) and left-alone
    #[arg(long, value_name = "STATE", value_parser = standings())]
    state: Option<Standing>,
    /// First those that are neglected, the gravest first
    #[arg(long)]
    neglected_first: bool,
    /// Only what follows this in the list: the place that a page before has told
    #[arg(long, value_name = "PLACE")]
    after: Option<SchedulePlace>,
}

fn standings() -> impl TypedValueParser<Value = Standing> {
    let words = PossibleValuesParser::new(Standing::ALL.iter().map(|it| it.as_str()));
    words.try_map(|word| word.parse::<Standing>())
}

impl RawSchedules {
    pub(super) fn resolve(self) -> ScheduleFilter {
        let Self { owner, text, job, state, neglected_first, after } = self;
        let filter = ScheduleFilter::default();
        ScheduleFilter { owner, text, job, standing: state, neglected_first, after, ..filter }
    }
}

/// A schedule to be made.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("work").required(true).args(["job"]))]
#[command(group = ArgGroup::new("trigger").required(true).args(TRIGGERS))]
pub(super) struct RawAdd {
    #[command(flatten)]
    pub(super) subject: RawSubject,
    #[command(flatten)]
    pub(super) fields: RawFields,
    /// Replaces one of this name that is defined otherwise, with all its fields
    #[arg(long)]
    pub(super) replace: bool,
    /// Replaces it; without this it is only told what differs
    #[arg(long, requires = "replace")]
    pub(super) yes: bool,
    /// Shows its next fire times and makes nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// A schedule that is to be changed.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("trigger").args(TRIGGERS), mut_args = without_default)]
pub(super) struct RawSet {
    #[command(flatten)]
    pub(super) subject: RawSubject,
    #[command(flatten)]
    pub(super) fields: RawFields,
    /// Takes fields away, which are then as if they had never been named, such as --clear=end,time-limit: no
    /// end, the job's time limit
    #[arg(long, value_name = "FIELDS", require_equals = true, value_delimiter = ',')]
    pub(super) clear: Vec<Clearable>,
    /// Gives fields that were changed by hand back to the code of its owner, whose next sync sets them, such
    /// as --reset=priority,trigger; without any, all of them
    #[arg(long, value_name = "FIELDS", num_args = 0..=1, require_equals = true, value_delimiter = ',',
        value_parser = field)]
    pub(super) reset: Option<Vec<ScheduleField>>,
    /// Changes it although that withdraws occurrences that are due; without this it is only told how many
    #[arg(long)]
    pub(super) yes: bool,
    /// Shows what would change, and its next fire times if its trigger would, and changes nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// The options of which one says when a schedule fires.
const TRIGGERS: [&str; 4] = ["cron", "every", "after", "at"];

/// The fields of a schedule's definition.
#[derive(Debug, Args)]
#[command(next_help_heading = "Its definition")]
pub(super) struct RawFields {
    /// The job that it runs
    #[arg(long, value_name = "JOB")]
    pub(super) job: Option<String>,
    /// Fires as this cron expression says: second minute hour day-of-month month day-of-week [year]
    #[arg(long, value_name = "EXPR")]
    pub(super) cron: Option<String>,
    /// The expression's time zone, an IANA name such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with_all = ["every", "after", "at"])]
    pub(super) zone: Option<String>,
    /// Fires at this interval, from now on or from --start: 1s to 36500d, as 90s, 15m, 2h, 1d
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = when::parse_interval)]
    pub(super) every: Option<Duration>,
    /// Fires now, and then always so long after the end of the last run: 1s to 36500d, as 90s, 15m, 2h, 1d
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = when::parse_interval)]
    pub(super) after: Option<Duration>,
    /// Fires once: 2025-01-31T09:00:00Z (RFC 3339), or in 90s, 15m, 2h, 1d
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse_ahead)]
    pub(super) at: Option<When>,
    /// Fires at or after this: 2025-01-31T09:00:00Z (RFC 3339), or in 90s, 15m, 2h, 1d; an interval begins
    /// with it [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse_ahead)]
    pub(super) start: Option<When>,
    /// Fires at or before this: 2025-01-31T09:00:00Z (RFC 3339), or in 90s, 15m, 2h, 1d [default: no end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse_ahead)]
    pub(super) end: Option<When>,
    /// What its handler is given, as JSON [default: null]
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub(super) payload: Option<Box<RawValue>>,
    /// What it is for, for people: one line of up to 500 characters [default: empty]
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// Of the due occurrences of its job the highest starts first; a point counts as ten minutes of waiting.
    /// Any whole number of 32 bits [default: 5]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = whole)]
    pub(super) priority: Option<i32>,
    /// What becomes of missed occurrences: fire_once (the latest runs), do_nothing (all are skipped), or
    /// fire_all [default: fire_once]
    #[arg(long, value_name = "POLICY", value_parser = misfire)]
    pub(super) misfire: Option<MisfirePolicy>,
    /// From how late on an occurrence counts as missed: 90s, 15m. A node takes no less than its poll
    /// interval, its store timeout and 2 s together, 10 s if it has the defaults [default: 60s]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = when::parse_span)]
    pub(super) misfire_threshold: Option<Duration>,
    /// How long a handler may take, in place of what the job says: 1s or more, as 90s, 15m [default: as the
    /// job says]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = when::parse_span)]
    pub(super) time_limit: Option<Duration>,
    /// What becomes of an occurrence while another execution has not ended: skip, queue:3 for up to three
    /// that wait, replace (the other is cancelled), or allow [default: skip for what recurs, allow for what
    /// fires once]
    #[arg(long, value_name = "RULE", value_parser = overlap)]
    pub(super) overlap: Option<Overlap>,
    /// It pauses itself after so many occurrences in a row that failed for good or killed their nodes, or two
    /// in a row that killed their nodes: 1 to 1000; 0: never [default: only after those two]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(super) pause_after: Option<u32>,
    /// Each occurrence is to have succeeded within so long of its fire time, else that is told and recorded:
    /// 90s, 15m, 6h; 0s: nobody waits for it [default: nobody waits for it]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = when::parse_span)]
    pub(super) expected_by: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub(super) enum RawExecutionVerb {
    /// Lists them (as without a verb)
    List {
        #[command(flatten)]
        filter: Box<RawFilter>,
        #[command(flatten)]
        page: RawPage,
        #[command(flatten)]
        list: RawList,
    },
    /// Shows one whole: its payload, all attempts at its occurrence, and where they ran
    Show {
        /// Its id
        #[arg(value_name = "ID", value_parser = when::parse_id)]
        id: i64,
        #[command(flatten)]
        output: RawOutput,
    },
    /// Lists what its handlers have said, in all attempts at its occurrence
    Logs {
        /// Its id
        #[arg(value_name = "ID", value_parser = when::parse_id)]
        id: i64,
        /// Lists what they say from now on, too, until it has ended; with --output table or jsonl
        #[arg(long)]
        follow: bool,
        /// How they are written
        #[arg(long, value_enum, default_value_t, value_name = "FORM")]
        output: ListOutput,
    },
    /// Cancels one, or those of a filter: at once if it has not begun, otherwise its handler is asked to end
    Cancel(RawBulk),
    /// Makes another attempt at one, or at those of a filter, that are failed, cancelled or abandoned
    Retry(RawBulk),
}

#[derive(Debug, Subcommand)]
pub(super) enum RawNodeVerb {
    /// Lists them (as without a verb)
    List(RawList),
    /// Pauses one: it claims nothing from its next poll on; what it has waiting runs
    Pause(RawPause),
    /// Drains one: it claims nothing, hands back what waits, and runs to its end what runs
    Drain(RawSubject),
    /// Lets one claim again that was paused or drained
    Resume(RawSubject),
}

#[derive(Debug, Subcommand)]
pub(super) enum RawJobVerb {
    /// Lists them (as without a verb)
    List(RawList),
    /// Pauses one: none of its schedules is claimed until it is resumed, nor what is enqueued
    Pause(RawPause),
    /// Ends a pause: what was planned meanwhile is skipped, what was enqueued runs
    Resume(RawSubject),
    /// Runs one once, now or later, without a schedule
    #[command(after_help = examples::ENQUEUE)]
    Enqueue(RawEnqueue),
}

/// An execution without a schedule.
#[derive(Debug, Args)]
pub(super) struct RawEnqueue {
    /// The job's name
    #[arg(value_name = "JOB")]
    pub(super) job: String,
    /// What its handler is given, as JSON
    #[arg(long, value_name = "JSON", value_parser = json, default_value = "null")]
    pub(super) payload: Box<RawValue>,
    /// When: 2025-01-31T09:00:00Z (RFC 3339), or in 90s, 15m, 2h, 1d; default: at once
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse_ahead)]
    pub(super) at: Option<When>,
    /// Of the due executions of its job the highest begins first; a point counts as ten minutes of waiting.
    /// Any whole number of 32 bits [default: 5]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = whole)]
    pub(super) priority: Option<i32>,
    /// A key, of up to 200 characters, that one execution of the job may have that has not ended: if there is
    /// one, nothing is stored
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
    /// Replaces the one that has the key, if it still waits as it was enqueued; it keeps its id
    #[arg(long, requires = "key")]
    pub(super) replace: bool,
    /// The group, of up to 200 characters, that it shares bounds and turns with; programs make it of the
    /// payload, this one cannot [default: none]
    #[arg(long, value_name = "GROUP")]
    pub(super) group: Option<String>,
    /// The lane, of up to 50 characters, that it runs in on nodes that have it [default: its job's]
    #[arg(long, value_name = "LANE")]
    pub(super) lane: Option<String>,
    /// A tag, of up to 100 characters, by which it is found; up to 10 may be given
    #[arg(long = "tag", value_name = "TAG")]
    pub(super) tags: Vec<String>,
    /// A text that its handler reads by this name; up to 32 may be given, of 4 KiB together
    #[arg(long = "header", value_name = "NAME=TEXT", value_parser = header)]
    pub(super) headers: Vec<(String, String)>,
    #[command(flatten)]
    pub(super) output: RawOutput,
}

#[derive(Debug, Subcommand)]
pub(super) enum RawAppVerb {
    /// Lists them (as without a verb)
    List(RawList),
    /// Pauses the application of --application: nothing of it is claimed until it is resumed
    Pause {
        #[command(flatten)]
        by: RawBy,
        #[command(flatten)]
        until: RawUntil,
    },
    /// Ends a pause: what was planned meanwhile is skipped
    Resume(RawBy),
}

/// Who changes something, and why.
#[derive(Debug, Args)]
pub(super) struct RawBy {
    /// Why, for the audit: up to 500 characters
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) reason: String,
    /// Who changes it, for the audit: up to 200 characters; default: the user that USER or LOGNAME names,
    /// else host/process id
    #[arg(long, value_name = "NAME")]
    pub(super) actor: Option<String>,
}

/// A change of one thing.
#[derive(Debug, Args)]
pub(super) struct RawSubject {
    /// Its name; of a node the beginning of its id
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) by: RawBy,
}

#[derive(Debug, Args)]
pub(super) struct RawUntil {
    /// When the pause ends by itself: 2025-01-31T09:00:00Z (RFC 3339), or in 90s, 15m, 2h, 1d; default: never
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse_ahead)]
    pub(super) until: Option<When>,
}

#[derive(Debug, Args)]
pub(super) struct RawPause {
    #[command(flatten)]
    pub(super) subject: RawSubject,
    #[command(flatten)]
    pub(super) until: RawUntil,
}

/// A change of one execution, or of those of a filter.
#[derive(Debug, Args)]
pub(super) struct RawBulk {
    /// Its id; without one, those that the filter means. Beside the id of one to cancel --key and --tag are
    /// conditions: nothing is changed unless it has these
    #[arg(
        value_name = "ID", value_parser = when::parse_id,
        conflicts_with_all = [
            "state", "schedule", "job", "group", "state_reason", "cause", "node", "since", "until", "ended_since",
            "ended_until"
        ]
    )]
    pub(super) id: Option<i64>,
    #[command(flatten)]
    pub(super) filter: Box<RawFilter>,
    #[command(flatten)]
    pub(super) by: RawBy,
    /// Changes those of the filter, the first 100000; without this it is only told how many there are
    #[arg(long)]
    pub(super) yes: bool,
}

/// How what was missed is run.
#[derive(Debug, Args)]
pub(super) struct RawRun {
    /// How far apart they are due: 1s to 1d, as 10s or 1m [default: 1s]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true, value_parser = when::parse_span)]
    pub(super) pace: Option<Duration>,
    #[command(flatten)]
    pub(super) by: RawBy,
    /// Runs them; without this it is only told which they are
    #[arg(long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) output: RawOutput,
}

#[derive(Debug, Args)]
pub(super) struct RawRerun {
    /// The schedule's name
    #[arg(long, value_name = "NAME")]
    pub(super) schedule: Option<String>,
    /// Ends the rerun, or the backfill, of this origin instead: the number that it was answered with
    #[arg(
        long, value_name = "ORIGIN", value_parser = clap::value_parser!(i64).range(1..),
        conflicts_with_all = ["state", "state_reason", "since", "until", "pace", "yes"]
    )]
    pub(super) cancel: Option<i64>,
    /// Only those that ended in these states, separated by commas: failed, timed_out, abandoned, cancelled,
    /// skipped, withdrawn [default: all of these]
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = state)]
    pub(super) state: Vec<ExecutionState>,
    /// Only those for whose state the ledger gives this reason: misfire, paused, overlap, "holder late",
    /// "by hand", "gave up", ...
    #[arg(long, value_name = "REASON")]
    pub(super) state_reason: Option<String>,
    /// Only with a fire time since then: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 1d ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    pub(super) since: Option<When>,
    /// Only with a fire time before this: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 1d ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    pub(super) until: Option<When>,
    #[command(flatten)]
    pub(super) run: RawRun,
}

#[derive(Debug, Args)]
pub(super) struct RawBackfill {
    /// The schedule's name
    #[arg(long, value_name = "NAME")]
    pub(super) schedule: String,
    /// For fire times since then: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 1d ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    pub(super) since: When,
    /// For fire times before this: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 1d ago; default: now
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    pub(super) until: Option<When>,
    #[command(flatten)]
    pub(super) run: RawRun,
}

#[derive(Debug, Args)]
pub(super) struct RawAuditFilter {
    /// Only of the schedule, the job, the node or the application of this name
    #[arg(long, value_name = "NAME")]
    pub(super) target: Option<String>,
    /// Only by this actor
    #[arg(long, value_name = "NAME")]
    pub(super) actor: Option<String>,
    /// Only of this verb: what was done
    #[arg(long, value_name = "VERB", value_parser = [
        "ensure", "sync", "edit", "pause", "resume", "drain", "trigger", "skip", "cancel", "retry", "remove",
        "rerun", "backfill", "unmet", "met"
    ])]
    pub(super) verb: Option<String>,
    /// Only since then: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 1d ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    pub(super) since: Option<When>,
}

#[derive(Debug, Args)]
pub(super) struct RawOutcomes {
    /// Only those that ended since the hour of this instant: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m,
    /// 2h, 1d ago. Hours are kept for two days, and then added up to days by UTC
    #[arg(
        long, value_name = "TIME", default_value = "1d", allow_hyphen_values = true, value_parser = when::parse
    )]
    pub(super) since: When,
    /// Only hours, or days, that begin before this
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    pub(super) until: Option<When>,
    /// Only of the job of this name
    #[arg(long, value_name = "NAME")]
    pub(super) job: Option<String>,
    /// Only of the node with this id
    #[arg(long, value_name = "ID")]
    pub(super) node: Option<String>,
    /// What is counted by itself: hour, job, node, or several of them, separated by commas
    #[arg(long, value_enum, value_name = "KEYS", value_delimiter = ',', default_value = "job")]
    pub(super) by: Vec<RawOutcomeKey>,
}

/// What outcomes are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum RawOutcomeKey {
    /// Each hour, or day
    Hour,
    Job,
    Node,
}

#[derive(Debug, Args)]
pub(super) struct RawOutput {
    /// Text for people (instants in UTC), or one JSON document for scripts (instants in epoch milliseconds
    /// UTC)
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    pub(super) output: Output,
}

/// How a listing is written.
#[derive(Debug, Args)]
pub(super) struct RawList {
    /// The form; instants in tables and CSV are UTC, in JSON epoch milliseconds
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    pub(super) output: ListOutput,
    /// At most so many, 1 to 100000; it is said if there are more
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) limit: u32,
    /// Lists again every so many seconds, 1 to 3600, without a number every 2, until it is interrupted;
    /// tables only
    #[arg(
        long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2",
        value_parser = clap::value_parser!(u32).range(1..=3_600)
    )]
    pub(super) watch: Option<u32>,
}

#[derive(Debug, Args)]
pub(super) struct RawFilter {
    /// Only these states, separated by commas: pending, claimed, running, succeeded, failed, timed_out,
    /// abandoned, cancelled, skipped, withdrawn
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = state)]
    pub(super) state: Vec<ExecutionState>,
    /// Only those in their state for this reason, as the ledger has it: misfire, paused, overlap, "holder
    /// late", "by hand", "gave up", ...
    #[arg(long, value_name = "REASON")]
    pub(super) state_reason: Option<String>,
    /// Only those run for this cause
    #[arg(
        long, value_name = "CAUSE",
        value_parser = ["planned", "misfire", "by hand", "rerun", "enqueued", "retry", "recovery"]
    )]
    pub(super) cause: Option<String>,
    /// Only of the schedule of this name
    #[arg(long, value_name = "NAME")]
    pub(super) schedule: Option<String>,
    /// Only of the job of this name
    #[arg(long, value_name = "NAME")]
    pub(super) job: Option<String>,
    /// Only enqueued ones with this unique key: of each job and period the last
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
    /// Only of the group of this key
    #[arg(long, value_name = "GROUP")]
    pub(super) group: Option<String>,
    /// Only enqueued ones with this tag
    #[arg(long, value_name = "TAG")]
    pub(super) tag: Option<String>,
    /// Only of the node whose id begins like this
    #[arg(long, value_name = "ID", value_parser = node_prefix)]
    pub(super) node: Option<String>,
    /// Only with a fire time since then, whenever they ran: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h,
    /// 1d ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    pub(super) since: Option<When>,
    /// Only with a fire time before this: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 1d ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    pub(super) until: Option<When>,
    /// Only what ended since then: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 1d ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    pub(super) ended_since: Option<When>,
    /// Only what ended before this: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 1d ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse)]
    pub(super) ended_until: Option<When>,
}

/// Which part of a list of executions is shown.
#[derive(Debug, Args)]
pub(super) struct RawPage {
    /// Only what follows the execution of this id in the list: of a longer list, the last one shown
    #[arg(long, value_name = "ID", value_parser = when::parse_id)]
    pub(super) after: Option<i64>,
    /// The oldest first
    #[arg(long)]
    pub(super) oldest: bool,
    /// Only the last attempt at each occurrence: a failure that was attempted again is left out
    #[arg(long)]
    pub(super) last: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum RawCron {
    /// Lists the next fire times of an expression, or of each line of a file
    #[command(after_help = examples::CRON_NEXT)]
    Next(RawNext),
}

#[derive(Debug, Args)]
pub(super) struct RawNext {
    /// A cron expression in Quartz's dialect: second minute hour day-of-month month day-of-week [year]
    #[arg(value_name = "EXPR", required_unless_present = "file")]
    pub(super) expression: Option<String>,
    /// The time zone, an IANA name such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(super) zone: String,
    /// Fire times after this: RFC 3339, an age such as 15m, or epoch milliseconds; default: now
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = when::parse_or_millis)]
    pub(super) after: Option<When>,
    /// How many, 1 to 100000
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) count: u32,
    /// Answers each line of this file (`-`: standard input), one line each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["expression", "zone", "after", "count", "output"])]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: RawOutput,
}

/// The help of an option without its default, for a command where what is not named stays as it is.
fn without_default(option: Arg) -> Arg {
    let shortened = option.get_help().map(ToString::to_string).and_then(|help| {
        let (before, behind) = help.split_once(" [default: ")?;
        Some(format!("{before}{}", behind.split_once(']')?.1))
    });
    match shortened {
        Some(help) => option.help(help),
        None => option,
    }
}

fn whole(text: &str) -> Result<i32, String> {
    text.parse().map_err(|_| "write a whole number, such as 5 or -3".to_owned())
}

/// A field by its name in JSON, or as an option is written.
fn field(text: &str) -> Result<ScheduleField, String> {
    text.trim().replace('-', "_").parse().map_err(|_| {
        let names: Vec<String> = ScheduleField::ALL.iter().map(|it| it.as_str().replace('_', "-")).collect();
        format!("say one or more of {}", names.join(", "))
    })
}

fn misfire(text: &str) -> Result<MisfirePolicy, String> {
    let word = text.trim().to_uppercase().replace('-', "_");
    word.parse().map_err(|_| "say fire_once, do_nothing or fire_all".to_owned())
}

fn overlap(text: &str) -> Result<Overlap, String> {
    let stored = text.to_uppercase().replacen(':', " ", 1);
    stored.parse().map_err(|_| "say skip, queue:3 for up to three that wait, replace, or allow".to_owned())
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, text) = text.split_once('=').ok_or("a header is written NAME=TEXT")?;
    Ok((name.to_owned(), text.to_owned()))
}

/// As it is written: a number may have more digits than one of Rust's holds.
fn json(text: &str) -> Result<Box<RawValue>, String> {
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
