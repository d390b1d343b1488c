//! The console's JSON API: what it answers, to whom, and what its document says of that.

mod access;
mod bulk;
mod document;
mod edits;
mod hidden;
mod lists;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use chrono::Utc;
use firetime::console::{NewToken, Options, Role, User, Users, router};
use firetime::{Client, ExecutionFilter, Schedule, Trigger};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::console::{
    Answer, HOSTILE, NIGHTLY, TEXT, TOKEN, ask, behind, encoded, ensure, hostile, last, sent,
};
use crate::support::database::ServerKind;
use crate::support::scheduler::{NUMBER, TEXT as NOTE, builder, client, until};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>) {
    for (name, test) in
        [access::TESTS, bulk::TESTS, document::TESTS, edits::TESTS, hidden::TESTS, lists::TESTS].concat()
    {
        trials.push(trial(format!("console_api::{name}"), test));
    }
}

struct Api(Router);

impl Api {
    fn new(client: &Client, options: Options) -> Self {
        Self(router(client.clone(), options))
    }

    /// Of somebody whom the application knows.
    fn of(client: &Client, role: Role) -> Self {
        Self::new(client, Options::new().user(move |_| Some(User::new("ann", role))))
    }

    fn send(&self, method: Method, path: &str, lines: &[(&str, &str)], body: &Value) -> Answer {
        let request =
            Request::builder().method(method).uri(format!("/api/v1{path}")).header("host", "localhost");
        let request = lines.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        sent(self.0.clone(), request.body(Body::from(body.to_string())).unwrap())
    }

    fn ask(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], &Value::Null)
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let answer = self.ask(path);
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        assert_eq!(answer.headers["content-type"], "application/json", "{path}");
        serde_json::from_str(&answer.text).unwrap()
    }

    /// What an order is answered that is taken.
    #[track_caller]
    fn posted(&self, path: &str, order: &Value) -> Value {
        let answer = self.post(path, order);
        assert_eq!(answer.status, StatusCode::OK, "{order}: {}", answer.text);
        serde_json::from_str(&answer.text).unwrap()
    }

    fn order(&self, order: &Value) -> Answer {
        self.post("/change", order)
    }

    fn post(&self, path: &str, order: &Value) -> Answer {
        let cookie = format!("firetime_token={TOKEN}");
        let lines = [("content-type", "application/json"), ("cookie", &cookie), ("x-firetime-token", TOKEN)];
        self.send(Method::POST, path, &lines, order)
    }
}

fn problem(answer: &Answer) -> Value {
    assert_eq!(answer.headers["content-type"], "application/problem+json", "{}", answer.text);
    let problem: Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(problem["status"], answer.status.as_u16(), "{problem}");
    problem
}
