//! What each page shows.

pub(crate) mod audit;
pub(crate) mod execution;
pub(crate) mod executions;
pub(crate) mod jobs;
pub(crate) mod login;
mod needs;
pub(crate) mod nodes;
pub(crate) mod now;
mod rows;
pub(crate) mod schedule;
pub(crate) mod schedules;
mod whys;

use askama::Template;

use crate::Client;
use crate::console::asked::Asked;
use crate::console::web::trouble::Trouble;

/// The page of an address, of those that show something.
pub(crate) fn make(client: &Client, asked: &Asked) -> Result<String, Trouble> {
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
