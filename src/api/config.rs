//! The defaults and limits of a node's settings, and the limits of names and texts.

use crate::domain::{Error, ErrorKind};
use crate::node::start::Config;
use crate::pipeline::pool::PoolLimits;
use crate::time::Window;

/// What waits is claimed: it is in memory and has a lease that ends.
const MOST_PLACES: usize = 1_000_000;

impl Config {
    /// The defaults.
    pub(super) fn new(application: &str, url: &str) -> Self {
        Self {
            application: application.to_owned(),
            url: url.to_owned(),
            limits: PoolLimits::new(4, 16, 64),
            window: Window::default(),
            migrate: true,
        }
    }

    /// Refuses what cannot work, and raises the misfire threshold to the least that the other spans allow.
    pub(super) fn checked(mut self) -> Result<Self, Error> {
        check_name("application name", &self.application, 50)?;
        if self.url.contains(":memory:") || self.url.contains("mode=memory") {
            let message =
                "a node needs a database that others can open too: name a file, as in sqlite:shop.db";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let PoolLimits { core, max, queue, .. } = self.limits;
        if core == 0 || max < core || max > 4_096 {
            let message =
                format!("threads: 1 <= core <= max <= 4096 is required, got core {core} and max {max}");
            return Err(Error::new(ErrorKind::Config, message));
        }
        if queue > MOST_PLACES {
            let message = format!("queue: at most {MOST_PLACES} places are possible, got {queue}");
            return Err(Error::new(ErrorKind::Config, message));
        }
        self.window = self.window.bounded()?;
        self.window.threshold = self.window.threshold.max(self.window.least_threshold());
        self.window = self.window.checked()?;
        Ok(self)
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
    use std::time::Duration;

    use super::*;
    use crate::domain::Millis;
    use crate::time::millis;

    const DAYS: Duration = Duration::from_secs(3 * 86_400);

    fn refused(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::new("shop", "sqlite:shop.db");
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
        let mut config = Config::new("shop", "sqlite:shop.db");
        config.window.retention = Some(millis(Duration::MAX));
        assert!(config.checked().is_ok(), "for ever");
    }

    #[test]
    fn threads_and_places_out_of_range_are_refused() {
        for (core, max) in [(0, 4), (5, 4), (1, 4_097), (usize::MAX, usize::MAX)] {
            assert!(refused(|config| config.limits = PoolLimits::new(core, max, 0)).contains("threads"));
        }
        assert!(refused(|config| config.limits.queue = usize::MAX).contains("queue"));
    }
}
