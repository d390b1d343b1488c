//! The pool on real threads. Nothing here sleeps: tests wait for events, with a deadline.

use std::cell::RefCell;
use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::*;
use crate::domain::Boot;

const DEADLINE: Duration = Duration::from_secs(20);

/// What the tests hear of.
#[derive(Debug, PartialEq)]
enum Event {
    Began(u32),
    Ended(u32),
    Freed,
    Panicked(String),
    ThreadEnded(String),
}
use Event::*;

enum Work {
    /// Says that it begins, waits to be let go, says that it ends.
    Job(u32, Receiver<()>),
    Panic(&'static str),
}

/// Lets a job go, at the latest when it is dropped.
type Gate = Sender<()>;

struct Bench {
    pool: Pool<Work>,
    events: Receiver<Event>,
    now: i64,
}

impl Bench {
    fn new(limits: PoolLimits) -> Self {
        let (tell, events) = channel();
        let notices = tell.clone();
        let notify = move |notice| match notice {
            Notice::Freed => notices.send(Freed).unwrap(),
            Notice::Panicked(said) => {
                notices.send(Panicked(said)).unwrap();
                panic!("a panic of the owner ends no thread either");
            }
            Notice::SpawnFailed(error) => panic!("{error}"),
            Notice::Blocked | Notice::Unblocked => panic!("it has no tasks"),
        };
        Self { pool: Pool::new("job", limits, move |work| run(work, &tell), notify), events, now: 0 }
    }

    fn job(&self, id: u32) -> Gate {
        self.submit(id, self.pool.reserve().expect("a seat"))
    }

    fn submit(&self, id: u32, permit: Permit<Work>) -> Gate {
        let (gate, go) = channel();
        Permit::submit(vec![(permit, Work::Job(id, go))], Boot::at(self.now));
        gate
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(DEADLINE).expect("an event within the deadline")
    }

    fn nothing_more(&self) {
        assert_eq!(self.events.try_recv(), Err(TryRecvError::Empty));
    }

    /// The numbers of the jobs handed back at `now`.
    fn tick(&mut self, now: i64) -> Vec<u32> {
        self.now = now;
        numbers(self.pool.tick(Boot::at(now)))
    }

    fn finish(&self, job: u32, gate: &Gate) {
        gate.send(()).unwrap();
        assert_eq!(self.next(), Ended(job));
    }
}

fn numbers(work: Vec<Work>) -> Vec<u32> {
    let number = |work| match work {
        Work::Job(number, _) => number,
        Work::Panic(why) => panic!("{why}"),
    };
    work.into_iter().map(number).collect()
}

fn run(work: Work, tell: &Sender<Event>) {
    announce_the_end_of_this_thread(tell);
    match work {
        Work::Job(id, go) => {
            let _ = tell.send(Began(id));
            let _ = go.recv();
            let _ = tell.send(Ended(id));
        }
        Work::Panic(why) => panic_any(why),
    }
}

struct OnEnd(Sender<Event>);

impl Drop for OnEnd {
    fn drop(&mut self) {
        let _ = self.0.send(ThreadEnded(thread::current().name().unwrap().to_string()));
    }
}

fn announce_the_end_of_this_thread(tell: &Sender<Event>) {
    thread_local!(static ON_END: RefCell<Option<OnEnd>> = const { RefCell::new(None) });
    ON_END.with_borrow_mut(|on_end| {
        on_end.get_or_insert_with(|| OnEnd(tell.clone()));
    });
}

#[test]
fn a_full_pool_neither_blocks_nor_loses() {
    let bench = Bench::new(PoolLimits::new(1, 2, 2));
    let permits = [(); 4].map(|()| bench.pool.reserve().expect("a seat"));
    let seats = permits.each_ref().map(Permit::seat);
    assert_eq!(seats, [Seat::Thread, Seat::Place, Seat::Place, Seat::Thread]);
    for _ in 0..1_000 {
        assert!(bench.pool.reserve().is_none());
    }

    let mut id = 0;
    let gates = permits.map(|permit| {
        id += 1;
        bench.submit(id, permit)
    });
    let mut began = [bench.next(), bench.next()];
    began.sort_by_key(|event| *event == Began(4));
    assert_eq!(began, [Began(1), Began(4)]);
    assert_eq!(
        bench.pool.figures(),
        Figures { threads: 2, busy: 2, queued: 2, reserved: 0, max: 2, queue: 2 }
    );
    assert!(bench.pool.reserve().is_none());
    bench.nothing_more();

    bench.finish(1, &gates[0]);
    let mut then = [bench.next(), bench.next()];
    then.sort_by_key(|event| *event == Freed);
    assert_eq!(then, [Began(2), Freed]);
    bench.finish(2, &gates[1]);
    assert_eq!(bench.next(), Began(3));
    bench.finish(3, &gates[2]);
    bench.finish(4, &gates[3]);
    assert!(bench.pool.wait_idle(DEADLINE));
    bench.nothing_more();
}

#[test]
fn a_panic_is_an_outcome_not_a_dead_thread() {
    let bench = Bench::new(PoolLimits::new(1, 1, 10));
    for _ in 0..3 {
        let permit = bench.pool.reserve().expect("a seat");
        Permit::submit(vec![(permit, Work::Panic("on purpose"))], Boot::at(0));
        assert_eq!(bench.next(), Panicked("on purpose".into()));
    }
    let gate = bench.job(1);
    assert_eq!(bench.next(), Began(1));
    let figures = bench.pool.figures();
    assert_eq!((figures.threads, figures.busy), (1, 1));
    bench.finish(1, &gate);
    assert!(bench.pool.wait_idle(DEADLINE));
    drop(bench.pool);
    assert_eq!(bench.events.recv_timeout(DEADLINE), Ok(ThreadEnded("job-1".into())));
}

#[test]
fn long_jobs_do_not_starve_the_queue() {
    let mut bench = Bench::new(PoolLimits::new(1, 2, 10));
    let _long = bench.job(1);
    assert_eq!(bench.next(), Began(1));
    let gates = [2, 3, 4].map(|id| bench.job(id));
    assert!(bench.tick(1_000).is_empty());
    bench.nothing_more();

    // Over 1 s: the pool grows, the longest waiting item goes first.
    assert!(bench.tick(1_001).is_empty());
    assert_eq!(bench.next(), Began(2));
    let _late = bench.job(5);
    // Over 5 s with no room to grow: handed back. The last came later and stays.
    assert!(bench.tick(5_000).is_empty());
    assert_eq!(bench.tick(5_001), [3, 4]);
    assert_eq!(bench.pool.figures().queued, 1);
    bench.finish(2, &gates[0]);
    assert_eq!(bench.next(), Began(5));
}

#[test]
fn spare_threads_above_core_retire_and_core_stays() {
    let mut bench = Bench::new(PoolLimits::new(1, 3, 0));
    let gates = [1, 2, 3].map(|id| {
        let gate = bench.job(id);
        assert_eq!(bench.next(), Began(id));
        gate
    });
    assert!(bench.tick(100).is_empty());
    (1..).zip(&gates).for_each(|(id, gate)| bench.finish(id, gate));
    assert!(bench.pool.wait_idle(DEADLINE));

    assert!(bench.tick(6_099).is_empty());
    assert_eq!(bench.pool.figures().threads, 3);
    assert!(bench.tick(6_100).is_empty());
    for _ in 0..2 {
        assert!(matches!(bench.next(), ThreadEnded(_)));
    }
    assert_eq!(bench.pool.figures().threads, 1);
    assert!(bench.tick(60_000).is_empty());
    let gate = bench.job(4);
    assert_eq!(bench.next(), Began(4));
    bench.finish(4, &gate);
}

#[test]
fn closing_returns_what_waits_and_lets_the_rest_finish() {
    let bench = Bench::new(PoolLimits::new(1, 1, 3));
    let running = bench.job(1);
    assert_eq!(bench.next(), Began(1));
    let _queued = [2, 3].map(|id| bench.job(id));
    let late = bench.pool.reserve().expect("the last place");

    assert_eq!(numbers(bench.pool.close()), [2, 3]);
    assert!(bench.pool.reserve().is_none());
    assert!(!bench.pool.wait_idle(Duration::from_millis(1)));
    let _late = bench.submit(4, late);
    assert_eq!(numbers(bench.pool.close()), [4]);
    bench.finish(1, &running);
    assert!(bench.pool.wait_idle(DEADLINE));
    assert_eq!(bench.next(), ThreadEnded("job-1".into()));
    assert_eq!(bench.pool.figures().threads, 0);
    bench.nothing_more();
}

#[test]
fn a_dropped_permit_is_told_to_whom_was_turned_away() {
    let bench = Bench::new(PoolLimits::new(1, 1, 0));
    let permit = bench.pool.reserve().expect("a seat");
    assert!(bench.pool.reserve().is_none());
    drop(permit);
    assert_eq!(bench.next(), Freed);
    assert_eq!(bench.pool.figures().reserved, 0);
    drop(bench.pool.reserve().expect("a seat"));
    bench.nothing_more();
}

/// Several dispatchers, all of them turned away again and again: each item runs once.
#[test]
fn a_busy_pool_runs_each_item_once() {
    const DISPATCHERS: usize = 4;
    const ITEMS: usize = 5_000;
    let counts: Arc<Vec<AtomicUsize>> =
        Arc::new((0..DISPATCHERS * ITEMS).map(|_| AtomicUsize::new(0)).collect());
    let (bells, rings): (Vec<Sender<()>>, Vec<_>) = (0..DISPATCHERS).map(|_| channel()).unzip();
    let bells = Mutex::new(bells);
    let run = {
        let counts = Arc::clone(&counts);
        move |item: usize| {
            counts[item].fetch_add(1, Ordering::Relaxed);
        }
    };
    let ring = move |_| {
        for bell in bells.lock().unwrap().iter() {
            let _ = bell.send(());
        }
    };
    let pool = Pool::new("job", PoolLimits::new(1, 3, 2), run, ring);
    thread::scope(|scope| {
        for (dispatcher, freed) in rings.into_iter().enumerate() {
            let pool = &pool;
            scope.spawn(move || {
                for item in (0..ITEMS).map(|item| dispatcher * ITEMS + item) {
                    let permit = loop {
                        match pool.reserve() {
                            Some(permit) => break permit,
                            None => freed.recv_timeout(DEADLINE).expect("to be told"),
                        }
                    };
                    Permit::submit(vec![(permit, item)], Boot::at(0));
                }
            });
        }
    });
    assert!(pool.wait_idle(DEADLINE));
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    assert!(pool.figures().threads <= 3);
}

/// Executions of several lanes start together.
#[test]
fn items_of_several_pools_are_handed_in_at_once() {
    let [one, two] = [(); 2].map(|()| Bench::new(PoolLimits::new(2, 2, 0)));
    let mut gates = Vec::new();
    let mut items = Vec::new();
    for (bench, id) in [(&one, 1), (&two, 2), (&one, 3), (&two, 4)] {
        let (gate, go) = channel();
        gates.push(gate);
        items.push((bench.pool.reserve().expect("a seat"), Work::Job(id, go)));
    }
    Permit::submit(items, Boot::at(0));
    for (bench, ids) in [(&one, [1, 3]), (&two, [2, 4])] {
        let began = [bench.next(), bench.next()];
        assert!(ids.iter().all(|id| began.contains(&Began(*id))), "{began:?}");
        assert_eq!((bench.pool.figures().busy, bench.pool.figures().reserved), (2, 0));
    }
    drop(gates);
    assert!(one.pool.wait_idle(DEADLINE) && two.pool.wait_idle(DEADLINE));
}

/// What keeps a seat is dropped on whatever thread, and no thread is made for any.
#[test]
fn a_pool_of_tasks_has_seats_and_no_threads() {
    let (launch, launched) = channel();
    let (free, freed) = channel();
    let launch = Mutex::new(launch);
    let free = Mutex::new(free);
    let launch = move |item: u32, occupied| {
        launch.lock().unwrap().send((item, occupied, thread::current().id())).unwrap()
    };
    let pool =
        Pool::of_tasks(2, launch, move |notice| free.lock().unwrap().send(format!("{notice:?}")).unwrap());
    let permits: Vec<_> = std::iter::from_fn(|| pool.reserve()).collect();
    assert_eq!((permits.len(), pool.figures().reserved), (2, 2));
    Permit::submit(permits.into_iter().zip([1, 2]).collect(), Boot::at(0));
    let [first, second] = [(); 2].map(|()| launched.try_recv().unwrap());
    assert_eq!((first.0, second.0, first.2), (1, 2, thread::current().id()));
    assert!(pool.reserve().is_none() && !pool.wait_idle(Duration::ZERO));
    drop(first);
    assert_eq!(freed.try_recv().as_deref(), Ok("Freed"));
    assert_eq!((pool.figures().busy, pool.close().len()), (1, 0));
    assert!(pool.reserve().is_none(), "it is closed");
    drop(second);
    assert!(pool.wait_idle(Duration::ZERO));
}

/// A task that is polled after all finds nothing left, and says that there are seats again.
#[test]
fn items_whose_tasks_are_not_polled_are_handed_back_and_no_seat_is_given_out() {
    let (launch, launched) = channel();
    let (tell, told) = channel();
    let (launch, tell) = (Mutex::new(launch), Mutex::new(tell));
    let launch = move |item: u32, mut occupied: Occupied<u32>| {
        occupied.await_poll(item, Boot::at(0));
        launch.lock().unwrap().send(occupied).unwrap();
    };
    let pool =
        Pool::of_tasks(3, launch, move |notice| tell.lock().unwrap().send(format!("{notice:?}")).unwrap());
    let permits: Vec<_> = [1, 2].into_iter().map(|item| (pool.reserve().unwrap(), item)).collect();
    Permit::submit(permits, Boot::at(0));
    let mut tasks: Vec<_> = launched.try_iter().collect();
    assert_eq!(tasks[1].polled(), Some(1), "the longest wait first, whichever task is polled");
    assert!(pool.is_awaited() && pool.tick(Boot::at(5_000)).is_empty());
    assert_eq!((pool.tick(Boot::at(5_001)), told.try_recv().as_deref()), (vec![2], Ok("Blocked")));
    assert!(pool.is_blocked() && !pool.is_awaited() && pool.reserve().is_none());
    assert_eq!(pool.figures().busy, 1, "the other runs");
    assert_eq!(tasks[0].polled(), None);
    assert_eq!([told.try_recv(), told.try_recv()].map(Result::unwrap), ["Freed", "Unblocked"]);
    assert!(!pool.is_blocked() && pool.reserve().is_some());
    drop(tasks);
    assert!(pool.wait_idle(Duration::ZERO));
}

/// Nor at the end of the pool.
#[test]
fn items_whose_tasks_are_not_polled_wait() {
    let (launch, launched) = channel();
    let launch = Mutex::new(launch);
    let launch = move |item: u32, mut occupied: Occupied<u32>| {
        occupied.await_poll(item, Boot::at(0));
        launch.lock().unwrap().send(occupied).unwrap();
    };
    let pool = Pool::of_tasks(1, launch, |notice| panic!("{notice:?}"));
    Permit::submit(vec![(pool.reserve().unwrap(), 1)], Boot::at(0));
    assert_eq!(pool.empty(), [1]);
    assert!(!pool.is_blocked() && pool.wait_idle(Duration::ZERO));
    assert_eq!(launched.try_recv().unwrap().polled(), None);
}

#[test]
fn a_launch_that_panics_gives_its_seat_back() {
    let (tell, told) = channel();
    let launch = |_: u32, _| panic!("no runtime");
    let tell = Mutex::new(tell);
    let pool =
        Pool::of_tasks(1, launch, move |notice| tell.lock().unwrap().send(format!("{notice:?}")).unwrap());
    let permit = pool.reserve().unwrap();
    Permit::submit(vec![(permit, 1)], Boot::at(0));
    assert_eq!(told.try_recv().as_deref(), Ok("Panicked(\"no runtime\")"));
    assert!(pool.wait_idle(Duration::ZERO) && pool.reserve().is_some());
}
