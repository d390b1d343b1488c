//! `check`: whether an application is well, as [`Client::check`](firetime::Client::check) finds.

use std::io::Write;

use firetime::{Check, Finding, FindingKind, FindingLevel, ScheduleView};
use serde_json::json;

use crate::failure::{Failure, Result};
use crate::inspect::{connect, find_application};
use crate::output::{self, Output};
use crate::target::Target;
use crate::text::escaped;
use crate::when::utc;

/// So many schedules are counted.
const COUNTED: usize = 1_000;

pub(crate) fn check(target: &Target, output: Output, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    let check = client.check()?;
    if check.application.is_none() {
        return find_application(&client, target);
    }
    let is_healthy = check.is_healthy();
    match output {
        Output::Json => output::json(out, &json!({ "healthy": is_healthy, "findings": check.findings }))?,
        Output::Table => tell(&check, client.count_schedules(COUNTED)?, out)?,
    }
    if is_healthy { Ok(()) } else { Err(Failure::Unclean) }
}

fn tell(check: &Check, schedules: usize, out: &mut dyn Write) -> Result {
    for Finding { level, target_type, target, problem, action, .. } in &check.findings {
        let level = if *level == FindingLevel::Note { "note" } else { "problem" };
        let line = format!("{level}: {target_type} {target}: {problem}: {action}");
        writeln!(out, "{}", escaped(&line))?;
    }
    let word = if check.is_healthy() { "healthy" } else { "not healthy" };
    let silent = check.findings.iter().filter(|finding| finding.kind == FindingKind::NodeSilent).count();
    let nodes = check.live().count() - silent;
    let more = if schedules >= COUNTED { " or more" } else { "" };
    let line = format!("{word}{}: live nodes: {nodes}, schedules: {schedules}{more}", paused(check));
    writeln!(out, "{}", escaped(&line))?;
    Ok(())
}

/// `; 1 schedule paused by ann since 2026-11-29 10:05:00.000`
fn paused(check: &Check) -> String {
    let (paused, is_cut) = check.paused();
    let [first, rest @ ..] = &paused[..] else { return String::new() };
    let by = |it: &&ScheduleView| {
        let by = if it.paused_by.is_empty() { String::new() } else { format!(" by {}", it.paused_by) };
        let since = if it.paused.is_some() { format!(" since {}", utc(it.paused)) } else { String::new() };
        by + &since
    };
    match rest {
        [] => format!("; 1 schedule paused{}", by(first)),
        _ => {
            let more = if is_cut { " or more" } else { "" };
            let first = format!("{}{}", first.name, by(first));
            format!("; {}{more} schedules paused, the first {first}", paused.len())
        }
    }
}
