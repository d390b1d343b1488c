//! The one place that logs: tells each event to the log and to the observers, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, bounded, unbounded};

use crate::domain::attempt_span::AttemptSpan;
use crate::domain::user_code::guarded;
use crate::domain::{Boot, Event, ExecutionState};
use crate::node::counters::Counters;
use crate::node::event_stream::{EventStream, Subscribers};
use crate::node::log_lines::{Line, LogLines};
use crate::time::boot;

pub(crate) type Observer = Box<dyn Fn(&Event) + Send + Sync>;

/// The most events that wait to be told; further ones are counted and dropped, but for last words.
const WAITING: usize = 4_096;
/// Between two turns of the teller: a stream of events wakes its thread once in so long, not for each.
const NAP: Duration = Duration::from_millis(5);

enum Message {
    Event(Event),
    /// The span of an attempt ends: its subscriber is the application's code, too.
    Span(AttemptSpan, Option<ExecutionState>),
    /// Everything before this has been told.
    Flush(Sender<()>),
}

/// Takes events in and never waits: the log and the observers are the application's code, and no claim,
/// heartbeat or outcome may depend on them.
pub(crate) struct Events {
    /// Whether somebody wants events that the log does not.
    observed: bool,
    streams: Arc<Subscribers>,
    counters: Counters,
    messages: Sender<Message>,
    missed: Arc<AtomicU64>,
    /// Whether the log has told of an outage: then it is told of polls, of which the first ends it.
    has_outage: Arc<AtomicBool>,
    /// How many were missed since the start.
    dropped: AtomicU64,
    /// Dropped with the last of the loops: ends the teller's nap.
    _awake: Sender<()>,
}

/// Tells each event to the log, then to every observer, in the order they happened. Needs a thread of its
/// own.
pub(crate) struct Teller {
    observers: Vec<Observer>,
    streams: Arc<Subscribers>,
    lines: LogLines,
    has_outage: Arc<AtomicBool>,
    messages: Receiver<Message>,
    missed: Arc<AtomicU64>,
    awake: Receiver<()>,
}

/// The two ends of one queue of events, which are counted as they go in.
pub(crate) fn events(observers: Vec<Observer>, counters: Counters) -> (Events, Teller) {
    let (send, messages) = unbounded();
    let (_awake, awake) = bounded(0);
    let (missed, streams) = (Arc::new(AtomicU64::new(0)), Arc::<Subscribers>::default());
    let has_outage = Arc::<AtomicBool>::default();
    let events = Events {
        observed: !observers.is_empty(),
        streams: Arc::clone(&streams),
        counters,
        messages: send,
        missed: Arc::clone(&missed),
        has_outage: Arc::clone(&has_outage),
        dropped: AtomicU64::new(0),
        _awake,
    };
    (events, Teller { observers, streams, lines: LogLines::default(), has_outage, messages, missed, awake })
}

impl Events {
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many events neither the log nor the observers were given.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn emit(&self, event: Event) {
        self.counters.count(&event);
        if !self.is_wanted(&event) {
            return;
        }
        if self.messages.len() >= WAITING && !event.is_last_word() {
            self.missed.fetch_add(1, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // A teller that has ended has panicked, which it cannot tell either.
        self.messages.send(Message::Event(event)).ok();
    }

    /// Has the span of an attempt ended by the teller.
    pub(crate) fn end_span(&self, span: AttemptSpan, state: Option<ExecutionState>) {
        if span.is_none() {
            return;
        }
        match self.messages.len() < WAITING {
            true => drop(self.messages.send(Message::Span(span, state))),
            // Dropped here, it would be closed by its subscriber on this thread.
            false => span.leave(),
        }
    }

    fn is_wanted(&self, event: &Event) -> bool {
        let ends_outage = || matches!(event, Event::Polled { .. }) && self.has_outage.load(Ordering::Relaxed);
        self.observed || event.level() <= log::max_level() || !self.streams.is_empty() || ends_outage()
    }

    /// A stream of the events from now on.
    pub(crate) fn stream(&self) -> EventStream {
        self.streams.add()
    }

    /// Waits until everything emitted before has been told; false if that takes longer than `within`.
    pub(crate) fn flush(&self, within: Duration) -> bool {
        let (told, done) = bounded(1);
        self.messages.send(Message::Flush(told)).is_ok() && done.recv_timeout(within).is_ok()
    }
}

/// What observers captured is dropped with them, of each on its own: two panics in one unwinding would end
/// the process.
impl Drop for Teller {
    fn drop(&mut self) {
        self.streams.end();
        for observer in self.observers.drain(..) {
            guarded(|| drop(observer)).ok();
        }
    }
}

impl Teller {
    /// Ends when the last [`Events`] is gone and everything has been told.
    pub(crate) fn run(mut self) {
        let messages = self.messages.clone();
        while let Ok(first) = messages.recv() {
            // In turns, or events that keep coming would keep from view how many were missed.
            for message in std::iter::once(first).chain(messages.try_iter().take(WAITING)) {
                match message {
                    Message::Event(event) => self.tell(&event),
                    Message::Span(span, state) => state.into_iter().for_each(|state| span.ended(state)),
                    Message::Flush(told) => {
                        self.lines.turn_ends().into_iter().for_each(log);
                        // The caller of `flush` may have given up.
                        told.send(()).ok();
                    }
                }
            }
            self.lines.turn_ends().into_iter().for_each(log);
            match self.missed.swap(0, Ordering::Relaxed) {
                0 => {}
                count => self.tell(&Event::EventsMissed { count }),
            }
            self.awake.recv_timeout(NAP).ok();
        }
    }

    fn tell(&mut self, event: &Event) {
        self.lines.of(event, Boot::at(boot().millis())).into_iter().for_each(log);
        self.has_outage.store(self.lines.has_outage(), Ordering::Relaxed);
        self.streams.tell(event);
        if matches!(event, Event::Stopped { .. }) {
            self.streams.end();
        }
        for observer in &self.observers {
            if guarded(|| observer(event)).is_err() {
                guarded(|| log::error!(target: "firetime", "an event observer panicked")).ok();
            }
        }
    }
}

fn log(line: Line<'_>) {
    let write = || match &line {
        Line::Event(event) => log::log!(target: "firetime", event.level(), "{event}"),
        Line::Text(level, text) => log::log!(target: "firetime", *level, "{text}"),
    };
    // A logger that panics has nobody to tell; the panic hook has.
    guarded(write).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// Events whose observer waits for a gate before each, and what it was told.
    fn gated() -> (Events, Sender<()>, Receiver<Event>) {
        let (open, gate) = unbounded::<()>();
        let (tell, told) = unbounded();
        let (events, teller) = events_to(move |event| {
            gate.recv().ok();
            tell.send(event.clone()).unwrap();
        });
        crate::machine::driver::spawn("events", || teller.run()).unwrap();
        (events, open, told)
    }

    fn events_to(observer: impl Fn(&Event) + Send + Sync + 'static) -> (Events, Teller) {
        super::events(vec![Box::new(observer)], Counters::new([]))
    }

    fn skipped(told: &Receiver<Event>) -> u64 {
        match told.recv_timeout(SOON).unwrap() {
            Event::TicksSkipped { count } => count,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn an_observer_that_blocks_holds_up_nobody_and_what_it_missed_is_counted() {
        let (events, open, told) = gated();
        let emit = |count| events.emit(Event::TicksSkipped { count });
        emit(0);
        // The teller has taken the first out of the queue once it waits at the gate.
        while !events.messages.is_empty() {
            std::thread::yield_now();
        }
        (1..=WAITING as u64 + 7).for_each(emit);
        assert!(!events.flush(Duration::ZERO));
        drop(open);
        for expected in 0..=WAITING as u64 {
            assert_eq!(skipped(&told), expected);
        }
        assert!(matches!(told.recv_timeout(SOON), Ok(Event::EventsMissed { count: 7 })));
        emit(1);
        assert!(events.flush(SOON));
        assert_eq!(skipped(&told), 1);
    }

    #[test]
    fn last_words_are_told_however_many_events_wait() {
        let (events, open, told) = gated();
        let emit = |count| events.emit(Event::TicksSkipped { count });
        (0..2 * WAITING as u64).for_each(emit);
        events.emit(Event::Dropped);
        events.emit(Event::LoopPanicked { name: "poll".to_owned(), reason: String::new() });
        events.emit(Event::Stopped { clean: false });
        drop(open);
        assert!(events.flush(SOON));
        let is_of_the_crowd =
            |event: &Event| matches!(event, Event::TicksSkipped { .. } | Event::EventsMissed { .. });
        let last: Vec<Event> = told.try_iter().filter(|event| !is_of_the_crowd(event)).collect();
        let [Event::Dropped, Event::LoopPanicked { .. }, Event::Stopped { .. }] = &last[..] else {
            panic!("{last:?}")
        };
    }

    /// Both in one unwinding would end the process.
    #[test]
    fn observers_that_panic_when_they_are_dropped_end_one_by_one() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("an observer's own");
            }
        }
        let observer = || -> Observer {
            let panics = Panics;
            Box::new(move |_| {
                let _its_own = &panics;
            })
        };
        let (events, teller) = super::events(vec![observer(), observer()], Counters::new([]));
        drop(events);
        teller.run();
        // A thread for it may be refused.
        drop(super::events(vec![observer(), observer()], Counters::new([])));
    }

    #[test]
    fn an_observer_that_panics_is_told_of_the_next_event_and_the_thread_ends_in_order() {
        struct Again;
        impl Drop for Again {
            fn drop(&mut self) {
                panic!("once more");
            }
        }
        let (tell, told) = unbounded();
        let (events, teller) = events_to(move |event| {
            tell.send(event.clone()).unwrap();
            std::panic::panic_any(Again);
        });
        let (ended, end) = bounded::<()>(0);
        crate::machine::driver::spawn("events", move || {
            teller.run();
            drop(ended);
        })
        .unwrap();
        (1..=2).for_each(|count| events.emit(Event::TicksSkipped { count }));
        assert_eq!([1, 2].map(|_| skipped(&told)), [1, 2]);
        drop(events);
        end.recv_timeout(SOON).unwrap_err();
        assert!(told.is_empty());
    }

    /// An observer slower than the events: two more come for each that it is told.
    #[test]
    fn missed_events_are_told_while_others_keep_coming() {
        let (tell, told) = unbounded();
        let own: Arc<std::sync::OnceLock<Arc<Events>>> = Arc::default();
        let known = Arc::clone(&own);
        let (events, teller) = events_to(move |event| {
            tell.send(matches!(event, Event::EventsMissed { .. })).ok();
            let events = known.get().unwrap();
            (0..2).for_each(|count| events.emit(Event::TicksSkipped { count }));
        });
        let events = Arc::new(events);
        own.set(Arc::clone(&events)).ok();
        events.emit(Event::TicksSkipped { count: 0 });
        crate::machine::driver::spawn("events", || teller.run()).unwrap();
        let is_told = (0..20 * WAITING).any(|_| told.recv_timeout(SOON).unwrap());
        assert!(is_told, "{} missed, none of it told", events.missed.load(Ordering::Relaxed));
    }

    /// Those who were there before it are not told.
    #[test]
    fn a_stream_that_nobody_reads_is_bounded_and_says_so() {
        let (events, teller) = super::events(Vec::new(), Counters::new([]));
        crate::machine::driver::spawn("events", || teller.run()).unwrap();
        events.emit(Event::ClockJumped);
        assert!(events.flush(SOON));
        let (stream, gone) = (events.stream(), events.stream());
        drop(gone);
        for count in 0..1_024 + 3 {
            events.emit(Event::TicksSkipped { count });
            assert!(events.flush(SOON));
        }
        assert_eq!(stream.dropped(), 3);
        drop(events);
        assert_eq!(stream.count(), 1_024, "and then it ends");
    }

    /// The first event behind it finds that it is gone.
    #[test]
    fn nothing_is_kept_for_a_stream_that_was_dropped() {
        let (events, mut teller) = super::events(Vec::new(), Counters::new([]));
        let polled = || Event::Polled { tick: None, planned: 0, pending: 0, took: Duration::ZERO };
        let stream = events.stream();
        events.emit(polled());
        assert_eq!(teller.messages.len(), 1);
        drop(stream);
        teller.tell(&polled());
        events.emit(polled());
        assert_eq!(teller.messages.len(), 1);
        let again = events.stream();
        events.emit(polled());
        teller.tell(&polled());
        assert_eq!((teller.messages.len(), again.next_within(SOON).is_some()), (2, true));
    }

    #[test]
    fn streams_end_with_the_shutdown() {
        let (events, mut teller) = super::events(Vec::new(), Counters::new([]));
        let stream = events.stream();
        teller.tell(&Event::Stopped { clean: false });
        assert!(matches!(&stream.collect::<Vec<_>>()[..], [Event::Stopped { clean: false }]));
        assert_eq!(events.stream().count(), 0, "a later one has ended");
    }

    /// The log wants none of them, but for their end of an outage that it has told of.
    #[test]
    fn polls_are_told_while_an_outage_goes_on() {
        use crate::domain::{Error, ErrorKind};
        let (events, mut teller) = super::events(Vec::new(), Counters::new([]));
        let polled = || Event::Polled { tick: None, planned: 0, pending: 0, took: Duration::ZERO };
        let error = Error::new(ErrorKind::Unavailable, "a lock was not free");
        events.emit(polled());
        assert!(teller.messages.is_empty());
        teller.tell(&Event::StoreFailed { operation: "polling", error });
        events.emit(polled());
        assert_eq!(teller.messages.len(), 1);
    }

    #[test]
    fn an_event_nobody_wants_is_not_kept() {
        let (events, teller) = super::events(Vec::new(), Counters::new([]));
        events.emit(Event::Polled { tick: None, planned: 0, pending: 0, took: Duration::ZERO });
        assert!(teller.messages.is_empty());
    }
}
