//! Schedulers and clients for tests, and how to wait for what they do.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use firetime::{
    Builder, Client, Context, Event, ExecutionFilter, HandlerError, Job, Schedule, Scheduler, Trigger,
};

use crate::support::database::Database;

pub const TEXT: Job<String> = Job::new("text");
pub const NUMBER: Job<u64> = Job::new("text");
pub const APPLICATION: &str = "life";
pub const SOON: Duration = Duration::from_secs(30);

/// A node quick enough for tests.
pub fn builder(database: &Database) -> Builder {
    Scheduler::builder(APPLICATION, &database.url)
        .poll_interval(Duration::from_secs(1))
        .misfire_interval(Duration::from_secs(1))
}

pub fn client(database: &Database) -> Client {
    firetime::migrate(&database.url).unwrap();
    Client::connect(APPLICATION, &database.url).unwrap()
}

pub fn once_now(name: &str, payload: &str) -> Schedule {
    let soon = Utc::now() + TimeDelta::milliseconds(200);
    Schedule::new(name, TEXT, &payload.to_owned(), Trigger::once(soon).unwrap()).unwrap()
}

/// A handler that hangs until what comes with it is dropped.
pub fn hanging() -> (Sender<()>, impl Fn(&Context, ()) -> Result<(), HandlerError> + Send + Sync + 'static) {
    let (open, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    (open, move |_, ()| {
        gate.lock().unwrap().recv().ok();
        Ok(())
    })
}

/// Events as they happen.
pub fn listen(builder: Builder) -> (Builder, Receiver<Event>) {
    let (tell, events) = channel();
    let tell = Mutex::new(tell);
    let builder = builder.on_event(move |event| drop(tell.lock().unwrap().send(event.clone())));
    (builder, events)
}

/// The first event of interest, or a panic.
pub fn wait_for<T>(events: &Receiver<Event>, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let event = events.recv_timeout(left).unwrap_or_else(|_| panic!("the event did not come"));
        if let Some(found) = wanted(&event) {
            return found;
        }
    }
}

/// Looks again and again until there is what it looks for.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// A handler's way of telling the test.
pub fn teller<T: Send + 'static>() -> (Arc<Mutex<Sender<T>>>, Receiver<T>) {
    let (tell, told) = channel();
    (Arc::new(Mutex::new(tell)), told)
}

pub fn states(client: &Client) -> Vec<(String, u32)> {
    let mut rows: Vec<(String, u32)> = client
        .executions(&ExecutionFilter::default())
        .unwrap()
        .into_iter()
        .map(|row| (row.state.to_string(), row.attempt))
        .collect();
    rows.sort();
    rows
}
