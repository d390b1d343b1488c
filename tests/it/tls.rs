//! TLS to the servers, by the URLs that docs/deployments.md has.

use std::time::Duration;

use firetime::{Client, ErrorKind, Event, Job, Scheduler};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{SOON, listen, teller, wait_for};
use crate::trial;

const WORK: Job<u64> = Job::new("work");

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let mut add = |name: &str, test: fn(ServerKind)| {
        trials.push(trial(format!("{}::tls::{name}", kind.name()), move || test(kind)));
    };
    if kind.name() != "sqlite" {
        add("who_may_not_do_without_tls_has_it_everywhere", who_may_not_do_without_tls_has_it_everywhere);
        add("a_server_that_cannot_be_verified_is_refused", a_server_that_cannot_be_verified_is_refused);
    }
}

/// A file of the folder that scripts/with-servers.sh makes.
fn authority(name: &str) -> String {
    let folder = std::env::var("FIRETIME_TEST_TLS").expect("run the tests by scripts/with-servers.sh");
    format!("{folder}/{name}.pem")
}

/// The options of docs/deployments.md for a server that one authority has certified.
fn verified(database: &Database, authority: &str) -> String {
    let file = self::authority(authority);
    let options = match database.kind.name() {
        "postgres" => format!("sslmode=verify-full&sslrootcert={file}"),
        _ => format!("ssl_mode=verify_identity&ssl_ca={file}"),
    };
    let page = include_str!("../../docs/deployments.md");
    assert!(page.contains(&options.replace(&file, "/etc/ssl/shop-ca.pem")), "{options}");
    format!("{}?{options}", database.url)
}

/// The database of a user whom the server refuses without TLS, by a plain URL.
fn of_tls_only(kind: ServerKind) -> Database {
    let database = kind.fresh();
    let (role, url) = database.common_role();
    match kind.name() {
        // The role of which pg_hba.conf refuses members.
        "postgres" => database.batch(&format!(
            "DO $$ BEGIN CREATE ROLE firetime_tls; EXCEPTION WHEN duplicate_object OR unique_violation \
             THEN END $$; GRANT firetime_tls TO {role}"
        )),
        _ => database.batch(&format!("ALTER USER {role}@'%' REQUIRE SSL")),
    }
    database.at(url)
}

/// A node, its client, another one, and on PostgreSQL the connection that listens.
fn who_may_not_do_without_tls_has_it_everywhere(kind: ServerKind) {
    let database = of_tls_only(kind);
    let error = firetime::migrate(&database.url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let url = verified(&database, "ca");
    let url = if kind.name() == "postgres" { url.replace("@127.0.0.1:", "@localhost:") } else { url };
    let (tell, told) = teller();
    let run = move |_: &firetime::Context, n: u64| Ok(tell.lock().unwrap().send(n)?);
    let (builder, events) = listen(Scheduler::builder("tls", &url).handler(WORK, run));
    let node = builder.start().unwrap();
    let client = Client::connect("tls", &url).unwrap();
    client.enqueue(WORK, &1).run().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(1));
    node.client().enqueue(WORK, &2).run().unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(2));
    #[cfg(feature = "postgres")]
    if kind == ServerKind::Postgres {
        wait_for(&events, |event| matches!(event, Event::Listening).then_some(()));
        let (encrypted, listening) = sessions(&database.clone().at(url));
        assert!(encrypted.iter().all(|it| *it) && encrypted.len() > 3 && listening, "{encrypted:?}");
    }
    drop(events);
    assert!(node.shutdown(Duration::from_secs(20)).is_clean());
}

/// Whether each session of this database is encrypted, as the server has it, and one of them listens.
#[cfg(feature = "postgres")]
fn sessions(database: &Database) -> (Vec<bool>, bool) {
    use diesel::dsl::sql;
    use diesel::prelude::*;
    use diesel::sql_types::{Bool, Text};
    diesel::table! { pg_stat_activity (pid) { pid -> Integer, query -> Text } }
    let mut connection = diesel::PgConnection::establish(&database.url).unwrap();
    let ssl = sql::<Bool>("(SELECT ssl FROM pg_stat_ssl s WHERE s.pid = pg_stat_activity.pid)");
    let ours = sql::<Bool>("datname = current_database() AND backend_type = 'client backend'");
    let rows = pg_stat_activity::table.select((ssl, sql::<Text>("query"))).filter(ours);
    let rows: Vec<(bool, String)> = rows.load(&mut connection).unwrap();
    (rows.iter().map(|(ssl, _)| *ssl).collect(), rows.iter().any(|(_, query)| query.contains("LISTEN")))
}

fn a_server_that_cannot_be_verified_is_refused(kind: ServerKind) {
    let database = kind.fresh();
    firetime::migrate(&verified(&database, "ca")).unwrap();
    let url = verified(&database, "ca");
    // A name of the server's that its certificate does not have.
    let elsewhere = match kind.name() {
        "postgres" => url.replace("@127.0.0.1:", "@db.example:") + "&hostaddr=127.0.0.1",
        _ => url.replace("@127.0.0.1:", "@127.1:"),
    };
    let unverified = elsewhere.replace("verify-full", "verify-ca").replace("verify_identity", "preferred");
    firetime::migrate(&unverified).unwrap();
    for url in [&verified(&database, "other"), &elsewhere] {
        for error in [
            firetime::migrate(url).unwrap_err(),
            Client::connect("tls", url).err().unwrap(),
            Scheduler::builder("tls", url).handler(WORK, |_, _| Ok(())).start().err().unwrap(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{url}: {error}");
        }
        #[cfg(feature = "cli")]
        {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/ops/late.sh");
            let looks = |url: &str| {
                let output = std::process::Command::new(script).env("FIRETIME_DATABASE_URL", url).output();
                output.unwrap().status.code()
            };
            assert_eq!((looks(url), looks(&verified(&database, "ca"))), (Some(1), Some(0)), "{url}");
        }
    }
}
