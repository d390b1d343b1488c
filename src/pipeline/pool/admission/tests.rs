use proptest::prelude::*;

use super::*;

const LIMITS: PoolLimits =
    PoolLimits { core: 2, max: 4, queue: 2, grow_after: 1_000, give_back_after: 5_000, retire_after: 6_000 };

/// (busy, spare, queued, promised threads, promised places)
type Counts = (usize, usize, usize, usize, usize);

fn at((busy, spare, queued, promised_threads, promised_places): Counts) -> Admission {
    let spare = VecDeque::from(vec![Boot::at(0); spare]);
    let now = Boot::at(0);
    let counts = Admission::new(LIMITS);
    Admission { now, busy, spare, queued, promised_threads, promised_places, ..counts }
}

#[test]
fn seats_are_core_threads_then_places_then_threads_up_to_max() {
    let table: [(Counts, Option<Seat>); 15] = [
        ((0, 0, 0, 0, 0), Some(Seat::Thread)), // below core
        ((0, 0, 0, 1, 0), Some(Seat::Thread)), // still below core
        ((1, 0, 2, 0, 0), Some(Seat::Thread)), // below core, whatever queues
        ((0, 0, 0, 2, 0), Some(Seat::Place)),  // core is promised
        ((2, 0, 0, 0, 0), Some(Seat::Place)),  // core is busy
        ((1, 1, 0, 0, 0), Some(Seat::Thread)), // a spare thread
        ((1, 1, 0, 1, 0), Some(Seat::Place)),  // the spare thread is promised
        ((2, 2, 0, 1, 0), Some(Seat::Thread)), // one above core is not
        ((2, 0, 1, 0, 1), Some(Seat::Thread)), // the queue is full: growth
        ((3, 0, 0, 0, 2), Some(Seat::Thread)), // full of promises: growth
        ((3, 0, 2, 1, 0), None),               // the growth is promised
        ((4, 0, 2, 0, 0), None),               // at max
        ((4, 0, 1, 0, 1), None),
        ((4, 0, 1, 0, 0), Some(Seat::Place)),
        ((0, 4, 2, 4, 0), None),
    ];
    for (counts, seat) in table {
        assert_eq!(at(counts).reserve(), seat, "{counts:?}");
    }
}

#[test]
fn a_seat_given_back_is_free_again() {
    let mut pool = at((4, 0, 1, 0, 0));
    assert_eq!(pool.reserve(), Some(Seat::Place));
    assert_eq!(pool.reserve(), None);
    pool.release(Seat::Place);
    assert_eq!(pool.reserve(), Some(Seat::Place));
}

/// One thread that has been given so many items since 0, and is through with them.
fn worked(starts: usize) -> Admission {
    let mut pool = Admission::new(PoolLimits { queue: 1_000, ..PoolLimits::new(1, 1, 0) });
    pool.observe(Boot::at(0));
    pool.spawned();
    for _ in 0..starts {
        pool.started();
        pool.finished();
    }
    pool
}

/// One thread that is busy, and has been given so many items in 20 ms.
fn paced(starts: usize) -> Admission {
    let mut pool = worked(starts);
    pool.started();
    pool.observe(Boot::at(20));
    pool
}

#[test]
fn a_place_in_a_queue_that_moves_is_as_good_as_a_start() {
    let mut pool = paced(9);
    let mut seats = std::iter::from_fn(|| pool.reserve());
    assert!(seats.by_ref().take(50).all(|seat| seat == Seat::Soon));
    assert!(seats.by_ref().take(64).all(|seat| seat == Seat::Place));
    assert_eq!(seats.next(), None);
}

/// What waits longer needs a statement of its own when it starts, and holds up those behind it.
#[test]
fn a_queue_that_moves_fast_is_full_when_the_next_could_not_start_soon() {
    let mut pool = paced(19);
    assert!((0..100).all(|_| pool.reserve() == Some(Seat::Soon)));
    assert_eq!(pool.reserve(), None);
    pool.observe(Boot::at(39));
    assert!(!pool.freed(), "nothing has changed");
    pool.observe(Boot::at(40));
    assert!(pool.freed(), "it no longer moves");
    assert_eq!(pool.reserve(), Some(Seat::Place));
}

#[test]
fn spare_threads_are_for_those_ahead_in_a_queue_that_moves_fast() {
    let next = |pace: usize| {
        let mut pool = Admission {
            pace: Some(pace),
            ..Admission::new(PoolLimits { queue: 1_000, ..PoolLimits::new(2, 2, 0) })
        };
        let claim = [(); 3].map(|()| pool.reserve());
        assert_eq!(claim, [Some(Seat::Thread), Some(Seat::Thread), Some(Seat::Soon)]);
        // It is answered; what it won is on its way.
        (0..2).for_each(|_| pool.release(Seat::Thread));
        std::iter::from_fn(move || pool.reserve())
    };
    assert!(next(20).take(99).all(|seat| seat == Seat::Soon));
    assert_eq!(next(20).nth(99), None, "the pool need not grow while threads are spare");
    assert_eq!(next(19).next(), Some(Seat::Thread));
}

#[test]
fn how_fast_a_queue_moved_is_soon_forgotten() {
    let mut pool = paced(1_000);
    pool.started();
    pool.observe(Boot::at(270));
    assert_eq!(pool.reserve(), Some(Seat::Place));
}

/// Twenty threads of a backlog share the processors with the database: now and then none of them gets a turn.
#[test]
fn a_moment_without_processor_time_is_no_slow_queue() {
    let mut pool = paced(400);
    pool.observe(Boot::at(60));
    let seats: Vec<Seat> = std::iter::from_fn(|| pool.reserve()).take(500).collect();
    assert_eq!(seats, [Seat::Soon; 500]);
}

/// A backlog should not crawl for the first 20 ms, eight by eight.
#[test]
fn a_queue_nobody_has_measured_is_known_once_enough_have_ended() {
    let soon_after = |ended: usize, busy: usize, span: i64| {
        let mut pool = worked(ended);
        (0..busy).for_each(|_| pool.started());
        pool.observe(Boot::at(span));
        std::iter::from_fn(|| pool.reserve()).take_while(|seat| *seat == Seat::Soon).count()
    };
    assert_eq!(soon_after(19, 1, 5), 0, "twenty were given to it, and one is under way");
    assert_eq!(soon_after(20, 1, 6), 200, "twenty in less than 7 ms");
    assert_eq!(soon_after(20, 1, 19), 100);
    assert_eq!(soon_after(20, 1, 0), 400, "the clock may be late");
}

/// A claim of the first few may take longer than they do.
#[test]
fn the_wait_for_the_first_is_not_measured() {
    let mut pool = worked(0);
    pool.observe(Boot::at(19));
    for _ in 0..28 {
        pool.started();
        pool.finished();
    }
    pool.observe(Boot::at(23));
    assert_eq!(pool.believed_pace(), Some(4 * 28));
}

/// What was quick an hour ago may be slow now, and few were not enough to tell.
#[test]
fn what_the_first_few_tell_is_forgotten_when_they_are_over() {
    let mut pool = worked(28);
    pool.observe(Boot::at(6));
    assert_eq!(pool.believed_pace(), Some(56));
    pool.observe(Boot::at(3_600_000));
    assert_eq!(pool.believed_pace(), None);

    let mut pool = worked(28);
    pool.observe(Boot::at(6));
    pool.started();
    pool.observe(Boot::at(40));
    assert_eq!(pool.believed_pace(), Some(14), "so many it were: 29 in 40 ms");
}

/// Else the first thousand of a backlog would each wait for the answer to its start.
#[test]
fn a_queue_nobody_has_measured_takes_a_few_and_waits_until_it_is() {
    let mut pool = Admission::new(PoolLimits { queue: 1_000, ..PoolLimits::new(1, 2, 0) });
    pool.observe(Boot::at(0));
    pool.spawned();
    pool.started();
    assert!((0..8).all(|_| pool.reserve() == Some(Seat::Place)));
    assert_eq!(pool.reserve(), None, "nor does it grow before its queue is full");
    pool.observe(Boot::at(19));
    assert!(!pool.freed());
    pool.observe(Boot::at(20));
    assert!(pool.freed());
    assert!((8..5 + 64).all(|_| pool.reserve() == Some(Seat::Place)), "its items are long");
    assert_eq!(pool.reserve(), Some(Seat::Thread), "what waits longer is better left to other nodes");
}

#[test]
fn a_pool_at_rest_has_been_measured_only_if_it_was_fast() {
    let run = |items: usize, then: i64| {
        let mut pool = worked(items);
        pool.observe(Boot::at(then));
        pool.started();
        std::iter::from_fn(|| pool.reserve()).take(500).collect::<Vec<Seat>>()
    };
    assert_eq!(run(100, 20), [Seat::Soon; 500]);
    assert_eq!(run(4, 2_020), [Seat::Place; 8], "now and then one: it says nothing");
    assert_eq!(run(19, 20), [Seat::Place; 38], "nor that it is slow");
}

/// Between two claims of a far database the pool has long been at rest: it is given twice as much each time.
#[test]
fn a_pool_that_waits_for_its_claims_is_asked_for_more_each_time() {
    let most = |claim_takes: i64| {
        let mut pool = Admission::new(PoolLimits { queue: 1_000, ..PoolLimits::new(4, 16, 0) });
        let rounds = (1..=8).map(|round| {
            let seats: Vec<Seat> = std::iter::from_fn(|| pool.reserve()).collect();
            for seat in &seats {
                pool.release(*seat);
                pool.spawned();
                pool.started();
                pool.finished();
                pool.spare.pop_back();
            }
            pool.observe(Boot::at(round * claim_takes));
            seats.len()
        });
        rounds.max().unwrap_or_default()
    };
    assert!(most(25) > 900, "{}", most(25));
    assert!(most(100) > 120, "{}", most(100));
}

#[test]
fn the_queue_starts_only_where_every_promise_can_still_be_kept() {
    let table: [(Counts, bool); 8] = [
        ((2, 0, 1, 0, 0), false), // no thread is spare
        ((1, 1, 1, 0, 0), true),
        ((1, 1, 1, 1, 0), true),  // the promise gets a new thread
        ((1, 1, 1, 3, 0), false), // it could not
        ((1, 0, 1, 0, 0), true),  // below core
        ((1, 0, 1, 1, 0), false), // core is promised, and growth waits for its time
        ((3, 1, 1, 1, 0), false),
        ((1, 1, 0, 0, 0), false), // nothing waits
    ];
    for (counts, starts) in table {
        assert_eq!(at(counts).may_start_queued(), starts, "{counts:?}");
    }
}

#[test]
fn what_waits_grows_the_pool_or_goes_back() {
    let table = [
        ((2, 0, 1, 0, 0), 1_000, Verdict::Stay),
        ((2, 0, 1, 0, 0), 1_001, Verdict::Grow),
        ((2, 0, 1, 0, 0), 9_000, Verdict::Grow),
        ((4, 0, 1, 0, 0), 1_001, Verdict::Stay),
        ((4, 0, 1, 0, 0), 5_000, Verdict::Stay),
        ((4, 0, 1, 0, 0), 5_001, Verdict::GiveBack),
        ((3, 0, 1, 1, 0), 5_001, Verdict::GiveBack), // the last thread is promised
    ];
    for (counts, now, verdict) in table {
        let mut pool = at(counts);
        pool.observe(Boot::at(now));
        assert_eq!(pool.waited(Boot::at(0)), verdict, "{counts:?} at {now}");
    }
}

#[test]
fn spare_threads_above_core_retire() {
    let table = [
        ((0, 3, 0, 0, 0), 5_999, false),
        ((0, 3, 0, 0, 0), 6_000, true),
        ((1, 2, 0, 0, 0), 6_000, true),
        ((0, 2, 0, 0, 0), 6_000, false), // core
        ((3, 0, 0, 0, 0), 6_000, false), // busy
        ((1, 2, 0, 2, 0), 6_000, false), // promised
    ];
    for (counts, now, retires) in table {
        let mut pool = at(counts);
        pool.observe(Boot::at(now));
        assert_eq!(pool.may_retire(), retires, "{counts:?} at {now}");
    }
}

#[test]
fn a_thread_that_light_load_never_needs_still_ages() {
    let mut pool = at((0, 3, 0, 0, 0));
    for now in (0..=6_000).step_by(100) {
        assert!(!pool.may_retire());
        pool.observe(Boot::at(now));
        pool.started();
        pool.finished();
    }
    pool.retired();
    assert_eq!(pool.threads(), 2);
    assert!(!pool.may_retire());
}

#[test]
fn a_backward_clock_step_changes_nothing() {
    let mut pool = at((2, 0, 1, 0, 0));
    assert_eq!(pool.observe(Boot::at(3_000)), Boot::at(3_000));
    assert_eq!(pool.observe(Boot::at(-3_000)), Boot::at(3_000));
    assert_eq!(pool.waited(Boot::at(3_000)), Verdict::Stay);
    assert_eq!(pool.waited(Boot::MIN), Verdict::Grow);
}

#[test]
fn without_new_threads_only_those_there_are_count() {
    let mut pool = at((0, 0, 0, 0, 0));
    pool.spawn_failed();
    assert_eq!(pool.reserve(), Some(Seat::Place));
    assert_eq!(pool.reserve(), Some(Seat::Place));
    assert_eq!(pool.reserve(), None);

    let mut pool = at((2, 0, 1, 0, 0));
    pool.spawn_failed();
    pool.observe(Boot::at(5_000));
    assert_eq!(pool.waited(Boot::at(0)), Verdict::Stay);
    pool.observe(Boot::at(5_001));
    assert_eq!(pool.waited(Boot::at(0)), Verdict::GiveBack);
    pool.spawned();
    assert!(!pool.stunted());
    assert!(pool.may_start_queued());
}

#[test]
fn a_freed_seat_is_told_once() {
    let mut pool = at((4, 0, 2, 0, 0));
    assert!(!pool.freed());
    assert_eq!(pool.reserve(), None);
    assert!(!pool.freed());
    pool.finished();
    assert!(pool.freed());
    assert!(!pool.freed());
}

#[test]
fn a_closed_pool_gives_no_seats_and_keeps_no_spare_thread() {
    let mut pool = at((0, 2, 0, 1, 0));
    pool.close();
    assert_eq!(pool.reserve(), None);
    assert!(!pool.freed());
    assert!(pool.may_retire());
    pool.retired();
    assert!(!pool.may_retire(), "the last one is promised");
    pool.release(Seat::Thread);
    assert!(pool.may_retire());
}

#[test]
fn limits_that_make_no_sense_are_raised() {
    let pool = Admission::new(PoolLimits::new(0, 0, 0));
    assert_eq!((pool.limits.core, pool.limits.max), (1, 1));
    assert_eq!(Admission::new(PoolLimits::new(5, 3, 0)).limits.max, 5);
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Reserve,
    Submit,
    Release,
    Finish,
    Tick(i64),
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        40 => Just(Op::Reserve),
        30 => Just(Op::Submit),
        10 => Just(Op::Release),
        30 => Just(Op::Finish),
        10 => (0..2_000_i64).prop_map(Op::Tick),
        1 => Just(Op::Close),
    ]
}

/// The core without threads or lock.
struct Pool {
    admission: Admission,
    permits: VecDeque<Seat>,
    queue: VecDeque<i64>,
    wanted: bool,
}

impl Pool {
    fn new(limits: PoolLimits) -> Self {
        let admission = Admission::new(limits);
        Self { admission, permits: VecDeque::new(), queue: VecDeque::new(), wanted: false }
    }

    fn start(&mut self) {
        if !self.admission.has_spare() {
            assert!(self.admission.threads() < self.admission.limits.max, "nowhere to start");
            self.admission.spawned();
        }
        self.admission.started();
    }

    fn start_queued(&mut self) {
        self.queue.pop_front();
        self.admission.unqueued();
        self.start();
    }

    fn play(&mut self, op: Op) {
        match op {
            Op::Reserve => match self.admission.reserve() {
                Some(seat) => self.permits.push_back(seat),
                None => self.wanted = true,
            },
            Op::Submit => match self.permits.pop_front() {
                Some(Seat::Thread) => {
                    self.admission.release(Seat::Thread);
                    self.start();
                }
                Some(place @ (Seat::Soon | Seat::Place)) => {
                    self.admission.release(place);
                    self.admission.queued();
                    self.queue.push_back(self.admission.now.millis());
                }
                None => {}
            },
            Op::Release => {
                self.permits.pop_back().into_iter().for_each(|seat| self.admission.release(seat));
            }
            Op::Finish if self.admission.busy > 0 => self.admission.finished(),
            Op::Finish => {}
            Op::Tick(by) => self.tick(by),
            Op::Close => self.admission.close(),
        }
    }

    fn tick(&mut self, by: i64) {
        self.admission.observe(self.admission.now.saturating_add(by));
        while let Some(since) = self.queue.front() {
            match self.admission.waited(Boot::at(*since)) {
                Verdict::Stay => break,
                Verdict::Grow => self.start_queued(),
                Verdict::GiveBack => {
                    self.queue.pop_front();
                    self.admission.unqueued();
                }
            }
        }
    }

    fn settle(&mut self) {
        while self.admission.may_start_queued() {
            self.start_queued();
        }
        while self.admission.may_retire() {
            self.admission.retired();
        }
        if self.admission.freed() {
            assert!(self.wanted, "told without being asked");
            self.wanted = false;
        }
    }

    fn check(&self) {
        let Admission { limits, busy, queued, .. } = self.admission;
        assert!(self.admission.threads() <= limits.max);
        assert!(self.admission.committed() <= limits.max, "a promise that cannot be kept");
        assert!(queued + self.admission.promised_places <= limits.queue);
        assert!(queued == 0 || busy > 0 || self.admission.promised_threads > 0, "nobody works");
        assert!(!self.wanted || self.admission.free_seat().is_none(), "a free seat is not told");
    }
}

proptest! {
    #[test]
    fn every_promise_is_kept_whatever_happens(
        (core, more, queue) in (1..4_usize, 0..3_usize, 0..4_usize),
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let mut pool = Pool::new(PoolLimits::new(core, core + more, queue));
        for op in ops {
            pool.play(op);
            pool.settle();
            pool.check();
        }
    }
}
