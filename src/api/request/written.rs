//! Requests that other programs have written as rows, carried out as this library's own ones are.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::request::enqueue::Enqueue;
use crate::api::{Cancelled, Client, Enqueued, Paused, Removed, Resumed, Triggered};
use crate::domain::{Error, ErrorKind, ExecutionId, ScheduleState};
use crate::store::request::{
    Answered, Asked, CancelArguments, Conflict, EnqueueArguments, PauseArguments, ScheduleArguments,
    TriggerArguments,
};
use crate::store::{Carrier, ExecutionQuery, Store, Verbs};

/// The executions with one key that one request cancels, of different periods: at most so many.
const MOST_OF_A_KEY: usize = 100;

/// Carries out an application's requests. Its client decides, on the verbs of each request's transaction.
struct Written(Client);

/// What carries out an application's requests.
pub(crate) fn carrier(application: &str, store: &Arc<dyn Store>) -> Arc<dyn Carrier> {
    Arc::new(Written(Client::over(application, Arc::clone(store), Arc::default(), |_| {})))
}

impl Carrier for Written {
    fn carry_out(&self, asked: &Asked, actor: &str, verbs: &dyn Verbs) -> Result<Answered, Error> {
        let client = if actor.is_empty() { self.0.clone() } else { self.0.clone().acting_as(actor) };
        let answered = match asked {
            Asked::Enqueue(it) => enqueue(&client, it, verbs),
            Asked::Trigger(it) => trigger(&client, it, verbs),
            Asked::Cancel(it) => cancel(&client, it, verbs),
            Asked::Pause(it) => pause(&client, it, verbs),
            Asked::Resume(it) => resume(&client, it, verbs),
            Asked::Remove(it) => remove(&client, it, verbs),
        };
        match answered {
            Err(error) if matches!(error.kind(), ErrorKind::Config | ErrorKind::NotFound) => {
                Ok(Answered::Refused(error.to_string()))
            }
            answered => answered,
        }
    }
}

fn done(execution: Option<ExecutionId>, answer: &'static str) -> Answered {
    Answered::Done { execution, answer }
}

fn enqueue(client: &Client, it: &EnqueueArguments, verbs: &dyn Verbs) -> Result<Answered, Error> {
    Ok(match Enqueue::written(client, it).over(verbs)? {
        Enqueued::Created(id) => done(Some(id), "created"),
        Enqueued::Replaced(id) => done(Some(id), "replaced"),
        Enqueued::Existing(id) if it.on_conflict == Some(Conflict::Reject) => {
            let key = it.key.as_deref().unwrap_or_default();
            Answered::Refused(format!("enqueuing job {:?}: execution {id} has the key {key:?}", it.job))
        }
        Enqueued::Existing(id) => done(Some(id), "existing"),
    })
}

fn trigger(client: &Client, it: &TriggerArguments, verbs: &dyn Verbs) -> Result<Answered, Error> {
    let request = client.trigger(&it.schedule).reason(it.reason.as_deref().unwrap_or_default());
    let request = it.payload.iter().fold(request, |request, payload| request.payload(payload));
    let request = it.due.into_iter().fold(request, |request, due| request.at(due));
    let headers = it.headers.iter().flatten();
    let request = headers.fold(request, |request, (name, text)| request.header(name, text));
    Ok(match request.over(verbs)? {
        Triggered::Pending(id) => done(Some(id), "created"),
        Triggered::NotRunnable(state) => {
            Answered::Refused(format!("schedule {:?} is {state}: nothing of it runs", it.schedule))
        }
    })
}

fn cancel(client: &Client, it: &CancelArguments, verbs: &dyn Verbs) -> Result<Answered, Error> {
    let reason = it.reason.as_deref().unwrap_or_default();
    let (job, key) = match (it.execution, &it.job, &it.key) {
        (Some(id), None, None) => return cancelled(id, &client.cancel(id).reason(reason).over(verbs)?),
        (None, Some(job), Some(key)) => (job, key),
        _ => {
            let either = "cancelling: give an execution, or a job and a key";
            return Ok(Answered::Refused(either.to_owned()));
        }
    };
    let query = ExecutionQuery {
        application: Some(client.application.clone()),
        job: Some(job.clone()),
        key: Some(key.clone()),
        limit: MOST_OF_A_KEY,
        ..ExecutionQuery::default()
    };
    let mut answered =
        Answered::Refused(format!("cancelling: no execution of job {job:?} has the key {key:?}"));
    // Of each execution its last attempt.
    let mut origins = BTreeSet::new();
    let mut rows = verbs.executions(&query)?;
    rows.retain(|row| origins.insert(row.origin));
    for row in rows.iter().rev() {
        let answer = client.cancel(row.id).key(key).reason(reason).over(verbs)?;
        answered = cancelled(row.id, &answer)?;
    }
    Ok(answered)
}

fn cancelled(id: i64, answer: &Cancelled) -> Result<Answered, Error> {
    let answer = match answer {
        Cancelled::Cancelled => "cancelled",
        Cancelled::Asked { .. } | Cancelled::AlreadyAsked { .. } => "asked",
        Cancelled::AlreadyEnded(_) => "ended",
        Cancelled::Differs { .. } => "differs",
    };
    Ok(done(Some(ExecutionId(id)), answer))
}

fn pause(client: &Client, it: &PauseArguments, verbs: &dyn Verbs) -> Result<Answered, Error> {
    let request = client.pause(it.schedule.as_str()).reason(it.reason.as_deref().unwrap_or_default());
    let request = it.until.into_iter().fold(request, |request, until| request.until(until));
    Ok(match request.over(verbs)? {
        Paused::Paused | Paused::NotActive(ScheduleState::Paused) => done(None, "paused"),
        Paused::NotActive(state) => {
            Answered::Refused(format!("schedule {:?} is {state}: it cannot be paused", it.schedule))
        }
    })
}

fn resume(client: &Client, it: &ScheduleArguments, verbs: &dyn Verbs) -> Result<Answered, Error> {
    let request = client.resume(it.schedule.as_str()).reason(it.reason.as_deref().unwrap_or_default());
    Ok(match request.over(verbs)? {
        Resumed::Resumed | Resumed::NotPaused(ScheduleState::Active) => done(None, "resumed"),
        Resumed::NotPaused(state) => {
            Answered::Refused(format!("schedule {:?} is {state}: it cannot be resumed", it.schedule))
        }
    })
}

fn remove(client: &Client, it: &ScheduleArguments, verbs: &dyn Verbs) -> Result<Answered, Error> {
    let request = client.remove(&it.schedule).reason(it.reason.as_deref().unwrap_or_default());
    Ok(match request.over(verbs)? {
        Removed::Removed | Removed::AlreadyRemoved => done(None, "removed"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::tests::client;
    use crate::store::request::Request;

    fn answer(client: &Client, verb: &str, arguments: &str) -> Answered {
        let request = Request::read(1, String::new(), verb, arguments);
        let written = Written(client.clone());
        written.carry_out(&request.asked.unwrap(), "web", &*client.store).unwrap()
    }

    fn word(answered: &Answered) -> &str {
        match answered {
            Answered::Done { answer, .. } => answer,
            Answered::Refused(reason) => reason,
        }
    }

    #[test]
    fn each_verb_is_carried_out_and_its_answer_told() {
        let (client, _) = client();
        let mut ids = Vec::new();
        for (verb, arguments, expected) in [
            ("enqueue", r#"{"job": "mail", "payload": {"to": "a"}, "key": "7", "tags": ["x"]}"#, "created"),
            ("enqueue", r#"{"job": "mail", "key": "7"}"#, "existing"),
            ("enqueue", r#"{"job": "mail", "key": "7", "on_conflict": "replace", "payload": 8}"#, "replaced"),
            ("cancel", r#"{"job": "mail", "key": "7", "reason": "paid"}"#, "cancelled"),
            ("cancel", r#"{"job": "mail", "key": "7"}"#, "ended"),
            ("trigger", r#"{"schedule": "s", "payload": null, "headers": {"a": "b"}}"#, "created"),
            ("pause", r#"{"schedule": "s", "reason": "stock-taking"}"#, "paused"),
            ("pause", r#"{"schedule": "s"}"#, "paused"),
            ("resume", r#"{"schedule": "s"}"#, "resumed"),
            ("resume", r#"{"schedule": "s"}"#, "resumed"),
            ("remove", r#"{"schedule": "s"}"#, "removed"),
            ("remove", r#"{"schedule": "s"}"#, "removed"),
        ] {
            let answered = answer(&client, verb, arguments);
            assert_eq!(word(&answered), expected, "{verb} {arguments}");
            ids.extend(if let Answered::Done { execution, .. } = answered { execution } else { None });
        }
        assert!(ids[..5].iter().all(|id| *id == ids[0]) && ids[5] != ids[0], "{ids:?}");
        let cancelled = client.execution(ids[0]).unwrap();
        assert_eq!(
            (cancelled.execution.state.as_str(), cancelled.payload.as_deref()),
            ("CANCELLED", Some("8"))
        );
        assert_eq!(client.execution(ids[5]).unwrap().headers["a"], "b");
        let paused =
            &client.audit(&crate::AuditFilter { verb: Some("pause".to_owned()), ..Default::default() });
        let paused = &paused.as_ref().unwrap()[0];
        assert_eq!((paused.actor.as_str(), paused.reason.as_str()), ("web", "stock-taking"));
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused_with_its_reason() {
        let (client, _) = client();
        answer(&client, "enqueue", r#"{"job": "mail", "key": "7"}"#);
        for (verb, arguments, reason) in [
            ("enqueue", r#"{"job": "mail", "key": "7", "on_conflict": "reject"}"#, "has the key \"7\""),
            ("enqueue", r#"{"job": "", "key": "7"}"#, "name"),
            ("enqueue", r#"{"job": "mail", "lane": ""}"#, "lane"),
            ("enqueue", r#"{"job": "mail", "due": 1700000000}"#, "seconds"),
            ("cancel", r#"{"job": "mail", "key": "8"}"#, "no execution of job \"mail\" has the key \"8\""),
            ("cancel", r#"{"job": "mail"}"#, "a job and a key"),
            ("cancel", r#"{"execution": 999}"#, "999"),
            ("trigger", r#"{"schedule": "t"}"#, "\"t\""),
            ("pause", r#"{"schedule": "t"}"#, "\"t\""),
            ("pause", r#"{"schedule": "s", "until": 1000}"#, "past"),
        ] {
            let answered = answer(&client, verb, arguments);
            let Answered::Refused(said) = &answered else { panic!("{verb} {arguments}: {answered:?}") };
            assert!(said.contains(reason), "{said}");
        }
    }
}
