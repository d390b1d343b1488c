//! Failures of a command, each with its exit code.

use std::io;
use std::path::Path;

use firetime::{Error, ErrorKind, TriggerError};

const FAILURE: u8 = 1;
pub(crate) const USAGE: u8 = 2;
const UNCLEAN: u8 = 3;
const NOT_FOUND: u8 = 4;

/// For `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  it worked
  1  it failed: the database, a file, a process
  2  it was asked wrongly: arguments, configuration, a URL, a cron expression; or --yes is missing
  3  the demo's verdict is not clean, the application that was checked is not healthy, or the ledger that was
     verified is not whole
  4  there is no application, schedule, job, node or execution of that name, or retention has removed rows
     that a certificate is of
A reader that goes away early (`| head`) ends the program quietly with 0; the demo, which then has no
verdict, with 1.";

/// The result of a part of a command.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Why the program ends without having done what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked makes no sense.
    Usage(String),
    /// The library's answer.
    Firetime(Error),
    /// Anything else that did not work.
    Failed(String),
    /// The reader of our output has gone.
    ReaderGone,
    /// The same, before the demo had its verdict.
    NoVerdict,
    /// Nothing has the name that was asked for.
    NotFound(String),
    /// The demo's verdict, which has been shown, is not clean; an application is not healthy; or its ledger
    /// is not whole.
    Unclean,
}

impl Failure {
    /// Nothing of this kind has the name; `known` are the names there are.
    pub(crate) fn not_found(kind: &str, name: &str, mut known: Vec<String>) -> Self {
        /// The most names that are shown.
        const SHOWN: usize = 3;
        /// A name that is less like it, from 0 to 1, is no help.
        const LIKE: f64 = 0.6;
        let likeness = |known: &String| strsim::jaro_winkler(name, known);
        known.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
        let like = known.iter().filter(|known| likeness(known) >= LIKE);
        let nearest: Vec<String> = like.take(SHOWN).map(|name| format!("{name:?}")).collect();
        let nearest = match (&known[..], &nearest[..]) {
            ([], _) if kind == "application" => {
                "there is none at all: one is made with its first schedule, execution or node".to_owned()
            }
            ([], _) => "there is none at all".to_owned(),
            ([only], _) => format!("there is only {only:?}"),
            (known, []) => format!("none of the {} that there are is like it", known.len()),
            (known, nearest) => format!("the nearest of {} is {}", known.len(), nearest.join(", then ")),
        };
        Self::NotFound(format!("there is no {kind} {name:?}; {nearest}"))
    }

    /// Why nothing could be done with this execution.
    pub(crate) fn of_execution(id: i64, error: Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => {
                Self::NotFound(format!("there is no execution {id}: `firetime executions` lists them"))
            }
            _ => error.into(),
        }
    }

    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("{doing} {}: {error}", path.display()))
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::ReaderGone => 0,
            Self::Usage(_) => USAGE,
            Self::Firetime(error) if error.kind() == ErrorKind::Config => USAGE,
            Self::Firetime(error) if error.kind() == ErrorKind::NotFound => NOT_FOUND,
            Self::Firetime(_) | Self::Failed(_) | Self::NoVerdict => FAILURE,
            Self::Unclean => UNCLEAN,
            Self::NotFound(_) => NOT_FOUND,
        }
    }

    /// What to say about it; nothing where everything has been said or nobody listens.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Self::Usage(message) | Self::Failed(message) | Self::NotFound(message) => Some(message.clone()),
            Self::Firetime(error) => Some(format!("{error:#}")),
            Self::ReaderGone | Self::NoVerdict | Self::Unclean => None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Firetime(error)
    }
}

impl From<TriggerError> for Failure {
    fn from(error: TriggerError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// Files say which they are ([`Failure::file`]); what is left are our own streams.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Failed(format!("input or output: {error}")),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::from(io::Error::from(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nothing_has_is_answered_with_those_that_are_like_it() {
        let said = |name: &str, known: &[&str]| {
            let known = known.iter().map(|name| (*name).to_owned()).collect();
            let failure = Failure::not_found("application", name, known);
            assert_eq!(failure.code(), 4);
            failure.message().unwrap()
        };
        assert!(said("shpo", &[]).starts_with("there is no application \"shpo\"; there is none at all: "));
        assert_eq!(
            said("shpo", &["depot", "shop", "zoo", "bank"]),
            "there is no application \"shpo\"; the nearest of 4 is \"shop\", then \"depot\""
        );
        assert!(said("zzzz", &["nightly", "hourly"]).ends_with("none of the 2 that there are is like it"));
        assert!(said("1f2", &["9d31", "1f3c"]).contains("is \"1f3c\""), "a prefix of an id");
    }
}
