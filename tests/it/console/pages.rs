//! What all pages have in common: names as text, headers, links, and a database that is away.

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("each_page_shows_hostile_names_as_text", each_page_shows_hostile_names_as_text),
    ("every_answer_tells_browsers_what_to_refuse", every_answer_tells_browsers_what_to_refuse),
    ("a_page_that_takes_too_long_is_given_up", a_page_that_takes_too_long_is_given_up),
    ("a_database_that_is_away_is_a_banner", a_database_that_is_away_is_a_banner),
    ("instants_beyond_the_calendar_are_refused", instants_beyond_the_calendar_are_refused),
    ("links_keep_the_prefix_it_is_mounted_under", links_keep_the_prefix_it_is_mounted_under),
];

fn each_page_shows_hostile_names_as_text() {
    let (_database, client) = hostile();
    let mut hostile = 0;
    for path in pages(&client) {
        let page = get(&client, &path);
        assert_is_text(&page, &path);
        let head = page.text.split("</head>").next().unwrap();
        assert_eq!((head.matches("<title>").count(), page.text.matches("<h1>").count()), (1, 1), "{path}");
        hostile += usize::from(page.text.contains("text&#60;i&#62;"));
        assert!(!page.text.contains(" onclick") && !page.text.contains("javascript:"), "{path}");
    }
    assert!(hostile >= 9, "pages name the job: {hostile}");
}

fn every_answer_tells_browsers_what_to_refuse() {
    let (_database, client) = hostile();
    let others = ["/nothing", "/assets/console.css", "/assets/icon.svg"];
    for path in pages(&client).iter().map(String::as_str).chain(others) {
        let answer = get(&client, path);
        let has = |name: &str, word: &str| answer.headers[name].to_str().unwrap().contains(word);
        let policy = "content-security-policy";
        assert!(has(policy, "default-src 'none'") && has(policy, "frame-ancestors 'none'"), "{path}");
        assert!(
            !has(policy, "unsafe") && !answer.text.contains(" style=") && !answer.text.contains("<style")
        );
        assert!(has("x-content-type-options", "nosniff") && has("referrer-policy", "same-origin"), "{path}");
        assert!(has("x-frame-options", "DENY"), "{path}");
        let kept = if path.starts_with("/assets") { "max-age" } else { "no-store" };
        assert!(has("cache-control", kept), "{path}");
    }
    assert_eq!(get(&client, "/nothing").status, StatusCode::NOT_FOUND);
}

fn a_page_that_takes_too_long_is_given_up() {
    let (_database, client) = hostile();
    let (runtime, _held) = busy_runtime();
    let request = Request::get("/now").header("host", "localhost").body(Body::empty()).unwrap();
    let page = sent_on(&runtime, router(client, Options::new().patience(Duration::ZERO)), request);
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(page.text.contains("The database is away"), "{}", page.text);
}

fn a_database_that_is_away_is_a_banner() {
    let (database, client) = hostile();
    let pages = pages(&client);
    let file = database.url.strip_prefix("sqlite:").unwrap();
    let options = || Options::new().patience(Duration::from_millis(300));
    let ask = |path: &str| ask(&client, options(), path, &[("host", "localhost")]);
    std::fs::rename(file, format!("{file}.gone")).unwrap();
    for path in &pages {
        let page = ask(path);
        assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {}", page.text);
        assert!(page.text.contains("The database is away") && page.text.contains("role=\"alert\""), "{path}");
        assert!(page.text.contains("</html>"), "{path}: {}", page.text);
    }
    assert!(ask("/now").text.contains("id=\"live\""), "it is made anew once the database is back");
    std::fs::rename(format!("{file}.gone"), file).unwrap();
    until("a page once it is back", || (ask("/now").status == StatusCode::OK).then_some(()));
}

fn instants_beyond_the_calendar_are_refused() {
    let (_database, client) = hostile();
    let last = chrono::DateTime::<Utc>::MAX_UTC.to_rfc3339();
    let page = get(&client, &format!("/schedule?{}", encoded(&[("name", HOSTILE), ("at", &last)])));
    assert_eq!(page.status, StatusCode::BAD_REQUEST, "{}", page.text);
    let rerun = [("verb", "rerun"), ("schedule", HOSTILE), ("at", &last), ("back", "now")];
    assert!(told(&client, &rerun).contains("beyond the calendar"));
}

/// Each link leads on from its page as browsers read it.
fn links_keep_the_prefix_it_is_mounted_under() {
    let (_database, client) = hostile();
    let pages = || axum::Router::new().nest("/ops/firetime", router(client.clone(), Options::new()));
    let get = |path: &str| {
        let request = Request::get(path).header("host", "localhost");
        sent(pages(), request.body(Body::empty()).unwrap())
    };
    let moved = get("/ops/firetime");
    assert_eq!(moved.status, StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(moved.headers["location"], "./firetime/now");
    let beside = self::pages(&client).into_iter().map(|path| format!("/ops/firetime{path}"));
    for path in beside.chain(["/ops/firetime/nothing/at/all".to_owned()]) {
        let (path, page) = (path.as_str(), get(&path));
        let links = page.text.split("href=\"").skip(1).chain(page.text.split("action=\"").skip(1));
        let links: Vec<String> =
            links.map(|it| it.split('"').next().unwrap().replace("&#38;", "&")).collect();
        assert!(links.len() > 5, "{path}: {}", page.text);
        for link in links.iter().filter(|link| !link.starts_with('#')) {
            let to = resolved(path, link);
            assert!(to.starts_with("/ops/firetime/"), "{path}: {link} leads to {to}");
            // A form lacks its fields here.
            let status = if ["change", "confirm", "edit", "missed"].contains(&&**link) {
                StatusCode::OK
            } else {
                get(&to).status
            };
            assert!(status == StatusCode::OK || to == path, "{path}: {link} leads to {to}: {status}");
        }
    }
}

/// Where a relative link leads.
fn resolved(page: &str, link: &str) -> String {
    if link.is_empty() {
        return page.to_owned();
    }
    let (path, query) =
        link.split_once('?').map_or((link, String::new()), |(path, query)| (path, format!("?{query}")));
    assert!(!path.starts_with('/') && !path.contains("://"), "{link}");
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    format!("{}{query}", parts.join("/"))
}
