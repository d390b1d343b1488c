//! Work that belongs to your own rows: an order and its charge are stored together or not at all, and the
//! reminder goes when the order is paid. `cargo run --example transactional`, as often as you like.

use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::Integer;
use firetime::{Cancelled, Client, Job, Scheduler};

use schema::orders;

type Failure = Box<dyn std::error::Error>;

mod schema {
    diesel::table! {
        orders (id) {
            id -> Integer,
            customer -> Text,
            /// The execution of its reminder.
            reminder -> BigInt,
            is_paid -> Bool,
        }
    }
}

const CHARGE: Job<i32> = Job::new("charge");
const REMIND: Job<i32> = Job::new("remind");

/// The order, its charge and its reminder: all three are there once this is committed, or none.
fn place(client: &Client, connection: &mut SqliteConnection, customer: &str) -> Result<i32, Failure> {
    connection.immediate_transaction(|connection| {
        let row = (orders::customer.eq(customer), orders::reminder.eq(0), orders::is_paid.eq(false));
        diesel::insert_into(orders::table).values(row).execute(connection)?;
        let order: i32 = diesel::select(sql::<Integer>("last_insert_rowid()")).get_result(connection)?;
        client.enqueue(CHARGE, &order).run_in(connection)?;
        let remind = client.enqueue(REMIND, &order).after(Duration::from_secs(3_600));
        let reminder = remind.run_in(connection)?.id();
        let row = orders::table.find(order);
        diesel::update(row).set(orders::reminder.eq(i64::from(reminder))).execute(connection)?;
        if customer.is_empty() {
            return Err("an order without a customer".into());
        }
        Ok(order)
    })
}

/// The order is paid, and nobody is reminded of it any more.
fn paid(client: &Client, connection: &mut SqliteConnection, order: i32) -> Result<Cancelled, Failure> {
    connection.immediate_transaction(|connection| {
        let row = orders::table.find(order);
        diesel::update(row).set(orders::is_paid.eq(true)).execute(connection)?;
        let reminder: i64 = row.select(orders::reminder).first(connection)?;
        Ok(client.cancel(reminder).reason("paid").run_in(connection)?)
    })
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn main() -> Result<(), Failure> {
    // The tables of both are in one file: they share transactions. SQLite has one writer at a time, so each
    // waits for the other, and says at its beginning that it will write.
    let file = "orders.db";
    let mut connection = SqliteConnection::establish(file)?;
    connection.batch_execute(
        "PRAGMA busy_timeout = 5000; \
         CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, \
         reminder BIGINT NOT NULL, is_paid BOOLEAN NOT NULL)",
    )?;
    let (charged, charges) = std::sync::mpsc::channel();
    let scheduler = Scheduler::builder("orders", &format!("sqlite:{file}"))
        .handler(CHARGE, move |_, order| Ok(charged.send(order)?))
        .handler(REMIND, |_, order| {
            println!("order {order} is not paid yet");
            Ok(())
        })
        .start()?;
    let client = scheduler.client();

    let refused = place(&client, &mut connection, "");
    println!("refused: {refused:?}");
    let order = place(&client, &mut connection, "Ada")?;
    println!("order {order} is placed");
    // Whatever was charged before, of earlier runs of this program.
    while charges.recv_timeout(Duration::from_secs(10))? != order {}
    println!("order {order} is charged, and its reminder {:?}", paid(&client, &mut connection, order)?);
    println!("stopped: {:?}", scheduler.shutdown(Duration::from_secs(10)));
    Ok(())
}
