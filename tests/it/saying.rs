//! What handlers say beside their answers: results.

use std::time::Duration;

use firetime::{Client, ErrorKind, ExecutionDetails, ExecutionId, Job, Retry};
use libtest_mimic::Trial;

use crate::support::database::ServerKind;
use crate::support::scheduler::{SOON, builder, client, until};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] =
        &[("a_result_is_stored_with_the_success_that_left_it", a_result_is_stored_with_its_success)];
    for (name, test) in tests {
        trials.push(trial(format!("{}::saying::{name}", kind.name()), move || test(kind)));
    }
}

/// The execution once its last attempt has this state.
fn ended(client: &Client, id: ExecutionId, state: &str) -> ExecutionDetails {
    until("it does not end", || {
        let details = client.execution(id).unwrap();
        (details.last().state == state).then_some(details)
    })
}

/// A run that failed leaves none, and the last that a run leaves counts.
fn a_result_is_stored_with_its_success(kind: ServerKind) {
    const COUNT: Job<Vec<String>> = Job::new("count").retry(Retry::fixed(Duration::ZERO).at_most(1));
    const GIVE_UP: Job<()> = Job::new("give up");
    let database = kind.fresh();
    let client = client(&database);
    let scheduler = builder(&database)
        .handler(COUNT, |context, words| {
            context.result(&"of the first attempt")?;
            if context.attempt() == 1 {
                return Err("not yet".into());
            }
            context.result(&(words.len(), "ünïcode ☕"))?;
            let refused = context.result(&"x".repeat(8_192)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Config);
            Ok(())
        })
        .handler(GIVE_UP, |context, ()| {
            context.result(&1)?;
            Err::<(), _>("no".into())
        })
        .start()
        .unwrap();
    let words = vec!["a".to_owned(), "b".to_owned()];
    let [counted, failed] =
        [client.enqueue(COUNT, &words).run().unwrap().id(), client.enqueue(GIVE_UP, &()).run().unwrap().id()];
    let details = ended(&client, counted, "SUCCEEDED");
    assert_eq!(details.attempts.len(), 2);
    assert_eq!(details.result_as().unwrap(), Some((2, "ünïcode ☕".to_owned())));
    assert_eq!(details.result_as::<bool>().unwrap_err().kind(), ErrorKind::Data);
    assert_eq!(ended(&client, failed, "FAILED").result, None);
    assert!(scheduler.shutdown(SOON));
}
