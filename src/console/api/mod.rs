//! What the pages show and do, as JSON for programs, under `/api/v1`: the same reads and verbs, logins and
//! roles.

mod answer;
mod bulk;
mod change;
mod edit;
mod ordered;
mod read;
mod reads;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use self::answer::json;
pub(super) use self::answer::problem;
use self::read::Read;
use self::reads::READS;
use crate::console::asked::Asked;
use crate::console::state::Console;
use crate::console::web::trouble::Trouble;

/// Where it lies below the console.
pub(super) const BELOW: &str = "/api/v1";

/// Each path, parameter and answer, as OpenAPI tells of them.
const DOCUMENT: &str = include_str!("openapi.json");

pub(super) fn routes() -> Router<Console> {
    let read = |router: Router<Console>, read: &'static Read| {
        let answer = move |State(console), asked: Asked| answer(console, asked, read);
        router.route(read.path, get(answer))
    };
    READS
        .iter()
        .fold(Router::new(), read)
        .route("/change", post(change::change))
        .route("/edit", post(edit::edit))
        .route("/bulk", post(bulk::order))
        .route("/task", get(bulk::task))
        .route("/openapi.json", get(document))
        .fallback(missing)
        .method_not_allowed_fallback(not_allowed)
}

/// Whether a path, seen from the console, is the API's.
pub(super) fn is_below(path: &str) -> bool {
    path.strip_prefix(BELOW).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

async fn answer(console: Console, asked: Asked, read: &'static Read) -> Response {
    if let Some(unknown) = asked.query.names().find(|name| !read.parameters.contains(name)) {
        let known = match read.parameters {
            [] => "it has none".to_owned(),
            some => format!("it has {}", some.join(", ")),
        };
        let path = read.path;
        return problem(Trouble::wrong(format!("{BELOW}{path} has no parameter {unknown:?}: {known}.")));
    }
    match console.call(Trouble::away, move |client| (read.make)(client, &asked)).await {
        Ok(value) => json(&value),
        Err(trouble) => problem(trouble),
    }
}

async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], DOCUMENT).into_response()
}

pub(super) async fn missing() -> Response {
    let said = format!("The console's API has no such path: {BELOW}/openapi.json lists those it has.");
    problem(Trouble::not_found(said))
}

async fn not_allowed() -> Response {
    let said = "Questions are asked with GET; changes are ordered with POST, at change, edit and bulk.";
    problem(Trouble::not_allowed(said))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::ordered::TOKEN_HEADER;
    use super::*;
    use crate::console::changes::order::Order;
    use crate::console::web::query::Query;

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    fn texts(list: &Value) -> BTreeSet<String> {
        list.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_document_has_each_question_with_its_parameters_and_no_other() {
        let document = document();
        let mut told = BTreeSet::new();
        for (path, verbs) in document["paths"].as_object().unwrap() {
            for (verb, operation) in verbs.as_object().unwrap() {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let names: BTreeSet<String> =
                    parameters.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
                told.insert((path.clone(), verb.clone(), names));
            }
        }
        let names = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
        let reads = READS.iter().map(|it| (it.path.to_owned(), "get".to_owned(), names(it.parameters)));
        let token = &[TOKEN_HEADER][..];
        let others = [
            ("/openapi.json", "get", &[][..]),
            ("/task", "get", &["id"]),
            ("/change", "post", token),
            ("/edit", "post", token),
            ("/bulk", "post", token),
        ];
        let others = others.map(|(path, verb, list)| (path.to_owned(), verb.to_owned(), names(list)));
        assert_eq!(told, reads.chain(others).collect());
        assert_eq!(document["servers"][0]["url"], ".", "it is read beside the paths");
    }

    #[test]
    fn the_document_has_each_verb_with_its_fields_and_no_other() {
        let change = document()["components"]["schemas"]["change"]["properties"].clone();
        let fields: BTreeSet<String> = change.as_object().unwrap().keys().cloned().collect();
        assert_eq!(fields, change::FIELDS.iter().map(|it| (*it).to_owned()).collect());
        let verbs = texts(&change["verb"]["enum"]);
        assert_eq!(verbs, change::VERBS.iter().map(|it| (*it).to_owned()).collect());
        for verb in verbs {
            let all = [
                ("job", "j"),
                ("execution", "7"),
                ("at", "2026-11-29T10:05:00Z"),
                ("schedule", "s"),
                ("node", "n"),
                ("task", "t"),
            ];
            let query = all.iter().fold(Query::default(), |query, (name, value)| query.with(name, value));
            assert!(Order::read(&query.with("verb", &verb)).is_ok(), "{verb}");
        }
    }

    #[test]
    fn references_lead_somewhere() {
        let document = document();
        let mut found = 0;
        for reference in DOCUMENT.split("\"$ref\":").skip(1).map(|rest| rest.split('"').nth(1).unwrap()) {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
            found += 1;
        }
        assert!(found > 15, "{found}");
    }
}
