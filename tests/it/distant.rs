//! A node far from its database.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use chrono::Utc;
use firetime::{Job, Schedule, Scheduler, Trigger};
use libtest_mimic::Trial;

use crate::chaos::cluster::{address, protocol};
use crate::chaos::proxy::{Mode, Proxy};
use crate::support::database::Kind;
use crate::trial;

const TICK: Job<()> = Job::new("tick");
const SOON: Duration = Duration::from_secs(30);

pub fn add(trials: &mut Vec<Trial>, kind: Kind) {
    if protocol(kind).is_some() {
        let name = format!("{}::distant::a_chain_of_300_ms_keeps_up_over_50_ms_of_round_trip", kind.name());
        trials.push(trial(name, move || a_chain_of_300_ms_keeps_up_over_50_ms_of_round_trip(kind)));
    }
}

/// The next link of a chain is claimed after the claim before it.
fn a_chain_of_300_ms_keeps_up_over_50_ms_of_round_trip(kind: Kind) {
    const LINKS: usize = 40;
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let address = address(&database.url);
    let proxy = Proxy::new(address, protocol(kind).unwrap());
    let url = database.url.replace(&address.to_string(), &format!("127.0.0.1:{}", proxy.port()));
    let (begun, begins) = channel();
    let begun = Mutex::new(begun);
    let node = Scheduler::builder("distant", &url)
        .migrate(false)
        .handler(TICK, move |context, ()| {
            let late = (Utc::now() - context.fire_time()).num_milliseconds();
            begun.lock().unwrap().send(late)?;
            Ok(())
        })
        .start()
        .unwrap();
    let every = Trigger::every(Duration::from_millis(300)).unwrap();
    proxy.set(Mode::Delay(Duration::from_millis(25)));
    node.client().ensure(&Schedule::new("chain", TICK, &(), every).unwrap()).unwrap();
    let late: Vec<i64> = (0..LINKS).map(|_| begins.recv_timeout(SOON).unwrap()).collect();
    assert!(late[LINKS - 5..].iter().all(|late| *late < 900), "{late:?}");
    assert!(node.shutdown(SOON));
}
