//! Which schedules a change of many means.

use std::collections::BTreeMap;

use super::order::{BulkOrder, Item, MOST, Meant};
use super::verb::BulkVerb;
use crate::console::filter;
use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::{Badge, counted, number};
use crate::{Client, ScheduleFilter, ScheduleState, ScheduleView};

/// So many schedules are looked at.
const LOOKED: usize = 100_000;

/// Who pauses a schedule by its own rule.
const ITSELF: &str = "firetime";

/// Those that are meant, by name.
pub(super) fn meant(order: &BulkOrder, client: &Client) -> Result<Meant, Trouble> {
    let wanted = if order.verb == BulkVerb::Pause { ScheduleState::Active } else { ScheduleState::Paused };
    let (mut meant, mut others): (Vec<ScheduleView>, Vec<ScheduleView>) = (Vec::new(), Vec::new());
    let (mut filter, mut looked) = (ScheduleFilter { limit: MOST, ..filter::schedules(&order.filter)? }, 0);
    let has_more = loop {
        let page = client.find_schedules(&filter)?;
        looked += page.looked;
        for it in page.schedules.into_iter().filter(|it| order.has(it.id.get())) {
            if it.state == wanted { meant.push(it) } else { others.push(it) }
        }
        match page.next {
            None => break meant.len() > MOST,
            Some(_) if meant.len() >= MOST || looked >= LOOKED => break true,
            Some(next) => filter.after = Some(next),
        }
    };
    meant.truncate(MOST);
    let item = |it: &ScheduleView| Item {
        id: it.id.get(),
        name: it.name.clone(),
        to: query::schedule(&it.name),
        of: it.job.clone(),
        at: it.next,
        badge: Badge::of_state(it.state.as_str()),
    };
    let mut will = match order.verb {
        BulkVerb::Pause => pauses(meant.len(), &others),
        _ => resumes(&meant, &others),
    };
    if has_more {
        let those = if meant.len() >= MOST {
            format!("these are the first {} by name. Go on afterwards", number(MOST))
        } else {
            format!("the first {} by name were looked at. Narrow the filter", counted(looked, "schedule"))
        };
        will.push(format!("There may be more: {those}."));
    }
    will.push("Those that come from now on are not touched. Each change is in the audit.".to_owned());
    Ok(Meant { items: meant.iter().map(item).collect(), will })
}

fn pauses(count: usize, others: &[ScheduleView]) -> Vec<String> {
    let (paused, rest): (Vec<&ScheduleView>, Vec<&ScheduleView>) =
        others.iter().partition(|it| it.state == ScheduleState::Paused);
    let mut will = vec![
        format!("Nothing of {} is claimed from now on; what runs goes on.", counted(count, "schedule")),
        "Resume ends a pause: what was planned meanwhile is skipped, and the ledger says so.".to_owned(),
    ];
    if !paused.is_empty() {
        let by = by_whom(paused.iter().copied());
        will.push(format!("Paused already, and left so: {by}."));
    }
    will.extend(left(&rest));
    will
}

fn resumes(meant: &[ScheduleView], others: &[ScheduleView]) -> Vec<String> {
    let mut will = vec![format!(
        "{} fire again; what was planned during the pause is skipped, and the ledger says so.",
        counted(meant.len(), "schedule")
    )];
    if !meant.is_empty() {
        will.push(format!("They were paused: {}.", by_whom(meant.iter())));
    }
    if meant.iter().any(|it| it.paused_by == ITSELF) {
        will.push("What has paused itself did so after failures: look at these first.".to_owned());
    }
    will.extend(left(&others.iter().collect::<Vec<_>>()));
    will
}

/// `5 by ann, 2 by themselves`
fn by_whom<'a>(paused: impl Iterator<Item = &'a ScheduleView>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for schedule in paused {
        let by = match schedule.paused_by.as_str() {
            ITSELF => "themselves",
            "" => "somebody",
            name => name,
        };
        *counts.entry(by).or_default() += 1;
    }
    told(counts, |by, count| format!("{count} by {by}"))
}

/// What its state leaves nothing to do for.
fn left(others: &[&ScheduleView]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for schedule in others {
        *counts.entry(schedule.state.as_str()).or_default() += 1;
    }
    let states =
        told(counts, |state, count| format!("{count} {}", if state == "error" { "in error" } else { state }));
    (!others.is_empty()).then(|| format!("Left as they are: {states}."))
}

fn told(counts: BTreeMap<&str, usize>, tell: impl Fn(&str, String) -> String) -> String {
    let told: Vec<String> = counts.into_iter().map(|(it, count)| tell(it, number(count))).collect();
    told.join(", ")
}
