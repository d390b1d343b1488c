//! The nodes of an application.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};

use crate::console::asked::Asked;
use crate::console::changes::button::Button;
use crate::console::changes::order::Order;
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::{Badge, Mark, Moment, because, counted, name_of, number};
use crate::{Activity, Client, NodeView, Target};

/// So many that have ended are listed.
const ENDED: usize = 20;

#[derive(Template)]
#[template(path = "console/nodes.html")]
pub(super) struct NodesPage {
    frame: Frame,
    heading: String,
    live: Vec<Row>,
    ended: Vec<Row>,
    more_ended: usize,
}

struct Row {
    name: String,
    id: String,
    address: String,
    badge: Badge,
    reason: String,
    heartbeat: Option<Moment>,
    started: Option<Moment>,
    ended: Option<Moment>,
    /// Each lane: its name and what it does.
    lanes: Vec<(String, String)>,
    jobs: String,
    to_executions: String,
    buttons: Vec<Button>,
}

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

pub(super) fn make(client: &Client, asked: &Asked) -> Result<NodesPage, Trouble> {
    let frame = Frame::new(asked, client.application(), "nodes", "Nodes");
    let now = client.now()?;
    let (ended, live): (Vec<NodeView>, Vec<NodeView>) =
        client.nodes()?.into_iter().partition(|node| node.ended.is_some());
    let away = live.iter().filter(|node| node.state != Activity::Active).count();
    let heading = match (live.len(), away) {
        (0, _) => "No node lives".to_owned(),
        (1, 0) => "One node lives, and claims".to_owned(),
        (many, 0) => format!("{} nodes live, and claim", number(many)),
        (many, away) => format!("{}, {} of them out of service", counted(many, "live node"), number(away)),
    };
    let rows = |nodes: &[NodeView]| nodes.iter().map(|node| row(node, &frame, now)).collect();
    let shown = &ended[..ended.len().min(ENDED)];
    let (live, more_ended) = (rows(&live), ended.len() - shown.len());
    let ended = rows(shown);
    Ok(NodesPage { frame, heading, live, ended, more_ended })
}

fn row(node: &NodeView, frame: &Frame, now: DateTime<Utc>) -> Row {
    let badge = match node.end_reason.as_str() {
        "" => Badge::of_state(node.state.as_str()),
        "dead" => Badge::new(Mark::Failed, "died"),
        reason => Badge::new(Mark::Skipped, reason),
    };
    let target = || Target::node(&node.id);
    let buttons = match (node.ended, node.state.as_str()) {
        (Some(_), _) => vec![],
        (None, "active") => vec![
            Button::new(frame, "Drain", &Order::Drain(node.id.clone())),
            Button::new(frame, "Pause", &Order::Pause(target())),
        ],
        (None, _) => vec![Button::new(frame, "Resume", &Order::Resume(target()))],
    };
    let lanes = node.lanes.iter().map(|lane| {
        let tasks = match lane.concurrency {
            0 => String::new(),
            most => format!(", {} of {most} tasks", lane.tasks),
        };
        let stuck = match lane.stuck + lane.stuck_tasks {
            0 => String::new(),
            stuck => format!(", {stuck} beyond the time limit"),
        };
        let words =
            format!("{} of {} threads, {} queued{tasks}{stuck}", lane.busy, lane.threads, lane.queued);
        (lane.name.clone(), words)
    });
    Row {
        name: name_of(node),
        id: node.id.clone(),
        address: node.host_ip.clone(),
        badge,
        reason: because("", &node.paused_by, &node.reason).trim().to_owned(),
        heartbeat: Moment::some(node.last_beat, now),
        started: Moment::some(node.started, now),
        ended: Moment::some(node.ended, now),
        lanes: lanes.collect(),
        jobs: node.jobs.join(", "),
        to_executions: query::address("executions", "node", &node.id),
        buttons: buttons.into_iter().flatten().collect(),
    }
}
