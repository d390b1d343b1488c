//! Requests on a store in memory.

use crate::domain::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::api::{Client, Job, Schedule};
use crate::node::Changed;
use crate::store::memory::MemoryStore;
use crate::trigger::Trigger;

/// A client with the hourly schedule "s", and how many changes it has announced.
pub(super) fn client() -> (Client, Arc<AtomicUsize>) {
    let store = Arc::new(MemoryStore::new(Timestamp::at(1_767_225_600_000)));
    let announced = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&announced);
    let client = Client::over("app", store, Arc::default(), move |changed| {
        assert!(matches!(changed, Changed::Schedule("s" | "queue:mail")), "{changed:?}");
        count.fetch_add(1, Ordering::Relaxed);
    });
    client.ensure(&hourly()).run().unwrap();
    (client, announced)
}

fn hourly() -> Schedule {
    let every = Trigger::every(Duration::from_secs(3_600)).unwrap();
    Schedule::new("s", Job::<()>::new("job"), &(), every).unwrap()
}

#[test]
fn a_request_is_announced_once_it_was_run_and_changed_something() {
    let (client, announced) = client();
    let count = || announced.load(Ordering::Relaxed);
    assert_eq!(count(), 1);
    drop(client.pause("s"));
    client.ensure(&hourly()).run().unwrap();
    client.resume("s").run().unwrap();
    client.pause("t").run().unwrap_err();
    assert_eq!(count(), 1, "nothing was changed");
    client.pause("s").run().unwrap();
    assert_eq!(count(), 2);
    client.pause("s").run().unwrap();
    assert_eq!(count(), 2, "it was paused");
    client.resume("s").run().unwrap();
    assert_eq!(count(), 3);
}
