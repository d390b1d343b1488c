//! The programs in `examples/`, as their readers start them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

#[cfg(all(feature = "sqlx", feature = "postgres"))]
use diesel::{
    Connection, PgConnection, RunQueryDsl,
    dsl::sql,
    sql_types::{BigInt, Text},
};
#[cfg(all(feature = "sqlx", feature = "postgres"))]
use firetime::{Client, ExecutionFilter};
use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{SOON, until};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>) {
    trials.push(trial("examples::a_shop_that_is_killed_loses_no_charge".to_owned(), || {
        a_shop_that_is_killed_loses_no_charge();
    }));
    #[cfg(all(feature = "sqlx", feature = "postgres"))]
    trials.push(trial("postgres::examples::orders_of_a_killed_shop_are_whole".to_owned(), || {
        orders_of_a_killed_shop_are_whole();
    }));
}

/// Cargo builds the examples with the tests, into a folder beside theirs.
fn example(name: &str) -> Command {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.extend(["examples", name]);
    assert!(path.exists(), "build the examples: cargo build --examples --all-features");
    Command::new(path)
}

/// An instance of `examples/axum` or `examples/sqlx`. Dropped, it is killed.
struct Shop {
    child: Child,
    address: String,
}

impl Shop {
    fn start(mut command: Command, database: &Database) -> Self {
        command.env("DATABASE_URL", &database.url).env("ADDRESS", "127.0.0.1:0").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = lines.find_map(|line| Some(line.strip_prefix("listening on ")?.to_owned())).unwrap();
        // Its pipe must not fill.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    /// The status and the body of an answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        ask(&self.address, method, path, body).unwrap()
    }

    /// The execution that charges an order.
    fn charge(&self, order: usize) -> i64 {
        let (status, body) = self.ask("POST", &format!("/orders/{order}/charge"), "{\"cents\":1990}");
        assert_eq!(status, 202, "{body}");
        serde_json::from_str::<serde_json::Value>(&body).unwrap()["execution"].as_i64().unwrap()
    }

    fn state(&self, execution: i64) -> String {
        let (_, body) = self.ask("GET", &format!("/executions/{execution}"), "");
        serde_json::from_str::<serde_json::Value>(&body).unwrap()["state"].as_str().unwrap().to_owned()
    }

    /// Asks it to stop as a supervisor does; whether it did in order.
    fn stop(mut self) -> bool {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        until("the end of the shop", || self.child.try_wait().unwrap()).success()
    }
}

/// The status and the body of an answer; an error if its server dies before it has answered.
fn ask(address: &str, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(SOON))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned()))
}

impl Drop for Shop {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn a_shop_that_is_killed_loses_no_charge() {
    let database = ServerKind::Sqlite.fresh();
    let start = || Shop::start(example("axum"), &database);
    let shops = [start(), start()];
    let again = shops[0].charge(1_000);
    let (status, body) = shops[1].ask("POST", "/orders/1000/charge", "{\"cents\":1990}");
    assert!(status == 200 && body.contains(&again.to_string()), "one charge for each order: {status} {body}");
    assert_eq!(shops[0].ask("GET", "/executions/999999", "").0, 404);
    until("it is ready", || (shops[0].ask("GET", "/health/ready", "").0 == 200).then_some(()));
    assert_eq!(shops[0].ask("GET", "/health/live", "").0, 200);
    let scraped = |shop: &Shop| shop.ask("GET", "/metrics", "").1;
    let charged = "firetime_executions_begun_total{application=\"shop\",job=\"charge\"}";
    assert!(scraped(&shops[0]).contains(charged), "{}", scraped(&shops[0]));
    let charges: Vec<i64> = (0..60).map(|n| shops[n % 2].charge(n)).collect();
    let [killed, left] = shops;
    // While it runs some of them.
    until("a charge that runs", || (killed.state(*charges.last().unwrap()) != "PENDING").then_some(()));
    drop(killed);
    for charge in charges.iter().chain([&again]) {
        let is_charged = || (left.state(*charge) == "SUCCEEDED").then_some(());
        until("a charge to be made", is_charged);
    }
    let (_, body) = left.ask("GET", &format!("/executions/{again}"), "");
    assert!(body.contains("\"lines\":[\"charged 1990 cents\"]") && body.contains("1990"), "{body}");
    // What waits when an instance is told to stop is there when the next one starts.
    let last = left.charge(2_000);
    assert!(left.stop());
    let next = start();
    until("the last charge to be made", || (next.state(last) == "SUCCEEDED").then_some(()));
    assert!(next.stop());
}

/// Orders are placed and paid while one of two instances is killed in the middle of charges. Of each order
/// the shop's own tables have one charge and one invoice, and one reminder if it is not paid.
#[cfg(all(feature = "sqlx", feature = "postgres"))]
fn orders_of_a_killed_shop_are_whole() {
    const ORDERS: usize = 200;
    const CENTS: &str = "{\"cents\":1990}";
    let database = ServerKind::Postgres.fresh();
    let start = || {
        let mut command = example("sqlx");
        command.env("PATIENCE", "15");
        Shop::start(command, &database)
    };
    let [killed, left] = [start(), start()];
    let look = |order: usize| {
        let (status, body) = left.ask("GET", &format!("/orders/{order}"), "");
        (status == 200).then(|| serde_json::from_str::<serde_json::Value>(&body).unwrap())
    };
    let address = killed.address.clone();
    let placed = std::thread::spawn(move || {
        let place = |order| ask(&address, "PUT", &format!("/orders/{order}"), CENTS);
        (0..ORDERS).take_while(|order| place(*order).is_ok()).count()
    });
    // By then outcomes wait for each other: a charge that is committed without its own would be made again.
    until("an order that is charged", || look(8).filter(|order| order["charges"] == 1));
    drop(killed);
    println!("{} of {ORDERS} orders were placed with the one that was killed", placed.join().unwrap());
    // Whoever got no answer asks again, and every other order is paid.
    for order in 0..ORDERS {
        let (status, body) = left.ask("PUT", &format!("/orders/{order}"), CENTS);
        assert!(matches!(status, 200 | 201), "{status} {body}");
        if order % 2 == 0 {
            assert_eq!(left.ask("POST", &format!("/orders/{order}/payment"), "").0, 204);
        }
    }
    let is_done = |it: &serde_json::Value| {
        it["charges"] != 0 && it["invoices"] != 0 && (it["is_paid"] == true || it["reminders"] != 0)
    };
    (0..ORDERS).for_each(|order| drop(until("an order to be done with", || look(order).filter(is_done))));
    assert!(left.stop());
    let effects = "SELECT order_id, 'charge' AS what FROM charges \
                   UNION ALL SELECT order_id, subject FROM letters ORDER BY order_id, what";
    let mut connection = PgConnection::establish(&database.url).unwrap();
    let effects = sql::<(BigInt, Text)>(effects).load::<(i64, String)>(&mut connection);
    let expected = (0..).take(ORDERS).flat_map(|order| {
        let all = [Some("charge"), Some("invoice"), Some("reminder").filter(|_| order % 2 == 1)];
        all.into_iter().flatten().map(move |what| (order, what.to_owned()))
    });
    assert_eq!(effects.unwrap(), expected.collect::<Vec<_>>());
    let client = Client::connect("shop", &database.url).unwrap();
    let executions = client.executions(&ExecutionFilter { limit: usize::MAX, ..Default::default() }).unwrap();
    let count = |job: &str, state: &str| {
        executions.iter().filter(|row| (row.job.as_str(), row.state.as_str()) == (job, state)).count()
    };
    assert_eq!((count("charge", "SUCCEEDED"), count("invoice", "SUCCEEDED")), (ORDERS, ORDERS));
    assert_eq!((count("remind", "SUCCEEDED"), count("remind", "CANCELLED")), (ORDERS / 2, ORDERS / 2));
    assert!(count("charge", "ABANDONED") > 0, "the kill has met no charge");
}
