//! The rows a poll has brought.

use std::sync::Arc;

use super::decode::Decoders;
use super::sizes::BACKLOG;
use crate::domain::{Boot, Entry, Pending, Timestamp};

#[derive(Default)]
pub(super) struct PolledRows {
    pub entries: Vec<Arc<Entry>>,
    pub pendings: Vec<Pending>,
    /// No row was cut off.
    pub complete: bool,
}

impl PolledRows {
    pub(super) fn count(&self) -> usize {
        self.entries.len() + self.pendings.len()
    }

    pub(super) fn has_backlog(&self, late: Timestamp) -> bool {
        let entries = self.entries.iter().filter(|entry| entry.is_due_before(late));
        let pendings = self.pendings.iter().filter(|pending| pending.due < late);
        entries.count() + pendings.count() >= BACKLOG
    }

    /// Each row with its due time.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Timestamp, &Arc<Entry>)> {
        let due = |entry: &Arc<Entry>| entry.cursor.next.at().unwrap_or(Timestamp::MIN);
        let schedules = self.entries.iter().map(move |entry| (due(entry), entry));
        let pendings = self.pendings.iter().filter(|pending| pending.payload.is_none());
        schedules.chain(pendings.map(|pending| (pending.due, &pending.entry)))
    }

    /// Keeps the rows that handlers here can decode. Those that there was no time to decode are cut off; true
    /// if there are any.
    pub(super) fn keep_decodable(&mut self, decoders: &Decoders, boot: Boot) -> bool {
        let mut unknown = false;
        let mut keeps = |verdict: Option<bool>| {
            unknown |= verdict.is_none();
            verdict == Some(true)
        };
        self.entries.retain(|it| keeps(decoders.verdict(it)));
        self.pendings.retain(|it| keeps(decoders.takes(it, boot)));
        self.complete &= !unknown;
        unknown
    }
}
