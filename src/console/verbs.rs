//! Changes: the page that says what one will do, and the form that orders it.

use askama::Template;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::asked::Asked;
use super::carried::carry;
use super::frame::Frame;
use super::order::{Button, Order};
use super::query::{Query, is_page};
use super::said::Said;
use super::state::Console;
use super::trouble::Trouble;
use super::words::{Moment, counted, exact, first_line};
use crate::{Client, ExecutionFilter, ExecutionState, Target};

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
pub(super) async fn confirm(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, confirmed).await
}

fn confirmed(client: &Client, asked: &Asked) -> Result<ConfirmPage, Trouble> {
    let order = Order::read(&asked.query)?;
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
            ];
            (format!("Skip {} of {name}?", exact(*at)), will, format!("Skip {}", at.format("%H:%M:%S")))
        }
        Order::Drain(node) => {
            let will = vec![
                "From its next poll on it claims nothing, and hands back what waits there; what runs there ends \
                 normally."
                    .to_owned(),
                "Once it has drained it may be stopped without an interruption. Resume lets it claim again.".to_owned(),
            ];
            (format!("Drain node {node}?"), will, "Drain it".to_owned())
        }
        Order::Cancel(id) => {
            let it = client.execution(*id)?.last().clone();
            let will = match it.state.as_str() {
                "PENDING" | "CLAIMED" => "It has not begun, and will not; no attempt follows.".to_owned(),
                "RUNNING" => {
                    format!(
                        "It runs on node {}: its handler is asked to end, and may take its time.",
                        it.node
                    )
                }
                state => format!("It is {}: nothing will change.", state.to_lowercase().replace('_', " ")),
            };
            (format!("Cancel execution {id} of {}?", it.schedule), vec![will], format!("Cancel {id}"))
        }
        Order::Remove(name) => (format!("Remove {name}?"), removed(client, name)?, format!("Remove {name}")),
        Order::Resume(_) | Order::Run(_) | Order::Rerun(..) | Order::Retry(_) => {
            ("Go on?".to_owned(), Vec::new(), "Go on".to_owned())
        }
    })
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
            let count = client.schedules()?.iter().filter(|it| it.job == *name).count();
            let held = format!(
                "{} and what is enqueued wait, those asked for by hand too.",
                counted(count, "schedule")
            );
            (format!("job {name}"), vec![held, "What runs goes on.".to_owned(), until])
        }
        Target::Node(id) => {
            let will = "From its next poll on it claims nothing; other nodes run what is due. What runs and waits \
                        there goes on.";
            (format!("node {id}"), vec![will.to_owned()])
        }
        _ => {
            let name = format!("the application {}", client.application());
            let count = client.schedules()?.len();
            let held = format!(
                "No node claims anything: {} and all that is enqueued wait.",
                counted(count, "schedule")
            );
            (name, vec![held, "What runs goes on.".to_owned(), until])
        }
    })
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
    if !schedule.owner.is_empty() {
        will.push(format!(
            "It lives in the code of {}: the next sync makes it again, unless its list lacks it.",
            schedule.owner
        ));
    }
    Ok(will)
}

/// Carries out what a form orders, if it repeats the token that the browser holds.
pub(super) async fn change(
    State(console): State<Console>,
    asked: Asked,
    headers: HeaderMap,
    form: Bytes,
) -> Response {
    let permitted = || {
        let form = asked.form(&headers, &form)?;
        let order = Order::read(&form)?;
        let permit = asked.permit(order.role())?;
        Ok((form, order, permit))
    };
    let (form, order, permit) = match permitted() {
        Ok(permitted) => permitted,
        Err(trouble) => return console.refuse(&asked, trouble),
    };
    let change = move |client: &Client| {
        let reason = first_line(form.get("reason").unwrap_or_default());
        let said = carry(client, &order, &reason, form.get("also").is_some());
        Ok((said.or_else(refused)?, back(&form, &order)))
    };
    console.change(asked, permit, change).await
}

/// What the client refuses is told on the page that the form was on; a database that is away has its own.
fn refused(trouble: Trouble) -> Result<Said, Trouble> {
    match trouble.status.is_client_error() {
        true => Ok(Said::not_done(format!("Nothing was changed: {}", trouble.said))),
        false => Err(trouble),
    }
}

/// The page that a change leads to: one of the console's own, or else that of what it changes.
fn back(form: &Query, order: &Order) -> String {
    form.get("back").filter(|to| is_page(to)).map_or_else(|| order.page(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leads_to_a_page_of_the_console() {
        let order = Order::Run("a b".to_owned());
        let to = |to: &str| back(&Query::default().with("back", to), &order);
        assert_eq!(to("schedules?q=a+b&state=paused"), "schedules?q=a+b&state=paused");
        assert_eq!((to("now").as_str(), to("audit?verb=run").as_str()), ("now", "audit?verb=run"));
        for elsewhere in [
            "",
            "?a=b",
            "https://evil.example/",
            "//evil.example",
            "../admin",
            "javascript:x",
            "jobs\r\nx:y",
            "x?jobs",
        ] {
            assert_eq!(to(elsewhere), "schedule?name=a+b", "{elsewhere}");
        }
    }
}
