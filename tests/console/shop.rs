//! A live cluster of a made-up shop, with schedules and executions in every state, and its console.

use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::console::{Options, router};
use firetime::{
    Builder, Client, Context, ExecutionFilter, HandlerError, Job, Lane, Retry, Schedule, ScheduleState,
    Scheduler, Trigger,
};

use crate::database::{Database, ServerKind};
use crate::until;

pub const APPLICATION: &str = "shop";
pub const BILLING: Job<String> = Job::new("billing").description("sends what customers owe");
pub const REPORT: Job<String> = Job::new("nightly-report").time_limit(Duration::from_secs(900));
const INDEX: Job<String> = Job::new("search-index").concurrency(2);
const MAIL: Job<String> = Job::new("mail").retry(Retry::fixed(Duration::from_secs(3_600))).lane("slow");
const RATES: Job<String> = Job::new("exchange-rates");
const ARCHIVE: Job<String> = Job::new("archive");

/// A shop at work.
pub struct Shop {
    pub database: Database,
    pub client: Client,
    pub console: Server,
    /// Handlers of reports wait for it.
    _open: Sender<()>,
    nodes: Vec<Scheduler>,
}

impl Drop for Shop {
    fn drop(&mut self) {
        for node in self.nodes.drain(..) {
            node.shutdown(Duration::ZERO).is_clean();
        }
    }
}

/// A console that is served.
pub struct Server {
    pub address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub fn start(client: &Client, options: Options) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let pages = router(client.clone(), options);
        runtime.spawn(async move { axum::serve(listener, pages).await });
        Self { address, _runtime: runtime }
    }

    pub fn at(&self, page: &str) -> String {
        format!("http://{}/{page}", self.address)
    }
}

impl Shop {
    /// A shop with two nodes, of which one drains, and with a history.
    pub fn open(kind: ServerKind) -> Self {
        let database = kind.fresh();
        firetime::migrate(&database.url).unwrap();
        let client = Client::connect(APPLICATION, &database.url).unwrap().acting_as("ops");
        let (open, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let nodes = (0..2).map(|_| node(&database, &gate).start().unwrap()).collect();
        let console = Server::start(&client, Options::new());
        let shop = Self { database, client, console, _open: open, nodes };
        shop.stock();
        shop
    }

    fn ensure(&self, schedule: &Schedule) {
        self.client.ensure(schedule).run().unwrap();
    }

    /// Schedules and executions in all states.
    fn stock(&self) {
        let cron = |text: &str| Trigger::cron(text, "Europe/Berlin").unwrap();
        let schedule =
            |name: &str, job, trigger| Schedule::new(name, job, &"eu".to_owned(), trigger).unwrap();
        let hourly = schedule("invoices-hourly", BILLING, cron("0 5 * * * ?"));
        self.ensure(&hourly.description("one invoice run per hour"));
        self.ensure(&schedule("report-sales", REPORT, cron("0 30 2 * * ?")).priority(5));
        self.ensure(&schedule("report-stock", REPORT, cron("0 0 6 ? * MON-FRI")));
        self.ensure(&schedule("index-products", INDEX, Trigger::every(Duration::from_secs(300)).unwrap()));
        self.ensure(&schedule("index-reviews", INDEX, Trigger::every(Duration::from_secs(420)).unwrap()));
        self.client.pause("index-reviews").reason("stock-taking until Friday").run().unwrap();
        self.ensure(&schedule("archive-orders", ARCHIVE, cron("0 0/10 * * * ?")));
        self.ensure(&schedule("newsletter", MAIL, cron("0 0 8 ? * TUE")));
        self.client.pause(firetime::Target::job("mail")).reason("the relay is being moved").run().unwrap();
        self.ensure(&schedule("launch", BILLING, Trigger::once(Utc::now() - TimeDelta::minutes(5)).unwrap()));
        let rates = schedule("rates", RATES, Trigger::every(Duration::from_secs(600)).unwrap());
        self.ensure(&rates.expected_by(Duration::from_secs(30)));
        self.ensure(&schedule("unreadable", BILLING, cron("0 0 12 * * ?")));
        self.database
            .batch("UPDATE QRTZ_EXECUTE SET cron = '99 * *', next_fire_time = 1 WHERE name = 'unreadable'");
        self.client.trigger("report-sales").reason("the board meets").run().unwrap();
        self.client.trigger("rates").run().unwrap();
        for order in ["4711", "4712", "4713"] {
            let enqueue = self.client.enqueue(BILLING, &format!("order {order}"));
            enqueue.tag("checkout").key(&format!("order-{order}")).run().unwrap();
        }
        self.client.enqueue(RATES, &"usd".to_owned()).run().unwrap();
        self.client.enqueue(MAIL, &"welcome".to_owned()).run().unwrap();
        let next = self.next("index-products");
        self.client.skip("index-products", next).reason("no stock").run().unwrap();
        self.history("invoices-hourly");
        self.settle();
    }

    /// Waits until what was ordered has become what it is to be.
    fn settle(&self) {
        let has = |state: &str| self.list().iter().any(|it| it == state);
        until("every state", || {
            let is_error = self.client.schedules().unwrap().iter().any(|it| it.state == ScheduleState::Error);
            (is_error && ["RUNNING", "FAILED", "SUCCEEDED", "SKIPPED", "PENDING"].iter().all(|it| has(it)))
                .then_some(())
        });
    }

    fn list(&self) -> Vec<String> {
        let rows = self.client.executions(&ExecutionFilter { limit: 500, ..ExecutionFilter::default() });
        rows.unwrap().into_iter().map(|row| row.state.to_string()).collect()
    }

    /// When a schedule fires next.
    pub fn next(&self, name: &str) -> DateTime<Utc> {
        self.client.schedule(name).unwrap().schedule.next.unwrap()
    }

    /// The id of the newest execution in this state.
    pub fn newest(&self, state: firetime::ExecutionState) -> i64 {
        let filter = ExecutionFilter { states: vec![state], limit: 1, ..ExecutionFilter::default() };
        self.client.executions(&filter).unwrap()[0].id.get()
    }

    /// What would have become of an hourly schedule in the last eight days.
    fn history(&self, name: &str) {
        let hour = self.next(name).timestamp_millis() - 3_600_000;
        let rows: Vec<String> = (0..180).map(|ago| ended(name, hour - ago * 3_600_000, ago)).collect();
        self.database.batch(&format!(
            "INSERT INTO QRTZ_RUN (execute_id, generation, scheduled_time, due_time, attempt, application, cause, \
             state, reason, node, claimed_time, started_time, finished_time, error) {}",
            rows.join(" UNION ALL ")
        ));
        let week = hour - 8 * 24 * 3_600_000;
        // Its trigger has been as it is for as long.
        for change in [
            "QRTZ_TRIGGER SET begun_time = {week} WHERE begun_time > {week}",
            "QRTZ_EXECUTE SET prev_fire_time = {last} WHERE name = '{name}'",
            "QRTZ_TRIGGER SET first_fire_time = {first} WHERE execute_id = (SELECT id FROM QRTZ_EXECUTE WHERE name = \
             '{name}')",
        ] {
            let change = change
                .replace("{week}", &week.to_string())
                .replace("{name}", name)
                .replace("{last}", &hour.to_string())
                .replace("{first}", &(hour - 179 * 3_600_000).to_string());
            self.database.batch(&format!("UPDATE {change}"));
        }
        self.database.batch(&format!("UPDATE QRTZ_APP SET ledger_from = {week}"));
        let outcomes = (0..24).map(|ago| {
            let (at, ran) = ((hour - ago * 3_600_000) / 3_600_000 * 3_600_000, 40 + (ago * 13) % 29);
            let failed = if ago % 7 == 3 { 4 } else { 0 };
            format!("('{APPLICATION}', 1, {at}, 'billing', 'past', {ran}, {failed}, {ran}, {}, 180)", ran * 9)
        });
        self.database.batch(&format!(
            "INSERT INTO QRTZ_OUTCOME (application, hours, from_time, job, node, succeeded, failed, begun, \
             lateness_sum, lateness_max) VALUES {}",
            outcomes.collect::<Vec<_>>().join(", ")
        ));
    }
}

/// A row of the ledger: what became of an occurrence so many hours ago.
fn ended(name: &str, at: i64, ago: i64) -> String {
    let (state, reason, late, error) = match ago {
        3 | 77 => ("FAILED", "error", 40, "the gateway answered 502 Bad Gateway"),
        28..=30 => ("SKIPPED", "misfire", 0, ""),
        52 | 100 => ("SUCCEEDED", "", 8_400, ""),
        131 => ("CANCELLED", "cancelled", 40, ""),
        _ => ("SUCCEEDED", "", 35, ""),
    };
    let node = if ago % 3 == 0 { "web-2" } else { "web-1" };
    let (started, finished) = match state {
        "SKIPPED" => (-1, at + 60_000),
        _ => (at + late, at + late + 2_300),
    };
    format!(
        "SELECT id, generation, {at}, {at}, 1, application, 'planned', '{state}', '{reason}', '{node}', {started}, {started}, \
         {finished}, NULLIF('{error}', '') FROM QRTZ_EXECUTE WHERE name = '{name}'"
    )
}

fn node(database: &Database, gate: &Arc<Mutex<std::sync::mpsc::Receiver<()>>>) -> Builder {
    let gate = Arc::clone(gate);
    Scheduler::builder(APPLICATION, &database.url)
        .poll_interval(Duration::from_secs(1))
        .misfire_interval(Duration::from_secs(1))
        .lane("slow", Lane::threads(1, 2))
        .handler(BILLING, |context, order| {
            context.log(format!("billing {order}"));
            context.log("12 invoices sent");
            Ok(())
        })
        .handler(REPORT, move |context, region| report(context, &region, &gate))
        .handler(INDEX, |_, _| Ok(()))
        .handler(MAIL, |_, _| Ok(()))
        .handler(RATES, |context, _| {
            context.log("asking the bank for its rates");
            Err::<(), HandlerError>("the bank answered 503 Service Unavailable: try again later".into())
        })
}

/// Reports a third of what there is, then waits until the shop closes or somebody cancels it.
fn report(
    context: &Context,
    region: &str,
    gate: &Mutex<std::sync::mpsc::Receiver<()>>,
) -> Result<(), HandlerError> {
    context.log(format!("reading the orders of {region}"));
    context.progress(4, 12);
    let gate = gate.lock().unwrap();
    while !context.is_stopping() {
        if context.is_cancelled() {
            return Err("told to end at page 4".into());
        }
        if gate.recv_timeout(Duration::from_millis(50))
            == Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
        {
            break;
        }
    }
    Ok(())
}
