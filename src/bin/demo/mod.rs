//! `firetime demo`: a cluster of three processes at work, one of them killed, and the ledger's verdict.
//!
//! ```text
//! plan ---- schedules ----> database <---- three nodes (cluster, node): one is killed
//!   \                          |                  |
//!    oracle: planned           | the ledger       | the log: a line per handler begun
//!           \__________________|__________________/
//!                           verdict
//! ```

mod cluster;
mod node;
mod plan;
mod screen;
mod stage;
mod verdict;

use std::io::Write;
use std::time::Duration;

use chrono::{DateTime, Utc};
use firetime::{Client, ExecutionFilter, ExecutionState, ExecutionView, ScheduleState};

use crate::failure::{Failure, Result};
use crate::logging::Logging;
use crate::output::Output;
use crate::when;
use cluster::{Cluster, NAMES};
use node::Told;
use plan::{LASTS, Planned, REPORT};
use screen::Screen;
use stage::Stage;
use verdict::{Begun, Evidence, Row, judge};

pub(crate) use node::run as node;
pub(crate) use stage::Place;

/// How long the nodes may take to join.
const JOINING: Duration = Duration::from_secs(20);
/// How long after the last fire time the demo waits for what is still open, milliseconds.
const OVERTIME: i64 = 25_000;
/// How long the nodes may take to stop.
const STOPPING: Duration = Duration::from_secs(15);

/// How the demo is run.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) place: Place,
    pub(crate) output: Output,
    pub(crate) logging: Logging,
    /// Where the console listens, if it is to be open.
    #[cfg(feature = "console")]
    pub(crate) console: Option<std::net::SocketAddr>,
}

pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result {
    show(options, &mut Screen::new(out, options.output)).map_err(|failure| match failure {
        Failure::ReaderGone => Failure::NoVerdict,
        other => other,
    })
}

fn show(options: &Options, screen: &mut Screen) -> Result {
    let began = when::now();
    let stage = Stage::make(&options.place, began)?;
    firetime::migrate(&stage.target.database.url)?;
    let client = Client::connect(&stage.target.application, &stage.target.database.url)?;
    #[cfg(feature = "console")]
    let console = options.console.map(|listen| crate::console::beside(client.clone(), listen)).transpose()?;
    #[cfg(feature = "console")]
    if let Some(address) = &console {
        screen.console(*address)?;
    }
    screen.opening(&stage)?;

    let mut cluster = Cluster::start(&stage.target, &options.logging)?;
    join(&mut cluster)?;
    let start = database_time(&client)?.timestamp() + 4;
    let plan = plan::plan(start)?;
    for planned in &plan {
        client.ensure(&planned.schedule).run()?;
    }
    screen.plan(&plan, start)?;

    let mut demo = Demo { cluster, client, screen, start, evidence: Evidence::default() };
    demo.watch()?;
    demo.stop()?;
    let verdict = judge(&demo.evidence(&plan)?);
    let took = when::now().signed_duration_since(began).to_std().unwrap_or_default();
    screen.verdict(&verdict, took, &stage)?;
    #[cfg(feature = "console")]
    if let Some(address) = &console {
        screen.console_stays(*address)?;
        // Without anybody to press Enter it is not left open.
        std::io::stdin().read_line(&mut String::new())?;
    }
    if verdict.is_clean() { Ok(()) } else { Err(Failure::Unclean) }
}

fn join(cluster: &mut Cluster) -> Result {
    let until = when::now() + JOINING;
    while !cluster.have_all_joined() {
        let left = (until - when::now()).to_std().unwrap_or_default();
        match cluster.listen(left) {
            Some((_, Some(_))) => {}
            Some((number, None)) => {
                let reason = cluster.ended(number).unwrap_or_default();
                return Err(Failure::Failed(format!("before the demo began: {reason}")));
            }
            None => {
                let message = format!("the nodes did not join within {} s", JOINING.as_secs());
                return Err(Failure::Failed(message));
            }
        }
    }
    Ok(())
}

/// The database's time, at most a heartbeat ago: it decides when schedules fire, and may differ from ours.
fn database_time(client: &Client) -> Result<DateTime<Utc>> {
    Ok(client.nodes()?.into_iter().filter_map(|node| node.last_beat).max().unwrap_or_else(when::now))
}

/// A demo at work.
struct Demo<'a, 'b> {
    cluster: Cluster,
    client: Client,
    screen: &'a mut Screen<'b>,
    /// The first second, epoch.
    start: i64,
    /// The handlers' runs and the log so far; the plan and the ledger follow at the end.
    evidence: Evidence,
}

impl Demo<'_, '_> {
    /// Shows what happens until everything has ended, or the time is up.
    fn watch(&mut self) -> Result {
        /// How often the database is asked whether everything has ended, milliseconds.
        const EVERY: i64 = 500;
        let end = (self.start + LASTS) * 1_000;
        let mut next_look = end + EVERY;
        loop {
            if let Some((number, told)) = self.cluster.listen(Duration::from_millis(100)) {
                self.hear(number, told)?;
            }
            let now = when::now().timestamp_millis();
            // None was seen to begin a report: then any.
            if self.evidence.killed.is_none() && now > (self.start + LASTS * 3 / 4) * 1_000 {
                self.kill(0, "")?;
            }
            if now >= next_look {
                if self.has_ended() || now > end + OVERTIME {
                    return Ok(());
                }
                next_look = now + EVERY;
            }
        }
    }

    fn hear(&mut self, number: usize, told: Option<Told>) -> Result {
        let name = NAMES[number];
        match told {
            Some(Told::Begun { schedule, fire_time, attempt, at }) => {
                self.screen.begun(number, &schedule, fire_time, attempt, at)?;
                let half_way = at >= (self.start + LASTS / 2) * 1_000;
                let at_work = format!(" while it is at {schedule} of {}", when::time_of_day(fire_time));
                let slow = schedule.contains(REPORT.name());
                self.evidence.log.push(Begun { occurrence: (schedule, fire_time), attempt, by: name });
                if slow && half_way && self.evidence.killed.is_none() && self.cluster.is_running(number) {
                    self.kill(number, &at_work)?;
                }
            }
            Some(Told::Joined(_)) => self.screen.note(&format!("node {name} had to join again"))?,
            Some(Told::Died(id)) => {
                let dead = self.cluster.name(&id).unwrap_or("?");
                self.screen.note(&format!("node {name} declares node {dead} dead"))?;
            }
            Some(Told::Repaired(what)) => self.screen.note(&format!("node {name}: {what}"))?,
            None => {
                if let Some(mishap) = self.cluster.ended(number) {
                    self.screen.note(&mishap)?;
                    self.evidence.mishaps.push(mishap);
                }
            }
        }
        Ok(())
    }

    fn kill(&mut self, number: usize, at_work: &str) -> Result {
        self.cluster.kill(number)?;
        self.evidence.killed = Some(NAMES[number]);
        self.screen.loud(&format!("killing node {} with SIGKILL{at_work}", NAMES[number]))
    }

    /// Whether every schedule is complete and no execution is open. A database that does not answer is asked
    /// again.
    fn has_ended(&self) -> bool {
        use ExecutionState::{Claimed, Pending, Running};
        let states = vec![Pending, Claimed, Running];
        let open = ExecutionFilter { states, limit: 1, ..ExecutionFilter::default() };
        let complete = self
            .client
            .schedules()
            .is_ok_and(|all| all.iter().all(|one| one.state == ScheduleState::Complete));
        complete && self.client.executions(&open).is_ok_and(|open| open.is_empty())
    }

    fn stop(&mut self) -> Result {
        self.cluster.stop();
        let until = when::now() + STOPPING;
        while self.cluster.is_stopping() {
            let left = (until - when::now()).to_std().unwrap_or_default();
            match self.cluster.listen(left) {
                Some((number, told)) => self.hear(number, told)?,
                None => {
                    self.evidence
                        .mishaps
                        .push(format!("a node did not stop within {} s", STOPPING.as_secs()));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn evidence(&mut self, plan: &[Planned]) -> Result<Evidence> {
        let mut evidence = std::mem::take(&mut self.evidence);
        let planned = plan.iter().flat_map(|one| one.fire_times.iter().map(|at| (one.name.to_owned(), *at)));
        evidence.planned = planned.collect();
        let everything = ExecutionFilter { limit: 100_000, ..ExecutionFilter::default() };
        let rows = self.client.executions(&everything)?;
        evidence.ledger = rows.into_iter().map(|row| self.row(row)).collect::<Result<_>>()?;
        let incomplete =
            self.client.schedules()?.into_iter().filter(|one| one.state != ScheduleState::Complete);
        evidence.mishaps.extend(incomplete.map(|one| format!("{} is {}, not complete", one.name, one.state)));
        let flaws = self.client.verify(..).run()?.flaws.into_iter();
        evidence.mishaps.extend(flaws.map(|flaw| format!("firetime verify: {}", flaw.sentence)));
        Ok(evidence)
    }

    fn row(&self, row: ExecutionView) -> Result<Row> {
        let unknown = || Failure::Failed(format!("the ledger: {:?} is no state", row.state.as_str()));
        let state = row.state.known().ok_or_else(unknown)?;
        Ok(Row {
            occurrence: (row.schedule, row.fire_time.map_or(-1, |at| at.timestamp_millis())),
            until: row.last_fire_time.map_or(-1, |at| at.timestamp_millis()),
            count: row.count,
            attempt: row.attempt,
            state,
            node: self.cluster.name(row.node.as_deref().unwrap_or_default()),
        })
    }
}
