//! Requests on a store in memory.

use crate::domain::{ErrorKind, Timestamp};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::api::{Client, ExecutionFilter, Job, Schedule, Triggered};
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

const MAIL: Job<u64> = Job::new("mail");

fn hourly() -> Schedule {
    let every = Trigger::every(Duration::from_secs(3_600)).unwrap();
    Schedule::new("s", Job::<()>::new("job"), &(), every).unwrap()
}

/// As it is run, and as it begins to be awaited; the guard of the first goes last.
#[test]
fn what_is_around_an_enqueue_sets_headers_and_lives_until_it_is_stored() {
    #[derive(Clone)]
    struct Steps(Arc<Mutex<Vec<&'static str>>>, &'static str);
    impl Drop for Steps {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(self.1);
        }
    }
    let (client, _) = client();
    let steps = Arc::default();
    let (one, two) = (Arc::clone(&steps), Arc::clone(&steps));
    let client = client
        .around_enqueue(move |outgoing| {
            assert_eq!(outgoing.application(), "app");
            let target = outgoing.job().or(outgoing.schedule()).unwrap().to_owned();
            outgoing.set_header("target", &target);
            Ok(Steps(Arc::clone(&one), "one"))
        })
        .around_enqueue(move |outgoing| {
            assert!(outgoing.header("target").is_some());
            let tenant = outgoing.header("tenant").ok_or("no tenant")?.to_owned();
            outgoing.set_header("tenant", &format!("tenant {tenant}"));
            Ok(Steps(Arc::clone(&two), "two"))
        });
    let headers = |id| client.execution(id).unwrap().headers.into_values().collect::<Vec<_>>();
    let said = || std::mem::take(&mut *steps.lock().unwrap());
    let mail = client.enqueue(MAIL, &1).header("tenant", "7").run().unwrap();
    assert_eq!((headers(mail.id()), said()), (vec!["mail".into(), "tenant 7".into()], vec!["two", "one"]));
    let many = client.enqueue_many(MAIL, &[1, 2]).header("tenant", "8").run().unwrap();
    assert_eq!((headers(many[1]), said()), (vec!["mail".into(), "tenant 8".into()], vec!["two", "one"]));
    let Triggered::Pending(id) = client.trigger("s").header("tenant", "9").run().unwrap() else { panic!() };
    assert_eq!((headers(id), said()), (vec!["s".into(), "tenant 9".into()], vec!["two", "one"]));
    let refused = [
        client.enqueue(MAIL, &1).run().unwrap_err(),
        client.enqueue_many(MAIL, &[1]).run().unwrap_err(),
        client.trigger("s").run().unwrap_err(),
    ];
    for error in refused {
        assert!(error.kind() == ErrorKind::Config && error.to_string().ends_with("no tenant"), "{error}");
    }
    assert_eq!((said(), client.executions(&ExecutionFilter::default()).unwrap().len()), (vec!["one"; 3], 4));
    drop(client.enqueue(MAIL, &1));
    assert_eq!(said(), [""; 0], "it was not run");
    let error = client.enqueue(MAIL, &1).header("tenant", "\n").run().unwrap_err();
    assert!(error.to_string().contains("control characters"), "{error}");
    #[cfg(feature = "tokio")]
    {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        said();
        let future = client.enqueue(MAIL, &1).header("tenant", "7").into_future();
        assert_eq!(headers(runtime.block_on(future).unwrap().id()), ["mail", "tenant 7"]);
        assert_eq!(said(), ["two", "one"], "they are called once");
    }
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

/// A borrowed one may be kept over an await of a future that is Send: each of these lines is compiled or not.
#[test]
fn requests_are_sync() {
    fn is_sync<T: Send + Sync>(_: &T) {}
    let (client, _) = client();
    is_sync(&client.enqueue(MAIL, &7));
    is_sync(&client.enqueue_many(MAIL, &[7]));
    is_sync(&client.trigger("s"));
    is_sync(&client.verify(..));
    is_sync(&client.pause("s"));
}
