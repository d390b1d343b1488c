//! What a change of many means.

use chrono::{DateTime, Utc};

use super::order::{BulkOrder, Meant};
use super::verb::BulkVerb;
use super::{executions, schedules};
use crate::Client;
use crate::console::web::trouble::Trouble;

/// Those that are meant, and what becomes of them.
pub(crate) fn meant(order: &BulkOrder, client: &Client, now: DateTime<Utc>) -> Result<Meant, Trouble> {
    match order.verb {
        BulkVerb::Cancel | BulkVerb::Retry => executions::meant(order, client, now),
        BulkVerb::Pause | BulkVerb::Resume => schedules::meant(order, client),
    }
}
