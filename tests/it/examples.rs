//! The programs in `examples/`, as their readers start them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use libtest_mimic::Trial;

use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{SOON, until};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>) {
    trials.push(trial("examples::a_shop_that_is_killed_loses_no_charge".to_owned(), || {
        a_shop_that_is_killed_loses_no_charge();
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

/// An instance of `examples/axum`. Dropped, it is killed.
struct Shop {
    child: Child,
    address: String,
}

impl Shop {
    fn start(database: &Database) -> Self {
        let mut command = example("axum");
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
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
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

impl Drop for Shop {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn a_shop_that_is_killed_loses_no_charge() {
    let database = ServerKind::Sqlite.fresh();
    let shops = [Shop::start(&database), Shop::start(&database)];
    let again = shops[0].charge(1_000);
    let (status, body) = shops[1].ask("POST", "/orders/1000/charge", "{\"cents\":1990}");
    assert!(status == 200 && body.contains(&again.to_string()), "one charge for each order: {status} {body}");
    assert_eq!(shops[0].ask("GET", "/executions/999999", "").0, 404);
    let charges: Vec<i64> = (0..60).map(|n| shops[n % 2].charge(n)).collect();
    let [killed, left] = shops;
    // While it runs some of them.
    until("a charge that runs", || (killed.state(*charges.last().unwrap()) != "PENDING").then_some(()));
    drop(killed);
    for charge in charges.iter().chain([&again]) {
        let is_charged = || (left.state(*charge) == "SUCCEEDED").then_some(());
        until("a charge to be made", is_charged);
    }
    // What waits when an instance is told to stop is there when the next one starts.
    let last = left.charge(2_000);
    assert!(left.stop());
    let next = Shop::start(&database);
    until("the last charge to be made", || (next.state(last) == "SUCCEEDED").then_some(()));
    assert!(next.stop());
}
