//! The price of one request in a transaction of the application's own, with each driver. Three transactions
//! take turns on one connection: one holds a bare INSERT of the row that an enqueued execution is, one the
//! request that enqueues it, one the same request with a unique key.
//!
//! ```sh
//! scripts/with-servers.sh cargo bench --all-features --bench drivers -- 1000
//! ```
//!
//! The number is that of the turns, 1000 by default. The servers are those of FIRETIME_TEST_POSTGRES_URL and
//! FIRETIME_TEST_MARIADB_URL, whose databases get firetime's tables; SQLite has a file in TMPDIR. The async
//! runtime has one thread, and its blocking pool.

#![allow(clippy::disallowed_methods, reason = "a bench reads the real clock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and panics when it cannot go on"
)]

mod driver;
mod support;

use std::fmt::{self, Display, Formatter};
use std::time::Instant;

use driver::{
    DieselAsyncMariadb, DieselAsyncPostgres, DieselMariadb, DieselPostgres, DieselSqlite, Driver, Row,
    SqlxMariadb, SqlxPostgres, SqlxSqlite, TokioPostgres,
};
use firetime::{Client, Job};
use support::median;
use tokio::runtime::Builder;

const REMIND: Job<u32> = Job::new("remind");
/// The first turns, which are not counted: drivers prepare their statements, and the job gets its queue.
const WARM_UP: u32 = 20;

fn main() {
    let turns = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1_000);
    let server = |variable| std::env::var(variable).expect("scripts/with-servers.sh sets it");
    let (postgres, mariadb) = (server("FIRETIME_TEST_POSTGRES_URL"), server("FIRETIME_TEST_MARIADB_URL"));
    let folder = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}", folder.path().join("bench.db").display());
    support::headline(&format!("Elapsed microseconds of a call and of its transaction, {turns} of each"));
    let columns = format!("{:>9} {:>9} {:>9}", "call p50", "whole p50", "whole p99");
    let beside = format!("{columns} {:>6} {:>5} {:>10}", "ratios", "", "statements");
    println!("{:<25} {:^29} | {:^53} | {:^53}", "", "INSERT", "run_in", "run_in with a key");
    println!("{:<25} {columns} | {beside} | {beside}", "");
    price::<DieselSqlite>("SQLite", &sqlite, turns);
    price::<SqlxSqlite>("SQLite", &sqlite, turns);
    price::<DieselPostgres>("PostgreSQL", &postgres, turns);
    price::<SqlxPostgres>("PostgreSQL", &postgres, turns);
    price::<TokioPostgres>("PostgreSQL", &postgres, turns);
    price::<DieselAsyncPostgres>("PostgreSQL", &postgres, turns);
    price::<DieselMariadb>("MariaDB", &mariadb, turns);
    price::<SqlxMariadb>("MariaDB", &mariadb, turns);
    price::<DieselAsyncMariadb>("MariaDB", &mariadb, turns);
}

fn price<D: Driver>(database: &str, url: &str, turns: u32) {
    firetime::migrate(url).unwrap();
    let client = Client::connect("bench", url).unwrap();
    let spent = Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut connection = D::connect(url).await;
        let mut spent = [Spent::default(), Spent::default(), Spent::default()];
        for turn in 0..WARM_UP + turns {
            if turn == WARM_UP {
                spent = Default::default();
            }
            let row = Row::new(turn);
            let plain = client.enqueue(REMIND, &turn);
            let keyed = client.enqueue(REMIND, &turn).key(&row.token);
            let [of_insert, of_plain, of_keyed] = &mut spent;
            of_keyed.note::<D>(&mut connection, async |it| D::enqueue(it, keyed).await).await;
            of_plain.note::<D>(&mut connection, async |it| D::enqueue(it, plain).await).await;
            of_insert.note::<D>(&mut connection, async |it| D::insert(it, row).await).await;
        }
        spent
    });
    let [insert, plain, keyed] = spent.map(Spent::figures);
    let beside = |it: Figures| {
        let (call, whole) = (it.call / insert.call, it.whole / insert.whole);
        format!("{it} {call:>6.2} {whole:>5.2} {:>10}", it.statements)
    };
    println!("{database:<10} {:<14} {insert} | {} | {}", D::NAME, beside(plain), beside(keyed));
}

/// What the transactions of one kind took, in microseconds.
#[derive(Default)]
struct Spent {
    calls: Vec<f64>,
    wholes: Vec<f64>,
    statements: usize,
}

impl Spent {
    async fn note<D: Driver>(
        &mut self,
        connection: &mut D::Connection,
        work: impl AsyncFnOnce(&mut D::Transaction<'_>),
    ) {
        let began = Instant::now();
        let mut transaction = D::begin(connection).await;
        let (called, before) = (Instant::now(), driver::statements());
        work(&mut transaction).await;
        self.calls.push(called.elapsed().as_secs_f64() * 1e6);
        self.statements = driver::statements() - before;
        D::commit(transaction).await;
        self.wholes.push(began.elapsed().as_secs_f64() * 1e6);
    }

    fn figures(mut self) -> Figures {
        self.wholes.sort_by(f64::total_cmp);
        let p99 = self.wholes[self.wholes.len() * 99 / 100];
        let (call, whole) = (median(self.calls), median(self.wholes));
        Figures { call, whole, p99, statements: self.statements }
    }
}

/// Medians and a percentile.
struct Figures {
    call: f64,
    whole: f64,
    p99: f64,
    statements: usize,
}

impl Display for Figures {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{:>9.0} {:>9.0} {:>9.0}", self.call, self.whole, self.p99)
    }
}
