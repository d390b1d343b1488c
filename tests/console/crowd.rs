//! Many people look at a cluster at once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::Utc;
use firetime::console::Options;
use firetime::{Client, Job, Overlap, Schedule, Scheduler, Trigger};

use crate::SOON;
use crate::database::ServerKind;
use crate::shop::{APPLICATION, Server};

const TICK: Job<()> = Job::new("tick");
/// So many pages are open.
const PAGES: usize = 200;
/// So many schedules fire once a second each.
const SCHEDULES: usize = 50;
/// So many starts are measured.
const STARTS: usize = 250;
/// So much later half of the starts may be, and 99 %, while the pages are open: without optimisation, and on
/// a machine that other tests keep busy; docs/performance.md says how much it is alone.
const MORE: (i64, i64) = (250, 3_000);

/// The lateness of the next starts: of half of them, and of 99 %, milliseconds.
fn lateness(begins: &Receiver<i64>) -> (i64, i64) {
    begins.try_iter().for_each(drop);
    let mut late: Vec<i64> = (0..STARTS).map(|_| begins.recv_timeout(SOON).unwrap()).collect();
    late.sort_unstable();
    (late[STARTS / 2], late[STARTS * 99 / 100])
}

/// A page that somebody has open behind a proxy on this machine: its stream of changes.
fn open(console: &Server, of: &str, who: usize) -> TcpStream {
    let mut stream = TcpStream::connect(console.address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let head = format!("host: {}\r\nx-forwarded-for: 10.0.0.{who}", console.address);
    write!(stream, "GET /live?of={of} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200", "{of}");
    stream
}

pub fn two_hundred_open_pages_make_no_start_late(kind: ServerKind) {
    let database = kind.fresh();
    let (begun, begins) = channel();
    let begun = Arc::new(Mutex::new(begun));
    let node = Scheduler::builder(APPLICATION, &database.url)
        .handler(TICK, move |context, ()| {
            // Nobody measures any more once the test has ended.
            begun.lock().unwrap().send((Utc::now() - context.fire_time()).num_milliseconds()).ok();
            Ok(())
        })
        .start()
        .unwrap();
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    for number in 0..SCHEDULES {
        let every = Trigger::every(Duration::from_secs(1)).unwrap();
        let schedule = Schedule::new(&format!("tick-{number}"), TICK, &(), every).unwrap();
        client.ensure(&schedule.overlap(Overlap::Allow)).run().unwrap();
    }
    let console = Server::start(&client, Options::new());
    // Those that fire while the schedules are made are late.
    for _ in 0..2 * SCHEDULES {
        begins.recv_timeout(SOON).unwrap();
    }
    let alone = lateness(&begins);
    let pages = ["now", "schedules", "executions", "jobs", "nodes", "audit", "schedule%3Fname%3Dtick-7"];
    let streams: Vec<TcpStream> =
        (0..PAGES).map(|number| open(&console, pages[number % pages.len()], number)).collect();
    let watched = lateness(&begins);
    let heard: usize = streams.iter().map(heard).sum();
    println!(
        "lateness of half and of 99 %: alone {} ms and {} ms, beside {PAGES} open pages {} ms and {} ms; {} KB sent",
        alone.0,
        alone.1,
        watched.0,
        watched.1,
        heard / 1_024
    );
    assert!(watched.0 <= alone.0 + MORE.0 && watched.1 <= alone.1 + MORE.1, "{alone:?}, then {watched:?}");
    assert!(heard > PAGES * 1_024, "the pages are sent what they show: {heard} bytes");
    assert!(node.shutdown(Duration::from_secs(5)).is_clean());
}

/// How many bytes have come on a stream.
fn heard(mut stream: &TcpStream) -> usize {
    stream.set_nonblocking(true).unwrap();
    let (mut all, mut piece) = (0, [0; 16_384]);
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        all += count;
    }
    all
}
