//! No password gets into anything that is shown or logged, whatever goes wrong with its URL.

use std::fmt::Debug;
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Mutex, Once};
use std::time::Duration;

use firetime::{Client, Error, Event, Job, Schedule, Scheduler, Trigger};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::trial;

const WORK: Job<()> = Job::new("work");
const SOON: Duration = Duration::from_secs(30);
/// As the URL has it, and as the driver is given it.
const PASSWORDS: [&str; 2] = ["hunt%40er2%2Fx", "hunt@er2/x"];

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("no_unusable_url_shows_its_password", no_unusable_url_shows_its_password),
        ("a_node_in_trouble_shows_no_password", a_node_in_trouble_shows_no_password),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::secrets::{name}", kind.name()), move || test(kind)));
    }
    #[cfg(feature = "cli")]
    if kind.name() == "sqlite" {
        let name = "secrets::a_url_file_that_cannot_be_used_is_not_shown".to_owned();
        trials.push(trial(name, a_url_file_that_cannot_be_used_is_not_shown));
    }
}

/// Every line any test of this process logs.
static LOG: Mutex<String> = Mutex::new(String::new());

struct Memory;

impl log::Log for Memory {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}: {}\n", record.level(), record.target(), record.args());
        LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push_str(&line);
    }

    fn flush(&self) {}
}

fn log_to_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Memory).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
}

fn logged() -> String {
    LOG.lock().unwrap().clone()
}

fn clean(said: &str) {
    for secret in PASSWORDS.iter().chain(&["hunt", "er2"]) {
        assert!(!said.contains(secret), "{secret} in {said}");
    }
}

fn refused<T: Debug>(answer: Result<T, Error>) {
    let error = answer.unwrap_err();
    assert!(!error.to_string().is_empty());
    clean(&format!("{error} {error:#} {error:?} {error:#?}"));
}

/// URLs that lead nowhere, each for another reason.
fn unusable(kind: ServerKind, database: &Database) -> Vec<String> {
    let mut urls: Vec<String> = Vec::new();
    for password in PASSWORDS {
        let login = format!("me:{password}");
        let mistyped =
            ["oracle://", "POSTGRES://", "sqlite://", "sqlite:", "postgres:", "mysql:/", "pg+x://", ""];
        urls.extend(mistyped.map(|scheme| format!("{scheme}{login}@127.0.0.1:1/x")));
        let scheme = match kind.name() {
            "postgres" => "postgres",
            "mariadb" => "mysql",
            _ => continue,
        };
        let hosts =
            ["127.0.0.1:1/x", "127.0.0.1:port/x", "127.0.0.1:99999/x", "[::1/x", "/x", "127.0.0.1:1", ""];
        urls.extend(hosts.map(|host| format!("{scheme}://{login}@{host}")));
        let options =
            ["nonsense=1", "connect_timeout=x", "sslmode=x", "ssl_mode=x", "ssl_ca=/nowhere", "%zz=1", "a"];
        urls.extend(options.map(|option| format!("{scheme}://{login}@127.0.0.1:1/x?{option}")));
        urls.push(format!("{scheme}://me@127.0.0.1:1/x?password={password}"));
        urls.push(format!("{scheme}://127.0.0.1:1/x?user=me&password={password}%zz&sslpassword={password}"));
        urls.push(format!("{scheme}://{login}%zz@127.0.0.1:1/x"));
        urls.push(format!("{scheme}://{login}\0@127.0.0.1:1/x"));
        urls.push(format!("{scheme}://{login}\n@127.0.0.1:1/x\u{1b}"));
        // The server itself has something to say.
        let (_, server) = database.url.split_once('@').unwrap();
        urls.push(format!("{scheme}://{login}@{server}"));
        urls.push(format!("{scheme}://nobody:{password}@{server}_that_is_not_there"));
    }
    urls
}

fn no_unusable_url_shows_its_password(kind: ServerKind) {
    log_to_memory();
    let database = kind.fresh();
    for url in unusable(kind, &database) {
        refused(firetime::migrate(&url));
        refused(Client::connect("secrets", &url));
        for migrate in [true, false] {
            let builder = Scheduler::builder("secrets", &url).handler(WORK, |_, ()| Ok(())).migrate(migrate);
            clean(&format!("{builder:?} {builder:#?}"));
            refused(builder.start());
        }
        #[cfg(feature = "cli")]
        for line in
            [&["-vvv", "--application", "x", "schedules"][..], &["-vvv", "migrate", "--output", "json"]]
        {
            let Ok(url) = std::ffi::CString::new(url.as_str()) else { continue };
            let output = Command::new(env!("CARGO_BIN_EXE_firetime"))
                .args(line)
                .env("FIRETIME_DATABASE_URL", url.to_str().unwrap())
                .output()
                .unwrap();
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(!output.status.success() && !said.is_empty(), "{said}");
            clean(&said);
        }
    }
    clean(&logged());
}

/// A node of its own role, whose tables then disappear: statements fail, heartbeats fail, everything is
/// logged.
fn a_node_in_trouble_shows_no_password(kind: ServerKind) {
    log_to_memory();
    let database = with_password(kind);
    let (tell, events) = channel();
    let tell = Mutex::new(tell);
    let scheduler = Scheduler::builder("secrets", &database.url)
        .poll_interval(Duration::from_millis(200))
        .heartbeat_interval(Duration::from_millis(200))
        .misfire_interval(Duration::from_millis(200))
        .handler(WORK, |_, ()| Ok(()))
        .on_event(move |event| drop(tell.lock().unwrap().send(event.clone())))
        .start()
        .unwrap();
    let client = scheduler.client();
    clean(&format!("{scheduler:?} {client:?} {scheduler:#?} {client:#?}"));
    for table in ["QRTZ_RUN", "QRTZ_EXECUTE", "QRTZ_NODE"] {
        database.batch(&format!("ALTER TABLE {table} RENAME TO {table}_GONE"));
    }
    let mut failed = std::collections::BTreeSet::new();
    while failed.len() < 2 {
        let event = events.recv_timeout(SOON).unwrap();
        clean(&format!("{event} {event:?} {event:#?}"));
        if let Event::StoreFailed { operation, .. } = event {
            failed.insert(operation);
        }
    }
    let every = Trigger::every(Duration::from_secs(1)).unwrap();
    refused(client.ensure(&Schedule::new("s", WORK, &(), every).unwrap()).run());
    refused(client.pause("s").actor("me").reason("why").run());
    refused(client.schedules());
    refused(client.nodes());
    scheduler.shutdown(Duration::from_secs(2)).is_clean();
    let log = logged();
    assert!(log.contains("failed, will be tried again"), "{log}");
    clean(&log);
}

/// A database whose URL holds the password, which its server takes.
fn with_password(kind: ServerKind) -> Database {
    let database = kind.fresh();
    let [encoded, plain] = PASSWORDS;
    let (_, server) = database.url.split_once('@').unwrap_or_default();
    match kind.name() {
        "postgres" => {
            let role = format!("secrets_{}", std::process::id());
            database.batch(&format!("CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{plain}'"));
            database.clone().at(format!("postgres://{role}:{encoded}@{server}"))
        }
        "mariadb" => {
            let user = format!("secrets_{}", std::process::id());
            database.batch(&format!(
                "CREATE USER {user}@'%' IDENTIFIED BY '{plain}'; GRANT ALL ON *.* TO {user}@'%'"
            ));
            database.clone().at(format!("mysql://{user}:{encoded}@{server}"))
        }
        _ => database,
    }
}

#[cfg(feature = "cli")]
fn a_url_file_that_cannot_be_used_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    let login = format!("me:{}", PASSWORDS[0]);
    let contents: [Vec<u8>; 4] = [
        format!("oracle://{login}@host/x").into_bytes(),
        format!("postgres://{login}@127.0.0.1:1/x\nmysql://{login}@127.0.0.1:1/x\n").into_bytes(),
        [format!("postgres://{login}@127.0.0.1:1/x").as_bytes(), b"\xff\xfe"].concat(),
        format!("# {login}").into_bytes(),
    ];
    let run = |path: &std::path::Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_firetime"))
            .args(["-vvv", "--application", "x", "schedules", "--database-url-file"])
            .arg(path)
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!output.status.success() && !said.is_empty());
        clean(&said);
        said
    };
    for content in contents {
        std::fs::write(&file, content).unwrap();
        run(&file);
    }
    assert!(run(folder.path()).contains("--database-url-file"), "a folder is no file");
    assert!(run(&folder.path().join("missing")).contains("missing"));
}
