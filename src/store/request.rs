//! Requests that other programs have inserted into `QRTZ_REQUEST`, in transactions of their own.
//!
//! A row names a verb and has its arguments as JSON. The columns, the arguments and the answers are a stable
//! interface: [`Asked`] is its one definition, and `docs/guide/other-languages.md` its page.

use chrono::{DateTime, Utc};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::domain::ExecutionId;
use crate::domain::headers::Headers;

/// The most characters of arguments. A page of requests is held in memory, and whoever may insert writes what
/// they like.
pub(crate) const MOST_ARGUMENTS: usize = 65_536;

/// A request whose row says REQUESTED.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub id: i64,
    /// The database's user who inserted it; empty on SQLite, which has none.
    pub actor: String,
    /// What is asked for, or what is wrong with it.
    pub asked: Result<Asked, String>,
}

/// A verb with its arguments. Unknown arguments are refused, and null ones count as absent.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Enqueue(EnqueueArguments),
    Trigger(TriggerArguments),
    Cancel(CancelArguments),
    Pause(PauseArguments),
    Resume(ScheduleArguments),
    Remove(ScheduleArguments),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnqueueArguments {
    pub job: String,
    #[serde(default)]
    pub payload: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "instant")]
    pub due: Option<DateTime<Utc>>,
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub on_conflict: Option<Conflict>,
    #[serde(default)]
    pub group: Option<String>,
    #[serde(default)]
    pub lane: Option<String>,
    #[serde(default)]
    pub priority: Option<i32>,
    #[serde(default)]
    pub tags: Option<Vec<String>>,
    #[serde(default)]
    pub headers: Option<Headers>,
}

/// What becomes of an execution whose key another one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Conflict {
    Existing,
    Replace,
    Reject,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriggerArguments {
    pub schedule: String,
    /// The schedule's own if there is none.
    #[serde(default)]
    pub payload: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "instant")]
    pub due: Option<DateTime<Utc>>,
    #[serde(default)]
    pub headers: Option<Headers>,
    #[serde(default)]
    pub reason: Option<String>,
}

/// Either an execution by its id, or those of a job that have a key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelArguments {
    #[serde(default)]
    pub execution: Option<i64>,
    #[serde(default)]
    pub job: Option<String>,
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseArguments {
    pub schedule: String,
    #[serde(default, deserialize_with = "instant")]
    pub until: Option<DateTime<Utc>>,
    #[serde(default)]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleArguments {
    pub schedule: String,
    #[serde(default)]
    pub reason: Option<String>,
}

/// Reads an instant: a text as RFC 3339 has it, or milliseconds since 1970.
fn instant<'d, D: Deserializer<'d>>(from: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    let form = "an instant is a text such as \"2030-01-31T08:00:00Z\", with its offset, or a whole number of \
                milliseconds since 1970";
    let read = match serde_json::Value::deserialize(from)? {
        serde_json::Value::Null => return Ok(None),
        serde_json::Value::String(text) => DateTime::parse_from_rfc3339(&text).ok().map(|at| at.to_utc()),
        value => value.as_i64().and_then(DateTime::from_timestamp_millis),
    };
    read.map(Some).ok_or_else(|| D::Error::custom(form))
}

/// The things of which requests are carried out in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Schedule(String),
    Key { job: String, key: String },
    Execution(i64),
}

impl Request {
    pub(crate) fn read(id: i64, actor: String, verb: &str, arguments: &str) -> Self {
        Self { id, actor, asked: Asked::read(verb, arguments) }
    }

    /// None if no other request concerns the same thing.
    pub(crate) fn subject(&self) -> Option<Subject> {
        let schedule = |name: &String| Some(Subject::Schedule(name.clone()));
        let keyed = |job: &String, key: &Option<String>| {
            key.clone().map(|key| Subject::Key { job: job.clone(), key })
        };
        match self.asked.as_ref().ok()? {
            Asked::Enqueue(it) => keyed(&it.job, &it.key),
            Asked::Cancel(it) => match (&it.execution, &it.job) {
                (Some(execution), _) => Some(Subject::Execution(*execution)),
                (None, Some(job)) => keyed(job, &it.key),
                (None, None) => None,
            },
            Asked::Trigger(it) => schedule(&it.schedule),
            Asked::Pause(it) => schedule(&it.schedule),
            Asked::Resume(it) | Asked::Remove(it) => schedule(&it.schedule),
        }
    }
}

impl Asked {
    fn read(verb: &str, arguments: &str) -> Result<Self, String> {
        fn of<T: DeserializeOwned>(arguments: &str, asked: fn(T) -> Asked) -> Result<Asked, String> {
            serde_json::from_str(arguments).map(asked).map_err(|error| error.to_string())
        }
        if arguments.chars().nth(MOST_ARGUMENTS).is_some() {
            return Err(format!("the arguments of {verb} have more than {MOST_ARGUMENTS} characters"));
        }
        // An array of the values would do for serde, and would change its meaning with each new argument.
        if !arguments.trim_start().starts_with('{') {
            return Err(format!("the arguments of {verb} are no JSON object"));
        }
        let asked = match verb {
            "enqueue" => of(arguments, Self::Enqueue),
            "trigger" => of(arguments, Self::Trigger),
            "cancel" => of(arguments, Self::Cancel),
            "pause" => of(arguments, Self::Pause),
            "resume" => of(arguments, Self::Resume),
            "remove" => of(arguments, Self::Remove),
            _ => {
                let known = "write enqueue, trigger, cancel, pause, resume or remove";
                return Err(format!("unknown verb {verb:?}: {known}"));
            }
        };
        asked.map_err(|problem| format!("the arguments of {verb}: {problem}"))
    }
}

/// What a request has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    Done {
        execution: Option<ExecutionId>,
        answer: &'static str,
    },
    /// The same request would be refused again.
    Refused(String),
}

/// What a call that was to carry a request out has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CarriedOut {
    Done,
    Refused(String),
    /// Another transaction holds the request's row.
    Held,
    /// Its row does not say REQUESTED any more.
    Ended,
}

/// A page of an application's requests, by their ids.
#[derive(Clone, Debug)]
pub(crate) struct RequestQuery {
    pub application: String,
    /// With higher ids than this.
    pub after: i64,
    pub limit: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(verb: &str, arguments: &str) -> Request {
        Request::read(1, String::new(), verb, arguments)
    }

    #[test]
    fn arguments_are_read_as_they_are_documented() {
        let request = read(
            "enqueue",
            r#"{"job": "remind", "payload": {"order": 7.10}, "due": "2030-01-31T09:00:00+01:00",
                "key": "customer-7", "on_conflict": "replace", "group": null, "lane": "slow",
                "priority": 9, "tags": ["a", "b"], "headers": {"tenant": "7"}}"#,
        );
        let Ok(Asked::Enqueue(it)) = &request.asked else { panic!("{request:?}") };
        assert_eq!(it.payload.as_ref().unwrap().get(), r#"{"order": 7.10}"#, "as it is written");
        assert_eq!(it.due.unwrap().to_rfc3339(), "2030-01-31T08:00:00+00:00");
        assert_eq!((it.on_conflict, it.group.as_deref()), (Some(Conflict::Replace), None));
        assert_eq!((it.lane.as_deref(), it.priority), (Some("slow"), Some(9)));
        assert_eq!(it.headers.as_ref().unwrap()["tenant"], "7");
        let Ok(Asked::Pause(it)) = read("pause", r#"{"schedule": "n", "until": 1900000000000}"#).asked else {
            panic!()
        };
        assert_eq!(it.until.unwrap().timestamp_millis(), 1_900_000_000_000);
    }

    #[test]
    fn what_is_wrong_with_a_request_is_said() {
        for (verb, arguments, word) in [
            ("enqeue", "{}", "unknown verb \"enqeue\""),
            ("enqueue", "{}", "missing field `job`"),
            ("enqueue", r#"{"job": "a", "payloads": 1}"#, "unknown field `payloads`"),
            ("enqueue", r#"{"job": "a", "due": "tomorrow"}"#, "with its offset"),
            ("enqueue", r#"{"job": "a", "due": "2030-01-31T08:00:00"}"#, "with its offset"),
            ("enqueue", r#"{"job": "a", "headers": {"tenant": 7}}"#, "expected a string"),
            ("enqueue", r#"{"job": "a", "on_conflict": "ignore"}"#, "unknown variant `ignore`"),
            ("pause", "", "the arguments of pause are no JSON object"),
            ("pause", r#"["nightly", null, null]"#, "no JSON object"),
            ("pause", "{", "the arguments of pause: EOF"),
        ] {
            let problem = read(verb, arguments).asked.unwrap_err();
            assert!(problem.contains(word), "{problem}");
        }
    }

    /// The page's schemas have the arguments that are read, and require what is required.
    #[test]
    fn the_schemas_of_the_guide_are_true() {
        let page = include_str!("../../docs/guide/other-languages.md");
        let schemas = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
        let schemas: serde_json::Map<_, _> = serde_json::from_str(schemas).unwrap();
        assert_eq!(schemas.len(), 6);
        for (verb, schema) in &schemas {
            let properties = schema["properties"].as_object().unwrap();
            let problem = read(verb, r#"{"no such": 1}"#).asked.unwrap_err();
            let known: Vec<&str> = problem.split('`').skip(3).step_by(2).collect();
            assert!(known.len() == properties.len(), "{verb}: {problem}");
            assert!(known.iter().all(|name| properties.contains_key(*name)), "{verb}: {problem}");
            let required = schema.get("required").and_then(|it| it.as_array()).into_iter().flatten();
            let required: Vec<String> = required.map(|it| format!("{it}: \"x\"")).collect();
            read(verb, &format!("{{{}}}", required.join(", "))).asked.unwrap();
            assert_eq!(read(verb, "{}").asked.is_err(), !required.is_empty(), "{verb}");
        }
    }

    #[test]
    fn requests_for_the_same_thing_have_one_subject() {
        let subject = |verb, arguments| read(verb, arguments).subject();
        let keyed = subject("enqueue", r#"{"job": "remind", "key": "7"}"#);
        assert!(keyed.is_some());
        assert_eq!(subject("cancel", r#"{"job": "remind", "key": "7"}"#), keyed);
        assert_ne!(subject("enqueue", r#"{"job": "mail", "key": "7"}"#), keyed);
        let nightly = subject("pause", r#"{"schedule": "nightly"}"#);
        for verb in ["trigger", "resume", "remove"] {
            assert_eq!(subject(verb, r#"{"schedule": "nightly"}"#), nightly);
        }
        assert_eq!(subject("enqueue", r#"{"job": "remind"}"#), None);
        assert_eq!(subject("enqueue", "nothing"), None);
    }
}
