//! The jobs of an application, and the lanes that its nodes run them in.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use crate::console::asked::Asked;
use crate::console::changes::button::Button;
use crate::console::changes::order::Order;
use crate::console::drawn::day::{by_job, told};
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query::{self, Query};
use crate::console::web::trouble::Trouble;
use crate::console::words::{Badge, Mark, Moment, because, first_line, length, number};
use crate::{Activity, Client, JobView, Outcomes, RateView, Target};

#[derive(Template)]
#[template(path = "console/jobs.html")]
pub(super) struct JobsPage {
    frame: Frame,
    heading: String,
    rows: Vec<Row>,
    lanes: Vec<LaneRow>,
}

struct Row {
    name: String,
    description: String,
    badge: Badge,
    reason: String,
    nodes: usize,
    schedules: String,
    to_schedules: String,
    to_executions: String,
    bounds: String,
    retries: String,
    limit: String,
    /// How its attempts of the last 24 hours ended, and how late the latest of them began.
    day: String,
    late: String,
    button: Option<Button>,
}

/// A lane of all nodes that have it.
#[derive(Default)]
struct LaneRow {
    name: String,
    nodes: usize,
    threads: usize,
    busy: usize,
    queued: usize,
    concurrency: usize,
    tasks: usize,
    stuck: usize,
}

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

pub(super) fn make(client: &Client, asked: &Asked) -> Result<JobsPage, Trouble> {
    let frame = Frame::new(asked, client.application(), "jobs", "Jobs and lanes");
    let (jobs, nodes) = (client.jobs()?, client.nodes()?);
    let day = by_job(client, client.now()?)?;
    let mut lanes: BTreeMap<String, LaneRow> = BTreeMap::new();
    for lane in nodes.iter().filter(|node| node.ended.is_none()).flat_map(|node| &node.lanes) {
        let row = lanes.entry(lane.name.clone()).or_default();
        lane.name.clone_into(&mut row.name);
        row.nodes += 1;
        row.threads += lane.threads;
        row.busy += lane.busy;
        row.queued += lane.queued;
        row.concurrency += lane.concurrency;
        row.tasks += lane.tasks;
        row.stuck += lane.stuck + lane.stuck_tasks;
    }
    let idle = jobs.iter().filter(|job| is_idle(job)).count();
    let heading = match (jobs.len(), idle) {
        (0, _) => "There are no jobs yet".to_owned(),
        (_, 0) => "All jobs have nodes that run them".to_owned(),
        (_, 1) => "One job has no node that runs it".to_owned(),
        (_, many) => format!("{} jobs have no node that runs them", number(many)),
    };
    let rows = jobs.iter().map(|job| row(job, day.get(&job.name), &frame)).collect();
    Ok(JobsPage { frame, heading, rows, lanes: lanes.into_values().collect() })
}

/// Whether it has something to run, and no node that runs it.
fn is_idle(job: &JobView) -> bool {
    job.nodes == 0 && (job.schedules > 0 || job.nobody_since.is_some()) && job.state != Activity::Paused
}

fn row(job: &JobView, day: Option<&Outcomes>, frame: &Frame) -> Row {
    let target = || Target::job(&job.name);
    let until =
        job.paused_until.map(|at| format!(", until {}", Moment::exactly(at).said)).unwrap_or_default();
    let (badge, reason) = match job.state.as_str() {
        "paused" => {
            (Badge::of_state("paused"), because("", &job.paused_by, &job.reason).trim().to_owned() + &until)
        }
        _ if is_idle(job) => {
            let since = job.nobody_since.map(|at| format!("since {}", Moment::exactly(at).said));
            (Badge::new(Mark::Failed, "nobody runs it"), since.unwrap_or_default())
        }
        state => (Badge::of_state(state), String::new()),
    };
    let button = match job.state.as_str() {
        "paused" => Button::new(frame, "Resume", &Order::Resume(target())),
        _ => Button::new(frame, "Pause", &Order::Pause(target())),
    };
    let retries = match job.max_retries {
        0 => "none".to_owned(),
        count => format!("{count}, first after {}", length(job.retry_delay)),
    };
    Row {
        name: job.name.clone(),
        description: first_line(&job.description),
        badge,
        reason,
        nodes: job.nodes,
        schedules: match job.schedules {
            most @ 1_000.. => format!("{} or more active", number(most)),
            count => format!("{} active", number(count)),
        },
        to_schedules: Query::default().with("job", &job.name).with("state", "active").of("schedules"),
        to_executions: query::address("executions", "job", &job.name),
        bounds: bounds(job),
        retries,
        limit: job.time_limit.map_or_else(|| "none".to_owned(), length),
        day: day.map(told).unwrap_or_default(),
        late: day.and_then(|it| it.longest_lateness).map(length).unwrap_or_default(),
        button,
    }
}

fn bounds(job: &JobView) -> String {
    let at_once = |count: Option<u32>, of: &str| count.map(|count| format!("{count} at once{of}"));
    let rate = |rate: Option<RateView>, of: &str| {
        rate.map(|RateView { count, per, .. }| format!("{count} in {}{of}", length(per)))
    };
    let bounds = [
        at_once(job.concurrency, ""),
        rate(job.rate, ""),
        at_once(job.group_concurrency, " per group"),
        rate(job.group_rate, " per group"),
    ];
    bounds.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
