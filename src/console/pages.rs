//! The pages by their addresses.

use askama::Template;

use super::asked::Asked;
use super::trouble::Trouble;
use super::{audit, execution, executions, jobs, nodes, now, schedule, schedules};
use crate::Client;

/// The page that somebody asks for, of those that show something.
pub(super) fn make(client: &Client, asked: &Asked) -> Result<String, Trouble> {
    Ok(match asked.path.as_str() {
        "now" => now::make(client, asked)?.render()?,
        "schedules" => schedules::make(client, asked)?.render()?,
        "schedule" => schedule::make(client, asked)?.render()?,
        "executions" => executions::make(client, asked)?.render()?,
        "execution" => execution::make(client, asked)?.render()?,
        "jobs" => jobs::make(client, asked)?.render()?,
        "nodes" => nodes::make(client, asked)?.render()?,
        "audit" => audit::make(client, asked)?.render()?,
        _ => return Err(Trouble::not_found("There are no changes to tell of this page.")),
    })
}
