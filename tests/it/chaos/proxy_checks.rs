//! The proxy does what the runs believe it does.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::spawn;
use std::time::Duration;

use super::cluster::{address, protocol};
use super::hand::Hand;
use super::proxy::{Cut, Mode, Proxy};
use super::wire::Commit;
use crate::support::database::ServerKind;

const SOON: Duration = Duration::from_secs(20);

struct Bench {
    kind: ServerKind,
    proxy: Proxy,
    url: String,
    /// Past the proxy.
    other_side: Hand,
}

impl Bench {
    fn new(kind: ServerKind) -> Self {
        let database = kind.fresh();
        let proxy = Proxy::new(address(&database.url), protocol(kind).unwrap());
        let url =
            database.url.replace(&address(&database.url).to_string(), &format!("127.0.0.1:{}", proxy.port()));
        let mut other_side = Hand::open(kind, &database.url).unwrap();
        other_side.run("CREATE TABLE QRTZ_RUN (id BIGINT NOT NULL PRIMARY KEY)").unwrap();
        Self { kind, proxy, url, other_side }
    }

    fn connect(&self) -> Hand {
        Hand::open(self.kind, &self.url).unwrap()
    }

    fn ids(&mut self) -> Vec<String> {
        self.other_side.rows("id", "FROM QRTZ_RUN ORDER BY id").concat()
    }
}

fn begin_insert_commit(kind: ServerKind, hand: &mut Hand, id: i64) -> diesel::QueryResult<()> {
    let insert = format!("INSERT INTO QRTZ_RUN VALUES ({id})");
    ["START TRANSACTION", &insert, "COMMIT"].iter().try_for_each(|text| transact(kind, hand, text))
}

/// The client is told the same; the row tells them apart.
pub fn a_commit_is_cut_before_or_after_it_is_done(kind: ServerKind) {
    let mut bench = Bench::new(kind);
    begin_insert_commit(kind, &mut bench.connect(), 1).unwrap();
    bench.proxy.cut_commit(Cut::After, None);
    begin_insert_commit(kind, &mut bench.connect(), 2).unwrap_err();
    bench.proxy.cut_commit(Cut::Before, None);
    begin_insert_commit(kind, &mut bench.connect(), 3).unwrap_err();
    begin_insert_commit(kind, &mut bench.connect(), 4).unwrap();
    // A claim is told from another commit.
    let mut hand = bench.connect();
    bench.proxy.cut_commit(Cut::Before, Some(Commit::Claim));
    ["START TRANSACTION", "COMMIT"].iter().try_for_each(|text| hand.prepared(text)).unwrap();
    begin_insert_commit(kind, &mut hand, 5).unwrap_err();
    assert_eq!(bench.ids(), ["1", "2", "4"]);
    assert_eq!(bench.proxy.counted(), (3, 3));
}

/// A claim on PostgreSQL is one prepared statement that commits by itself, and so is an outcome on both;
/// inside a transaction they do not.
pub fn a_claim_or_an_outcome_is_seen_to_commit_by_itself(kind: ServerKind) {
    for (commit, before, change, after) in [
        (Commit::Claim, "1", "INSERT INTO QRTZ_RUN VALUES (2)", "1 2"),
        (Commit::Other, "1", "UPDATE QRTZ_RUN SET id = 3", "3"),
    ] {
        let mut bench = Bench::new(kind);
        let mut hand = bench.connect();
        hand.run("INSERT INTO QRTZ_RUN VALUES (1)").unwrap();
        bench.proxy.cut_commit(Cut::After, Some(commit));
        ["START TRANSACTION", change, "ROLLBACK"]
            .iter()
            .try_for_each(|text| transact(kind, &mut hand, text))
            .unwrap();
        assert_eq!(bench.ids().join(" "), before);
        hand.prepared(change).unwrap_err();
        assert_eq!(bench.ids().join(" "), after);
    }
}

/// As the store does it: begin and commit are text on PostgreSQL, everything is prepared on MariaDB.
fn transact(kind: ServerKind, hand: &mut Hand, text: &str) -> diesel::QueryResult<()> {
    match text {
        "START TRANSACTION" if kind.name() == "postgres" => hand.run("BEGIN"),
        "COMMIT" | "ROLLBACK" if kind.name() == "postgres" => hand.run(text),
        _ => hand.prepared(text),
    }
}

/// What is held neither arrives nor fails, and arrives later.
pub fn a_black_hole_holds_what_is_sent(kind: ServerKind) {
    let mut bench = Bench::new(kind);
    let mut hand = bench.connect();
    bench.proxy.set(Mode::Hold);
    let (tell, told) = channel();
    let asking = spawn(move || tell.send(hand.run("INSERT INTO QRTZ_RUN VALUES (1)")).unwrap());
    assert_eq!(told.recv_timeout(Duration::from_millis(500)).unwrap_err(), RecvTimeoutError::Timeout);
    assert!(bench.ids().is_empty());
    bench.proxy.set(Mode::Pass);
    told.recv_timeout(SOON).unwrap().unwrap();
    asking.join().unwrap();
    assert_eq!(bench.ids(), ["1"]);
}

/// While it is down nobody gets through; afterwards everybody does.
pub fn what_is_down_refuses_and_comes_back(kind: ServerKind) {
    let bench = Bench::new(kind);
    let mut hand = bench.connect();
    // A MariaDB server is greeted on a connection of its own first.
    bench.proxy.await_open(1);
    bench.proxy.set(Mode::Down);
    hand.run("INSERT INTO QRTZ_RUN VALUES (1)").unwrap_err();
    assert!(Hand::open(kind, &bench.url).is_err());
    bench.proxy.set(Mode::Pass);
    bench.connect().run("INSERT INTO QRTZ_RUN VALUES (2)").unwrap();
    assert_eq!(bench.proxy.counted(), (1, 0));
}
