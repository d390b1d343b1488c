//! Enqueued executions with async handlers: nodes die with a thousand of them in flight, ten clients race for
//! each key, and notifications are lost.

use std::sync::Barrier;
use std::time::Duration;

use firetime::{Client, Enqueued};

use super::cluster::{Cluster, QUICK, now};
use super::job::{TASK, TASKS};
use super::judge::{Keyed, Order};
use super::proxy::Proxy;
use super::runs::SETTLE;
use crate::support::database::ServerKind;
use crate::support::node::APPLICATION;

const CLIENTS: usize = 10;
/// How long a node that hears nothing may take to begin what is enqueued: its poll each second, and some to
/// spare.
const UNHEARD: i64 = 5_000;

pub fn a_thousand_tasks_die_with_their_node(kind: ServerKind) {
    let mut cluster = Cluster::start("tasks", kind, 3, QUICK);
    let from = now() + 1_000;
    cluster.load.pulse(&cluster.client, from, from + 30_000);
    cluster.load.times.insert(format!("queue:{}", TASK.name()), Vec::new());
    cluster.await_begin("pulse");

    cluster.enqueue(3 * TASKS, 5_000);
    let victim = cluster.await_tasks(TASKS);
    let id = cluster.node_id(victim);
    let held = cluster.running_on(&id);
    let killed = cluster.kill(victim);
    cluster.report.note("tasks", held);
    cluster.race_for_keys("first", 40);
    cluster.add(QUICK);
    cluster.during(Duration::from_secs(3));
    cluster.race_for_keys("second", 40);

    cluster.links.iter().flatten().for_each(|link| link.set_deaf(true));
    let unheard = cluster.enqueue(20, 10);
    cluster.during(Duration::from_millis(UNHEARD.unsigned_abs()));
    cluster.links.iter().flatten().for_each(|link| link.set_deaf(false));
    let lost = cluster.links.iter().flatten().map(Proxy::news_lost).sum::<usize>();
    assert!((lost > 0) == (kind.name() == "postgres"), "{lost} notifications were lost");
    cluster.heal();

    let settled = cluster.settle(false);
    let begins = |id: &i64| settled.history.effects.iter().find(|it| it.execution == *id);
    let late = unheard.iter().map(|id| begins(id).map_or(i64::MAX, |it| it.at - it.scheduled));
    cluster.report.measure("unheard_ms", late.max().unwrap(), UNHEARD);
    let (latest, given_up) = settled.settled(&id, killed);
    cluster.report.measure("settle_ms", latest, SETTLE);
    assert!(given_up >= held * 9 / 10, "{given_up} of {held} were taken from the node");
    cluster.conclude(&settled);
}

impl Cluster {
    /// Enqueues so many executions that take as many milliseconds.
    fn enqueue(&mut self, count: usize, millis: u64) -> Vec<i64> {
        let ids = self.client.enqueue_many(TASK, &vec![millis; count]).run().unwrap();
        let ids: Vec<i64> = ids.into_iter().map(i64::from).collect();
        let orders = ids.iter().map(|id| Order { execution: *id, payload: None });
        self.deeds.orders.get_or_insert_default().extend(orders);
        ids
    }

    /// A node that runs so many, all of which have begun.
    fn await_tasks(&mut self, count: usize) -> usize {
        let mut found = None;
        self.until("a node is full of tasks", Duration::from_secs(30), |cluster| {
            let ids: Vec<String> = (0..3).map(|node| cluster.node_id(node)).collect();
            let count = i64::try_from(count).unwrap();
            found = ids.iter().position(|id| cluster.running_on(id) >= count);
            found.is_some()
        });
        found.unwrap()
    }

    fn running_on(&mut self, node: &str) -> i64 {
        let tail = format!("FROM QRTZ_RUN WHERE node = '{node}' AND state = 'RUNNING'");
        self.hand.rows("COUNT(*)", &tail)[0][0].parse().unwrap()
    }

    /// Ten clients enqueue an execution with each key at the same time.
    fn race_for_keys(&mut self, what: &str, keys: usize) {
        let (url, barrier) = (self.admin_url(), Barrier::new(CLIENTS));
        let race = || {
            let client = Client::connect(APPLICATION, &url).unwrap();
            let key = |n: usize| {
                barrier.wait();
                let key = format!("{what} {n}");
                let answer = client.enqueue(TASK, &(200 + 10 * n as u64)).key(&key).run();
                answer.map(|answer| (key, answer)).map_err(|error| format!("{error:#}"))
            };
            (0..keys).map(key).collect::<Vec<_>>()
        };
        let answers: Vec<_> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(race)).collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        let answers: Vec<(String, Enqueued)> = answers.into_iter().collect::<Result<_, _>>().unwrap();
        let existing = answers.iter().filter(|(_, answer)| matches!(answer, Enqueued::Existing(_))).count();
        assert!(existing >= keys, "only {existing} of {} met another", answers.len());
        for (key, answer) in answers {
            if let Enqueued::Created(id) = answer {
                let execution = id.get();
                self.deeds.orders.get_or_insert_default().push(Order { execution, payload: None });
                self.deeds.keyed.push(Keyed { execution, key });
            }
        }
    }
}
