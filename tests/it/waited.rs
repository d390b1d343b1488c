//! Waiting for the ends of executions.

use std::time::{Duration, Instant};

use firetime::{Answer, ErrorKind, ExecutionDetails, ExecutionState, Job, Retry, Waited};
use libtest_mimic::Trial;

use crate::support::database::ServerKind;
use crate::support::scheduler::{SOON, builder, client, hanging};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("a_wait_ends_with_the_last_attempt", a_wait_ends_with_the_last_attempt),
        ("a_wait_has_a_time_and_needs_an_execution", a_wait_has_a_time_and_needs_an_execution),
        #[cfg(feature = "tokio")]
        ("hundreds_wait_on_one_thread", hundreds_wait_on_one_thread),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::waited::{name}", kind.name()), move || test(kind)));
    }
}

fn ended(waited: Waited) -> ExecutionDetails {
    let Waited::Ended(details) = waited else { panic!("{waited:?}") };
    details
}

/// A snooze and an attempt that is tried again are no ends.
fn a_wait_ends_with_the_last_attempt(kind: ServerKind) {
    const ADD: Job<(u64, u64)> = Job::new("add").retry(Retry::fixed(Duration::ZERO).at_most(1));
    let database = kind.fresh();
    let client = client(&database);
    let scheduler = builder(&database)
        .handler(ADD, |context, (one, other)| match (context.attempt(), context.snoozes()) {
            (1, 0) => Ok(Answer::Snooze(Duration::from_millis(100))),
            (1, _) => Err("not yet".into()),
            _ => {
                context.result(&(one + other))?;
                Ok(Answer::Done)
            }
        })
        .start()
        .unwrap();
    for client in [&client, &scheduler.client()] {
        let id = client.enqueue(ADD, &(1, 2)).run().unwrap().id();
        let details = ended(client.wait(id).timeout(SOON).run().unwrap());
        assert_eq!((details.last().state.as_str(), details.attempts.len()), ("SUCCEEDED", 2));
        assert_eq!(details.result_as::<u64>().unwrap(), Some(3));
        let again = ended(client.wait(details.last().id).run().unwrap());
        assert_eq!(again.execution.id, details.last().id, "it had ended");
    }
    assert!(scheduler.shutdown(SOON).is_clean());
}

fn a_wait_has_a_time_and_needs_an_execution(kind: ServerKind) {
    const HANG: Job<()> = Job::new("hang");
    let database = kind.fresh();
    let client = client(&database);
    let (open, hang) = hanging();
    let scheduler = builder(&database).handler(HANG, hang).start().unwrap();
    let id = client.enqueue(HANG, &()).run().unwrap().id();
    let began = Instant::now();
    let waited = client.wait(id).timeout(Duration::from_millis(300)).run().unwrap();
    assert_eq!((waited, began.elapsed() >= Duration::from_millis(300)), (Waited::TimedOut, true));
    let unknown = client.wait(id.get() + 1_000).timeout(SOON).run().unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    drop(open);
    assert_eq!(ended(client.wait(id).run().unwrap()).last().state, ExecutionState::Succeeded);
    assert!(scheduler.shutdown(SOON).is_clean());
}

#[cfg(feature = "tokio")]
fn hundreds_wait_on_one_thread(kind: ServerKind) {
    use firetime::Client;
    use tokio::runtime::Builder;
    use tokio::task::JoinSet;

    const ECHO: Job<u64> = Job::new("echo");
    let database = kind.fresh();
    let plain = client(&database);
    let scheduler = builder(&database)
        .handler(ECHO, |context, number| {
            context.result(&number)?;
            Ok(())
        })
        .start()
        .unwrap();
    let mut error = std::pin::pin!(plain.wait(1).timeout(SOON).into_future());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(refused) = error.as_mut().poll(&mut context) else { panic!("it waits") };
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Config);

    let numbers: Vec<u64> = (0..300).collect();
    let ids = plain.enqueue_many(ECHO, &numbers).run().unwrap();
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let client =
            Client::connect_async(crate::support::scheduler::APPLICATION, &database.url).await.unwrap();
        let mut all = JoinSet::new();
        for (id, number) in ids.into_iter().zip(numbers) {
            let client = client.clone();
            all.spawn(async move {
                let details = ended(client.wait(id).timeout(SOON).await.unwrap());
                assert_eq!(details.result_as::<u64>().unwrap(), Some(number));
            });
        }
        while let Some(joined) = all.join_next().await {
            joined.unwrap();
        }
        let waited = client.wait(client.enqueue(ECHO, &7).await.unwrap().id()).await.unwrap();
        assert_eq!(ended(waited).last().state, ExecutionState::Succeeded);
    });
    assert!(scheduler.shutdown(SOON).is_clean());
}
