//! The listener: a machine that hears from the database of others' changes.
//!
//! It opens a connection, waits on it, and opens another when it breaks. While there is none, the poll
//! [glances](crate::store::news::Glance) at the database instead.

use std::collections::VecDeque;

use crate::domain::{Boot, Error, Event, LISTENING, Millis};
use crate::machine::{Machine, Operation, Step};
use crate::store::news::{Ear, Ends, News};
use crate::store::{Result, Store};
use crate::time::{Now, Window};

/// The longest wait for news in one call: a stop waits for its end.
const HEARS: Millis = 100;
/// The pause behind the first failure; each further one is twice as long as the one before,
const PAUSE: Millis = 1_000;
/// up to this.
const LONGEST_PAUSE: Millis = 30_000;

pub(crate) enum ListenOp {
    Listen(String),
    Hear(Box<dyn Ear>),
    /// Whether the connection is alive.
    Check(Box<dyn Ear>),
}

/// The ear, and what it has heard.
pub(crate) struct Heard(Box<dyn Ear>, News);

impl Operation for ListenOp {
    type Answer = Heard;

    fn name(&self) -> &'static str {
        LISTENING
    }

    fn perform(self, store: &dyn Store) -> Result<Heard> {
        match self {
            Self::Listen(application) => store.listen(&application).map(|ear| Heard(ear, News::ANY)),
            Self::Hear(mut ear) => ear.hear(HEARS).map(|news| Heard(ear, news)),
            Self::Check(mut ear) => ear.check().map(|()| Heard(ear, News::default())),
        }
    }
}

pub(crate) enum ListenInput {
    Stop,
}

pub(crate) enum ListenOutput {
    /// From now on the database tells, or it does so no more.
    Told(bool),
    News(News),
    /// Somebody waits for executions, or runs of some have ended.
    Ends(Ends),
    Event(Event),
}

pub(crate) struct ListenMachine {
    application: String,
    /// How long a connection may be silent until it is checked.
    silence: Millis,
    ear: Option<Box<dyn Ear>>,
    is_told: bool,
    /// When the connection was last known to be alive.
    alive: Boot,
    /// No connection is opened before this.
    hold: Boot,
    /// The pause behind the next failure.
    pause: Millis,
    outbox: VecDeque<ListenOutput>,
    stopping: bool,
}

impl ListenMachine {
    pub(crate) fn new(application: String, window: &Window) -> Self {
        Self {
            application,
            silence: window.poll,
            ear: None,
            is_told: false,
            alive: Boot::MIN,
            hold: Boot::MIN,
            pause: PAUSE,
            outbox: VecDeque::new(),
            stopping: false,
        }
    }

    fn heard(&mut self, now: Now, Heard(mut ear, news): Heard) {
        let ends = ear.take_ends();
        self.ear = Some(ear);
        if !self.is_told {
            (self.is_told, self.pause, self.alive) = (true, PAUSE, now.boot);
            self.outbox.push_back(ListenOutput::Told(true));
            self.outbox.push_back(ListenOutput::Event(Event::Listening));
        }
        if !news.is_none() {
            self.alive = now.boot;
            self.outbox.push_back(ListenOutput::News(news));
        }
        if !ends.is_none() {
            self.alive = now.boot;
            self.outbox.push_back(ListenOutput::Ends(ends));
        }
    }

    fn failed(&mut self, now: Now, error: Error) {
        if std::mem::take(&mut self.is_told) {
            self.outbox.push_back(ListenOutput::Told(false));
        }
        self.outbox.push_back(ListenOutput::Event(Event::NotListening { error }));
        self.hold = now.boot + self.pause;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }
}

impl Machine for ListenMachine {
    type Op = ListenOp;
    type Asked = ();
    type Input = ListenInput;
    type Output = ListenOutput;

    fn next(&mut self, now: Now) -> Step<(ListenOp, ()), ListenOutput> {
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.stopping {
            return Step::Stop;
        }
        match self.ear.take() {
            Some(ear) if now.boot >= self.alive + self.silence => {
                self.alive = now.boot;
                Step::Do((ListenOp::Check(ear), ()))
            }
            Some(ear) => Step::Do((ListenOp::Hear(ear), ())),
            None if now.boot < self.hold => Step::Wait(self.hold),
            None => Step::Do((ListenOp::Listen(self.application.clone()), ())),
        }
    }

    fn done(&mut self, now: Now, _asked: (), answer: Result<Heard>) {
        match answer {
            Ok(heard) => self.heard(now, heard),
            Err(error) => self.failed(now, error),
        }
    }

    fn receive(&mut self, _now: Now, ListenInput::Stop: ListenInput) {
        self.stopping = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ErrorKind, Timestamp};
    use crate::machine::Stepped;

    struct Mute;

    impl Ear for Mute {
        fn hear(&mut self, _: Millis) -> Result<News> {
            Ok(News::default())
        }

        fn check(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn at(boot: Millis) -> Now {
        Now { db: Timestamp::at(boot), boot: Boot::at(boot), apart: 0 }
    }

    fn machine() -> Stepped<ListenMachine> {
        Stepped::new(ListenMachine::new("shop".to_owned(), &Window::default()))
    }

    /// Answers the call that is asked for, once everything is told; what was told, and whether it was a
    /// check.
    fn answer(
        machine: &mut Stepped<ListenMachine>,
        now: Millis,
        answer: Result<News>,
    ) -> (Vec<String>, bool) {
        let mut told = Vec::new();
        loop {
            match machine.next(at(now)) {
                Step::Tell(ListenOutput::Told(told_by)) => told.push(format!("told {told_by}")),
                Step::Tell(ListenOutput::News(news)) => told.push(format!("work {}", news.work)),
                Step::Tell(ListenOutput::Ends(ends)) => told.push(format!("{ends:?}")),
                Step::Tell(ListenOutput::Event(event)) => told.push(event.to_string()),
                Step::Do(op) => {
                    machine.done(at(now), answer.map(|news| Heard(Box::new(Mute), news)));
                    return (told, matches!(op, ListenOp::Check(_)));
                }
                Step::Wait(until) => panic!("waits until {until:?}"),
                Step::Stop => panic!("stopped"),
            }
        }
    }

    fn silent() -> Result<News> {
        Ok(News::default())
    }

    fn lost() -> Result<News> {
        Err(Error::new(ErrorKind::Unavailable, "gone"))
    }

    #[test]
    fn who_begins_to_listen_looks_for_what_came_before() {
        let mut machine = machine();
        assert!(matches!(machine.next(at(1_000)), Step::Do(ListenOp::Listen(it)) if it == "shop"));
        machine.done(at(1_001), Ok(Heard(Box::new(Mute), News::ANY)));
        let (told, _) = answer(&mut machine, 1_002, silent());
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!((told[0].as_str(), told[2].as_str()), ("told true", "work true"));
        assert_eq!(answer(&mut machine, 1_102, Ok(News { work: true, ..News::default() })).0, [""; 0]);
        assert_eq!(answer(&mut machine, 1_202, silent()).0, ["work true"]);
    }

    #[test]
    fn a_silent_connection_is_checked_and_a_broken_one_replaced() {
        let mut machine = machine();
        answer(&mut machine, 1_000, Ok(News::ANY));
        assert!(!answer(&mut machine, 5_999, silent()).1);
        assert!(answer(&mut machine, 6_000, silent()).1);
        assert!(!answer(&mut machine, 10_999, silent()).1);
        assert!(answer(&mut machine, 11_000, lost()).1);
        assert!(matches!(machine.next(at(11_000)), Step::Tell(ListenOutput::Told(false))));
        assert!(matches!(
            machine.next(at(11_000)),
            Step::Tell(ListenOutput::Event(Event::NotListening { .. }))
        ));
        assert!(matches!(machine.next(at(11_999)), Step::Wait(until) if until == Boot::at(12_000)));
        answer(&mut machine, 12_000, lost());
        let (told, _) = answer(&mut machine, 14_000, lost());
        assert!(told.len() == 1 && told[0].contains("gone"), "{told:?}");
        answer(&mut machine, 18_000, Ok(News::ANY));
        assert!(answer(&mut machine, 18_001, lost()).0.contains(&"told true".to_owned()));
        machine.next(at(18_002));
        machine.next(at(18_002));
        assert!(
            matches!(machine.next(at(18_002)), Step::Wait(until) if until == Boot::at(19_001)),
            "its pause begins anew"
        );
    }

    #[test]
    fn pauses_do_not_grow_for_ever() {
        let (mut machine, mut now) = (machine(), 0);
        for _ in 0..12 {
            answer(&mut machine, now, lost());
            now += LONGEST_PAUSE;
        }
    }

    #[test]
    fn it_stops_when_told_to() {
        let mut machine = machine();
        answer(&mut machine, 1_000, silent());
        machine.receive(at(1_000), ListenInput::Stop);
        let told = std::iter::from_fn(|| match machine.next(at(1_001)) {
            Step::Tell(_) => Some(()),
            Step::Stop => None,
            _ => panic!("it goes on"),
        });
        assert_eq!(told.count(), 2);
    }
}
