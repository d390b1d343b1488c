//! The form of an edit with what the schedule is, and what the change comes to before it is made.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};

use super::order::{EditOrder, LONGEST_PAYLOAD};
use super::times::{Times, beside};
use crate::console::asked::Asked;
use crate::console::changes::button::Button;
use crate::console::changes::order::Order;
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::{Moment, first_line};
use crate::{AuditFilter, AuditView, Client, EditPlan, ErrorKind, ScheduleDetails, Trigger};

/// Of the changes that others have made meanwhile so many are told.
const TOLD: usize = 10;

#[derive(Template)]
#[template(path = "console/edit.html")]
struct EditPage {
    frame: Frame,
    name: String,
    to_schedule: String,
    order: EditOrder,
    /// What cannot be so, by field; what concerns none is under an empty name.
    problems: Vec<(&'static str, String)>,
    /// Whether the payload has room in the form.
    shows_payload: bool,
    preview: Option<Preview>,
    conflict: Option<Conflict>,
}

/// What the change comes to.
struct Preview {
    differences: Vec<Row>,
    /// What else there is to say, a sentence each.
    notes: Vec<String>,
    times: Option<Times>,
    /// None if nothing would change.
    button: Option<Button>,
}

struct Row {
    field: String,
    was: String,
    becomes: String,
}

/// What others have done since the form was made.
struct Conflict {
    changes: Vec<String>,
    /// The page that has the same input for the schedule as it is now.
    again: String,
    /// The page that begins anew.
    anew: String,
}

impl EditPage {
    fn value(&self, field: &str) -> &str {
        self.order.value(field)
    }

    fn is(&self, field: &str, value: &str) -> bool {
        self.order.value(field) == value
    }

    fn problem(&self, field: &str) -> Option<&str> {
        self.problems.iter().find(|(of, _)| *of == field).map(|(_, said)| said.as_str())
    }
}

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

fn make(client: &Client, asked: &Asked) -> Result<EditPage, Trouble> {
    let name = asked.query.get("name").ok_or_else(|| Trouble::wrong("The page names no schedule."))?;
    let frame = Frame::new(asked, client.application(), "schedules", format!("Edit {name}"));
    let (now, details) = (client.now()?, client.schedule(name)?);
    let is_hidden = asked.masks.touches(&details.schedule.job);
    let shown = |order: EditOrder| if is_hidden { order.without_payload() } else { order };
    let fresh = shown(EditOrder::of(&details, now));
    asked.permit(Order::Edit(Box::new(fresh.clone())).role())?;
    let asks = EditOrder::read(&asked.query)?.map(shown);
    let order = asks.clone().unwrap_or_else(|| fresh.clone());
    let version = details.schedule.version;
    let conflict = match order.version == version {
        true => None,
        false => Some(conflict(client, asked, &order, &fresh, now)?),
    };
    let (preview, problems) = match asks {
        Some(asks) if conflict.is_none() => match preview(client, &asks, &details, &frame, now)? {
            Ok(preview) => (Some(preview), Vec::new()),
            Err(problems) => (None, problems),
        },
        _ => (None, Vec::new()),
    };
    Ok(EditPage {
        name: name.to_owned(),
        to_schedule: query::schedule(name),
        shows_payload: !is_hidden && details.payload.len() <= LONGEST_PAYLOAD,
        order,
        problems,
        preview,
        conflict,
        frame,
    })
}

type Problems = Vec<(&'static str, String)>;

fn preview(
    client: &Client,
    order: &EditOrder,
    details: &ScheduleDetails,
    frame: &Frame,
    now: DateTime<Utc>,
) -> Result<Result<Preview, Problems>, Trouble> {
    let edit = match order.request(client, now) {
        Ok(edit) => edit,
        Err(problems) => return Ok(Err(problems)),
    };
    let plan = match edit.plan() {
        Ok(plan) => plan,
        Err(error) if error.kind() == ErrorKind::Config => return Ok(Err(vec![("", error.to_string())])),
        Err(error) => return Err(error.into()),
    };
    let words = |of: Option<&Trigger>, written: &str| match of {
        Some(trigger) => format!("{}: {}", trigger.in_words(), shown(written)),
        None => shown(written),
    };
    let differences = plan.differences.iter().map(|it| match it.field {
        "trigger" => Row {
            field: it.field.to_owned(),
            was: words(details.rule.as_ref(), &it.was),
            becomes: words(Some(&plan.trigger), &it.becomes),
        },
        field => Row { field: field.replace('_', " "), was: shown(&it.was), becomes: shown(&it.becomes) },
    });
    let differences: Vec<Row> = differences.collect();
    let is_change = !differences.is_empty();
    let button = Button::new(frame, "Change it", &Order::Edit(Box::new(order.clone())));
    Ok(Ok(Preview {
        notes: if is_change { notes(&plan, details) } else { Vec::new() },
        times: is_change.then(|| beside(details, &plan, now)).flatten(),
        button: button.filter(|_| is_change).map(|it| it.confirmed(query::schedule(&order.name)).primary()),
        differences,
    }))
}

fn shown(value: &str) -> String {
    if value.is_empty() { "none".to_owned() } else { crate::console::words::in_words(value) }
}

/// What it withdraws, whose fields they are from now on, and what keeps it from firing.
fn notes(plan: &EditPlan, details: &ScheduleDetails) -> Vec<String> {
    let retimes = plan.differences.iter().any(|it| ["trigger", "starts", "ends"].contains(&it.field));
    let withdraws = match &plan.withdraws {
        Some(withdraws) => format!("It withdraws {withdraws}, which nobody has claimed: they do not run."),
        None if retimes => "It withdraws nothing: no occurrence is due.".to_owned(),
        None => "It withdraws nothing.".to_owned(),
    };
    let owned = plan.owner.as_ref().map(|owner| {
        format!(
            "It lives in the code of {owner}: the fields that you change are the operator's from now on, and \
             syncs leave them as they are until they are given back."
        )
    });
    let state = match details.schedule.state.as_str() {
        "paused" => Some("It is paused, and stays so.".to_owned()),
        "error" if !retimes => {
            Some("It is in error, and stays so: another trigger begins it anew.".to_owned())
        }
        "complete" if !retimes => Some("It is complete, and fires no more: its trigger stays.".to_owned()),
        _ => None,
    };
    let running = "What runs of it goes on as it began.".to_owned();
    [withdraws].into_iter().chain(owned).chain(state).chain([running]).collect()
}

fn conflict(
    client: &Client,
    asked: &Asked,
    order: &EditOrder,
    fresh: &EditOrder,
    now: DateTime<Utc>,
) -> Result<Conflict, Trouble> {
    let mut entries = client.audit(&AuditFilter {
        target: Some(order.name.clone()),
        since: Some(order.read),
        limit: TOLD,
        ..AuditFilter::default()
    })?;
    asked.masks.audit(&mut entries);
    let told = |it: &AuditView| {
        let at = Moment::some(it.made, now).map_or_else(String::new, |at| format!(" {}", at.said));
        let became = first_line(&it.became);
        let became = if became.is_empty() { became } else { format!(": {became}") };
        let why = if it.reason.is_empty() { String::new() } else { format!(" ({})", it.reason) };
        format!("{}, {}{at}{became}{why}", it.actor, it.verb)
    };
    let mut changes: Vec<String> =
        entries.iter().filter(|it| it.target_type == "schedule").map(told).collect();
    if changes.is_empty() {
        changes.push("A node has moved it on: it was behind.".to_owned());
    }
    let again = order.over(fresh).address();
    Ok(Conflict { changes, again, anew: query::address("edit", "name", &order.name) })
}
