//! The names that a test may ask for, and what it may have meant by another one.

use super::TestCluster;
use crate::store::Verbs as _;
use crate::store::enqueue::QUEUE_PREFIX;

/// So many names are told.
const TOLD: usize = 20;

impl TestCluster {
    /// Refuses a name that no schedule or queue has had: `never()` would hold for any misspelt name.
    ///
    /// # Panics
    /// If it is none of a schedule, a removed one included, nor of the queue of a job that has had a handler,
    /// a schedule or an execution.
    #[track_caller]
    pub(super) fn check_name(&self, name: &str) {
        let found = self.store.find(&self.application, name);
        let known = if matches!(found, Ok(None)) { self.names() } else { return };
        let is_known = known.iter().any(|it| it == name);
        assert!(is_known, "{}", unknown(name, &known));
    }

    /// The schedules, and the queues of all jobs.
    fn names(&self) -> Vec<String> {
        let (schedules, jobs) = (self.client().schedules(), self.client().jobs());
        let schedules = schedules.unwrap_or_default().into_iter().map(|it| it.name);
        let queues = jobs.unwrap_or_default().into_iter().map(|it| format!("{QUEUE_PREFIX}{}", it.name));
        schedules.chain(queues).collect()
    }
}

/// What is said of a name that is none of these.
fn unknown(name: &str, known: &[String]) -> String {
    let mut text = format!("nothing is called {name:?}: no schedule, and no queue of a job");
    if let Some(meant) = nearest(name, known) {
        text += &format!("; did you mean {meant:?}?");
    } else if known.is_empty() {
        text += "; the cluster has none yet";
    } else {
        let more = if known.len() > TOLD { ", .." } else { "" };
        text += &format!("; there are {:?}{more}", &known[..known.len().min(TOLD)]);
    }
    text + " (That there is no such schedule is asked of `cluster.client().schedule(..)`)"
}

/// The known name that is like it: with or without `queue:`, or with up to a third of its letters changed.
fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let bare = |it: &str| it.strip_prefix(QUEUE_PREFIX).unwrap_or(it).to_lowercase();
    let wanted = bare(name);
    let likely = known.iter().map(|it| (distance(&wanted, &bare(it)), it));
    let (distance, meant) = likely.min_by_key(|(distance, _)| *distance)?;
    (distance <= wanted.chars().count() / 3).then_some(meant)
}

/// How many letters must be put in, left out or changed to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for letter in one.chars() {
        let mut above_left = row[0];
        row[0] += 1;
        for (place, theirs) in other.iter().enumerate() {
            let changed = above_left + usize::from(letter != *theirs);
            above_left = row[place + 1];
            row[place + 1] = changed.min(above_left + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::api::{Job, Schedule};
    use crate::trigger::Trigger;

    const SHIP: Job<()> = Job::new("ship");
    const LATER: Job<()> = Job::new("later");

    #[test]
    fn letters_are_counted() {
        for (one, other, count) in
            [("ship", "ship", 0), ("", "abc", 3), ("shipp", "ship", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!((distance(one, other), distance(other, one)), (count, count), "{one} {other}");
        }
    }

    fn said(cluster: &TestCluster, name: &str) -> String {
        let asked = catch_unwind(AssertUnwindSafe(|| cluster.ran(name).never()));
        *asked.expect_err(name).downcast::<String>().unwrap()
    }

    #[test]
    fn a_misspelt_name_is_no_name_of_what_never_ran() {
        let mut cluster = TestCluster::new("shop");
        assert!(said(&cluster, "ship").contains("the cluster has none yet"));
        cluster.node(|node| node.handler(SHIP, |_, ()| Ok(()))).unwrap();
        let nightly = Trigger::cron("0 0 2 * * ?", "UTC").unwrap();
        cluster.client().ensure(&Schedule::new("Nightly", SHIP, &(), nightly).unwrap()).run().unwrap();
        for (name, meant) in [
            ("shipp", "queue:ship"),
            ("ship", "queue:ship"),
            ("queue:Nightly", "Nightly"),
            ("nigthly", "Nightly"),
        ] {
            let text = said(&cluster, name);
            assert!(text.contains(&format!("did you mean {meant:?}?")), "{text}");
        }
        let text = said(&cluster, "import");
        assert!(text.contains("\"import\"") && text.contains("[\"Nightly\", \"queue:ship\"]"), "{text}");
    }

    #[test]
    fn what_never_ran_may_be_asked_for() {
        let mut cluster = TestCluster::new("shop");
        cluster.node(|node| node.handler(SHIP, |_, ()| Ok(()))).unwrap();
        cluster.ran("queue:ship").never();
        // Nothing has a handler for it.
        cluster.client().enqueue(LATER, &()).run().unwrap();
        cluster.failed("queue:later").never();
        cluster.enqueued(Job::<()>::new("unheard-of")).never();
        let nightly = Trigger::cron("0 0 2 * * ?", "UTC").unwrap();
        cluster.client().ensure(&Schedule::new("nightly", SHIP, &(), nightly).unwrap()).run().unwrap();
        cluster.client().remove("nightly").run().unwrap();
        cluster.skipped("nightly").never();
    }
}
