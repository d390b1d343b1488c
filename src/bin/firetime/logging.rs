//! The program's log: warnings on standard error, unless a configuration file says otherwise.

use std::path::PathBuf;

use log::LevelFilter;
use log4rs::append::console::{ConsoleAppender, Target};
use log4rs::config::{Appender, Config, Root};
use log4rs::encode::pattern::PatternEncoder;

use crate::failure::{Failure, Result};

/// What is logged, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Logging {
    /// This level and above, on standard error.
    Stderr(LevelFilter),
    /// As a log4rs configuration (YAML) says.
    File(PathBuf),
}

impl Logging {
    /// Warnings; each `-v` shows more.
    pub(crate) fn verbose(times: u8) -> Self {
        Self::Stderr(match times {
            0 => LevelFilter::Warn,
            1 => LevelFilter::Info,
            2 => LevelFilter::Debug,
            _ => LevelFilter::Trace,
        })
    }
}

pub(crate) fn start(logging: &Logging) -> Result {
    let config = match logging {
        Logging::Stderr(level) => stderr(*level)?,
        Logging::File(path) => {
            log4rs::config::load_config_file(path, log4rs::config::Deserializers::default())
                .map_err(|error| Failure::Usage(format!("--log-config {}: {error}", path.display())))?
        }
    };
    log4rs::init_config(config).map(drop).map_err(|error| Failure::Failed(format!("logging: {error}")))
}

fn stderr(level: LevelFilter) -> Result<Config> {
    const APPENDER: &str = "stderr";
    let encoder = PatternEncoder::new("{d(%Y-%m-%dT%H:%M:%S%.3fZ)(utc)} {l} {m}{n}");
    let console = ConsoleAppender::builder().target(Target::Stderr).encoder(Box::new(encoder)).build();
    Config::builder()
        .appender(Appender::builder().build(APPENDER, Box::new(console)))
        .build(Root::builder().appender(APPENDER).build(level))
        .map_err(|error| Failure::Failed(format!("logging: {error}")))
}
