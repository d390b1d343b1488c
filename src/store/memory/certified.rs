//! Calls of the store where several members have the tables: each is made on a member, and certified.

use std::sync::Arc;

use super::commits::{Commits, RowKey};
use super::hooks::{MemberFault, Touch};
use super::members::Member;
use super::tables::{Ids, Tables};
use super::{MemoryStore, Shared};
use crate::domain::{Error, ErrorKind, Millis, Timestamp};
use crate::store::Result;

/// How often a transaction is tried.
const TRIES: usize = 3;

/// How long commits are kept where nobody has a copy yet.
const KEPT: Millis = 10_000;

impl MemoryStore {
    /// From now on so many members have the tables.
    pub(crate) fn split(&self, count: usize) {
        let mut head = self.tables();
        let step = count as i64 + 1;
        head.ids.step = step;
        let copy = |n: usize| {
            let mut tables = head.clone();
            tables.become_a_copy();
            tables.ids = Ids { offset: n as i64 + 1, ..head.ids.clone() };
            Member { tables, seen: 0, delay: 0, held_until: Timestamp::MIN }
        };
        *self.shared.members.all() = (0..count).map(copy).collect();
        head.commits = Some(Commits::default());
    }

    /// The store as a client of one of the members sees it.
    pub(crate) fn member(&self, n: usize) -> Self {
        Self { shared: Arc::clone(&self.shared), member: Some(n) }
    }

    /// Others' commits take so long to a member; and until then it takes none.
    pub(crate) fn hold_back(&self, n: usize, delay: Millis, until: Option<Timestamp>) {
        if let Some(member) = self.shared.members.all().get_mut(n) {
            member.delay = delay;
            member.held_until = until.unwrap_or(member.held_until);
        }
    }

    /// It is `time`, and `now` by the databases' clocks.
    pub(super) fn pass_on(shared: &Shared, head: &mut Tables, time: Timestamp) {
        let mut members = shared.members.all();
        for member in members.iter_mut() {
            member.tables.now = head.now;
            if member.held_until <= time {
                member.take(head, u64::MAX, time - member.delay);
            }
        }
        let seen = members.iter().map(|member| member.seen).min();
        match (seen, &mut head.commits) {
            (Some(seen), Some(commits)) => commits.forget(seen),
            (None, Some(commits)) => commits.forget_before(time - KEPT),
            _ => {}
        }
    }

    /// Waits until the member has all earlier commits, unless it fails to do so here. Whether it may have
    /// lacked some: a call saw older rows, even if its own commit has brought the member up to date.
    pub(super) fn catch_up(&self, unless: MemberFault) -> bool {
        let Some(n) = self.member.filter(|_| !self.tables().is_faulty(unless)) else { return false };
        let head = self.tables();
        self.shared.members.all().iter_mut().skip(n).take(1).for_each(|member| member.take_all(&head));
        true
    }

    /// A call that changes nothing.
    pub(super) fn read<T>(&self, work: impl FnOnce(&Tables) -> T) -> T {
        let head = self.tables();
        let Some(n) = self.member else { return work(&head) };
        let members = self.shared.members.all();
        work(members.get(n).map_or(&*head, |member| &member.tables))
    }

    /// A transaction on a member.
    pub(super) fn certified<T>(&self, n: usize, work: impl Fn(&mut Tables) -> Result<T>) -> Result<T> {
        let mut head = self.tables();
        let mut members = self.shared.members.all();
        let Some(member) = members.get_mut(n) else { return Self::run(&mut head, work) };
        for _ in 0..TRIES {
            let result = work(&mut member.tables);
            let set = member.tables.written();
            if result.is_err() {
                member.tables.roll_back();
                return result;
            }
            if set.is_empty() {
                member.tables.forget_written();
                return result;
            }
            let conflict = head.commits.as_ref().and_then(|commits| commits.conflict(&set, member.seen));
            if let Some(commit) = conflict.filter(|_| !head.is_faulty(MemberFault::Certifies)) {
                member.tables.roll_back();
                member.take(&head, commit, Timestamp::MAX);
                if set.has_executions() && head.is_faulty(MemberFault::Asks) {
                    return result;
                }
                continue;
            }
            member.tables.forget_written();
            member.take_all(&head);
            head.replay_and_add(set);
            member.seen = head.commits.as_ref().map_or(0, Commits::last);
            return result;
        }
        Err(Error::new(ErrorKind::Unavailable, "others have changed the same rows each time"))
    }
}

impl Tables {
    pub(super) fn is_faulty(&self, fault: MemberFault) -> bool {
        self.hooks.member_fault == Some(fault)
    }

    /// The transaction counts as one that writes the row.
    pub(super) fn touch(&mut self, why: Touch, row: RowKey) {
        if !self.is_faulty(MemberFault::Touches(why)) {
            self.touched.insert(row);
        }
    }
}
