//! Nodes: joining, beating, ending, and what a poll brings them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::rows::{App, Node, Pause, Schedule, Text};
use super::tables::{Index, Tables};
use crate::domain::shards::SHARDS;
use crate::domain::{
    Activity, Cause, Entry, Error, ErrorKind, ExecutionId, JobId, NodeId, Pending, ScheduleId, ScheduleState,
    Timestamp,
};
use crate::store::columns::Column;
use crate::store::guard;
use crate::store::poll::SMALL_PAYLOAD;
use crate::store::{
    DueRows, Heartbeat, HeartbeatReply, LargePayload, NewNode, NodeRow, Page, Peer, PollQuery, Polled,
    Result, Section,
};

impl Tables {
    /// Repeating it for a node that has joined and not ended is harmless.
    pub(super) fn register(&mut self, new: &NewNode) -> Result<()> {
        let ended = self.nodes.get(&new.id).is_some_and(|node| node.ended.is_some());
        if ended {
            return Err(Error::new(
                ErrorKind::Refused,
                format!("node {} has ended: it cannot join again under the same id", new.id),
            ));
        }
        let application = self.application(&new.application);
        self.apps.row(Arc::clone(&application), App::default);
        for job in &new.jobs {
            self.put_own_job(&application, job)?;
        }
        self.nodes.row(new.id, || Node {
            application,
            host_ip: new.host_ip.clone(),
            host_name: new.host_name.clone(),
            pid: new.pid,
            silent_after: new.silent_after,
            state: "Y".into(),
            pause: Pause::default(),
            beat: 0,
            jobs: new.jobs.iter().map(|job| job.name.clone()).collect(),
            blocked: Vec::new(),
            lanes: Vec::new(),
            left_alone: Vec::new(),
            started: new.now,
            last_beat: new.now,
            told: Timestamp::at(-1),
            ended: None,
            end_reason: Text::default(),
        });
        Ok(())
    }

    /// Whether the node may beat, and has.
    pub(super) fn beat(&mut self, beat: &Heartbeat) -> bool {
        let may_beat = |node: &&mut Node| {
            let is_seen = |column| match column {
                // It was found by it.
                Column::Uuid => true,
                Column::EndedTime => node.ended.is_none(),
                _ => column.absent(false),
            };
            guard::HEARTBEAT.columns().all(is_seen) && node.beat < i64::MAX
        };
        let Some(node) = self.nodes.get_mut(&beat.node).filter(may_beat) else { return false };
        node.beat += 1;
        if beat.withdraw {
            node.state = "N".into();
        } else if beat.drained && node.state == Activity::Draining.stored(false) {
            node.state = Activity::Drained.stored(false).into();
        }
        node.lanes.clone_from(&beat.lanes);
        node.left_alone.clone_from(&beat.left_alone);
        node.last_beat = beat.now;
        if beat.tells {
            node.told = beat.now;
            node.blocked.clone_from(&beat.blocked);
        }
        true
    }

    pub(super) fn heartbeat_reply(&self, beat: &Heartbeat) -> HeartbeatReply {
        let live = self
            .nodes
            .iter()
            .filter(|(_, node)| node.ended.is_none() && *node.application == *beat.application);
        let jobs = |node: &Node| if node.state == "Y" { node.jobs.clone() } else { Vec::new() };
        let peer = |(id, node): (&NodeId, &Node)| {
            let (jobs, blocked) = (jobs(node), node.blocked.clone());
            Peer { id: *id, beat: node.beat, jobs, blocked }
        };
        let peers = live.map(peer).collect();
        let owned = self.owned().get(&Some(beat.node)).into_iter().flatten();
        let owned = owned.filter_map(|id| self.as_stranded(*id, self.run(ExecutionId(*id))?)).collect();
        HeartbeatReply::Alive { peers, owned }
    }

    pub(super) fn poll(&self, query: &PollQuery, time: crate::time::TimeSample) -> Polled {
        let node = self.nodes.get(&query.node);
        let mut polled = Polled {
            time,
            app_enabled: self.is_enabled(&query.application),
            node_enabled: node.is_some_and(|node| node.state == "Y" && node.ended.is_none()),
            drains: node.is_some_and(|node| {
                matches!(Activity::read(&node.state, false), Activity::Draining | Activity::Drained)
            }),
            pause_ended: self.has_ended_pause(&query.application),
            requested: self.has_requests(&query.application),
            unlisted: false,
            expects: self.expected.values().any(|row| *row.application == *query.application),
            election: self.apps.get(query.application.as_str()).map(|app| app.time_next),
            late: false,
            earliest: None,
            earliest_pending: None,
            rows: 0,
            entries: Vec::new(),
            pendings: Vec::new(),
            large: HashMap::new(),
            next: None,
        };
        if let Some(index) = self.index(&query.application) {
            let listed: BTreeSet<JobId> = self.active(index, &query.listed).collect();
            let is_listed = |id: i64| self.schedule(id).is_some_and(|row| listed.contains(&row.job()));
            let end = query.until.max(query.late);
            let mut due = within(&index.due, (query.from - 1, i64::MAX), end);
            let earliest = due.find(|(_, id)| is_listed(*id)).map(|(at, _)| at);
            let is_late = |at: Option<Timestamp>| at.is_some_and(|at| at < query.late);
            let pending = within(&index.pending, (query.pending_from.saturating_sub(1), i64::MAX), end)
                .next()
                .map(|(at, _)| at);
            let mut active = index.jobs.values().filter(|id| self.is_active(**id));
            polled.unlisted = active.any(|id| !listed.contains(id));
            polled.late = is_late(earliest) || is_late(pending);
            polled.earliest = earliest.filter(|at| *at < query.until);
            polled.earliest_pending = pending.filter(|at| *at < query.until);
            let wanted = self.wanted(index, query);
            let sections = match &query.page.schedules {
                DueRows::All => self.all_due(index, &wanted, query, &mut polled),
                DueRows::Sections(sections) => self.due_in(index, sections, query, &mut polled),
            };
            let more = self.due_pendings(index, &wanted, query, &mut polled);
            polled.rows += polled.entries.len();
            polled.next = Page::behind(sections, more);
        }
        polled
    }

    /// The shards of each active job that the query wants, and the names.
    fn wanted<'q>(&self, index: &Index, query: &'q PollQuery) -> WantedRows<'q> {
        let mut shards: BTreeMap<JobId, BTreeSet<i64>> = BTreeMap::new();
        for share in &query.shares {
            for job in self.active(index, &share.jobs) {
                shards.entry(job).or_default().extend(&share.shards);
            }
        }
        WantedRows { shards, names: query.names.iter().map(String::as_str).collect() }
    }

    /// Those of the jobs that are active.
    fn active<'t>(&'t self, index: &'t Index, names: &'t [String]) -> impl Iterator<Item = JobId> + 't {
        let ids = names.iter().filter_map(|name| index.jobs.get(name.as_str()).copied());
        ids.filter(|id| self.is_active(*id))
    }

    fn is_active(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.state == ScheduleState::Active.stored())
    }

    /// The sections of the next page if this one does not hold all.
    fn all_due(
        &self,
        index: &Index,
        rows: &WantedRows<'_>,
        query: &PollQuery,
        polled: &mut Polled,
    ) -> Vec<Section> {
        let due = within(&index.due, (query.from - 1, i64::MAX), query.until).map(|(_, id)| id);
        let of = |id: &i64| self.schedule(*id);
        let ids: Vec<i64> = due.filter(|id| of(id).is_some_and(|row| rows.contain(row))).collect();
        let is_named = |id: &&i64| of(id).is_some_and(|row| rows.names.contains(&*row.name));
        let at_home = |id: &&i64| of(id).is_some_and(|row| rows.are_home(row));
        let overfull = ids.iter().filter(at_home).count() > query.limit;
        ids.iter().filter(|id| !overfull || is_named(id)).for_each(|id| self.bring(*id, polled));
        let sections = rows
            .shards
            .iter()
            .filter(|_| overfull)
            .flat_map(|(job, shards)| shards.iter().flat_map(|shard| Section::both(*job, *shard, query)));
        sections.collect()
    }

    /// A share of each section; the sections of the next page.
    fn due_in(
        &self,
        index: &Index,
        sections: &[Section],
        query: &PollQuery,
        polled: &mut Polled,
    ) -> Vec<Section> {
        let (rows, next) = self.share_out(index, sections, query.limit);
        rows.iter().for_each(|(_, id)| self.bring(*id, polled));
        next
    }

    /// The keys of an equal share of each section, section by section, and the sections of the next page.
    pub(super) fn share_out(
        &self,
        index: &Index,
        sections: &[Section],
        limit: usize,
    ) -> (Vec<(Timestamp, i64)>, Vec<Section>) {
        let (asked, waiting) = sections.split_at(sections.len().min(limit));
        let (mut shared, mut next) = (Vec::new(), waiting.to_vec());
        for section in asked {
            let share = limit / asked.len();
            let is_in = |id: i64| {
                self.schedule(id).is_some_and(|it| (it.job(), it.shard) == (section.job, section.shard))
            };
            let due = within(&index.due, section.after, section.until).filter(|(_, id)| is_in(*id));
            let mut rows: Vec<(Timestamp, i64)> = due.take(share + 1).collect();
            let more = rows.len() > share;
            rows.truncate(share);
            next.extend(rows.last().filter(|_| more).map(|key| Section { after: *key, ..*section }));
            shared.append(&mut rows);
        }
        (shared, next)
    }

    fn bring(&self, id: i64, polled: &mut Polled) {
        let Some(Ok(entry)) = self.entry(id) else { return };
        let entry = Arc::new(without_large(entry, polled));
        polled.entries.push(entry);
    }

    pub(super) fn payloads(&self, schedules: &[ScheduleId]) -> Vec<LargePayload> {
        let payload = |id: &ScheduleId| {
            let row = self.schedule(id.0)?;
            Some(LargePayload { id: *id, version: row.version, payload: Arc::clone(&row.settings.payload) })
        };
        schedules.iter().filter_map(payload).collect()
    }

    fn due_pendings(
        &self,
        index: &Index,
        rows: &WantedRows<'_>,
        query: &PollQuery,
        polled: &mut Polled,
    ) -> Option<(Timestamp, i64)> {
        let behind = query.page.pendings.max((query.pending_from.saturating_sub(1), i64::MAX));
        let due = within(&index.pending, behind, query.until);
        let mut page: Vec<(Timestamp, i64)> = if query.page.newest {
            due.collect::<Vec<_>>().into_iter().rev().take(query.limit + 1).collect()
        } else {
            due.take(query.limit + 1).collect()
        };
        let more = page.len() > query.limit;
        page.truncate(query.limit);
        let last = page.last().filter(|_| more && !rows.shards.is_empty()).copied();
        polled.rows += page.len();
        page.sort_unstable();
        for (_, id) in &page {
            if let Some(mut pending) = self.as_pending(ExecutionId(*id), rows) {
                pending.entry = Arc::new(without_large(Entry::clone(&pending.entry), polled));
                polled.pendings.push(pending);
            }
        }
        last
    }

    fn as_pending(&self, id: ExecutionId, rows: &WantedRows<'_>) -> Option<Pending> {
        let run = self.run(id)?;
        let row = self.schedule(run.schedule)?;
        // Enqueued executions are shared out one by one.
        let shard = if row.is_queue() { run.origin % SHARDS as i64 } else { row.shard };
        if !rows.contain_in(row, shard) {
            return None;
        }
        if !self.lets_run(run.schedule, run.origin) || run.scheduled.utc().is_none() {
            return None;
        }
        Some(Pending {
            id,
            entry: Arc::new(self.entry(run.schedule)?.ok()?),
            scheduled: run.scheduled,
            due: run.due,
            attempt: run.attempt,
            generation: run.generation,
            origin: run.origin,
            token: run.token?,
            cause: Cause::read(run.cause, self.ordered_by(run.origin)),
            payload: run.payload.clone(),
            priority: run.priority,
            group: run.group.clone(),
            lane: run.lane.clone(),
            headers: run.headers.clone(),
            failures: run.failures,
            snoozes: run.snoozes,
        })
    }

    pub(super) fn node_rows(&self, application: Option<&str>) -> Vec<NodeRow> {
        let of_application =
            self.nodes.iter().filter(|(_, node)| application.is_none_or(|only| only == &*node.application));
        let mut rows: Vec<NodeRow> = of_application.map(|(id, node)| node_row(*id, node)).collect();
        rows.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| a.id.cmp(&b.id)));
        rows
    }
}

/// Leaves out a large payload, and tells its size.
fn without_large(mut entry: Entry, polled: &mut Polled) -> Entry {
    if entry.payload.len() > SMALL_PAYLOAD {
        polled.large.insert(entry.id, entry.payload.len());
        entry.payload = "".into();
    }
    entry
}

/// The rows a poll asks for.
struct WantedRows<'q> {
    shards: BTreeMap<JobId, BTreeSet<i64>>,
    names: BTreeSet<&'q str>,
}

impl WantedRows<'_> {
    fn are_home(&self, row: &Schedule) -> bool {
        self.are_home_in(row, row.shard)
    }

    fn are_home_in(&self, row: &Schedule, shard: i64) -> bool {
        self.shards.get(&row.job()).is_some_and(|shards| shards.contains(&shard))
    }

    fn contain(&self, row: &Schedule) -> bool {
        self.contain_in(row, row.shard)
    }

    fn contain_in(&self, row: &Schedule, shard: i64) -> bool {
        let is_named = self.shards.contains_key(&row.job()) && self.names.contains(&*row.name);
        is_named || self.are_home_in(row, shard)
    }
}

fn node_row(id: NodeId, node: &Node) -> NodeRow {
    NodeRow {
        id: id.to_string(),
        application: node.application.to_string(),
        host_ip: node.host_ip.clone(),
        host_name: node.host_name.clone(),
        pid: i64::from(node.pid),
        silent_after: node.silent_after,
        switch: Activity::read(&node.state, false),
        pause: node.pause.row(),
        beat: node.beat,
        jobs: node.jobs.clone(),
        lanes: node.lanes.clone(),
        left_alone: node.left_alone.clone(),
        started: node.started,
        last_beat: node.last_beat,
        ended: node.ended.map(|at| (at, node.end_reason.to_string())),
    }
}

/// The keys behind `after` and before `until`.
fn within(
    keys: &BTreeSet<(Timestamp, i64)>,
    after: (Timestamp, i64),
    until: Timestamp,
) -> impl Iterator<Item = (Timestamp, i64)> {
    let behind = keys.range((Bound::Excluded(after), Bound::Unbounded));
    behind.copied().take_while(move |(at, _)| *at < until)
}
