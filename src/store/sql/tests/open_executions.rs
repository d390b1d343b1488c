//! QRTZ_CLAIM: on PostgreSQL what is under way is found by it, and it forgets what has ended.

use std::sync::Arc;

use super::fixture::{AT, Database, application, request, schedules};
use crate::domain::{Answer, Candidate, Cause, ExecutionId, ExecutionState, NodeId, Pending, Token};
use crate::fixtures::Changes;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::rows::open_executions::Whose;
use crate::store::sql::session::statement::{single, sql};
use crate::store::{Applied, Claim, ClaimRequest, Claimed, ExecutionQuery};

struct Case {
    database: Database,
    application: String,
}

impl Case {
    fn new() -> Self {
        Self { database: Database::postgres(), application: application() }
    }

    fn claim(&self, requests: &[ClaimRequest]) -> Vec<Claimed> {
        let won = |claim| match claim {
            Claim::Won(claimed) => claimed,
            other => panic!("{other:?}"),
        };
        self.database.store().claim(requests).unwrap().into_iter().map(won).collect()
    }

    fn finish(&self, claimed: Claimed) {
        let settled = self.database.store().settle(&[claimed.finish(Answer::Done, None, AT + 10)]);
        assert_eq!(settled.unwrap(), [Applied::Done]);
    }

    /// What is found under way.
    fn found(&self, whose: Whose) -> Vec<ExecutionId> {
        let question = Dialect::Postgres.database().open_executions(&self.application, whose);
        let rows = self.database.session().rows(&question).unwrap();
        rows.into_iter().map(|mut row| ExecutionId(row.int().unwrap())).collect()
    }

    /// How many claims are left once those of which nothing is under way are gone.
    fn left(&self, whose: Whose) -> i64 {
        let mut session = self.database.session();
        Dialect::Postgres.database().sweep(session.as_mut(), &self.application, whose).unwrap();
        let count = sql("SELECT COUNT(*) FROM QRTZ_CLAIM WHERE application = ?");
        single(session.rows(&count.bind(self.application.as_str())).unwrap()).unwrap()
    }
}

#[test]
fn a_claim_stays_until_the_last_of_it_has_ended() {
    let (case, node) = (Case::new(), NodeId::fresh());
    let whose = Whose::Node(node);
    let entries = schedules(case.database.store().as_ref(), &case.application, 3);
    let requests: Vec<ClaimRequest> = entries.iter().map(|entry| request(entry, node)).collect();
    let mut claimed = case.claim(&requests);
    let mut ids: Vec<ExecutionId> = claimed.iter().map(Claimed::execution).collect();
    ids.sort_unstable();
    assert_eq!((case.found(whose), case.left(whose)), (ids, 1), "one claim of three");
    let last = claimed.pop().unwrap();
    claimed.into_iter().for_each(|claimed| case.finish(claimed));
    assert_eq!((case.found(whose), case.left(whose)), (vec![last.execution()], 1));
    case.finish(last);
    assert_eq!((case.found(whose), case.left(whose)), (vec![], 0));
}

#[test]
fn what_lies_between_anothers_ids_is_not_its_own() {
    let (case, nodes) = (Case::new(), [NodeId::fresh(), NodeId::fresh()]);
    let entries = schedules(case.database.store().as_ref(), &case.application, 2);
    let ids = [0, 1].map(|n| case.claim(&[request(&entries[n], nodes[n])])[0].execution());
    let wide = sql("UPDATE QRTZ_CLAIM SET first_run = ?, last_run = ? WHERE application = ?");
    let wide = wide.bind(ids[0].0).bind(ids[1].0).bind(case.application.as_str());
    assert_eq!(case.database.session().execute(&wide).unwrap(), 2);
    assert_eq!(nodes.map(|node| case.found(Whose::Node(node))), ids.map(|id| vec![id]));
    let end = sql("UPDATE QRTZ_RUN SET state = 'SUCCEEDED' WHERE id = ?").bind(ids[0].0);
    case.database.session().execute(&end).unwrap();
    assert_eq!(case.left(Whose::Node(nodes[0])), 1);
    assert_eq!(nodes.map(|node| case.found(Whose::Node(node))), [vec![], vec![ids[1]]]);
}

/// Gives it back, and gives a request for it.
fn back(case: &Case, claimed: Claimed, planned: &ClaimRequest) -> ClaimRequest {
    let (id, entry) = (claimed.execution(), Arc::clone(claimed.entry()));
    let back = claimed.give_back(AT + 10);
    let token = back.token_after();
    assert_eq!(case.database.store().settle(&[back]).unwrap(), [Applied::Done]);
    let pending = Pending {
        id,
        entry,
        scheduled: AT,
        due: AT,
        attempt: 1,
        generation: 0,
        origin: 0,
        token,
        cause: Cause::Planned,
        payload: None,
        priority: None,
        group: None,
        lane: None,
        failures: 0,
        headers: None,
        snoozes: 0,
    };
    ClaimRequest { candidate: Candidate::Pending(pending), token: Token::fresh(), ..planned.clone() }
}

/// Of a node that nobody knows.
#[test]
fn what_is_nobodys_is_found_until_it_is_pending_and_again_when_it_is_claimed() {
    let (case, node) = (Case::new(), NodeId::fresh());
    let entry = schedules(case.database.store().as_ref(), &case.application, 1).remove(0);
    let planned = request(&entry, node);
    let claimed = case.claim(std::slice::from_ref(&planned)).remove(0);
    let execution = claimed.execution();
    assert_eq!((case.found(Whose::Nobody), case.left(Whose::Nobody)), (vec![execution], 1));

    let again = back(&case, claimed, &planned);
    assert_eq!((case.found(Whose::Nobody), case.left(Whose::Nobody)), (vec![], 0));
    let claimed = case.claim(&[again]).remove(0);
    assert_eq!((case.found(Whose::Node(node)), case.left(Whose::Node(node))), (vec![execution], 1));

    let again = back(&case, claimed, &planned);
    drop(case.claim(&[again]));
    assert_eq!(case.found(Whose::Node(node)), [execution], "once, though two claims of its node hold it");
}

/// Those that are near each other, as one.
#[test]
fn pending_executions_are_noted_together() {
    let (case, node) = (Case::new(), NodeId::fresh());
    let entries = schedules(case.database.store().as_ref(), &case.application, 3);
    let planned: Vec<ClaimRequest> = entries.iter().map(|entry| request(entry, node)).collect();
    let claimed = case.claim(&planned);
    let again: Vec<ClaimRequest> =
        claimed.into_iter().zip(&planned).map(|(claimed, planned)| back(&case, claimed, planned)).collect();
    assert_eq!(case.left(Whose::Nobody), 0);
    drop(case.claim(&again));
    assert_eq!((case.found(Whose::Nobody).len(), case.left(Whose::Nobody)), (3, 1));
}

#[test]
fn people_find_what_is_under_way_and_what_is_pending() {
    let (case, node) = (Case::new(), NodeId::fresh());
    let entries = schedules(case.database.store().as_ref(), &case.application, 3);
    let planned: Vec<ClaimRequest> = entries.iter().map(|entry| request(entry, node)).collect();
    let mut claimed = case.claim(&planned);
    let pending = claimed.pop().unwrap();
    let running = claimed.pop().unwrap().execution();
    case.finish(claimed.pop().unwrap());
    let waiting = pending.execution();
    drop(back(&case, pending, &planned[2]));
    let shown = |states: &[ExecutionState]| {
        let filter = ExecutionQuery {
            application: Some(case.application.clone()),
            states: states.to_vec(),
            limit: 10,
            ..ExecutionQuery::default()
        };
        let rows = case.database.store().executions(&filter).unwrap();
        rows.into_iter().map(|row| ExecutionId(row.id)).collect::<Vec<_>>()
    };
    assert_eq!(shown(&[ExecutionState::Running]), [running]);
    assert_eq!(shown(&[ExecutionState::Pending]), [waiting]);
    let mut open = vec![running, waiting];
    open.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(shown(&[ExecutionState::Pending, ExecutionState::Running]), open);
    assert_eq!(shown(&[ExecutionState::Running, ExecutionState::Succeeded]).len(), 2);
}
