//! Claims: the hot path.
//!
//! A batch of planned occurrences takes
//!
//! * on PostgreSQL one statement, its own transaction: move the cursors, insert the executions, note the
//!   claim; again if a row is held, skipping it;
//! * on MariaDB a compound statement that begins, moves the cursors and inserts the executions, a SELECT of
//!   these, and COMMIT;
//! * on MariaDB, if a row is held or was changed: START, SELECT … FOR UPDATE SKIP LOCKED, UPDATE, INSERT,
//!   SELECT, COMMIT;
//! * on SQLite BEGIN IMMEDIATE, UPDATE … RETURNING, INSERT … RETURNING, COMMIT.
//!
//! PENDING executions take the same five steps everywhere, enqueued ones three of them. A row that did not
//! win is looked at once more, to tell lost from locked; only batches that did not win whole pay for that.

pub(super) mod bounds;
pub(super) mod planned;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use self::bounds::Lock;
use self::planned::{
    CLAIMED_OR_RUNNING, Found, IS_LATE, LOCKED, NULL_IF_NONE, PlannedRequest, WAITED, Win, claimable,
    in_batches, join_holders, mine, planned_want,
};
use super::connection::call::SqlStore;
use super::dialect::Dialect;
use super::dialect::database::QuickClaim;
use super::session::batch::{BatchRows, guarded, update};
use super::session::fault::Step;
use super::session::statement::{Row, Statement, sql};
use super::session::{Session, catch_up, lock_free};
use crate::domain::{
    Candidate, Cause, Entry, Error, ErrorKind, ExecutionId, ExecutionState, Full, Pending, Room, Token,
};
use crate::store::{Blocked, Claim, ClaimRequest, Claimed, IfNotMade, Result, Unstarted, guard};

/// A PENDING execution's claim.
type PendingRequest<'a> = (&'a ClaimRequest, &'a Pending);

/// The executions won, with their fences: of planned claims by schedule, of PENDING by execution.
#[derive(Default)]
struct Wins {
    planned: Found,
    pending: Found,
}

impl Wins {
    fn of(&self, request: &ClaimRequest) -> Option<Win> {
        match &request.candidate {
            Candidate::Planned(occurrence) => self.planned.get(&occurrence.entry.id.0).copied(),
            Candidate::Pending(pending) => self.pending.get(&pending.id.0).copied(),
        }
    }
}

pub(crate) fn claim(store: &SqlStore, requests: &[ClaimRequest]) -> Result<Vec<Claim>> {
    if requests.iter().all(|request| !is_bounded(request)) {
        return or_apart(requests, &|requests| claim_once(store, requests));
    }
    // Each job with bounds is claimed in a transaction of its own: a lock on its row holds up no other job.
    let mut parts: BTreeMap<Option<&str>, (Vec<usize>, Vec<ClaimRequest>)> = BTreeMap::new();
    for (place, request) in requests.iter().enumerate() {
        let job = is_bounded(request).then_some(&*request.candidate.entry().job);
        let (places, part) = parts.entry(job).or_default();
        places.push(place);
        part.push(request.clone());
    }
    let mut answers: Vec<(usize, Claim)> = Vec::with_capacity(requests.len());
    let (mut succeeded, mut failure) = (false, None);
    for (job, (places, part)) in parts {
        // A database that is away is not asked once more for each job.
        let is_away = failure.as_ref().is_some_and(|it: &Error| it.kind() == ErrorKind::Unavailable);
        let claims = match job {
            _ if is_away => Ok(part.iter().map(|_| Claim::Skipped).collect()),
            None => or_apart(&part, &|part| claim_once(store, part)),
            Some(_) => or_apart(&part, &|part| claim_bounded(store, part)),
        };
        match claims {
            Ok(claims) => {
                succeeded = true;
                answers.extend(places.into_iter().zip(claims));
            }
            Err(error) if error.kind() == ErrorKind::Unknown => return Err(error),
            // Nothing of this part was kept: that says nothing of the others.
            Err(error) => {
                failure.get_or_insert(error);
                answers.extend(places.into_iter().map(|place| (place, Claim::Skipped)));
            }
        }
    }
    if let Some(error) = failure.filter(|_| !succeeded) {
        return Err(error);
    }
    answers.sort_by_key(|(place, _)| *place);
    Ok(answers.into_iter().map(|(_, claim)| claim).collect())
}

/// Whether its job has bounds.
fn is_bounded(request: &ClaimRequest) -> bool {
    !request.candidate.entry().bounds.is_none()
}

/// Looks up claims whose commit is unknown. After an error they are still unknown, except where the database
/// refuses what a row holds: its guard still matched, so nothing was committed, and the next claim tells why.
pub(crate) fn resolve(
    store: &SqlStore,
    requests: &[ClaimRequest],
    if_not_made: IfNotMade,
) -> Result<Vec<Claim>> {
    let unknown = |error: Error| match error.kind() {
        ErrorKind::Data => error,
        _ => error.unknown(),
    };
    let answers = or_apart(requests, &|part| {
        let once = |session: &mut dyn Session| resolve_once(session, part, if_not_made);
        let (wins, held) = store.write_caught_up("resolve claims", once).map_err(unknown)?;
        let ending = |request: &ClaimRequest| {
            if held.has(request) { Claim::Skipped } else { Claim::Lost }
        };
        Ok(part.iter().map(|request| won(request, &wins).unwrap_or_else(|| ending(request))).collect())
    })?;
    let known = |claim| if matches!(claim, Claim::Failed(_)) { Claim::Lost } else { claim };
    Ok(answers.into_iter().map(known).collect())
}

/// Halves a batch that was refused for what a row holds, until the failing row is alone. Once a half has
/// committed, a later error becomes one of unknown outcome, so that nothing committed is taken for lost.
fn or_apart(
    requests: &[ClaimRequest],
    once: &dyn Fn(&[ClaimRequest]) -> Result<Vec<Claim>>,
) -> Result<Vec<Claim>> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    match once(requests) {
        Err(error) if error.kind() == ErrorKind::Data && requests.len() == 1 => {
            Ok(vec![Claim::Failed(error)])
        }
        Err(error) if error.kind() == ErrorKind::Data => {
            let (first, second) = requests.split_at(requests.len() / 2);
            let mut claims = or_apart(first, once)?;
            claims.append(&mut or_apart(second, once).map_err(|error| halfway(claims.iter(), error))?);
            Ok(claims)
        }
        ended => ended,
    }
}

fn halfway<'a>(mut claims: impl Iterator<Item = &'a Claim>, error: Error) -> Error {
    let kept = claims.any(|claim| matches!(claim, Claim::Won(_)));
    if kept { error.unknown() } else { error }
}

fn won(request: &ClaimRequest, wins: &Wins) -> Option<Claim> {
    wins.of(request).map(|win| Claim::Won(Claimed::won(request, win.execution, win.fence)))
}

fn claim_once(store: &SqlStore, requests: &[ClaimRequest]) -> Result<Vec<Claim>> {
    let (planned, pending) = split(requests.iter());
    let dialect = store.connections.target.dialect;
    let is_one_batch = pending.is_empty() && planned.len() <= dialect.batch();
    let wins = match dialect.database().quick_claim() {
        Some(quick) if is_one_batch => {
            Wins { planned: claim_quickly(store, &quick, &planned)?, ..Wins::default() }
        }
        _ => store.write("claim", |session| {
            Ok(Wins { planned: win_planned(session, &planned)?, pending: win_pending(session, &pending)? })
        })?,
    };
    endings(store, requests, &wins)
}

/// Claims of one job, as many as there is room for: the first of them.
fn claim_bounded(store: &SqlStore, requests: &[ClaimRequest]) -> Result<Vec<Claim>> {
    let entries: Vec<&Entry> = requests.iter().map(|request| &**request.candidate.entry()).collect();
    let all = |claim: fn() -> Claim| requests.iter().map(|_| claim()).collect();
    let claimed = store.write("claim", |session| {
        let groups: Vec<Option<&str>> = requests.iter().map(group_of).collect();
        let mut locked = match bounds::lock(session, &entries, &groups)? {
            Lock::Locked(locked) => locked,
            other => return Ok(Err(other)),
        };
        let (tries, wins) = win_bounded(session, locked.room.as_mut(), requests)?;
        let won = requests.iter().filter_map(|request| {
            Some((wins.of(request)?.execution.0, request.candidate.due(), group_of(request)))
        });
        bounds::note(session, &locked, &won.collect::<Vec<_>>())?;
        Ok(Ok((tries, wins)))
    })?;
    let (tries, wins) = match claimed {
        Ok(claimed) => claimed,
        Err(Lock::Gone) => return Ok(all(|| Claim::Lost)),
        Err(_) => return Ok(all(|| Claim::Busy)),
    };
    let tried = requests.iter().zip(&tries).filter(|(_, it)| **it == Try::Tried);
    let tried: Vec<ClaimRequest> = tried.map(|(request, _)| request.clone()).collect();
    let mut endings = endings(store, &tried, &wins)?.into_iter();
    let claims = tries.into_iter().map(|it| match it {
        Try::Tried => endings.next().unwrap_or(Claim::Skipped),
        Try::Waits => Claim::Busy,
        Try::Full(full) => Claim::Full(full),
    });
    Ok(claims.collect())
}

/// What became of a claim of a job with bounds under the job's lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Try {
    Tried,
    /// There is room, and there were too many rounds.
    Waits,
    Full(Full),
}

fn group_of(request: &ClaimRequest) -> Option<&str> {
    request.candidate.group().map(|group| &**group)
}

/// Tries as many requests as the bounds of their job leave room for; without bounds, all of them.
fn win_bounded(
    session: &mut dyn Session,
    mut room: Option<&mut Room>,
    requests: &[ClaimRequest],
) -> Step<(Vec<Try>, Wins)> {
    /// So often others are tried in the place of those that cannot be claimed, for a slot or a held row.
    const ROUNDS: usize = 8;
    let (mut tries, mut wins) = (vec![Try::Waits; requests.len()], Wins::default());
    for round in 0..=ROUNDS {
        let mut some: Vec<&ClaimRequest> = Vec::new();
        for (request, it) in requests.iter().zip(&mut tries).filter(|(_, it)| **it != Try::Tried) {
            *it = match room.as_mut().map_or(Ok(()), |room| room.take(group_of(request))) {
                Err(full) => Try::Full(full),
                Ok(()) if round == ROUNDS => Try::Waits,
                Ok(()) => Try::Tried,
            };
            some.extend((*it == Try::Tried).then_some(request));
        }
        let (planned, pending) = split(some.iter().copied());
        wins.planned.extend(win_planned(session, &planned)?);
        wins.pending.extend(win_pending(session, &pending)?);
        let lost: Vec<_> = some.into_iter().filter(|request| wins.of(request).is_none()).collect();
        if lost.is_empty() {
            break;
        }
        if let Some(room) = room.as_mut() {
            lost.into_iter().for_each(|request| room.leave(group_of(request)));
        }
    }
    Ok((tries, wins))
}

/// What became of the claims, of which these were won.
fn endings(store: &SqlStore, requests: &[ClaimRequest], wins: &Wins) -> Result<Vec<Claim>> {
    let dialect = store.connections.target.dialect;
    let won: Vec<Option<Claim>> = requests.iter().map(|request| won(request, wins)).collect();
    let rest: Vec<&ClaimRequest> =
        requests.iter().zip(&won).filter_map(|(request, won)| won.is_none().then_some(request)).collect();
    let may_overlap = rest.iter().any(|request| request.candidate.entry().overlap.has_slot());
    // The wins are committed: if nobody can say what became of the rest, they are asked for again later.
    let (blocked, locked) = if rest.is_empty() || !dialect.has_row_locks() && !may_overlap {
        (HashMap::new(), Some(Vec::new()))
    } else {
        let look = |session: &mut dyn Session| {
            let blocked = if may_overlap {
                // On a member that lags the holder may have ended long ago.
                catch_up(session)?;
                blocked(session, &rest)?
            } else {
                HashMap::new()
            };
            Ok((blocked, still_there(session, &rest)?))
        };
        store.read("claim", look).map_or_else(|_| (HashMap::new(), None), |(by, there)| (by, Some(there)))
    };
    let ending = |request: &ClaimRequest| match (&locked, blocked.get(&key(request))) {
        (Some(locked), _) if !locked.contains(&key(request)) => Claim::Lost,
        (_, Some(blocked)) => Claim::Blocked(blocked.clone()),
        _ => Claim::Skipped,
    };
    let answers = requests.iter().zip(won);
    Ok(answers.map(|(request, won)| won.unwrap_or_else(|| ending(request))).collect())
}

/// Rows are mostly free. If one is not, the next try leaves out the held ones.
fn claim_quickly(store: &SqlStore, quick: &QuickClaim, planned: &[PlannedRequest<'_>]) -> Result<Found> {
    let mut tried = false;
    let win = |session: &mut dyn Session| {
        if store.wary.swap(false, Ordering::Relaxed) || std::mem::replace(&mut tried, true) {
            return (quick.skipping_held)(session, planned);
        }
        let won = (quick.expecting_free)(session, planned);
        store.wary.store(won.is_err(), Ordering::Relaxed);
        won
    };
    if quick.begins { store.write_begun("claim", win) } else { store.alone("claim", win) }
}

/// Claims the planned occurrences whose rows nobody holds, within the session's transaction.
pub(crate) fn win_planned(session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found> {
    let database = session.dialect().database();
    in_batches(session, planned, |session, planned| database.claim(session, planned))
}

fn pending_want<'a>(pending: impl Iterator<Item = &'a PendingRequest<'a>> + Clone) -> BatchRows {
    let requests = || pending.clone().map(|(request, _)| *request);
    let pendings = || pending.clone().map(|(_, pending)| *pending);
    BatchRows::new(pendings().map(|it| it.id.0))
        .ints("schedule", pendings().map(|it| it.entry.id.0))
        .ints("generation", pendings().map(|it| it.generation))
        .ints("origin", pendings().map(|it| it.origin))
        .times("scheduled", pendings().map(|it| it.scheduled))
        .same("state", ExecutionState::Pending.as_str())
        .texts("claim_token", pendings().map(|it| it.token.to_string()))
        .texts("token", requests().map(|it| it.token.to_string()))
        .alike("node", requests().map(|it| it.node))
        .alike("claimed", requests().map(|it| it.now))
        .times("started", requests().map(ClaimRequest::started))
        .waited(requests())
}

/// The schedules whose PENDING executions may be claimed: by their states, and by a fence that can grow.
const CLAIMABLE: &str = "(e.state IN ('EXECUTING', 'COMPLETE') OR (e.state = 'PAUSED' AND w.origin <> 0)) \
     AND e.fence <> 9223372036854775807";

/// Takes the slot for the execution `w`, where executions do not overlap.
const TAKE_SLOT: [(&str, &str); 3] = [
    ("slot_generation", "CASE WHEN e.overlap = 'ALLOW' THEN e.slot_generation ELSE w.generation END"),
    ("slot_origin", "CASE WHEN e.overlap = 'ALLOW' THEN e.slot_origin ELSE w.origin END"),
    ("slot_time", "CASE WHEN e.overlap = 'ALLOW' THEN e.slot_time ELSE w.scheduled END"),
];

/// Claims PENDING executions: their schedule's row is locked first, then the execution changes hands. Each is
/// found by its id.
fn win_pending(session: &mut dyn Session, pending: &[PendingRequest<'_>]) -> Step<Found> {
    let is_enqueued = |(_, pending): &PendingRequest<'_>| pending.entry.is_queue;
    let (enqueued, others): (Vec<_>, Vec<_>) = pending.iter().copied().partition(is_enqueued);
    let mut won = in_batches(session, &others, win_batch)?;
    won.extend(in_batches(session, &enqueued, win_enqueued)?);
    Ok(won)
}

/// Claims enqueued executions: nothing is locked but themselves, and each counts its own claims.
fn win_enqueued(session: &mut dyn Session, pending: &[PendingRequest<'_>]) -> Step<Found> {
    let (dialect, mut want) = (session.dialect(), pending_want(pending.iter()));
    if want.len() == 0 {
        return Ok(Found::default());
    }
    if dialect.has_row_locks() {
        let seen = want.of(&["id", "state", "claim_token"]);
        want = want.only(&session.all::<_, Vec<i64>>(&free_rows(dialect, &seen), Row::int)?);
    }
    let fence = dialect.next_fence("r.fence");
    take_all(session, &want, &fence)
}

/// Locks the PENDING executions that are as they were seen and that nobody holds; their ids.
pub(crate) fn free_rows(dialect: Dialect, seen: &BatchRows) -> Statement {
    sql("SELECT r.id FROM ").want(dialect, seen).push(&format!(
        " {} QRTZ_RUN r ON {} {}{}",
        dialect.join(),
        guarded(dialect, &guard::TAKE, "r"),
        dialect.in_order("r.id"),
        dialect.lock_free("r")
    ))
}

/// Gives PENDING executions that are free and unchanged to those who claim them.
fn take_all(session: &mut dyn Session, want: &BatchRows, fence: &str) -> Step<Found> {
    if want.len() == 0 {
        return Ok(Found::default());
    }
    let dialect = session.dialect();
    let mut sets = vec![
        ("state", CLAIMED_OR_RUNNING),
        ("claim_token", "w.token"),
        ("fence", fence),
        ("node", "w.node"),
        ("claimed_time", "w.claimed"),
        ("started_time", "w.started"),
    ];
    sets.extend(want.has(WAITED).then_some(("waited_for", NULL_IF_NONE)));
    let take = guarded(dialect, &guard::TAKE, "r");
    session.execute(&update(dialect, ("QRTZ_RUN", "r"), &sets, want, &take))?;
    let won = mine(session, want, "r.id", &dialect.seek("r.id", "w.id"))?;
    dialect.database().note(session, won.keys().copied().collect())?;
    Ok(won)
}

fn win_batch(session: &mut dyn Session, pending: &[PendingRequest<'_>]) -> Step<Found> {
    let dialect = session.dialect();
    let asked = pending_want(pending.iter()).of(&["id", "schedule", "origin"]);
    let lock = sql("SELECT e.id, CASE WHEN e.overlap = 'ALLOW' THEN 0 ELSE 1 END AS has_slot FROM ")
        .want(dialect, &asked);
    let lock = lock.push(&format!(
        " {} QRTZ_EXECUTE e ON {} AND {CLAIMABLE} WHERE w.id <> -1 {}{}",
        dialect.join(),
        dialect.seek("e.id", "w.schedule"),
        dialect.in_order("e.id"),
        dialect.lock_free("e")
    ));
    let locked: HashMap<i64, bool> = session.all(&lock, |row| Ok((row.int()?, row.flag()?)))?;
    let has_slots = locked.values().any(|has_slot| *has_slot);
    let mut free: Vec<PendingRequest<'_>> = pending.to_vec();
    free.retain(|(_, pending)| locked.contains_key(&pending.entry.id.0));
    if has_slots {
        // Since the lock, so that nobody takes a slot meanwhile.
        let blocked = holders_of_pending(session, &free)?;
        free.retain(|(_, pending)| !blocked.contains_key(&(pending.entry.id.0, pending.id.0)));
    }
    let want = pending_want(free.iter());
    if want.len() == 0 {
        return Ok(Found::default());
    }
    let schedule = dialect.seek("e.id", "w.schedule") + " AND w.id <> -1";
    let fence = dialect.next_fence("e.fence");
    let mut sets = vec![("fence", fence.as_str())];
    sets.extend(TAKE_SLOT.into_iter().filter(|_| has_slots));
    session.execute(&update(dialect, ("QRTZ_EXECUTE", "e"), &sets, &want, &schedule))?;
    take_all(session, &want, "(SELECT e.fence FROM QRTZ_EXECUTE e WHERE e.id = w.schedule)")
}

fn split<'a>(
    requests: impl Iterator<Item = &'a ClaimRequest>,
) -> (Vec<PlannedRequest<'a>>, Vec<PendingRequest<'a>>) {
    let (mut planned, mut pending) = (Vec::new(), Vec::new());
    for request in requests {
        match &request.candidate {
            Candidate::Planned(occurrence) => planned.push((request, occurrence)),
            Candidate::Pending(waiting) => pending.push((request, waiting)),
        }
    }
    planned.sort_by_key(|(_, occurrence)| occurrence.entry.id);
    pending.sort_by_key(|(_, pending)| (pending.entry.id, pending.id));
    (planned, pending)
}

/// A request's schedule and execution; the execution is 0 for a planned one.
fn key(request: &ClaimRequest) -> (i64, i64) {
    match &request.candidate {
        Candidate::Planned(occurrence) => (occurrence.entry.id.0, 0),
        Candidate::Pending(pending) => (pending.entry.id.0, pending.id.0),
    }
}

/// What finds the executions of planned claims.
fn found_by(planned: &[PlannedRequest<'_>]) -> BatchRows {
    let generations = planned.iter().map(|(_, occurrence)| occurrence.entry.generation);
    planned_want(planned).of(&["id", "next_fire_time", "token"]).ints("generation", generations)
}

/// By its unique key.
fn first_attempt(dialect: Dialect) -> String {
    dialect.seek("r.execute_id", "w.id")
        + " AND r.generation = w.generation AND r.origin = 0 AND r.scheduled_time = w.next_fire_time \
           AND r.attempt = 1"
}

/// The claims won, and the schedules of which nothing else can be said yet: others hold their rows.
///
/// A call whose commit is unknown may still be under way. It locks its schedules' rows, or those of enqueued
/// executions, before it changes anything, and holds them until it has ended: where this transaction holds
/// the row it has ended, or comes too late for its guard.
fn resolve_once(
    session: &mut dyn Session,
    requests: &[ClaimRequest],
    if_not_made: IfNotMade,
) -> Step<(Wins, Held)> {
    let ((planned, pending), dialect) = (split(requests.iter()), session.dialect());
    let held = Held::by_others(session, requests)?;
    let mut wins = Wins {
        planned: in_batches(session, &planned, |session, planned| {
            mine(session, &found_by(planned), "r.execute_id", &first_attempt(dialect))
        })?,
        pending: in_batches(session, &pending, |session, pending| {
            mine(session, &pending_want(pending.iter()), "r.id", &dialect.seek("r.id", "w.id"))
        })?,
    };
    let open = |request: &ClaimRequest| wins.of(request).is_none() && !held.has(request);
    let mut planned: Vec<PlannedRequest<'_>> =
        planned.into_iter().filter(|(request, _)| open(request)).collect();
    let mut pending: Vec<PendingRequest<'_>> =
        pending.into_iter().filter(|(request, _)| open(request)).collect();
    if if_not_made == IfNotMade::Claim {
        let may_run = |request: &ClaimRequest| !is_bounded(request);
        let planned_now: Vec<_> = planned.iter().copied().filter(|(request, _)| may_run(request)).collect();
        let pending_now: Vec<_> = pending.iter().copied().filter(|(request, _)| may_run(request)).collect();
        wins.planned.extend(win_planned(session, &planned_now)?);
        wins.pending.extend(win_pending(session, &pending_now)?);
        // One whose slot is taken, or whose job has a limit, has a guard that still matches, too.
        let is_blocked = |request: &ClaimRequest| {
            let may_match = request.candidate.entry().overlap.has_slot() || is_bounded(request);
            may_match && wins.of(request).is_none()
        };
        planned.retain(|(request, _)| is_blocked(request));
        pending.retain(|(request, _)| is_blocked(request));
    }
    give_up(session, &planned, &pending)?;
    Ok((wins, held))
}

/// Changes what the guards of these claims compare: one whose call has not reached the database yet is lost.
fn give_up(
    session: &mut dyn Session,
    planned: &[PlannedRequest<'_>],
    pending: &[PendingRequest<'_>],
) -> Step<()> {
    let dialect = session.dialect();
    for planned in planned.chunks(dialect.batch()) {
        let (want, set) = (planned_want(planned).of(LOCKED), [("version", "e.version + 1")]);
        session.execute(&update(dialect, ("QRTZ_EXECUTE", "e"), &set, &want, &claimable(dialect)))?;
    }
    for pending in pending.chunks(dialect.batch()) {
        let fresh = pending.iter().map(|_| Token::fresh().to_string());
        let want = pending_want(pending.iter()).of(&["id", "state", "claim_token"]).texts("fresh", fresh);
        let (set, take) = ([("claim_token", "w.fresh")], guarded(dialect, &guard::TAKE, "r"));
        session.execute(&update(dialect, ("QRTZ_RUN", "r"), &set, &want, &take))?;
    }
    Ok(())
}

/// Rows that others hold locked.
struct Held {
    schedules: BTreeSet<i64>,
    /// Enqueued ones.
    executions: BTreeSet<i64>,
}

impl Held {
    /// Of those that these claims lock; the others are locked now.
    fn by_others(session: &mut dyn Session, requests: &[ClaimRequest]) -> Step<Self> {
        let is_enqueued = |request: &&ClaimRequest| request.candidate.entry().is_queue;
        let (enqueued, others): (Vec<_>, Vec<_>) = requests.iter().partition(is_enqueued);
        let schedules = others.into_iter().map(|request| key(request).0).collect();
        let executions = enqueued.into_iter().map(|request| key(request).1).collect();
        Ok(Self {
            schedules: lock_free(session, ("QRTZ_EXECUTE", "t"), schedules)?,
            executions: lock_free(session, ("QRTZ_RUN", "t"), executions)?,
        })
    }

    fn has(&self, request: &ClaimRequest) -> bool {
        let (schedule, execution) = key(request);
        if request.candidate.entry().is_queue {
            self.executions.contains(&execution)
        } else {
            self.schedules.contains(&schedule)
        }
    }
}

/// Of these, by schedule and execution, those that would overlap another, which keeps the slot.
fn blocked(session: &mut dyn Session, requests: &[&ClaimRequest]) -> Step<HashMap<(i64, i64), Blocked>> {
    let (planned, pending) = split(requests.iter().copied());
    let dialect = session.dialect();
    let mut blocked = holders_of_pending(session, &pending)?;
    for planned in planned.chunks(dialect.batch()) {
        let question = sql(format!("SELECT e.id, 0 AS execution, h.id AS holder, {IS_LATE} AS late FROM "))
            .want(dialect, &planned_want(planned).of(&["id"]))
            .push(&join_holders(dialect, "w.id"));
        blocked.extend(session.all::<_, Holders>(&question, holder)?);
    }
    let queued = planned.iter().map(|(_, occurrence)| &occurrence.entry);
    let queued = queued.filter(|entry| entry.overlap.most_waiting() > 0);
    for entry in queued {
        if let Some(blocked) = blocked.get_mut(&(entry.id.0, 0)) {
            blocked.waiting = waiting(session, entry, blocked.holder)?;
        }
    }
    Ok(blocked)
}

/// By schedule and execution, who keeps the slot.
type Holders = HashMap<(i64, i64), Blocked>;

fn holder(row: &mut Row) -> Step<((i64, i64), Blocked)> {
    let key = (row.int()?, row.int()?);
    let (holder, is_late) = (ExecutionId(row.int()?), row.flag()?);
    Ok((key, Blocked { holder, is_late, waiting: Vec::new() }))
}

/// Of these PENDING executions, those whose schedule's slot another one keeps, or that another one of their
/// rerun comes before.
fn holders_of_pending(session: &mut dyn Session, pending: &[PendingRequest<'_>]) -> Step<Holders> {
    let dialect = session.dialect();
    let mut found = predecessors(session, pending)?;
    for pending in pending.chunks(dialect.batch()) {
        let question =
            sql(format!("SELECT e.id, w.id AS execution, h.id AS holder, {IS_LATE} AS late FROM "))
                .want(dialect, &pending_want(pending.iter()).of(&["id", "schedule"]))
                .push(&join_holders(dialect, "w.schedule"))
                .push(" AND h.id <> w.id WHERE w.id <> -1");
        found.extend(session.all::<_, Holders>(&question, holder)?);
    }
    Ok(found)
}

/// Of these PENDING executions, those of reruns whose occurrence before, in the same rerun, has not ended, if
/// executions must not overlap.
fn predecessors(session: &mut dyn Session, pending: &[PendingRequest<'_>]) -> Step<Holders> {
    let (dialect, mut found) = (session.dialect(), Holders::new());
    let reruns = pending.iter().filter(|(_, it)| matches!(it.cause, Cause::Rerun { .. }));
    let reruns: Vec<PendingRequest<'_>> = reruns.copied().collect();
    for reruns in reruns.chunks(dialect.batch()) {
        let question =
            sql(format!("SELECT e.id, w.id AS execution, h.id AS holder, {IS_LATE} AS late FROM "))
                .want(dialect, &pending_want(reruns.iter()).of(PLACE))
                .push(&format!(
                    " {join} QRTZ_EXECUTE e ON {} AND e.overlap <> 'ALLOW' {join} QRTZ_RUN h ON h.id = ({}) \
                     WHERE w.id <> -1 AND (h.state IN ('PENDING', 'CLAIMED', 'RUNNING') \
                     OR (h.state = 'TIMED_OUT' AND h.finished_time < 0))",
                    dialect.seek("e.id", "w.schedule"),
                    "SELECT p.id FROM QRTZ_RUN p WHERE p.execute_id = w.schedule \
                     AND p.generation = w.generation AND p.origin = w.origin \
                     AND p.scheduled_time < w.scheduled ORDER BY p.generation DESC, p.origin DESC, \
                     p.scheduled_time DESC, p.attempt DESC LIMIT 1",
                    join = dialect.join()
                ));
        found.extend(session.all::<_, Holders>(&question, holder)?);
    }
    Ok(found)
}

/// The place of an execution in the ledger, as claims of PENDING ones ask for it.
const PLACE: &[&str] = &["id", "schedule", "generation", "origin", "scheduled"];

/// The planned executions of a schedule that are PENDING beside the one that keeps its slot, up to as many as
/// may be.
fn waiting(session: &mut dyn Session, entry: &Entry, holder: ExecutionId) -> Step<Vec<Unstarted>> {
    let question = sql(format!(
        "SELECT id, claim_token FROM QRTZ_RUN WHERE state = 'PENDING'{} \
         AND application = (SELECT e.application FROM QRTZ_EXECUTE e WHERE e.id = ?) \
         AND execute_id = ? AND origin = 0 AND id <> ? ORDER BY id LIMIT ?",
        session.dialect().pending()
    ));
    let question =
        question.bind(entry.id.0).bind(entry.id.0).bind(holder.0).bind(entry.overlap.most_waiting());
    let waiting: Vec<Option<Unstarted>> = session.all(&question, |row| {
        let (schedule, execution) = (entry.id, ExecutionId(row.int()?));
        // One without a readable token was written by hand.
        Ok(row.token()?.map(|token| Unstarted { schedule, execution, token }))
    })?;
    Ok(waiting.into_iter().flatten().collect())
}

/// Those whose guard still matches although they did not win: somebody holds them locked, or their slots.
fn still_there(session: &mut dyn Session, requests: &[&ClaimRequest]) -> Step<Vec<(i64, i64)>> {
    let (planned, pending) = split(requests.iter().copied());
    let dialect = session.dialect();
    let mut there = Vec::new();
    for planned in planned.chunks(dialect.batch()) {
        let question = sql("SELECT e.id, 0 AS execution FROM ")
            .want(dialect, &planned_want(planned).of(LOCKED))
            .push(&format!(" {} QRTZ_EXECUTE e ON {}", dialect.join(), claimable(dialect)));
        there.extend(session.rows(&question)?);
    }
    for pending in pending.chunks(dialect.batch()) {
        let question = sql("SELECT r.execute_id, r.id FROM ")
            .want(dialect, &pending_want(pending.iter()))
            .push(&format!(
                " {join} QRTZ_RUN r ON {} {join} QRTZ_EXECUTE e ON {} AND {CLAIMABLE}",
                guarded(dialect, &guard::TAKE, "r"),
                dialect.seek("e.id", "w.schedule"),
                join = dialect.join()
            ));
        there.extend(session.rows(&question)?);
    }
    there.into_iter().map(|mut row| Ok((row.int()?, row.int()?))).collect()
}

#[cfg(test)]
pub(crate) fn want_for_test(requests: &[ClaimRequest]) -> BatchRows {
    planned_want(&split(requests.iter()).0)
}
