//! The model check: the core, on simulated threads that are scheduled in thousands of ways.
//!
//! A lost item or a lost wake-up shows as a deadlock, since every scenario waits for all its items
//! and then for the end of every thread.

use std::cell::Cell;
use std::io;
use std::panic;
use std::sync::{Arc, Once};
use std::time::Duration;

use shuttle::sync::{Condvar, Mutex};
use shuttle::{check_pct, check_random, thread};

use super::admission;
use super::admission::{PoolLimits, Seat};
use super::floor;
use crate::domain::Boot;

use self::core::{Notice, Occupied, Permit, Pool};

/// The same file as the pool's own core, on the primitives below.
#[path = "core.rs"]
#[allow(clippy::duplicate_mod, reason = "the same core on simulated threads")]
mod core;

mod sync {
    use std::cell::{Cell, RefCell};
    use std::io;

    use shuttle::thread;

    pub(super) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};

    // All simulated threads of a scenario share one real thread.
    thread_local! {
        static SPAWNED: RefCell<Vec<thread::JoinHandle<()>>> = const { RefCell::new(Vec::new()) };
        static TO_FAIL: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        if TO_FAIL.get() > 0 {
            TO_FAIL.set(TO_FAIL.get() - 1);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let spawned = thread::Builder::new().name(name).spawn(body)?;
        SPAWNED.with_borrow_mut(|all| all.push(spawned));
        Ok(())
    }

    pub(super) fn fail_spawns(count: usize) {
        TO_FAIL.set(count);
    }

    pub(super) fn join_all() {
        for thread in SPAWNED.take() {
            thread.join().unwrap();
        }
    }
}

/// Schedules a scenario and scheduler.
const ITERATIONS: usize = 600;

thread_local! {
    /// This thread explores a scenario: its panics are for the model checker's hook.
    static EXPLORES: Cell<bool> = const { Cell::new(false) };
}

/// The model checker installs its panic hook for all threads, once. Other tests' panics go by it.
fn keep_the_hook_apart() {
    static APART: Once = Once::new();
    APART.call_once(|| {
        let others = panic::take_hook();
        check_random(|| {}, 1);
        let checkers = panic::take_hook();
        panic::set_hook(Box::new(move |info| if EXPLORES.get() { checkers(info) } else { others(info) }));
    });
}

fn explore(scenario: fn()) {
    keep_the_hook_apart();
    EXPLORES.set(true);
    check_random(scenario, ITERATIONS);
    check_pct(scenario, ITERATIONS, 3);
    EXPLORES.set(false);
}

/// A count that can be waited for.
#[derive(Default)]
struct Tally {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Tally {
    fn add(&self) {
        *self.count.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    fn get(&self) -> usize {
        *self.count.lock().unwrap()
    }

    fn wait_for(&self, enough: usize) {
        let count = self.count.lock().unwrap();
        drop(self.changed.wait_while(count, |count| *count < enough).unwrap());
    }
}

/// The stage of a scenario: a pool of numbered items, and their fates.
struct Bench {
    pool: Pool<u32>,
    ran: Arc<Mutex<Vec<u32>>>,
    runs: Arc<Tally>,
    freed: Arc<Tally>,
    failed: Arc<Mutex<Vec<io::Error>>>,
}

impl Bench {
    fn new(limits: PoolLimits, run: impl Fn(u32) + Send + Sync + 'static) -> Arc<Self> {
        Self::over(run, |record, notify| Pool::new("job", limits, record, notify))
    }

    /// Each of its tasks is run by a thread that is not the pool's.
    fn of_tasks(most: usize) -> Arc<Self> {
        Self::over(
            |_| {},
            |record, notify| {
                let record = Arc::new(record);
                let launch = move |item, mut occupied: Occupied<u32>| {
                    let record = Arc::clone(&record);
                    occupied.await_poll(item, Boot::at(0));
                    let task = move || {
                        occupied.polled().into_iter().for_each(&*record);
                        drop(occupied);
                    };
                    sync::spawn("task".to_owned(), task).unwrap();
                };
                Pool::of_tasks(most, launch, notify)
            },
        )
    }

    fn over(
        run: impl Fn(u32) + Send + Sync + 'static,
        pool: impl FnOnce(Box<dyn Fn(u32) + Send + Sync>, Box<dyn Fn(Notice) + Send + Sync>) -> Pool<u32>,
    ) -> Arc<Self> {
        let (ran, runs, freed) = <(Arc<Mutex<Vec<u32>>>, Arc<Tally>, Arc<Tally>)>::default();
        let failed = Arc::<Mutex<Vec<io::Error>>>::default();
        let record = {
            let (ran, runs) = (Arc::clone(&ran), Arc::clone(&runs));
            move |item| {
                run(item);
                ran.lock().unwrap().push(item);
                runs.add();
            }
        };
        let notify = {
            let (freed, failed) = (Arc::clone(&freed), Arc::clone(&failed));
            move |notice| match notice {
                Notice::Freed => freed.add(),
                Notice::SpawnFailed(error) => failed.lock().unwrap().push(error),
                Notice::Panicked(said) => panic!("{said}"),
                Notice::Blocked | Notice::Unblocked => {}
            }
        };
        let pool = pool(Box::new(record), Box::new(notify));
        Arc::new(Self { pool, ran, runs, freed, failed })
    }

    /// As the dispatcher does it: when the pool is full, waits until it says otherwise.
    fn reserve(&self) -> Permit<u32> {
        loop {
            let freed = self.freed.get();
            match self.pool.reserve() {
                Some(permit) => return permit,
                None => self.freed.wait_for(freed + 1),
            }
        }
    }

    fn submit(&self, item: u32) {
        Permit::submit(vec![(self.reserve(), item)], Boot::at(0));
    }

    /// Waits for `runs` runs and the end of all threads; `0..items` were each run, or handed back.
    fn finish(self: Arc<Self>, runs: usize, mut handed_back: Vec<u32>, items: u32) {
        self.runs.wait_for(runs);
        let figures = self.pool.figures();
        assert!(figures.threads <= figures.max);
        handed_back.extend(self.pool.close());
        assert!(self.pool.reserve().is_none());
        assert!(self.pool.wait_idle(Duration::ZERO));
        sync::join_all();
        let figures = self.pool.figures();
        assert_eq!((figures.threads, figures.busy), (0, 0));
        assert!(!self.pool.is_awaited() && !self.pool.is_blocked());
        handed_back.append(&mut self.ran.lock().unwrap());
        handed_back.sort_unstable();
        assert_eq!(handed_back, (0..items).collect::<Vec<_>>());
    }
}

fn aside<R: 'static + Send>(
    bench: &Arc<Bench>,
    body: impl FnOnce(&Bench) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let bench = Arc::clone(bench);
    thread::spawn(move || body(&bench))
}

fn join<R>(threads: impl IntoIterator<Item = thread::JoinHandle<R>>) -> Vec<R> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn no_item_is_lost_or_run_twice_and_no_freed_seat_goes_untold() {
    explore(|| {
        let bench = Bench::new(PoolLimits::new(1, 2, 1), |_| {});
        let submitting = [[0, 1, 2], [3, 4, 5]]
            .map(|items| aside(&bench, move |bench| items.map(|item| bench.submit(item))));
        join(submitting);
        bench.finish(6, vec![], 6);
    });
}

#[test]
fn no_task_is_lost_or_run_twice_and_no_freed_seat_goes_untold() {
    explore(|| {
        let bench = Bench::of_tasks(2);
        let submitting =
            [[0, 1], [2, 3]].map(|items| aside(&bench, move |bench| items.map(|item| bench.submit(item))));
        join(submitting);
        bench.finish(4, vec![], 4);
    });
}

/// A blocked pool gives out seats again once a task is polled.
#[test]
fn a_task_is_run_or_handed_back() {
    explore(|| {
        let bench = Bench::of_tasks(2);
        let ticking = aside(&bench, |bench| bench.pool.tick(Boot::at(5_001)));
        let submitting = aside(&bench, |bench| [0, 1, 2].map(|item| bench.submit(item)));
        let handed_back = ticking.join().unwrap();
        submitting.join().unwrap();
        bench.finish(3 - handed_back.len(), handed_back, 3);
    });
}

#[test]
fn a_dropped_permit_is_a_seat_for_another() {
    explore(|| {
        let bench = Bench::new(PoolLimits::new(1, 1, 1), |_| {});
        let dropping = [0; 2].map(|_| aside(&bench, |bench| drop((bench.reserve(), bench.pool.reserve()))));
        bench.submit(0);
        bench.submit(1);
        join(dropping);
        bench.finish(2, vec![], 2);
    });
}

/// The items that were promised a thread end only when all of them have begun, and the others only
/// after that.
#[test]
fn a_promised_start_waits_for_no_other_item() {
    explore(|| {
        let begun = Arc::<Tally>::default();
        let run = {
            let begun = Arc::clone(&begun);
            move |item| {
                if item < 3 {
                    begun.add();
                }
                begun.wait_for(if item < 5 { 3 } else { 0 });
            }
        };
        let bench = Bench::new(PoolLimits::new(1, 3, 2), run);
        // Spends the first thread seat once beforehand, so that a spare thread may be about.
        bench.submit(5);
        assert!(bench.pool.wait_idle(Duration::ZERO));

        let permits: Vec<_> = (0..5).map_while(|_| bench.pool.reserve()).collect();
        assert!(bench.pool.reserve().is_none());
        let (threads, places): (Vec<_>, Vec<_>) =
            permits.into_iter().partition(|permit| permit.seat() == Seat::Thread);
        let submitting: Vec<_> = (0..)
            .zip(threads)
            .chain((3..).zip(places))
            .map(|(item, permit)| thread::spawn(move || Permit::submit(vec![(permit, item)], Boot::at(0))))
            .collect();
        join(submitting);
        bench.finish(6, vec![], 6);
    });
}

/// A seat above core is promised; the queue goes on beside it and does not take what it needs.
#[test]
fn the_queue_moves_on_beside_a_promise() {
    explore(|| {
        let begun = Arc::<Tally>::default();
        let run = {
            let begun = Arc::clone(&begun);
            move |item| match item {
                0 => {}
                1 => begun.wait_for(1),
                _ => begun.add(),
            }
        };
        let bench = Bench::new(PoolLimits::new(1, 2, 1), run);
        let [first, queued, promised] = [(); 3].map(|()| bench.pool.reserve().unwrap());
        let seats = [&first, &queued, &promised].map(|permit| permit.seat());
        assert_eq!(seats, [Seat::Thread, Seat::Place, Seat::Thread]);
        let submitting = thread::spawn(move || {
            Permit::submit(vec![(first, 0)], Boot::at(0));
            Permit::submit(vec![(queued, 1)], Boot::at(0));
        });
        thread::spawn(move || Permit::submit(vec![(promised, 2)], Boot::at(0))).join().unwrap();
        submitting.join().unwrap();
        bench.finish(3, vec![], 3);
    });
}

/// Seats of both kinds handed in at once, while a thread ends its item and another looks for one.
#[test]
fn each_of_a_batch_is_run() {
    explore(|| {
        let bench = Bench::new(PoolLimits::new(1, 2, 2), |_| {});
        let permits: Vec<_> = (0..4).map_while(|_| bench.pool.reserve()).collect();
        let submitting: Vec<_> = [permits.into_iter().zip(0..).collect::<Vec<_>>()]
            .map(|mut items| [items.split_off(1), items])
            .into_iter()
            .flatten()
            .map(|items| thread::spawn(move || Permit::submit(items, Boot::at(0))))
            .collect();
        join(submitting);
        bench.finish(4, vec![], 4);
    });
}

#[test]
fn closing_beside_submits_loses_nothing() {
    explore(|| {
        let bench = Bench::new(PoolLimits::new(1, 2, 2), |_| {});
        let permits: Vec<_> = (0..4).map_while(|_| bench.pool.reserve()).collect();
        let submitting: Vec<_> = (0..)
            .zip(permits)
            .map(|(item, permit)| thread::spawn(move || Permit::submit(vec![(permit, item)], Boot::at(0))))
            .collect();
        let mut handed_back = bench.pool.close();
        join(submitting);
        handed_back.extend(bench.pool.close());
        bench.finish(4 - handed_back.len(), handed_back, 4);
    });
}

#[test]
fn an_emptied_queue_beside_submits_loses_nothing() {
    explore(|| {
        let bench = Bench::new(PoolLimits::new(1, 2, 2), |_| {});
        let submitting = aside(&bench, |bench| (0..4).for_each(|item| bench.submit(item)));
        let handed_back = join([aside(&bench, |bench| bench.pool.empty())]).concat();
        join([submitting]);
        bench.finish(4 - handed_back.len(), handed_back, 4);
    });
}

/// The first item ends only when the second has run: the pool must grow for it.
#[test]
fn a_tick_grows_the_pool_beside_submits_and_finishes() {
    explore(|| {
        let last = Arc::<Tally>::default();
        let run = {
            let last = Arc::clone(&last);
            move |item| match item {
                0 => last.wait_for(1),
                1 => last.add(),
                _ => {}
            }
        };
        let bench = Bench::new(PoolLimits::new(1, 3, 3), run);
        (0..2).for_each(|item| bench.submit(item));
        let beside = aside(&bench, |bench| bench.submit(2));
        let ticking = [1_001, 1_002].map(|now| aside(&bench, move |bench| bench.pool.tick(Boot::at(now))));
        assert!(join(ticking).concat().is_empty());
        join([beside]);
        bench.finish(3, vec![], 3);
    });
}

#[test]
fn what_a_tick_hands_back_is_not_run() {
    explore(|| {
        let bench = Bench::new(PoolLimits::new(1, 1, 2), |_| {});
        let submitting = aside(&bench, |bench| (0..4).for_each(|item| bench.submit(item)));
        let handed_back = join([aside(&bench, |bench| bench.pool.tick(Boot::at(5_001)))]).concat();
        join([submitting]);
        bench.finish(4 - handed_back.len(), handed_back, 4);
    });
}

#[test]
fn threads_retire_beside_submits() {
    explore(|| {
        let together = Arc::<Tally>::default();
        let run = {
            let together = Arc::clone(&together);
            move |_| {
                together.add();
                together.wait_for(3);
            }
        };
        let bench = Bench::new(PoolLimits::new(1, 3, 0), run);
        (0..3).for_each(|item| bench.submit(item));
        bench.runs.wait_for(3);
        assert!(bench.pool.wait_idle(Duration::ZERO));
        let submitting = [3, 4].map(|item| aside(&bench, move |bench| bench.submit(item)));
        assert!(bench.pool.tick(Boot::at(6_000)).is_empty());
        join(submitting);
        bench.finish(5, vec![], 5);
    });
}

#[test]
fn a_thread_that_cannot_be_made_loses_nothing() {
    explore(|| {
        let bench = Bench::new(PoolLimits::new(2, 3, 1), |_| {});
        sync::fail_spawns(2);
        let submitting = [0, 1, 2].map(|item| aside(&bench, move |bench| bench.submit(item)));
        for now in (0..).take_while(|_| bench.runs.get() < 3) {
            assert!(bench.pool.tick(Boot::at(now)).is_empty());
            thread::yield_now();
        }
        join(submitting);
        assert_eq!(bench.failed.lock().unwrap().len(), 2);
        bench.finish(3, vec![], 3);
    });
}
