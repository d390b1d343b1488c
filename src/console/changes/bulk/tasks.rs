//! Changes of many, under way: they go on whoever looks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::order::Item;
use super::verb::BulkVerb;
use crate::Client;
use crate::console::web::said::Said;
use crate::console::web::trouble::Trouble;

/// So many may be under way at once.
const MOST_RUNNING: usize = 2;
/// So many are remembered after their end.
const REMEMBERED: usize = 50;
/// So many of those that were left as they were are told.
const TOLD: usize = 20;

/// The change that each item gets, and its author.
#[derive(Clone, Debug)]
pub(crate) struct What {
    pub(crate) verb: BulkVerb,
    pub(crate) by: String,
}

/// How far a change has come.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) id: String,
    pub(crate) what: What,
    pub(crate) total: usize,
    pub(crate) done: usize,
    pub(crate) changed: usize,
    pub(crate) left: usize,
    /// Why the first of them were left as they were.
    pub(crate) told: Vec<String>,
    /// How it ended; none while it goes on.
    pub(crate) ended: Option<End>,
    is_to_stop: bool,
}

/// How a change ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// Somebody has stopped it.
    Stopped,
    /// Before the end, for this reason.
    Failed(String),
}

impl End {
    /// Why it was before the last of them; empty if it was not.
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Done => "",
            Self::Stopped => "It was stopped; what it had changed stays so.",
            Self::Failed(why) => why,
        }
    }
}

/// The changes under way, and the last that have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks(Arc<Mutex<Vec<Progress>>>);

impl Tasks {
    fn locked(&self) -> MutexGuard<'_, Vec<Progress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn progress(&self, id: &str) -> Option<Progress> {
        self.locked().iter().find(|it| it.id == id).cloned()
    }

    /// Lets one end before the next step. Whether it goes on.
    pub(crate) fn stop(&self, id: &str) -> bool {
        let mut tasks = self.locked();
        let running = tasks.iter_mut().find(|it| it.id == id && it.ended.is_none());
        running.map(|it| it.is_to_stop = true).is_some()
    }

    /// Does the same to each of these on a thread of its own. Its id.
    ///
    /// Within a blocking call of the runtime around the console, whose threads it takes.
    pub(crate) fn start(
        &self,
        client: &Client,
        what: What,
        items: Vec<Item>,
        step: impl Fn(&Client, &Item) -> Result<Said, Trouble> + Send + 'static,
    ) -> Result<String, Trouble> {
        let id = Uuid::new_v4().simple().to_string();
        let mut tasks = self.locked();
        if tasks.iter().filter(|it| it.ended.is_none()).count() >= MOST_RUNNING {
            let said = "Two changes of many are under way: wait for the end of one, or stop it.";
            return Err(Trouble::wrong(said));
        }
        let ended = tasks.iter().filter(|it| it.ended.is_some()).count();
        if ended >= REMEMBERED
            && let Some(oldest) = tasks.iter().position(|it| it.ended.is_some())
        {
            tasks.remove(oldest);
        }
        tasks.push(Progress::new(id.clone(), what, items.len()));
        drop(tasks);
        let (task, client, name) = (self.clone(), client.clone(), id.clone());
        tokio::task::spawn_blocking(move || task.run(&name, &items, |item| step(&client, item)));
        Ok(id)
    }

    fn run(&self, id: &str, items: &[Item], step: impl Fn(&Item) -> Result<Said, Trouble>) {
        let end = |end: End| self.change(id, |it| it.ended = Some(end.clone()));
        for item in items {
            if self.progress(id).is_none_or(|it| it.is_to_stop) {
                return end(End::Stopped);
            }
            // A change that panics would be under way for good. The panic itself is in the process's log.
            match catch_unwind(AssertUnwindSafe(|| step(item))) {
                Ok(Ok(said)) => self.change(id, |it| it.count(&said)),
                Ok(Err(trouble)) if trouble.status.is_client_error() => {
                    self.change(id, |it| it.count(&Said::not_done(trouble.said.clone())));
                }
                Ok(Err(trouble)) => {
                    return end(End::Failed(format!("It stopped at {}: {}", item.name, trouble.said)));
                }
                Err(_) => {
                    log::error!("console: a change of many panicked at {}", item.name);
                    return end(End::Failed(panicked(item)));
                }
            }
        }
        end(End::Done);
    }

    fn change(&self, id: &str, change: impl Fn(&mut Progress)) {
        if let Some(it) = self.locked().iter_mut().find(|it| it.id == id) {
            change(it);
        }
    }
}

/// What people are told of a panic; the panic's own words are for the log.
fn panicked(item: &Item) -> String {
    format!(
        "It stopped at {}, which may have been changed: something in the console itself went wrong, and the log \
         of its process says what.",
        item.name
    )
}

impl Progress {
    fn new(id: String, what: What, total: usize) -> Self {
        let (done, changed, left) = (0, 0, 0);
        Self { id, what, total, done, changed, left, told: Vec::new(), ended: None, is_to_stop: false }
    }

    fn count(&mut self, said: &Said) {
        self.done += 1;
        if said.is_done {
            self.changed += 1;
            return;
        }
        self.left += 1;
        if self.told.len() < TOLD {
            self.told.push(said.sentence.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::words::Badge;

    fn tasks(id: &str, total: usize) -> Tasks {
        let tasks = Tasks::default();
        let what = What { verb: BulkVerb::Cancel, by: "ann".to_owned() };
        tasks.locked().push(Progress::new(id.to_owned(), what, total));
        tasks
    }

    fn items(ids: &[i64]) -> Vec<Item> {
        let item = |id: &i64| Item {
            id: *id,
            name: id.to_string(),
            to: String::new(),
            of: String::new(),
            at: None,
            badge: Badge::of_execution("PENDING"),
        };
        ids.iter().map(item).collect()
    }

    fn failed(it: Progress) -> String {
        match it.ended {
            Some(End::Failed(why)) => why,
            ended => panic!("{ended:?}"),
        }
    }

    #[test]
    fn each_is_counted_as_changed_or_left() {
        let tasks = tasks("a", 3);
        let step = |item: &Item| match item.id {
            1 => Ok(Said::done("it is")),
            2 => Ok(Said::not_done("it was so")),
            _ => Err(Trouble::not_found("it is gone")),
        };
        tasks.run("a", &items(&[1, 2, 3]), step);
        let it = tasks.progress("a").unwrap();
        assert_eq!((it.done, it.changed, it.left, it.ended.clone()), (3, 1, 2, Some(End::Done)));
        assert_eq!(it.told, ["it was so", "it is gone"]);
    }

    #[test]
    fn it_stops_before_the_next_when_it_is_to_or_the_database_is_away() {
        let stopped = tasks("a", 2);
        let stop = |_: &Item| {
            assert!(stopped.stop("a"));
            Ok(Said::done("it is"))
        };
        stopped.run("a", &items(&[1, 2]), stop);
        let it = stopped.progress("a").unwrap();
        assert_eq!((it.done, it.ended), (1, Some(End::Stopped)));
        assert!(!stopped.stop("a") && !stopped.stop("b"), "it has ended");
        let away = tasks("a", 2);
        away.run("a", &items(&[1, 2]), |_| Err(Trouble::away()));
        let it = away.progress("a").unwrap();
        assert!(it.done == 0 && failed(it).starts_with("It stopped at 1: The database"));
    }

    #[tokio::test]
    async fn one_that_panics_has_failed_and_keeps_no_further_ones_away() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("shop.db").display());
        crate::migrate(&url).unwrap();
        let client = Client::connect("shop", &url).unwrap();
        let what = What { verb: BulkVerb::Cancel, by: "ann".to_owned() };
        let tasks = Tasks::default();
        for _ in 0..=MOST_RUNNING {
            let step = |_: &Client, item: &Item| match item.id {
                1 => Ok(Said::done("it is")),
                _ => panic!("a secret"),
            };
            let id = tasks.start(&client, what.clone(), items(&[1, 2, 3]), step).unwrap();
            while tasks.progress(&id).unwrap().ended.is_none() {
                tokio::task::yield_now().await;
            }
            let it = tasks.progress(&id).unwrap();
            assert_eq!((it.done, it.changed), (1, 1));
            let why = failed(it);
            assert!(
                why.starts_with("It stopped at 2, which may have been") && !why.contains("secret"),
                "{why}"
            );
        }
    }
}
