//! What an application may configure, resolved once into values that work together.

use std::time::Duration;

use crate::error::{Error, Kind};
use crate::pipeline::pool::Limits;
use crate::window::{Window, millis};

/// A scheduler's configuration as given.
#[derive(Clone, Debug)]
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

/// The same, checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub application: String,
    pub url: String,
    pub limits: Limits,
    pub window: Window,
    pub migrate: bool,
}

impl RawConfig {
    pub(crate) fn new(application: &str, url: &str) -> Self {
        let window = Window::default();
        let span = crate::window::span;
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
        if self.url.contains(":memory:") {
            let message =
                "a node needs a database that others can open too: name a file, as in sqlite:shop.db";
            return Err(Error::new(Kind::Config, message));
        }
        if self.core_threads == 0 || self.max_threads < self.core_threads || self.max_threads > 4_096 {
            let message = format!(
                "threads: 1 <= core <= max <= 4096 is required, got core {} and max {}",
                self.core_threads, self.max_threads
            );
            return Err(Error::new(Kind::Config, message));
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
        window.threshold = defaults.threshold.max(window.least_threshold());
        Ok(Config {
            application: self.application,
            url: self.url,
            limits: Limits::new(self.core_threads, self.max_threads, self.queue),
            window: window.checked()?,
            migrate: self.migrate,
        })
    }
}

/// Names are shown in terminals and logs and stored in columns: they are bounded and have no control characters.
pub(crate) fn check_name(what: &str, name: &str, most: usize) -> Result<(), Error> {
    let length = name.chars().count();
    let problem = if length == 0 {
        "is empty".to_owned()
    } else if length > most {
        format!("has {length} characters, {most} are allowed")
    } else if name.chars().any(char::is_control) {
        format!("{name:?} has control characters")
    } else {
        return Ok(());
    };
    Err(Error::new(Kind::Config, format!("{what} {problem}")))
}
