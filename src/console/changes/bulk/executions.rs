//! Which executions a change of many means.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::order::{BulkOrder, Item, MOST, Meant};
use super::verb::BulkVerb;
use crate::console::changes::followed::followed;
use crate::console::filter;
use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::{Badge, counted, name_of_schedule, number};
use crate::{Client, ExecutionFilter, ExecutionState, ExecutionView};

/// The states in which a verb does something.
pub(crate) fn states(verb: BulkVerb) -> &'static [ExecutionState] {
    use ExecutionState::{Abandoned, Cancelled, Claimed, Failed, Pending, Running, TimedOut};
    match verb {
        BulkVerb::Cancel => &[Pending, Claimed, Running],
        BulkVerb::Retry => &[Failed, TimedOut, Cancelled, Abandoned],
        BulkVerb::Pause | BulkVerb::Resume => &[],
    }
}

/// Those that are meant, the oldest first.
pub(super) fn meant(order: &BulkOrder, client: &Client, now: DateTime<Utc>) -> Result<Meant, Trouble> {
    let found = found(order, client, now)?;
    let item = |it: &ExecutionView| Item {
        id: it.id.get(),
        name: it.id.to_string(),
        to: query::execution(it.id),
        of: name_of_schedule(it),
        at: it.fire_time,
        badge: Badge::of_execution(it.state.as_str()),
    };
    Ok(Meant { items: found.iter().map(item).collect(), will: will(order.verb, &found) })
}

fn found(order: &BulkOrder, client: &Client, now: DateTime<Utc>) -> Result<Vec<ExecutionView>, Trouble> {
    let filter = filter::executions(&order.filter, now)?;
    let is_wanted = |state: &&ExecutionState| filter.states.is_empty() || filter.states.contains(state);
    let states: Vec<ExecutionState> = states(order.verb).iter().filter(is_wanted).copied().collect();
    if states.is_empty() {
        return Ok(Vec::new());
    }
    let filter = ExecutionFilter { states, oldest_first: true, limit: MOST, ..filter };
    let mut found = client.executions(&filter)?;
    let later = if order.verb == BulkVerb::Retry { followed(&found) } else { BTreeSet::new() };
    found.retain(|it| !later.contains(&it.id) && order.has(it.id.get()));
    Ok(found)
}

/// What becomes of these, a sentence each.
fn will(verb: BulkVerb, found: &[ExecutionView]) -> Vec<String> {
    let count = |state: ExecutionState| found.iter().filter(|it| it.state == state).count();
    let running = count(ExecutionState::Running);
    let mut will = match verb {
        BulkVerb::Cancel => vec![
            format!("{} not begun, and will not.", has(found.len() - running)),
            format!("{running} run: their handlers are asked to end, and may take their time."),
        ],
        _ => vec![
            "Each gets one more attempt, at once and with the same payload.".to_owned(),
            "One that a later attempt has followed, or that has succeeded since, is left as it is."
                .to_owned(),
        ],
    };
    if found.len() >= MOST {
        will.push(format!("There may be more: these are the oldest {}. Go on afterwards.", number(MOST)));
    }
    will.push("Those that come from now on are not touched. Each change is in the audit.".to_owned());
    will
}

fn has(count: usize) -> String {
    format!("{} {}", counted(count, "execution"), if count == 1 { "has" } else { "have" })
}
