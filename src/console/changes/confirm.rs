//! The page that says what a change will do, and asks why it is made.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::TimeDelta;

use super::button::Button;
use super::change::back;
use super::missed::attempts;
use super::order::Order;
use crate::console::asked::Asked;
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::trouble::Trouble;
use crate::console::words::instant::instant;
use crate::console::words::{Moment, clock, counted, exact, name_of, name_of_schedule, span};
use crate::{Activity, Client, ExecutionFilter, ExecutionState, NodeView, RerunFate, Target};

/// So many executions are counted; then there are more.
const COUNTED: usize = 1_000;

#[derive(Template)]
#[template(path = "console/confirm.html")]
struct ConfirmPage {
    frame: Frame,
    question: String,
    /// What it will do, a sentence each.
    will: Vec<String>,
    button: Button,
    /// Whether what runs may be ended with it, and the words for that.
    tick: Option<&'static str>,
    back: String,
}

/// Says what a change will do, and asks why it is made.
pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

fn make(client: &Client, asked: &Asked) -> Result<ConfirmPage, Trouble> {
    let order = fixed(client, Order::read(&asked.query)?)?;
    asked.permit(order.role())?;
    let frame = Frame::new(asked, client.application(), "", "Are you sure?");
    let (question, will, label) = told(client, &order)?;
    let back = back(&asked.query, &order);
    let Some(button) = Button::new(&frame, label, &order) else {
        return Err(Trouble::broken());
    };
    // What it removes has no page any more.
    let then = if matches!(order, Order::Remove(_)) { order.page() } else { back.clone() };
    let button = button.confirmed(then).primary();
    let tick = matches!(order, Order::Remove(_)).then_some("Also ask what runs of it to end");
    Ok(ConfirmPage { frame, question, will, button, tick, back })
}

/// The order with an instant in place of what somebody has written: what is shown is what will be done.
fn fixed(client: &Client, order: Order) -> Result<Order, Trouble> {
    Ok(match order {
        Order::RunFor(name, text) => {
            let at = instant(&text, client.now()?)?;
            Order::RunFor(name, at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true))
        }
        order => order,
    })
}

/// The question, what the change will do, and the words of its button.
fn told(client: &Client, order: &Order) -> Result<(String, Vec<String>, String), Trouble> {
    Ok(match order {
        Order::Pause(target) => {
            let (name, will) = paused(client, target)?;
            (format!("Pause {name}?"), will, format!("Pause {name}"))
        }
        Order::Skip(name, at) => {
            let will = vec![
                format!(
                    "Its occurrence of {} does not run: the ledger has it as skipped, with your name.",
                    exact(*at)
                ),
                "The one after it fires as planned.".to_owned(),
                "There is a way back: once its time has come, its page runs it after all.".to_owned(),
            ];
            (format!("Skip {} of {name}?", exact(*at)), will, format!("Skip {}", clock(*at)))
        }
        Order::RunFor(name, text) => run_for(client, name, text)?,
        Order::Drain(node) => {
            let (name, rest) = of_node(client, node)?;
            let will = vec![
                "From its next poll on it claims nothing, and hands back what waits there; what runs there ends \
                 normally."
                    .to_owned(),
                rest,
                "Once it has drained it may be stopped without an interruption. Resume lets it claim again.".to_owned(),
            ];
            (format!("Drain node {name}?"), will, "Drain it".to_owned())
        }
        Order::Cancel(id) => {
            let it = client.execution(*id)?.last().clone();
            let will = match it.state.as_str() {
                "PENDING" | "CLAIMED" => "It has not begun, and will not; no attempt follows.".to_owned(),
                "RUNNING" => {
                    format!(
                        "It runs on node {}: its handler is asked to end, and may take its time.",
                        it.node.as_deref().unwrap_or_default()
                    )
                }
                state => format!("It is {}: nothing will change.", state.to_lowercase().replace('_', " ")),
            };
            (
                format!("Cancel execution {id} of {}?", name_of_schedule(&it)),
                vec![will],
                format!("Cancel {id}"),
            )
        }
        Order::Remove(name) => (format!("Remove {name}?"), removed(client, name)?, format!("Remove {name}")),
        Order::EndRerun(name, origin) => end_rerun(client, name, *origin)?,
        Order::Bulk(_)
        | Order::Stop(_)
        | Order::Missed(_)
        | Order::Edit(_)
        | Order::Resume(_)
        | Order::Run(_)
        | Order::Rerun(..)
        | Order::Retry(_) => ("Go on?".to_owned(), Vec::new(), "Go on".to_owned()),
    })
}

/// A count of which there may be more than are counted.
fn up_to(count: usize, noun: &str) -> String {
    let counted = counted(count, noun);
    if count >= COUNTED { format!("{counted} or more") } else { counted }
}

fn paused(client: &Client, target: &Target) -> Result<(String, Vec<String>), Trouble> {
    let until =
        "Resume ends the pause: what was planned meanwhile is skipped, and the ledger says so.".to_owned();
    Ok(match target {
        Target::Schedule(name) => {
            let schedule = client.schedule(name)?.schedule;
            let next = schedule.next.map(|next| {
                format!("Nothing of it is claimed from now on; next would have been {}.", exact(next))
            });
            let next = next.unwrap_or_else(|| "Nothing of it is claimed from now on.".to_owned());
            (name.clone(), vec![next, "What runs of it goes on.".to_owned(), until])
        }
        Target::Job(name) => {
            let count = client.jobs()?.iter().find(|it| it.name == *name).map_or(0, |job| job.schedules);
            let held = format!(
                "{} and what is enqueued wait, those asked for by hand too.",
                up_to(count, "active schedule")
            );
            (format!("job {name}"), vec![held, "What runs goes on.".to_owned(), until])
        }
        Target::Node(id) => {
            let (name, rest) = of_node(client, id)?;
            let will =
                "From its next poll on it claims nothing. What runs and waits there goes on.".to_owned();
            (format!("node {name}"), vec![will, rest])
        }
        _ => {
            let name = format!("the application {}", client.application());
            let count = client.count_schedules(COUNTED)?;
            let held = format!(
                "No node claims anything: {} and all that is enqueued wait.",
                up_to(count, "schedule")
            );
            (name, vec![held, "What runs goes on.".to_owned(), until])
        }
    })
}

/// A node as people know it, and what becomes of its jobs without it.
fn of_node(client: &Client, id: &str) -> Result<(String, String), Trouble> {
    let nodes = client.nodes()?;
    let it = nodes.iter().find(|it| it.id == id);
    let name = it.map_or_else(|| id.to_owned(), name_of);
    let claims = |it: &&NodeView| it.ended.is_none() && it.state == Activity::Active && it.id != id;
    let others: Vec<&NodeView> = nodes.iter().filter(claims).collect();
    let jobs = it.into_iter().flat_map(|it| &it.jobs);
    let alone: Vec<&str> =
        jobs.filter(|job| !others.iter().any(|other| other.jobs.contains(job))).map(String::as_str).collect();
    let rest = match (others.len(), &alone[..]) {
        (0, _) => "No other live node claims: what is due waits until one does.".to_owned(),
        (count, []) => format!("What is due runs elsewhere: {}.", counted(count, "other live node")),
        (_, [job]) => format!("No other live node that claims runs the job {job}: it waits for one."),
        (_, [job, more @ ..]) => format!(
            "No other live node that claims runs the job {job}, nor {}: they wait for one.",
            counted(more.len(), "other job")
        ),
    };
    Ok((name, rest))
}

/// The question whether to end a rerun, and what that would do.
fn end_rerun(client: &Client, name: &str, origin: i64) -> Result<(String, Vec<String>, String), Trouble> {
    let attempts = attempts(client, name, origin)?;
    use ExecutionState::{Claimed, Pending, Running};
    let count = |states: &[ExecutionState]| {
        attempts.iter().filter(|it| it.state.known().is_some_and(|state| states.contains(&state))).count()
    };
    let waits = counted(count(&[Pending, Claimed]), "execution");
    let will = vec![
        format!("What has not begun of it is cancelled: {waits}."),
        format!("What runs of it is asked to end: {}.", counted(count(&[Running]), "execution")),
        "What has ended stays as it is.".to_owned(),
    ];
    Ok((format!("End rerun {origin} of {name}?"), will, "End this rerun".to_owned()))
}

/// The question whether to run a schedule for an instant, and what that would do.
fn run_for(client: &Client, name: &str, text: &str) -> Result<(String, Vec<String>, String), Trouble> {
    let now = client.now()?;
    let at = instant(text, now)?;
    let (question, label) = (format!("Run {name} for {}?", exact(at)), format!("Run it for {}", exact(at)));
    if at > now {
        let will = vec![
            format!("It runs once more in {}, beside its planned occurrences.", span(at - now)),
            "None of these is moved; it also runs while the schedule is paused.".to_owned(),
        ];
        return Ok((question, will, label));
    }
    let end = at.checked_add_signed(TimeDelta::milliseconds(1)).ok_or_else(Trouble::beyond)?;
    let mut plan = client.rerun(name).since(at).until(end).plan()?;
    if plan.occurrences.is_empty() {
        plan = client.backfill(name, at..end).plan()?;
    }
    let will = match plan
        .occurrences
        .first()
        .map(|it| (it.fate, it.state.as_ref().map_or("", |state| state.as_str())))
    {
        None => "It had no fire time then: nothing will change.".to_owned(),
        Some((RerunFate::Succeeded, _)) => "It has succeeded for that: nothing will change.".to_owned(),
        Some((RerunFate::Open, _)) => "It has yet to end for that: nothing will change.".to_owned(),
        Some((_, "")) => "It runs under that fire time; the ledger has no occurrence of it.".to_owned(),
        Some((_, state)) => {
            let state = state.to_lowercase().replace('_', " ");
            format!("It runs once more under that fire time; its occurrence was {state}.")
        }
    };
    Ok((question, vec![will], label))
}

fn removed(client: &Client, name: &str) -> Result<Vec<String>, Trouble> {
    use ExecutionState::{Claimed, Pending, Running};
    let schedule = client.schedule(name)?.schedule;
    let count = |states: &[ExecutionState]| -> Result<String, Trouble> {
        let filter = ExecutionFilter {
            schedule: Some(name.to_owned()),
            states: states.to_vec(),
            limit: COUNTED,
            ..ExecutionFilter::default()
        };
        let count = client.executions(&filter)?.len();
        let more = if count == COUNTED { " or more" } else { "" };
        Ok(format!("{}{more}", counted(count, "execution")))
    };
    let next = match schedule.next {
        Some(next) => format!("It fires no more; next would have been {}.", Moment::exactly(next).said),
        None => "It fires no more.".to_owned(),
    };
    let withdraws = client.remove(name).withdraws()?;
    let withdraws = withdraws.map_or_else(|| "nothing that is due".to_owned(), |it| it.to_string());
    let mut will = vec![
        next,
        format!("What waits of it is cancelled: {}.", count(&[Pending])?),
        format!("What runs of it goes on, unless you say otherwise: {}.", count(&[Claimed, Running])?),
        format!("It withdraws {withdraws}. The ledger keeps what it has of it."),
    ];
    if let Some(owner) = &schedule.owner {
        will.push(format!(
            "It lives in the code of {owner}: the next sync makes it again, unless its list lacks it."
        ));
    }
    Ok(will)
}
