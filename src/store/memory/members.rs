//! Members that have the tables each, as servers of Galera do.
//!
//! The store itself is what all have agreed on. A member's copy is how the tables were some commits ago: a
//! call is made on the copy, and ends with a commit that the others' may refuse. It is then made again on a
//! fresher copy, as the store over SQL does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::commits::{Commits, RowKey};
use super::tables::{Ids, Tables};
use super::{MemoryStore, Shared};
use crate::domain::{Error, ErrorKind, Millis};
use crate::store::Result;

/// How often a transaction is tried.
const TRIES: usize = 3;

/// How long commits are kept where nobody has a copy yet.
const KEPT: Millis = 10_000;

/// What a member may fail to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberFault {
    /// It answers for an unknown commit before it has the others' commits.
    Resolves,
    /// It tells a node that it has ended before it has the others' commits.
    Ends,
    /// It calls a change lost before it has the others' commits.
    Loses,
    /// It tells a node that drains that it does so no more before it has the others' commits.
    Resumes,
    /// It believes that a claim's slot is taken before it has the others' commits.
    Blocks,
    /// It tells what an execution covers before it has the others' commits.
    Covers,
    /// It commits what others' commits forbid.
    Certifies,
    /// It does not ask whether the transaction of an execution is still open: ended for another's commit, it
    /// counts as committed.
    Asks,
    /// A decision that rests on a row does not touch it.
    Touches(Touch),
}

/// Decisions that rest on a row which they need not change: they touch it, so that others' changes are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// A claim that counts touches its job.
    Bounds,
    /// A request to end an execution touches that.
    Cancel,
    /// A retry by hand touches the key that its execution takes again.
    Key,
    /// A retry by hand touches the execution that is tried again.
    Retry,
    /// A run by hand touches its schedule.
    Run,
    /// A pause with an end touches its application.
    PauseEnd,
}

/// A copy of the tables.
#[derive(Debug)]
struct Member {
    tables: Tables,
    /// The last commit that it has.
    seen: u64,
    /// How long others' commits take to it; and until then it takes none.
    delay: Millis,
    held_until: Millis,
}

#[derive(Debug, Default)]
pub(super) struct Members(Mutex<Vec<Member>>);

impl Members {
    fn all(&self) -> MutexGuard<'_, Vec<Member>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Takes the others' commits, up to a commit and to a time.
    fn take(&mut self, head: &Tables, until: u64, time: Millis) {
        while let Some((at, set)) = head.commits.as_ref().and_then(|commits| commits.behind(self.seen))
            && self.seen < until
            && at <= time
        {
            self.tables.replay(&set);
            self.seen += 1;
        }
    }

    fn take_all(&mut self, head: &Tables) {
        self.take(head, u64::MAX, Millis::MAX);
    }
}

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
            Member { tables, seen: 0, delay: 0, held_until: Millis::MIN }
        };
        *self.shared.members.all() = (0..count).map(copy).collect();
        head.commits = Some(Commits::default());
    }

    /// The store as a client of one of the members sees it.
    pub(crate) fn member(&self, n: usize) -> Self {
        Self { shared: Arc::clone(&self.shared), member: Some(n) }
    }

    /// Others' commits take so long to a member; and until then it takes none.
    pub(crate) fn hold_back(&self, n: usize, delay: Millis, until: Option<Millis>) {
        if let Some(member) = self.shared.members.all().get_mut(n) {
            member.delay = delay;
            member.held_until = until.unwrap_or(member.held_until);
        }
    }

    /// It is `time`, and `now` by the databases' clocks.
    pub(super) fn pass_on(shared: &Shared, head: &mut Tables, time: Millis) {
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
                member.take(&head, commit, Millis::MAX);
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
