//! What handlers say beside their answers: results, lines, and how far they have come.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use firetime::{
    Answer, Client, ErrorKind, ExecutionDetails, ExecutionId, ExecutionLogs, ExecutionState, Job, Progress,
    Retry,
};
use libtest_mimic::Trial;

use crate::support::database::ServerKind;
use crate::support::scheduler::{SOON, builder, client, teller, until};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let tests: &[(&str, fn(ServerKind))] = &[
        ("a_result_is_stored_with_the_success_that_left_it", a_result_is_stored_with_its_success),
        ("what_a_handler_says_is_read_while_it_runs", what_a_handler_says_is_read_while_it_runs),
        ("last_words_are_stored_before_the_outcome", last_words_are_stored_before_the_outcome),
        #[cfg(feature = "cli")]
        ("the_program_shows_what_handlers_say", the_program_shows_what_handlers_say),
        #[cfg(feature = "cli")]
        ("the_program_follows_beyond_a_time_limit", the_program_follows_beyond_a_time_limit),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("{}::saying::{name}", kind.name()), move || test(kind)));
    }
}

/// The execution once its last attempt has this state.
fn ended(client: &Client, id: ExecutionId, state: &str) -> ExecutionDetails {
    until("it does not end", || {
        let details = client.execution(id).unwrap();
        (details.last().state.as_str() == state).then_some(details)
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
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// Each line with its attempt.
fn lines(logs: &ExecutionLogs) -> Vec<(u32, &str)> {
    logs.lines.iter().map(|line| (line.attempt, line.text.as_str())).collect()
}

fn progress(logs: &ExecutionLogs) -> Option<(u64, u64)> {
    logs.progress.map(|Progress { done, total, .. }| (done, total))
}

/// And by what it has said before a snooze and before a retry, afterwards.
fn what_a_handler_says_is_read_while_it_runs(kind: ServerKind) {
    const EXPORT: Job<()> = Job::new("export").retry(Retry::fixed(Duration::ZERO).at_most(1));
    let database = kind.fresh();
    let client = client(&database);
    let (open, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let scheduler = builder(&database)
        .handler(EXPORT, move |context, ()| {
            if context.attempt() == 1 && context.snoozes() == 0 {
                context.log("first run");
                context.progress(1, 3);
                gate.lock().unwrap().recv().ok();
                context.progress(2, 3);
                return Ok(Answer::Snooze(Duration::ZERO));
            }
            context.log(format!("attempt {}", context.attempt()));
            if context.attempt() == 1 { Err("no paper".into()) } else { Ok(Answer::Done) }
        })
        .start()
        .unwrap();
    let id = client.enqueue(EXPORT, &()).run().unwrap().id();
    let running = until("nothing is stored", || {
        let logs = client.logs(id).unwrap();
        (!logs.lines.is_empty()).then_some(logs)
    });
    assert_eq!((lines(&running), progress(&running)), (vec![(1, "first run")], Some((1, 3))));
    assert_eq!(client.execution(id).unwrap().last().state, ExecutionState::Running);
    drop(open);
    let details = ended(&client, id, "SUCCEEDED");
    let logs = client.logs(details.last().id).unwrap();
    assert_eq!(lines(&logs), [(1, "first run"), (1, "attempt 1"), (2, "attempt 2")]);
    assert_eq!(progress(&logs), Some((2, 3)), "the second attempt did not tell");
    let unknown = client.logs(id.get() + 1_000).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// Whoever sees the outcome sees them, too; and nothing that is said once the handler has returned.
fn last_words_are_stored_before_the_outcome(kind: ServerKind) {
    const SAY: Job<u32> = Job::new("say");
    let database = kind.fresh();
    let client = client(&database);
    let (tell, told) = teller();
    let scheduler = builder(&database)
        .handler(SAY, move |context, count| {
            (0..count).for_each(|n| context.log(format!("line {n}")));
            tell.lock().unwrap().send(context.clone())?;
            Ok(())
        })
        .start()
        .unwrap();
    for count in [1, 3, 201] {
        let id = client.enqueue(SAY, &count).run().unwrap().id();
        ended(&client, id, "SUCCEEDED");
        told.recv().unwrap().log("too late");
        let logs = client.logs(id).unwrap();
        let last = format!("line {}", count - 1);
        assert_eq!(logs.lines.last().map(|line| line.text.as_str()), Some(last.as_str()));
        assert_eq!(logs.lines.len(), usize::try_from(count.min(200)).unwrap());
    }
    let silent = client.enqueue(SAY, &0).run().unwrap().id();
    ended(&client, silent, "SUCCEEDED");
    assert_eq!(client.logs(silent).unwrap(), ExecutionLogs::default());
    assert!(scheduler.shutdown(SOON).is_clean());
}

#[cfg(feature = "cli")]
fn the_program_shows_what_handlers_say(kind: ServerKind) {
    use crate::support::scheduler::APPLICATION;
    use std::process::Command;

    const NASTY: &str = "=a'\"\\`$(b)\u{1b}[2J\r\nERROR made up\u{9b}1m\u{202e}é☕";
    const SAY: Job<()> = Job::new("say");
    let database = kind.fresh();
    let client = client(&database);
    let scheduler = builder(&database)
        .handler(SAY, |context, ()| {
            context.log(NASTY);
            context.progress(3, 7);
            context.result(&NASTY)?;
            Ok(())
        })
        .start()
        .unwrap();
    let id = client.enqueue(SAY, &()).run().unwrap().id();
    let said = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firetime"));
        command.env("FIRETIME_DATABASE_URL", &database.url).env("FIRETIME_APPLICATION", APPLICATION);
        let output = command.arg("executions").args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let steers = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(output.status.success() && !text.contains(steers), "{text:?} {:?}", output.stderr);
        text
    };
    let id = id.to_string();
    let followed = said(&["logs", &id, "--follow"]);
    assert!(followed.contains(r"\u{1b}[2J\r\nERROR made up") && followed.contains("INFO"), "{followed}");
    assert!(followed.contains("progress: 3 of 7") && followed.contains("é☕"), "{followed}");
    let jsonl = said(&["logs", &id, "--follow", "--output", "jsonl"]);
    let line: serde_json::Value = serde_json::from_str(&jsonl).unwrap();
    assert_eq!((line["text"].as_str(), line["level"].as_str()), (Some(NASTY), Some("INFO")));
    assert!(said(&["logs", &id, "--output", "csv"]).contains("'=a'"));
    assert_eq!(said(&["logs", &id]).lines().count(), 2);
    let shown = said(&["show", &id]);
    assert!(shown.contains("progress") && shown.contains("3 of 7") && shown.contains("made up"), "{shown}");
    let shown: serde_json::Value = serde_json::from_str(&said(&["show", &id, "--output", "json"])).unwrap();
    assert_eq!((&shown["lines"][0]["text"], &shown["progress"]["total"]), (&NASTY.into(), &7.into()));
    assert!(scheduler.shutdown(SOON).is_clean());
}

/// Its handler runs on, and another attempt follows.
#[cfg(feature = "cli")]
fn the_program_follows_beyond_a_time_limit(kind: ServerKind) {
    use crate::support::scheduler::APPLICATION;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    const SLOW: Job<()> = Job::new("slow")
        .time_limit(Duration::from_millis(100))
        .retry(Retry::fixed(Duration::ZERO).at_most(1));
    let database = kind.fresh();
    let client = client(&database);
    let (open, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let scheduler = builder(&database)
        .handler(SLOW, move |context, ()| {
            if context.attempt() == 1 {
                gate.lock().unwrap().recv()?;
                context.log("beyond its limit");
                gate.lock().unwrap().recv()?;
            }
            context.log(format!("attempt {}", context.attempt()));
            Ok(())
        })
        .start()
        .unwrap();
    let id = client.enqueue(SLOW, &()).run().unwrap().id();
    let mut follower = Command::new(env!("CARGO_BIN_EXE_firetime"))
        .args(["executions", "logs", &id.to_string(), "--follow"])
        .env("FIRETIME_DATABASE_URL", &database.url)
        .env("FIRETIME_APPLICATION", APPLICATION)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    ended(&client, id, "TIMED_OUT");
    open.send(()).unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().is_some_and(|line| line.ends_with("beyond its limit")));
    open.send(()).unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(rest.last().is_some_and(|line| line.ends_with("attempt 2")), "{rest:?}");
    assert!(follower.wait().unwrap().success());
    assert!(scheduler.shutdown(SOON).is_clean());
}
