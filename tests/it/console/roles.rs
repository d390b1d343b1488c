//! Who may do what, and by which names the console is reached.

use super::*;
use firetime::ScheduleState;

pub const TESTS: &[(&str, fn())] = &[
    ("hosts_that_nobody_allowed_are_refused", hosts_that_nobody_allowed_are_refused),
    ("a_console_that_only_shows_changes_nothing", a_console_that_only_shows_changes_nothing),
    ("users_whom_the_login_knows_are_in_the_audit", users_whom_the_login_knows_are_in_the_audit),
    ("each_role_may_give_the_orders_of_its_own_alone", each_role_may_give_the_orders_of_its_own_alone),
    ("admins_alone_edit", admins_alone_edit),
    #[cfg(feature = "cli")]
    ("the_program_listens_on_this_machine_alone", the_program_listens_on_this_machine_alone),
];

/// A page elsewhere may point its own name at this address.
fn hosts_that_nobody_allowed_are_refused() {
    let (_database, client) = hostile();
    let status = |options: Options, lines: &[(&str, &str)]| ask(&client, options, "/now", lines).status;
    assert_eq!(status(Options::new(), &[]), StatusCode::BAD_REQUEST);
    for host in ["evil.example", "10.1.2.3:8088", "localhost.evil.example"] {
        assert_eq!(status(Options::new(), &[("host", host)]), StatusCode::FORBIDDEN, "{host}");
    }
    let allowed = Options::new().host("Ops.example.org");
    assert_eq!(status(allowed.clone(), &[("host", "ops.example.org:443")]), StatusCode::OK);
    assert_eq!(status(allowed, &[("host", "evil.example")]), StatusCode::FORBIDDEN);
}

fn a_console_that_only_shows_changes_nothing() {
    let (_database, client) = hostile();
    let cookie = format!("firetime_token={TOKEN}");
    let fields = [("verb", "pause"), ("schedule", HOSTILE), ("token", TOKEN)];
    let read_only = || Options::new().read_only(true);
    assert_eq!(post(&client, read_only(), &fields, &[("cookie", &cookie)]).status, StatusCode::FORBIDDEN);
    assert_eq!(client.schedules().unwrap()[0].state, ScheduleState::Active);
    let host = [("host", "localhost")];
    let confirm = format!("/confirm?{}", encoded(&fields[..2]));
    assert_eq!(ask(&client, read_only(), &confirm, &host).status, StatusCode::FORBIDDEN);
    for path in pages(&client) {
        let page = ask(&client, read_only(), &path, &host);
        assert!(!page.text.contains("method=\"post\"") && !page.text.contains("href=\"confirm"), "{path}");
        assert!(page.text.contains("shows only"), "{path}");
    }
}

fn users_whom_the_login_knows_are_in_the_audit() {
    let (_database, client) = hostile();
    let cookie = format!("firetime_token={TOKEN}");
    let fields = [("verb", "pause"), ("schedule", HOSTILE), ("token", TOKEN)];
    let known = || {
        Options::new().user(|request| {
            let name = request.headers.get("x-user")?.to_str().ok()?;
            Some(User::new(name, Role::Operator))
        })
    };
    let status = |lines: &[(&str, &str)]| post(&client, known(), &fields, lines).status;
    assert_eq!(status(&[("cookie", &cookie)]), StatusCode::FORBIDDEN, "nobody knows who that is");
    assert_eq!(status(&[("cookie", &cookie), ("x-user", "")]), StatusCode::FORBIDDEN);
    assert_eq!(status(&[("cookie", &cookie), ("x-user", "bea")]), StatusCode::SEE_OTHER);
    assert_eq!((last(&client).0.as_str(), last(&client).1.as_str()), ("pause", "bea"));
    let page = ask(&client, known(), "/now", &[("host", "localhost"), ("x-user", "<b>ann</b>")]);
    assert!(page.text.contains("&#60;b&#62;ann"), "{}", page.text);
}

/// Every verb in the hands of every role: sent, and as a form or a link on any page.
fn each_role_may_give_the_orders_of_its_own_alone() {
    use Role::{Admin, Operator, Viewer};
    let (_database, client) = hostile();
    let as_role = |role: Role| Options::new().user(move |_| Some(User::new("ann", role)));
    let cookie = format!("firetime_token={TOKEN}");
    let (at, gone) = ("2025-01-31T02:30:00Z", "999999");
    let verbs: [(&[(&str, &str)], Role); 14] = [
        (&[("verb", "pause"), ("schedule", "x")], Operator),
        (&[("verb", "pause"), ("job", "x")], Operator),
        (&[("verb", "pause"), ("node", "x")], Operator),
        (&[("verb", "pause"), ("application", "this")], Operator),
        (&[("verb", "resume"), ("schedule", "x")], Operator),
        (&[("verb", "resume"), ("application", "this")], Operator),
        (&[("verb", "drain"), ("node", "x")], Operator),
        (&[("verb", "run"), ("schedule", "x")], Operator),
        (&[("verb", "skip"), ("schedule", "x"), ("at", at)], Operator),
        (&[("verb", "rerun"), ("schedule", "x"), ("at", at)], Operator),
        (&[("verb", "cancel"), ("execution", gone)], Operator),
        (&[("verb", "retry"), ("execution", gone)], Operator),
        (&[("verb", "bulk"), ("each", "pause"), ("q", "x")], Operator),
        (&[("verb", "remove"), ("schedule", "x")], Admin),
    ];
    for (fields, needed) in verbs {
        for &role in Role::ALL {
            let mut form = fields.to_vec();
            form.push(("token", TOKEN));
            let answer = post(&client, as_role(role), &form, &[("cookie", &cookie)]);
            let confirm = format!("/confirm?{}", encoded(fields));
            let confirmed = ask(&client, as_role(role), &confirm, &[("host", "localhost")]).status;
            let (is_refused, of) = (role < needed, format!("{fields:?} {role}: {}", answer.text));
            assert_eq!(answer.status == StatusCode::FORBIDDEN, is_refused, "{of}");
            assert_eq!(confirmed == StatusCode::FORBIDDEN, is_refused, "{of}");
            assert!(is_refused || answer.status == StatusCode::SEE_OTHER, "{of}");
        }
    }
    let shown = |role: Role, words: &str| {
        let pages = pages(&client).into_iter();
        pages
            .filter(|path| ask(&client, as_role(role), path, &[("host", "localhost")]).text.contains(words))
            .count()
    };
    for (words, roles) in [
        ("verb=pause", [false, true, true]),
        ("verb=remove", [false, false, true]),
        (">Edit<", [false, false, true]),
    ] {
        assert_eq!([Viewer, Operator, Admin].map(|role| shown(role, words) > 0), roles, "{words}");
    }
    let remove = format!("/confirm?{}", encoded(&[("verb", "remove"), ("schedule", HOSTILE)]));
    let said = ask(&client, as_role(Operator), &remove, &[("host", "localhost")]).text;
    assert!(said.contains("This is for the role admin, and yours is operator."), "{said}");
}

fn admins_alone_edit() {
    use Role::Admin;
    let (_database, client) = hostile();
    let as_role = |role: Role| Options::new().user(move |_| Some(User::new("ann", role)));
    let cookie = format!("firetime_token={TOKEN}");
    let edit = format!("/edit?{}", encoded(&[("name", HOSTILE)]));
    let form = ask(&client, as_role(Admin), &edit, &[("host", "localhost")]).text;
    let field = |name: &str| {
        form.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap().split('"').next().unwrap()
    };
    let names = ["version", "read", "was"];
    let fields = names.map(|name| (name, field(name))).into_iter();
    let fields: Vec<_> =
        [("verb", "edit"), ("name", HOSTILE), ("token", TOKEN)].into_iter().chain(fields).collect();
    for &role in Role::ALL {
        let sent = post(&client, as_role(role), &fields, &[("cookie", &cookie)]).status;
        let shown = ask(&client, as_role(role), &edit, &[("host", "localhost")]).status;
        assert_eq!([sent, shown].map(|it| it == StatusCode::FORBIDDEN), [role < Admin; 2], "{role}");
    }
}

#[cfg(feature = "cli")]
fn the_program_listens_on_this_machine_alone() {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::process::{Command, Stdio};

    let (database, _client) = hostile();
    let console = |listen: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firetime"));
        command
            .args(["console", "--read-only", "--listen", listen])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.env("FIRETIME_DATABASE_URL", &database.url).env("FIRETIME_APPLICATION", APPLICATION);
        command
    };
    for public in ["0.0.0.0:0", "[::]:0", "10.0.0.1:8088"] {
        let mut refused = console(public).spawn().unwrap();
        let mut served = String::new();
        BufReader::new(refused.stdout.take().unwrap()).read_line(&mut served).unwrap();
        if !served.is_empty() {
            refused.kill().unwrap();
        }
        let refused = refused.wait_with_output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{public}: {said}");
        assert!(said.contains("--users FILE") && said.contains("ssh -L"), "{public}: {said}");
    }
    let mut served = console("127.0.0.1:0").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(served.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("the console is at http://").unwrap().trim_end_matches('/');
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET /now HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("shows only"), "{answer}");
    served.kill().unwrap();
    served.wait().unwrap();
}
