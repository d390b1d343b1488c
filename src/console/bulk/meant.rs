//! What a change of many means.

use chrono::{DateTime, Utc};

use super::super::trouble::Trouble;
use super::order::{BulkOrder, Meant};
use super::verb::BulkVerb;
use super::{executions, schedules};
use crate::Client;

/// Those that are meant, and what becomes of them.
pub(in super::super) fn meant(
    order: &BulkOrder,
    client: &Client,
    now: DateTime<Utc>,
) -> Result<Meant, Trouble> {
    match order.verb {
        BulkVerb::Cancel | BulkVerb::Retry => executions::meant(order, client, now),
        BulkVerb::Pause | BulkVerb::Resume => schedules::meant(order, client),
    }
}
