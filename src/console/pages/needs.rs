//! What needs people, before anything else is shown: what [`Client::check`](crate::Client::check) finds, with
//! the pages and forms that lead on.

use crate::console::changes::button::Button;
use crate::console::changes::order::Order;
use crate::console::frame::Frame;
use crate::console::web::query::{Query, address, schedule as page_of};
use crate::console::words::{Glyph, Mark, enqueued_for, first_line, name_of};
use crate::{Check, Finding, FindingKind, Target};

/// So many needs of one kind are told one by one.
const MOST_OF_A_KIND: usize = 10;

/// Something that needs people: the thing, what is the matter with it, and what they may do.
pub(super) struct Need {
    pub(super) glyph: Glyph,
    pub(super) subject: String,
    pub(super) matter: String,
    pub(super) note: String,
    /// A page that shows more of it, and the words that lead there.
    pub(super) link: Option<(String, &'static str)>,
    pub(super) button: Option<Button>,
}

/// What needs people, the gravest first. What somebody has paused does not.
pub(super) fn needs(check: &Check, frame: &Frame) -> Vec<Need> {
    let mut needs: Vec<(FindingKind, Need)> = Vec::new();
    let mut left_out: Vec<(FindingKind, usize)> = Vec::new();
    for finding in &check.findings {
        let kind = finding.kind;
        let Some(need) = need(check, finding, frame) else { continue };
        if needs.iter().filter(|(it, _)| *it == kind).count() < MOST_OF_A_KIND {
            needs.push((kind, need));
        } else {
            match left_out.iter_mut().find(|(it, _)| *it == kind) {
                Some((_, count)) => *count += 1,
                None => left_out.push((kind, 1)),
            }
        }
    }
    for (kind, count) in left_out {
        if let Some((_, last)) = needs.iter_mut().rfind(|(it, _)| *it == kind) {
            last.note = format!("{} and {count} more like this", last.note).trim_start().to_owned();
        }
    }
    needs.into_iter().map(|(_, need)| need).collect()
}

fn need(check: &Check, finding: &Finding, frame: &Frame) -> Option<Need> {
    let name = finding.target.as_str();
    let nodes = || Some(("nodes".to_owned(), "Show the nodes"));
    let schedule = || Some((page_of(name), "Show it"));
    let resume = |target| Button::new(frame, "Resume it", &Order::Resume(target));
    let (mark, note, link, button) = match finding.kind {
        FindingKind::ApplicationPaused => {
            (Mark::Waits, "Nothing is claimed.", None, resume(Target::application()))
        }
        FindingKind::NothingClaims if check.jobs.is_empty() => return None,
        FindingKind::NothingClaims => (Mark::Failed, "Start one, or resume one.", nodes(), None),
        FindingKind::NodeSilent => {
            let note = "Look at its process; another live node declares it dead and takes over its work.";
            (Mark::Late, note, nodes(), None)
        }
        FindingKind::NodeStuck => (Mark::Late, "Mend the jobs, and restart the node.", nodes(), None),
        FindingKind::JobUnclaimed => {
            let show = Query::default().with("job", name).with("state", "active").of("schedules");
            (Mark::Failed, "Start a node that has one.", Some((show, "Show them")), None)
        }
        FindingKind::JobBehind => {
            let note = "Look whether the nodes' threads are full, and into their logs.";
            let show = Query::default().with("job", name).with("state", "PENDING").with("oldest", "1");
            (Mark::Late, note, Some((show.of("executions"), "Show them")), None)
        }
        FindingKind::ScheduleError => (Mark::Failed, "It does not fire.", schedule(), None),
        FindingKind::ScheduleContained => {
            let resume = resume(Target::schedule(name));
            (Mark::Failed, "Mend its job, then resume it.", schedule(), resume)
        }
        FindingKind::ScheduleUnmet => (Mark::Late, "", schedule(), None),
        FindingKind::ScheduleLeftAlone => {
            (Mark::Late, "Edit its payload, or start a node that takes it.", schedule(), None)
        }
        FindingKind::Failing => (Mark::Failed, "", Some((failures(Some(name)), "Show them")), None),
        FindingKind::NodeDied => {
            let link = Some((address("executions", "node", name), "What it ran"));
            (Mark::Late, "Other nodes have taken over its work.", link, None)
        }
        FindingKind::Outage => {
            let note = "What was due then was missed, or began late.";
            (Mark::Late, note, Some(("executions?state=SKIPPED".to_owned(), "What was skipped")), None)
        }
        FindingKind::Unseen => (Mark::Late, "More may need you.", unseen(finding), None),
        FindingKind::NodeHeld | FindingKind::JobPaused | FindingKind::SchedulePaused => return None,
    };
    let (subject, matter) = (subject(check, finding), first_line(&finding.problem));
    Some(Need { glyph: Glyph(mark), subject, matter, note: note.to_owned(), link, button })
}

fn subject(check: &Check, finding: &Finding) -> String {
    let name = finding.target.as_str();
    match finding.target_type {
        "application" => format!("The application {name}"),
        "job" => format!("Job {name}"),
        "node" => {
            let node = check.nodes.iter().find(|node| node.id == name);
            format!("Node {}", node.map_or_else(|| name.to_owned(), name_of))
        }
        _ => {
            let failed = check.failures.executions.iter().find(|it| it.schedule == name);
            failed.and_then(enqueued_for).unwrap_or_else(|| name.to_owned())
        }
    }
}

/// Where the list is that was not looked at whole.
fn unseen(finding: &Finding) -> Option<(String, &'static str)> {
    let lists = [
        ("--state pending", "executions?state=PENDING&oldest=1"),
        ("--state failed", "executions?state=FAILED&state=TIMED_OUT&state=ABANDONED"),
        ("--state error", "schedules?state=error"),
        ("--state paused", "schedules?state=paused"),
        ("--state unmet", "schedules?state=unmet"),
        ("--state overdue", "schedules?state=overdue"),
        ("--state left-alone", "schedules?state=left-alone"),
    ];
    let (_, list) = lists.into_iter().find(|(option, _)| finding.action.contains(option))?;
    Some((list.to_owned(), "Show all"))
}

/// The address of the list of what failed in the last hour, of one schedule if it is named.
pub(crate) fn failures(schedule: Option<&str>) -> String {
    let query = Query::default().with("failed", "lately");
    schedule.map_or_else(|| query.clone(), |name| query.clone().with("schedule", name)).of("executions")
}
