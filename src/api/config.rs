//! The settings an application gives, resolved once into a [`Config`]; the limits of names and texts.

use std::time::Duration;

use crate::domain::{Error, ErrorKind};
use crate::node::start::Config;
use crate::pipeline::pool::PoolLimits;
use crate::time::{Window, millis};

/// What waits is claimed: it is in memory and has a lease that ends.
const MOST_PLACES: usize = 1_000_000;

/// A scheduler's configuration as given. Not Debug: the URL may hold a password.
#[derive(Clone)]
pub(crate) struct RawConfig {
    pub application: String,
    pub url: String,
    pub core_threads: usize,
    pub max_threads: usize,
    pub queue: usize,
    pub poll: Duration,
    pub beat: Duration,
    pub death: Duration,
    pub call: Duration,
    pub election: Duration,
    pub retention: Option<Duration>,
    pub migrate: bool,
}

impl RawConfig {
    pub(crate) fn new(application: &str, url: &str) -> Self {
        let window = Window::default();
        let span = crate::time::span;
        Self {
            application: application.to_owned(),
            url: url.to_owned(),
            core_threads: 4,
            max_threads: 16,
            queue: 64,
            poll: span(window.poll),
            beat: span(window.beat),
            death: span(window.death),
            call: span(window.call),
            election: span(window.election),
            retention: window.retention.map(span),
            migrate: true,
        }
    }

    pub(crate) fn resolve(self) -> Result<Config, Error> {
        check_name("application name", &self.application, 50)?;
        if self.url.contains(":memory:") || self.url.contains("mode=memory") {
            let message =
                "a node needs a database that others can open too: name a file, as in sqlite:shop.db";
            return Err(Error::new(ErrorKind::Config, message));
        }
        if self.core_threads == 0 || self.max_threads < self.core_threads || self.max_threads > 4_096 {
            let message = format!(
                "threads: 1 <= core <= max <= 4096 is required, got core {} and max {}",
                self.core_threads, self.max_threads
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        if self.queue > MOST_PLACES {
            let message = format!("queue: at most {MOST_PLACES} places are possible, got {}", self.queue);
            return Err(Error::new(ErrorKind::Config, message));
        }
        let poll = millis(self.poll);
        let defaults = Window::default();
        let mut window = Window {
            poll,
            beat: millis(self.beat),
            death: millis(self.death),
            call: millis(self.call),
            election: millis(self.election),
            retention: self.retention.map(millis),
            ..defaults
        };
        window = window.bounded()?;
        window.threshold = defaults.threshold.max(window.least_threshold());
        Ok(Config {
            application: self.application,
            url: self.url,
            limits: PoolLimits::new(self.core_threads, self.max_threads, self.queue),
            window: window.checked()?,
            migrate: self.migrate,
        })
    }
}

/// Names are shown in terminals and logs and stored in columns: they are bounded and have no control
/// characters.
pub(crate) fn check_name(what: &str, name: &str, most: usize) -> Result<(), Error> {
    if name.is_empty() {
        let message = format!("{what} is empty: write 1 to {most} characters");
        return Err(Error::new(ErrorKind::Config, message));
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
    Err(Error::new(ErrorKind::Config, format!("{what} {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAYS: Duration = Duration::from_secs(3 * 86_400);

    fn refused(change: impl FnOnce(&mut RawConfig)) -> String {
        let mut raw = RawConfig::new("shop", "sqlite:shop.db");
        change(&mut raw);
        let error = raw.resolve().err().expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    }

    #[test]
    fn names_that_cannot_be_used_are_refused_with_what_to_do() {
        let said = |name: &str| refused(|raw| raw.application = name.to_owned());
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
        type Set = fn(&mut RawConfig, Duration);
        let spans: [(&str, Set); 5] = [
            ("poll interval", |raw, span| raw.poll = span),
            ("heartbeat", |raw, span| raw.beat = span),
            ("death_after", |raw, span| raw.death = span),
            ("store_timeout", |raw, span| raw.call = span),
            ("misfire interval", |raw, span| raw.election = span),
        ];
        for (named, set) in spans {
            for span in [Duration::MAX, Duration::from_millis(i64::MAX as u64), DAYS] {
                assert!(refused(|raw| set(raw, span)).contains(named), "{named} {span:?}");
            }
            assert!(!refused(|raw| set(raw, Duration::ZERO)).is_empty());
        }
        let mut raw = RawConfig::new("shop", "sqlite:shop.db");
        raw.retention = Some(Duration::MAX);
        assert!(raw.resolve().is_ok(), "for ever");
    }

    #[test]
    fn threads_and_places_out_of_range_are_refused() {
        for (core, max) in [(0, 4), (5, 4), (1, 4_097), (usize::MAX, usize::MAX)] {
            assert!(refused(|raw| (raw.core_threads, raw.max_threads) = (core, max)).contains("threads"));
        }
        assert!(refused(|raw| raw.queue = usize::MAX).contains("queue"));
    }
}
