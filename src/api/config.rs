//! The defaults and limits of a node's settings, and the limits of names and texts.

use crate::domain::{Error, ErrorKind, Reason};
use crate::node::spans::Spans;
use crate::node::start::{CarrierOf, Config};
use crate::pipeline::lanes::{DEFAULT_LANE, LaneSettings, MOST_LANES};
use crate::pipeline::pool::PoolLimits;
use crate::store::enqueue::QUEUE_PREFIX;
use crate::time::Window;

/// What waits is claimed: it is in memory and has a lease that ends.
const MOST_PLACES: usize = 1_000_000;
/// An async handler costs memory alone, and its execution a row that the node answers for.
const MOST_TASKS: usize = 100_000;
/// The default lane's threads are called so.
const DEFAULT_THREADS: &str = "job";

impl Config {
    /// The defaults.
    pub(super) fn new(application: &str, url: &str, carrier: CarrierOf) -> Self {
        let limits = PoolLimits::new(4, 16, 64);
        Self {
            application: application.to_owned(),
            url: url.to_owned(),
            lanes: vec![LaneSettings::new(DEFAULT_LANE, limits)],
            window: Window::default(),
            migrate: true,
            carrier,
            spans: Spans::default(),
            #[cfg(feature = "tokio")]
            tasks: None,
        }
    }

    /// The limits of the default lane.
    pub(super) fn default_limits(&mut self) -> &mut PoolLimits {
        &mut self.lanes[0].limits
    }

    /// Adds a lane of tasks beside each lane: any may be named as an execution of an async handler's job is
    /// enqueued.
    #[cfg(feature = "tokio")]
    pub(super) fn add_lanes_of_tasks(&mut self) -> Result<(), Error> {
        let of_tasks: Vec<LaneSettings> = self.lanes.iter().map(LaneSettings::of_tasks).collect();
        if self.lanes.len() + of_tasks.len() > MOST_LANES {
            let most = MOST_LANES / 2 - 1;
            let got = self.lanes.len() - 1;
            return refused(format!("lanes: {most} at most on a node with async handlers, got {got}"));
        }
        self.lanes.extend(of_tasks);
        Ok(())
    }

    /// Refuses what cannot work, and raises the misfire threshold to the least that the other spans allow.
    pub(super) fn checked(mut self) -> Result<Self, Error> {
        check_name("application name", &self.application, 50)?;
        if self.url.contains(":memory:") || self.url.contains("mode=memory") {
            return refused(
                "a node needs a database that others can open too: name a file, as in sqlite:shop.db",
            );
        }
        check_lanes(&self.lanes)?;
        self.window = self.window.bounded()?;
        self.window.threshold = self.window.threshold.max(self.window.least_threshold());
        self.window = self.window.checked()?;
        Ok(self)
    }

    /// Refuses a job that names a lane which the node does not have.
    pub(super) fn check_lane_of(&self, job: &str, lane: &str) -> Result<(), Error> {
        let names: Vec<String> = self.lanes.iter().map(|it| format!("{:?}", it.name)).collect();
        if self.lanes.iter().any(|it| &*it.name == lane) {
            return Ok(());
        }
        refused(format!(
            "job {job:?} names the lane {lane:?}, and this node has {}: name one of these, or add it with \
             Builder::lane",
            names.join(", ")
        ))
    }
}

fn check_lanes(lanes: &[LaneSettings]) -> Result<(), Error> {
    if lanes.len() > MOST_LANES {
        return refused(format!("lanes: {} at most, got {}", MOST_LANES - 1, lanes.len() - 1));
    }
    for (n, lane) in lanes.iter().enumerate() {
        check_name("lane name", &lane.name, 50)?;
        let (name, before) = (&*lane.name, &lanes[..n]);
        if before.iter().any(|it| it.name == lane.name) {
            let hint = if name == DEFAULT_LANE {
                "it is there already; Builder::threads and Builder::queue configure it"
            } else {
                "it is defined twice; each lane has one definition"
            };
            return refused(format!("lane {name:?}: {hint}"));
        }
        if name == DEFAULT_THREADS {
            return refused(format!(
                "lane {name:?}: the default lane's threads are called so; choose another name"
            ));
        }
        if lane.is_automatic
            && let Some(other) = before.iter().find(|it| it.is_automatic)
        {
            return refused(format!(
                "lanes {:?} and {name:?} are both automatic: a node has one automatic lane at most",
                other.name
            ));
        }
        check_limits(lane, if n == 0 { String::new() } else { format!("lane {name:?}: ") })?;
    }
    Ok(())
}

/// `of` begins the message.
fn check_limits(lane: &LaneSettings, of: String) -> Result<(), Error> {
    let (PoolLimits { core, max, queue, .. }, tasks) = (lane.limits, lane.tasks);
    let message = if core == 0 || max < core || max > 4_096 {
        format!("{of}threads: 1 <= core <= max <= 4096 is required, got core {core} and max {max}")
    } else if queue > MOST_PLACES {
        format!("{of}queue: at most {MOST_PLACES} places are possible, got {queue}")
    } else if tasks == 0 || tasks > MOST_TASKS {
        format!("{of}concurrency: 1 to {MOST_TASKS} async handlers at once are possible, got {tasks}")
    } else {
        return Ok(());
    };
    refused(message)
}

/// Refuses names that no schedule can have. Those of jobs' queues are among them.
pub(crate) fn check_schedule_name(name: &str) -> Result<(), Error> {
    check_name("schedule name", name, 200)?;
    if name.starts_with(QUEUE_PREFIX) {
        return refused(format!(
            "schedule name {name:?}: names that begin with {QUEUE_PREFIX:?} are those of jobs' queues, which are \
             no schedules"
        ));
    }
    Ok(())
}

/// Names are shown in terminals and logs and stored in columns: they are bounded and have no control
/// characters.
pub(crate) fn check_name(what: &str, name: &str, most: usize) -> Result<(), Error> {
    if name.is_empty() {
        return refused(format!("{what} is empty: write 1 to {most} characters"));
    }
    check_text(what, name, most)
}

/// As [`check_name`], for what may be left empty.
pub(crate) fn check_text(what: &str, text: &str, most: usize) -> Result<(), Error> {
    /// So much of a text is repeated.
    const SHOWN: usize = 60;
    let length = text.chars().count();
    let problem = if length > most {
        format!("has {length} characters, {most} are allowed")
    } else if let Some(at) = text.chars().position(char::is_control) {
        let shown: String = text.chars().take(SHOWN.max(at + 1)).collect();
        format!("has control characters, the first at character {}: {shown:?}; leave them out", at + 1)
    } else {
        return Ok(());
    };
    refused(format!("{what} {problem}"))
}

/// What cannot work is answered with [`ErrorKind::Config`].
fn refused<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::new(ErrorKind::Config, message))
}

/// The problem with a word that no execution's state has as its reason.
pub(super) fn unknown_reason(reason: &str) -> Option<String> {
    if Reason::ALL.iter().any(|known| known.as_str() == reason) {
        return None;
    }
    let known: Vec<&str> = Reason::ALL.iter().map(|known| known.as_str()).collect();
    Some(format!("the ledger gives no reason {reason:?}; there are {}", known.join(", ")))
}

/// Checks the texts of a filter: what each is, the text, and its most characters.
pub(super) fn check_filter<const N: usize>(texts: [(&str, &Option<String>, usize); N]) -> Result<(), Error> {
    texts
        .into_iter()
        .try_for_each(|(what, text, most)| check_text(what, text.as_deref().unwrap_or_default(), most))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::api::Lane;
    use crate::domain::Millis;
    use crate::time::millis;

    const DAYS: Duration = Duration::from_secs(3 * 86_400);

    fn refused(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::new("shop", "sqlite:shop.db", |_, _| unreachable!());
        change(&mut config);
        let error = config.checked().err().expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    }

    #[test]
    fn names_that_cannot_be_used_are_refused_with_what_to_do() {
        let said = |name: &str| refused(|config| config.application = name.to_owned());
        assert_eq!(said(""), "application name is empty: write 1 to 50 characters");
        assert_eq!(said(&"é".repeat(51)), "application name has 51 characters, 50 are allowed");
        let steering = "application name has control characters, the first at character 3: \"ab\\u{1b}[2J\"; \
                        leave them out";
        assert_eq!(said("ab\u{1b}[2J"), steering);
        for control in ["\0", "\n", "\u{7f}", "\u{9b}"] {
            assert!(said(control).contains("control"), "{control:?}");
        }
        for fine in ["'", "\"; DROP TABLE qrtz_app; --", "naïve ☕", " ", "%_"] {
            assert!(check_name("it", fine, 50).is_ok(), "{fine:?}");
        }
    }

    #[test]
    fn a_span_without_end_is_refused_by_name_and_overflows_nothing() {
        type Set = fn(&mut Window, Millis);
        let spans: [(&str, Set); 5] = [
            ("poll interval", |window, span| window.poll = span),
            ("heartbeat", |window, span| window.beat = span),
            ("death_after", |window, span| window.death = span),
            ("store_timeout", |window, span| window.call = span),
            ("misfire interval", |window, span| window.election = span),
        ];
        for (named, set) in spans {
            for span in [Duration::MAX, Duration::from_millis(i64::MAX as u64), DAYS].map(millis) {
                assert!(refused(|config| set(&mut config.window, span)).contains(named), "{named} {span:?}");
            }
            assert!(!refused(|config| set(&mut config.window, 0)).is_empty());
        }
        let mut config = Config::new("shop", "sqlite:shop.db", |_, _| unreachable!());
        config.window.retention = Some(millis(Duration::MAX));
        assert!(config.checked().is_ok(), "for ever");
    }

    #[test]
    fn threads_and_places_out_of_range_are_refused() {
        for (core, max) in [(0, 4), (5, 4), (1, 4_097), (usize::MAX, usize::MAX)] {
            let limits = PoolLimits::new(core, max, 0);
            assert!(refused(|config| *config.default_limits() = limits).starts_with("threads"));
            let said = refused(|config| config.lanes.push(Lane::threads(core, max).named("slow")));
            assert!(said.starts_with("lane \"slow\": threads"), "{said}");
        }
        assert!(refused(|config| config.default_limits().queue = usize::MAX).starts_with("queue"));
        let endless = Lane::threads(1, 1).queue(usize::MAX).named("slow");
        assert!(refused(|config| config.lanes.push(endless)).starts_with("lane \"slow\": queue"));
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn async_handlers_out_of_range_are_refused() {
        for tasks in [0, 100_001] {
            let said = refused(|config| config.lanes[0].tasks = tasks);
            assert_eq!(
                said,
                format!("concurrency: 1 to 100000 async handlers at once are possible, got {tasks}")
            );
            let slow = Lane::threads(1, 1).concurrency(tasks).named("slow");
            let said = refused(|config| config.lanes.push(slow));
            assert!(said.starts_with("lane \"slow\": concurrency"), "{said}");
        }
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn with_async_handlers_each_lane_has_one_of_tasks_beside_it() {
        let with_lanes = |count| {
            let mut config = Config::new("shop", "sqlite:shop.db", |_, _| unreachable!());
            config.lanes.extend((0..count).map(|n| Lane::threads(1, 2).named(&format!("lane {n}"))));
            config.add_lanes_of_tasks().map(|()| config)
        };
        let lanes = with_lanes(31).unwrap().lanes;
        assert_eq!((lanes.len(), &*lanes[32].name, &*lanes[63].name), (64, "default", "lane 30"));
        let error = with_lanes(32).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "lanes: 31 at most on a node with async handlers, got 32");
    }

    #[test]
    fn lanes_that_cannot_be_told_apart_are_refused() {
        let (plain, automatic) = (Lane::threads(1, 2), Lane::threads(1, 2).automatic());
        let said = |lanes: &[(&str, Lane)]| {
            refused(|config| config.lanes.extend(lanes.iter().map(|(name, lane)| lane.named(name))))
        };
        let twice = said(&[("slow", plain), ("slow", automatic)]);
        assert_eq!(twice, "lane \"slow\": it is defined twice; each lane has one definition");
        let default = said(&[("default", plain)]);
        assert!(default.contains("it is there already; Builder::threads"), "{default}");
        assert!(said(&[("job", plain)]).contains("choose another name"));
        assert!(said(&[("", plain)]).contains("lane name is empty"));
        let automatic = said(&[("a", automatic), ("b", plain), ("c", automatic)]);
        assert!(automatic.starts_with("lanes \"a\" and \"c\" are both automatic"), "{automatic}");
        let names: Vec<String> = (0..64).map(|n| format!("lane {n}")).collect();
        let all: Vec<(&str, Lane)> = names.iter().map(|name| (&**name, plain)).collect();
        assert_eq!(said(&all), "lanes: 63 at most, got 64");
    }

    #[test]
    fn a_job_of_a_lane_that_is_not_there_is_refused_with_those_that_are() {
        let mut config = Config::new("shop", "sqlite:shop.db", |_, _| unreachable!());
        config.lanes.push(Lane::threads(1, 2).named("fast"));
        let config = config.checked().unwrap();
        for lane in ["default", "fast"] {
            assert!(config.check_lane_of("report", lane).is_ok());
        }
        let error = config.check_lane_of("report", "slow").unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (
                ErrorKind::Config,
                "job \"report\" names the lane \"slow\", and this node has \"default\", \"fast\": name one of \
                 these, or add it with Builder::lane"
            )
        );
    }
}
