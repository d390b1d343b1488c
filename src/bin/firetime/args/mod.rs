//! From the command line to a [`Command`]: once, here; behind it there are only values that make sense.

#[cfg(feature = "console")]
mod console;
mod examples;
mod raw;
#[cfg(feature = "testing")]
mod replay;

use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
#[cfg(feature = "console")]
use firetime::console::{Options, Role, TrustedHeader};
use firetime::{AuditFilter, Cron, ExecutionFilter, OutcomeFilter, Trigger};
use serde_json::value::RawValue;

#[cfg(feature = "console")]
use self::console::{RawConsole, RawConsoleVerb};
pub(crate) use self::raw::RawArgs;
use self::raw::{
    RawAdd, RawAppVerb, RawAuditFilter, RawBackfill, RawBulk, RawBy, RawCluster, RawCommand, RawCron,
    RawDemo, RawEnqueue, RawExecutionVerb, RawFields, RawFilter, RawJobVerb, RawList, RawListed, RawNext,
    RawNodeVerb, RawOutcomeKey, RawOutcomes, RawPause, RawRerun, RawRun, RawScheduleVerb, RawSet, RawSubject,
};
use crate::add::{self, Definition, Fields, NewExecution};
#[cfg(feature = "console")]
use crate::console::Serving;
use crate::control::{Change, Removal, Subject, Verb, Which};
use crate::cron::{Question, Source};
use crate::demo;
use crate::failure::{Failure, Result};
use crate::inspect::{How, Kind, Listing};
use crate::logging::Logging;
use crate::logs::LogForm;
use crate::output::{ListOutput, Output};
#[cfg(feature = "testing")]
use crate::replay::Changes;
use crate::rerun::{self, Rerun};
use crate::target::{APPLICATION_VARIABLE, Database, Target, URL_VARIABLE};
use crate::verify::Audit;
use crate::why::Occasion;

/// Where a system keeps its user's name.
const USER_VARIABLES: [&str; 2] = ["USER", "LOGNAME"];
/// What the program is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    Migrate(Database, Output),
    Demo(demo::Options),
    DemoNode(Target),
    Check(Target, Output),
    Why(Target, Occasion, Output),
    Verify(Target, Audit, Output),
    #[cfg(feature = "testing")]
    Replay(Target, Box<Changes>, Output),
    Export(Target, SocketAddr),
    #[cfg(feature = "console")]
    Console(Target, Serving),
    #[cfg(feature = "console")]
    HashPassword,
    #[cfg(feature = "console")]
    NewToken(String, Role),
    List(Target, Listing, How),
    ShowSchedule(Target, String, Output),
    ShowExecution(Target, i64, Output),
    Logs(Target, i64, LogForm),
    Add(Target, Box<Definition>, Subject),
    Set(Target, Box<add::Change>, Subject),
    Enqueue(Target, NewExecution, Output),
    Change(Target, Verb, Subject),
    Rerun(Target, Rerun, Subject),
    CronNext(Question, Output),
    CronBatch(Source),
    Completions(clap_complete::Shell),
    Man(PathBuf),
}

/// A command, and how it logs.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) logging: Logging,
    pub(crate) command: Command,
}

/// What relative instants, and the environment, are seen from.
struct Surroundings<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    now: DateTime<Utc>,
    cluster: RawCluster,
}

impl RawArgs {
    /// Makes sense of what was asked; `variable` looks into the environment.
    pub(crate) fn resolve(
        self,
        variable: impl Fn(&str) -> Option<OsString>,
        now: DateTime<Utc>,
    ) -> Result<Invocation> {
        let logging = self.logging();
        let around = Surroundings { variable: &variable, now, cluster: self.cluster };
        let command = match self.command {
            RawCommand::Migrate(output) => Command::Migrate(around.database()?, output.output),
            RawCommand::Demo(demo) => Command::Demo(around.demo(demo, &logging)?),
            RawCommand::DemoNode => Command::DemoNode(around.target()?),
            #[cfg(feature = "console")]
            RawCommand::Console { verb, console } => around.console(verb, *console)?,
            RawCommand::Exporter { listen } => Command::Export(around.target()?, listen),
            RawCommand::Check(output) => Command::Check(around.target()?, output.output),
            RawCommand::Why { schedule, fire_time, execution, output } => {
                let occasion = match (schedule, execution) {
                    (Some(name), _) => Occasion::of(name, fire_time),
                    (None, id) => Occasion::Execution(id.unwrap_or_default()),
                };
                Command::Why(around.target()?, occasion, output.output)
            }
            RawCommand::Verify { schedule, since, until, certificate, against, output } => {
                let (since, until) = (since.map(|it| it.from(now)), until.map(|it| it.from(now)));
                let audit = Audit { schedule, since, until, certificate, against };
                Command::Verify(around.target()?, audit, output.output)
            }
            #[cfg(feature = "testing")]
            RawCommand::Replay { replay, output } => {
                Command::Replay(around.target()?, Box::new(replay.resolve(now)), output.output)
            }
            RawCommand::Schedules { verb, filter, list } => {
                around.schedule(verb.unwrap_or(RawScheduleVerb::List { filter, list }))?
            }
            RawCommand::Executions { verb, filter, page, list } => {
                around.execution(verb.unwrap_or(RawExecutionVerb::List { filter, page, list }))?
            }
            RawCommand::Nodes(RawListed { verb, list }) => {
                around.node(verb.unwrap_or(RawNodeVerb::List(list)))?
            }
            RawCommand::Jobs(RawListed { verb, list }) => {
                around.job(verb.unwrap_or(RawJobVerb::List(list)))?
            }
            RawCommand::Apps(RawListed { verb, list }) => {
                around.app(verb.unwrap_or(RawAppVerb::List(list)))?
            }
            RawCommand::Audit { filter, list } => {
                let filter = filter.resolve(now, &list);
                around.list(Listing::Audit(filter), &list)?
            }
            RawCommand::Outcomes { filter, list } => around.list(filter.resolve(now), &list)?,
            RawCommand::Rerun(rerun) => around.rerun(*rerun)?,
            RawCommand::Backfill(backfill) => around.backfill(backfill)?,
            RawCommand::Cron(RawCron::Next(next)) => next.resolve(now)?,
            RawCommand::Completions { shell } => Command::Completions(shell),
            RawCommand::Man { folder } => Command::Man(folder),
        };
        Ok(Invocation { logging, command })
    }

    fn logging(&self) -> Logging {
        match (&self.log_config, &self.command) {
            (Some(path), _) => Logging::File(path.clone()),
            // The demo itself shows what a node would warn of.
            (None, RawCommand::DemoNode) if self.verbose == 0 => Logging::Stderr(log::LevelFilter::Error),
            (None, _) => Logging::verbose(self.verbose),
        }
    }
}

impl Surroundings<'_> {
    fn target(&self) -> Result<Target> {
        let name = self.cluster.application.clone().filter(|name| !name.is_empty());
        let application = name.ok_or_else(|| {
            Failure::Usage(format!(
                "which application? Name it with --application or set {APPLICATION_VARIABLE}"
            ))
        })?;
        Ok(Target { application, database: self.database()? })
    }

    fn demo(&self, demo: RawDemo, logging: &Logging) -> Result<demo::Options> {
        // A file is named for this run; the variable may have been set for other commands.
        let is_given = demo.database || self.cluster.database_url_file.is_some();
        let place = match demo.keep {
            Some(folder) => demo::Place::Folder(folder),
            None if is_given => demo::Place::Database(self.database()?),
            None => demo::Place::Temporary,
        };
        Ok(demo::Options {
            place,
            output: demo.output.output,
            logging: logging.clone(),
            #[cfg(feature = "console")]
            console: demo.console.then_some(demo.listen),
        })
    }

    fn database(&self) -> Result<Database> {
        let url = match (&self.cluster.database_url_file, (self.variable)(URL_VARIABLE)) {
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

    fn list(&self, listing: Listing, list: &RawList) -> Result<Command> {
        let watch = list.watch.map(|seconds| std::time::Duration::from_secs(seconds.into()));
        if watch.is_some() && !list.output.is_table() {
            return Err(Failure::Usage("--watch shows tables: --output table, or wide".to_owned()));
        }
        let target = match listing {
            Listing::Applications => Target { application: String::new(), database: self.database()? },
            _ => self.target()?,
        };
        Ok(Command::List(target, listing, How { output: list.output, limit: list.most(), watch }))
    }

    fn change(&self, verb: Verb, subject: RawSubject) -> Result<Command> {
        Ok(Command::Change(self.target()?, verb, self.subject(subject.name, subject.by)))
    }

    fn pause(&self, kind: Kind, pause: RawPause) -> Result<Command> {
        let until = pause.until.until.map(|until| until.from(self.now));
        self.change(Verb::Pause(kind, until), pause.subject)
    }

    /// The thing that a command changes, who gives the command, and why.
    fn subject(&self, name: String, by: RawBy) -> Subject {
        Subject { name, actor: self.actor(by.actor), reason: by.reason }
    }

    #[cfg(feature = "console")]
    fn console(&self, verb: Option<RawConsoleVerb>, raw: RawConsole) -> Result<Command> {
        match verb {
            Some(RawConsoleVerb::HashPassword) => return Ok(Command::HashPassword),
            Some(RawConsoleVerb::NewToken { name, role }) => return Ok(Command::NewToken(name, role)),
            None => {}
        }
        let failed = |error: firetime::Error| Failure::Usage(error.to_string());
        let header = match (raw.trust_header, raw.role_header) {
            (Some(name), None) => Some(TrustedHeader::new(&name, raw.role)),
            (Some(name), Some(role)) => {
                Some(TrustedHeader::new(&name, raw.role).and_then(|header| header.role_header(&role)))
            }
            (None, _) => None,
        };
        let header = header.transpose().map_err(failed)?;
        let has_login = raw.users.is_some() || header.is_some();
        let options = Options::new().read_only(raw.read_only).https(raw.https);
        let options = raw.host.iter().fold(options, |options, host| options.host(host));
        let options = raw.hide_payloads.iter().fold(options, |options, job| options.hide_payloads(job));
        let options = raw.mask.iter().fold(options, |options, (job, field)| options.mask(job, field));
        let options = raw.proxy.into_iter().fold(options, Options::proxy);
        let options = header.into_iter().fold(options, Options::trust);
        let actor = self.actor(raw.actor);
        Ok(Command::Console(
            self.target()?,
            Serving { listen: raw.listen, users: raw.users, options, has_login, actor },
        ))
    }

    /// The one that is named, or else the system's user.
    fn actor(&self, named: Option<String>) -> Option<String> {
        let user = || USER_VARIABLES.iter().find_map(|name| (self.variable)(name)?.into_string().ok());
        named.or_else(user).filter(|name| !name.is_empty())
    }

    fn schedule(&self, verb: RawScheduleVerb) -> Result<Command> {
        match verb {
            RawScheduleVerb::List { filter, list } => self.list(Listing::Schedules(filter.resolve()), &list),
            RawScheduleVerb::Show { name, output } => {
                Ok(Command::ShowSchedule(self.target()?, name, output.output))
            }
            RawScheduleVerb::Add(add) => self.add(*add),
            RawScheduleVerb::Set(set) => self.set(*set),
            RawScheduleVerb::Pause(pause) => self.pause(Kind::Schedule, pause),
            RawScheduleVerb::Resume(subject) => self.change(Verb::Resume(Kind::Schedule), subject),
            RawScheduleVerb::Run { subject, payload, at } => {
                self.change(Verb::Run { payload, at: at.map(|at| at.from(self.now)) }, subject)
            }
            RawScheduleVerb::Skip { subject, fire_time } => self.change(Verb::Skip(fire_time), subject),
            RawScheduleVerb::Remove { subject, cancel_running, yes, dry_run } => {
                let how = match (yes, dry_run) {
                    (true, _) => Removal::Made,
                    (false, true) => Removal::Shown,
                    (false, false) => Removal::Refused,
                };
                self.change(Verb::Remove { cancel_running, how }, subject)
            }
        }
    }

    fn add(&self, add: RawAdd) -> Result<Command> {
        let RawAdd { subject, fields, replace, yes, dry_run } = add;
        let mut fields = self.fields(fields)?;
        fields.payload.get_or_insert_with(|| RawValue::NULL.to_owned());
        let new = Definition { fields, replaces: replace && yes, dry_run, now: self.now };
        Ok(Command::Add(self.target()?, Box::new(new), self.subject(subject.name, subject.by)))
    }

    fn set(&self, set: RawSet) -> Result<Command> {
        let RawSet { subject, fields, clear: clears, reset: resets, yes, dry_run } = set;
        let fields = self.fields(fields)?;
        if fields.are_none() && clears.is_empty() && resets.is_none() {
            let which = "which field? Give at least one, such as --cron, --payload or --time-limit, or --clear, or --reset";
            return Err(Failure::Usage(which.to_owned()));
        }
        if let Some(option) = clears.iter().find_map(|field| field.named_in(&fields)) {
            let both = format!("{option} sets what --clear takes away: say one of them");
            return Err(Failure::Usage(both));
        }
        let new = add::Change { fields, clears, resets, yes, dry_run, now: self.now };
        Ok(Command::Set(self.target()?, Box::new(new), self.subject(subject.name, subject.by)))
    }

    fn fields(&self, raw: RawFields) -> Result<Fields> {
        let zone = raw.zone.as_deref().unwrap_or("UTC");
        let cron = raw.cron.map(|expression| Trigger::cron(&expression, zone));
        let once = raw.at.map(|at| Trigger::once(at.from(self.now)));
        let spans = raw.every.map(Trigger::every).or(raw.after.map(Trigger::fixed_delay));
        Ok(Fields {
            job: raw.job,
            trigger: cron.or(spans).or(once).transpose()?,
            zone: raw.zone,
            start: raw.start.map(|start| start.from(self.now)),
            end: raw.end.map(|end| end.from(self.now)),
            payload: raw.payload,
            description: raw.description,
            priority: raw.priority,
            misfire: raw.misfire,
            misfire_threshold: raw.misfire_threshold,
            time_limit: raw.time_limit,
            overlap: raw.overlap,
            pause_after: raw.pause_after,
            expected_by: raw.expected_by,
        })
    }

    fn execution(&self, verb: RawExecutionVerb) -> Result<Command> {
        match verb {
            RawExecutionVerb::List { filter, page, list } => {
                let filter = filter.resolve(self.now, list.most());
                let filter = ExecutionFilter { oldest_first: page.oldest, last: page.last, ..filter };
                self.list(Listing::Executions(Box::new(filter), page.after), &list)
            }
            RawExecutionVerb::Show { id, output } => {
                Ok(Command::ShowExecution(self.target()?, id, output.output))
            }
            RawExecutionVerb::Logs { id, follow, output } => {
                let form = match (follow, output) {
                    (false, output) => LogForm::List(output),
                    (true, ListOutput::Table | ListOutput::Wide) => LogForm::Follow(Output::Table),
                    (true, ListOutput::Jsonl) => LogForm::Follow(Output::Json),
                    (true, ListOutput::Json | ListOutput::Csv) => {
                        let message =
                            "--follow is for --output table or jsonl: nobody knows the last line yet";
                        return Err(Failure::Usage(message.to_owned()));
                    }
                };
                Ok(Command::Logs(self.target()?, id, form))
            }
            RawExecutionVerb::Cancel(bulk) => self.bulk(Change::Cancel, bulk),
            RawExecutionVerb::Retry(bulk) => self.bulk(Change::Retry, bulk),
        }
    }

    fn bulk(&self, change: Change, bulk: RawBulk) -> Result<Command> {
        /// The most executions that one command changes.
        const MOST: usize = 100_000;
        let RawBulk { id, filter, by, yes } = bulk;
        let RawFilter { state, state_reason, cause, schedule, job, key, group, tag, node, .. } = &*filter;
        let names =
            [state_reason, cause, schedule, job, key, group, tag, node].iter().any(|name| name.is_some());
        let times = [&filter.since, &filter.until, &filter.ended_since, &filter.ended_until];
        let times = times.iter().any(|time| time.is_some());
        let is_filtered = !state.is_empty() || names || times;
        let which = match id {
            Some(_) if change == Change::Retry && (key.is_some() || tag.is_some()) => {
                let only = "a retry of one execution asks for no --key and no --tag: a cancel does";
                return Err(Failure::Usage(only.to_owned()));
            }
            Some(id) => Which::One(id, Box::new(filter.resolve(self.now, MOST))),
            None if is_filtered => Which::All { filter: Box::new(filter.resolve(self.now, MOST)), yes },
            None => {
                let which = "which execution? Give its id, or --schedule, --job, --key, --group, --tag, --state, \
                             --state-reason, --cause, --node, --since, --until, --ended-since or --ended-until";
                return Err(Failure::Usage(which.to_owned()));
            }
        };
        Ok(Command::Change(self.target()?, Verb::Executions(change, which), self.subject(String::new(), by)))
    }

    fn rerun(&self, raw: RawRerun) -> Result<Command> {
        let RawRerun { schedule, cancel, state, state_reason, since, until, run } = raw;
        let which = match cancel {
            Some(origin) => rerun::Which::Cancel(origin),
            None => rerun::Which::Ended {
                states: state,
                reason: state_reason,
                since: since.map(|since| since.from(self.now)),
                until: until.map(|until| until.from(self.now)),
                pace: run.pace,
            },
        };
        self.run(schedule.unwrap_or_default(), which, run)
    }

    fn backfill(&self, raw: RawBackfill) -> Result<Command> {
        let RawBackfill { schedule, since, until, run } = raw;
        let until = until.map_or(self.now, |until| until.from(self.now));
        let which = rerun::Which::Planned { since: since.from(self.now), until, pace: run.pace };
        self.run(schedule, which, run)
    }

    fn run(&self, schedule: String, which: rerun::Which, run: RawRun) -> Result<Command> {
        let RawRun { by, yes, output, pace: _ } = run;
        let rerun = Rerun { which, yes, output: output.output };
        Ok(Command::Rerun(self.target()?, rerun, self.subject(schedule, by)))
    }

    fn node(&self, verb: RawNodeVerb) -> Result<Command> {
        match verb {
            RawNodeVerb::List(list) => self.list(Listing::Nodes, &list),
            RawNodeVerb::Pause(pause) => self.pause(Kind::Node, pause),
            RawNodeVerb::Drain(subject) => self.change(Verb::Drain, subject),
            RawNodeVerb::Resume(subject) => self.change(Verb::Resume(Kind::Node), subject),
        }
    }

    fn job(&self, verb: RawJobVerb) -> Result<Command> {
        match verb {
            RawJobVerb::List(list) => self.list(Listing::Jobs, &list),
            RawJobVerb::Pause(pause) => self.pause(Kind::Job, pause),
            RawJobVerb::Resume(subject) => self.change(Verb::Resume(Kind::Job), subject),
            RawJobVerb::Enqueue(raw) => {
                let RawEnqueue {
                    job,
                    payload,
                    at,
                    priority,
                    key,
                    replace,
                    group,
                    lane,
                    tags,
                    headers,
                    output,
                } = raw;
                let at = at.map(|at| at.from(self.now));
                let new =
                    NewExecution { job, payload, at, priority, key, replace, group, lane, tags, headers };
                Ok(Command::Enqueue(self.target()?, new, output.output))
            }
        }
    }

    fn app(&self, verb: RawAppVerb) -> Result<Command> {
        let (verb, by) = match verb {
            RawAppVerb::List(list) => return self.list(Listing::Applications, &list),
            RawAppVerb::Pause { by, until } => {
                (Verb::Pause(Kind::Application, until.until.map(|until| until.from(self.now))), by)
            }
            RawAppVerb::Resume(by) => (Verb::Resume(Kind::Application), by),
        };
        let target = self.target()?;
        let subject = self.subject(target.application.clone(), by);
        Ok(Command::Change(target, verb, subject))
    }
}

fn read_url(path: &Path) -> Result<String> {
    /// More is no URL.
    const LONGEST: u64 = 64 * 1_024;
    let mut url = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_string(&mut url))
        .map_err(|error| Failure::Usage(format!("--database-url-file {}: {error}", path.display())))?;
    Ok(url)
}

impl RawList {
    fn most(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }
}

impl RawAuditFilter {
    fn resolve(self, now: DateTime<Utc>, list: &RawList) -> AuditFilter {
        AuditFilter {
            target: self.target,
            actor: self.actor,
            verb: self.verb,
            since: self.since.map(|since| since.from(now)),
            limit: list.most(),
            ..AuditFilter::default()
        }
    }
}

impl RawFilter {
    fn resolve(self, now: DateTime<Utc>, limit: usize) -> ExecutionFilter {
        ExecutionFilter {
            schedule: self.schedule,
            job: self.job,
            key: self.key,
            group: self.group,
            tag: self.tag,
            states: self.state,
            reason: self.state_reason,
            cause: self.cause,
            node: self.node,
            since: self.since.map(|since| since.from(now)),
            until: self.until.map(|until| until.from(now)),
            ended_since: self.ended_since.map(|since| since.from(now)),
            ended_until: self.ended_until.map(|until| until.from(now)),
            limit,
            ..ExecutionFilter::default()
        }
    }
}

impl RawOutcomes {
    fn resolve(self, now: DateTime<Utc>) -> Listing {
        let by = |key| self.by.contains(&key);
        Listing::Outcomes(OutcomeFilter {
            since: Some(self.since.from(now)),
            until: self.until.as_ref().map(|until| until.from(now)),
            by_hour: by(RawOutcomeKey::Hour),
            by_job: by(RawOutcomeKey::Job),
            by_node: by(RawOutcomeKey::Node),
            job: self.job,
            node: self.node,
            ..OutcomeFilter::default()
        })
    }
}

impl RawNext {
    fn resolve(self, now: DateTime<Utc>) -> Result<Command> {
        let question = match (self.file, self.expression) {
            (Some(path), _) => return Ok(Command::CronBatch(Source::named(path))),
            (None, Some(expression)) => Question {
                cron: Cron::parse(&expression, &self.zone)?,
                after: self.after.map_or(now, |after| after.from(now)),
                count: self.count,
            },
            (None, None) => return Err(Failure::Usage("which expression? Write one, or --file".to_owned())),
        };
        Ok(Command::CronNext(question, self.output.output))
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use firetime::{ExecutionState, MisfirePolicy};

    use super::*;

    fn resolve(line: &[&str], url: Option<&str>) -> Result<Command> {
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
            "--until",
            "1h",
            "--after",
            "7",
            "--oldest",
        ];
        let Command::List(target, Listing::Executions(filter, after), _) =
            resolve(&line, Some("sqlite:x.db")).unwrap()
        else {
            panic!()
        };
        assert_eq!(target.application, "shop");
        assert_eq!(
            filter.states,
            [ExecutionState::Claimed, ExecutionState::Running, ExecutionState::TimedOut]
        );
        assert_eq!((filter.node.as_deref(), filter.oldest_first), (Some("1f"), true));
        assert_eq!(filter.since, Some("2025-01-01T00:00:00Z".parse().unwrap()));
        let until = "2025-01-01T23:00:00Z".parse().unwrap();
        assert_eq!((filter.until, after, filter.limit), (Some(until), Some(7), 1_000));
    }

    #[test]
    fn the_cluster_is_named_before_the_command_or_behind_it() {
        for line in [["--application", "shop", "nodes"], ["nodes", "--application", "shop"]] {
            let Command::List(target, Listing::Nodes, _) = resolve(&line, Some("sqlite:x.db")).unwrap()
            else {
                panic!()
            };
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
        refused(&["nodes", "drain", "--application", "shop", ""]);
        let app = ["executions", "--application", "shop"];
        let add = ["schedules", "add", "s", "--job", "j", "--application", "shop"];
        for (option, value, help) in [
            ("--every", "-5m", "write a whole number with its unit"),
            ("--every", "5", "write a whole number with its unit"),
            ("--every", "400000d", "36500d (a hundred years) or less"),
            ("--after", "36501d", "36500d (a hundred years) or less"),
            ("--at", "-1h", "how long from now"),
            ("--priority", "high", "write a whole number"),
        ] {
            let message = refused(&[&add[..], &[option, value]].concat());
            assert!(message.contains(value) && message.contains(help), "{message}");
        }
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
    fn the_demo_uses_a_database_only_if_it_is_told_to() {
        let place = |line: &[&str]| {
            let Command::Demo(options) = resolve(line, Some("sqlite:shop.db")).unwrap() else { panic!() };
            options.place
        };
        assert!(matches!(place(&["demo"]), demo::Place::Temporary));
        assert!(matches!(place(&["demo", "--keep", "x"]), demo::Place::Folder(_)));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        std::fs::write(&file, "sqlite:other.db").unwrap();
        for (line, url) in [
            (&["demo", "--database"][..], "sqlite:shop.db"),
            (&["demo", "--database-url-file", file.to_str().unwrap()], "sqlite:other.db"),
        ] {
            let demo::Place::Database(database) = place(line) else { panic!("{line:?}") };
            assert_eq!(database.url, url);
        }
        refused(&["demo", "--database", "--keep", "x"]);
        refused(&["demo", "--database-url-file", "url", "--keep", "x"]);
        assert!(resolve(&["demo", "--database"], None).is_err());
    }

    #[test]
    fn cron_next_reads_milliseconds_before_1970_too() {
        let line = ["cron", "next", "@daily", "--after", "-1", "--zone", "Asia/Tokyo"];
        let Command::CronNext(question, Output::Table) = resolve(&line, None).unwrap() else { panic!() };
        let after = question.after.timestamp_millis();
        assert_eq!((after, question.count, question.cron.zone()), (-1, 10, "Asia/Tokyo"));
    }

    fn at(line: &[&str]) -> Command {
        resolve(&[&["--application", "shop"], line].concat(), Some("sqlite:x.db")).unwrap()
    }

    #[test]
    fn pauses_name_what_they_pause_and_until_when() {
        let until = "2025-01-03T00:00:00Z".parse().unwrap();
        for (line, kind, name) in [
            (&["schedules", "pause", "nightly", "--until", "1d"][..], Kind::Schedule, "nightly"),
            (&["jobs", "pause", "report", "--until", "2025-01-03T01:00:00+01:00"], Kind::Job, "report"),
            (&["nodes", "pause", "1f", "--until", "24h"], Kind::Node, "1f"),
            (&["apps", "pause", "--until", "1d", "--reason", "why"], Kind::Application, "shop"),
        ] {
            let Command::Change(_, Verb::Pause(paused, ends), subject) = at(line) else { panic!("{line:?}") };
            assert_eq!((paused, ends, subject.name.as_str()), (kind, Some(until), name));
        }
    }

    #[test]
    fn a_change_of_a_schedule_names_a_field() {
        let line = ["schedules", "set", "s", "--application", "shop"];
        assert!(refused(&line).contains("--cron"));
        assert!(matches!(at(&[&line[..3], &["--reset"]].concat()), Command::Set(..)));
        assert!(matches!(at(&[&line[..3], &["--priority", "7"]].concat()), Command::Set(..)));
    }

    #[test]
    fn executions_are_changed_by_their_id_or_by_a_filter() {
        let Command::Change(_, Verb::Executions(Change::Retry, Which::One(7, _)), _) =
            at(&["executions", "retry", "7"])
        else {
            panic!()
        };
        let line = ["executions", "cancel", "7", "--key", "k", "--tag", "t"];
        let Command::Change(_, Verb::Executions(Change::Cancel, Which::One(7, only)), _) = at(&line) else {
            panic!()
        };
        assert_eq!((only.key.as_deref(), only.tag.as_deref()), (Some("k"), Some("t")));
        let line = ["executions", "cancel", "--schedule", "s", "--state", "pending", "--yes"];
        let Command::Change(_, Verb::Executions(Change::Cancel, Which::All { filter, yes: true }), _) =
            at(&line)
        else {
            panic!()
        };
        assert_eq!((filter.schedule.as_deref(), filter.states), (Some("s"), vec![ExecutionState::Pending]));
        for filter in ["--job", "--key", "--group", "--tag", "--node"] {
            let line = ["executions", "cancel", filter, "abc", "--yes"];
            let Command::Change(_, Verb::Executions(_, Which::All { yes: true, .. }), _) = at(&line) else {
                panic!("{filter}")
            };
        }
        assert!(refused(&["executions", "cancel", "--application", "shop"]).contains("--schedule"));
        for filter in ["--schedule", "--job", "--group"] {
            refused(&["executions", "cancel", "7", filter, "s", "--application", "shop"]);
        }
        for only in ["--key", "--tag"] {
            refused(&["executions", "retry", "7", only, "s", "--application", "shop"]);
        }
    }

    #[test]
    fn a_rerun_names_a_schedule_or_ends_another() {
        let line = ["rerun", "--schedule", "nightly", "--state", "skipped,failed", "--since", "1d"];
        let rest = ["--state-reason", "misfire", "--pace", "10s", "--output", "json"];
        let Command::Rerun(_, rerun, subject) = at(&[&line[..], &rest[..]].concat()) else { panic!() };
        let rerun::Which::Ended { states, reason, since, until, pace } = rerun.which else { panic!() };
        assert_eq!((subject.name.as_str(), rerun.yes, rerun.output), ("nightly", false, Output::Json));
        assert_eq!(states, [ExecutionState::Skipped, ExecutionState::Failed]);
        assert_eq!((reason.as_deref(), until), (Some("misfire"), None));
        assert_eq!(since, Some("2025-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(pace.map(|pace| pace.as_secs()), Some(10));
        let Command::Rerun(_, rerun, _) = at(&["rerun", "--cancel", "7", "--reason", "why"]) else {
            panic!()
        };
        assert!(matches!(rerun.which, rerun::Which::Cancel(7)));
        let line = ["backfill", "--schedule", "nightly", "--since", "2d", "--yes"];
        let Command::Rerun(_, rerun, _) = at(&line) else { panic!() };
        let rerun::Which::Planned { since, until, .. } = rerun.which else { panic!() };
        assert_eq!((until - since, rerun.yes), (chrono::TimeDelta::days(2), true));
        for wrong in [
            &["rerun"][..],
            &["rerun", "--schedule", "s", "--cancel", "7"],
            &["rerun", "--cancel", "7", "--since", "1d"],
            &["rerun", "--schedule", "s", "--pace", "soon"],
            &["backfill", "--schedule", "s"],
        ] {
            refused(&[&["--application", "x"], wrong].concat());
        }
    }

    #[test]
    fn only_tables_are_watched() {
        let Command::List(_, Listing::Jobs, how) = at(&["jobs", "--watch"]) else { panic!() };
        assert_eq!(how.watch, Some(std::time::Duration::from_secs(2)));
        assert!(refused(&["jobs", "--watch=5", "--output", "csv", "--application", "x"]).contains("--watch"));
        refused(&["jobs", "--watch=0", "--application", "x"]);
    }

    #[test]
    fn a_new_schedule_has_one_trigger() {
        let add = ["schedules", "add", "nightly", "--job", "report"];
        let Command::Add(_, new, subject) =
            at(&[&add[..], &["--cron", "@daily", "--zone", "Asia/Tokyo"]].concat())
        else {
            panic!()
        };
        assert_eq!((new.fields.job.as_deref(), subject.name.as_str()), (Some("report"), "nightly"));
        assert!(
            !new.replaces && new.fields.payload.as_deref().is_some_and(|payload| payload.get() == "null")
        );
        let daily = ["--cron", "@daily"];
        for wrong in [
            &[][..],
            &["--cron", "@daily", "--every", "1h"],
            &["--every", "1h", "--zone", "UTC"],
            &["--cron", "@daily", "--yes"],
            &["--cron", "@daily", "--misfire", "fire"],
        ] {
            refused(&[&["--application", "x"], &add[..], wrong].concat());
        }
        refused(&[&["--application", "x", "schedules", "add", "nightly"], &daily[..]].concat());
        let Command::Add(_, new, _) = at(&[&add[..], &["--after", "1m"]].concat()) else { panic!() };
        assert!(matches!(&new.fields.trigger, Some(Trigger::Delay(delay)) if delay.delay().as_secs() == 60));
        let Command::Add(_, new, _) = at(&[&add[..], &daily[..], &["--replace", "--yes"]].concat()) else {
            panic!()
        };
        assert!(new.replaces);
    }

    /// The words of a command line, some of them in single quotes.
    fn words(line: &str) -> Vec<String> {
        let quoted = line.split('\'').enumerate();
        let words = quoted.flat_map(|(n, part)| match n % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![part.to_owned()],
        });
        words.collect()
    }

    #[test]
    fn every_example_in_the_help_is_a_command_line() {
        fn examples(command: &clap::Command) -> Vec<String> {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let own = help.lines().filter_map(|line| line.strip_prefix("  firetime ").map(str::to_owned));
            own.chain(command.get_subcommands().flat_map(examples)).collect()
        }
        let all = examples(&RawArgs::command());
        assert!(all.len() > 25, "{all:#?}");
        for line in all {
            let words = words(&line);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            resolve(&words, Some("sqlite:x.db")).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        }
    }

    #[test]
    fn the_help_of_a_change_names_no_defaults() {
        let help = |verb: &str| {
            let asked = RawArgs::try_parse_from(["firetime", "schedules", verb, "--help"]).unwrap_err();
            asked.to_string()
        };
        let (add, set) = (help("add"), help("set"));
        assert!(add.contains("[default: 60s]") && add.contains("[default: fire_once]"), "{add}");
        let fields = set.split("Its definition").nth(1).unwrap().split("\n\n\n").next().unwrap();
        assert!(!fields.contains("default:"), "{set}");
        assert!(set.contains("A field that is not named stays as it is"), "{set}");
    }

    #[test]
    fn a_change_of_a_schedule_names_what_it_changes() {
        let line = ["schedules", "set", "nightly", "--misfire", "do-nothing", "--misfire-threshold", "2m"];
        let Command::Set(_, new, subject) = at(&[&line[..], &["--end", "1d"]].concat()) else { panic!() };
        let Fields { misfire, misfire_threshold, end, payload, priority, trigger, .. } = &new.fields;
        assert_eq!((*misfire, subject.name.as_str()), (Some(MisfirePolicy::DoNothing), "nightly"));
        assert_eq!(misfire_threshold.map(|span| span.as_secs()), Some(120));
        assert_eq!(*end, Some("2025-01-03T00:00:00Z".parse().unwrap()));
        assert!(payload.is_none() && priority.is_none() && trigger.is_none());
    }
}
