//! What handlers have said, as people see it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::api::Client;
use crate::api::views::number;
use crate::domain::{Error, ExecutionId, Line, LogLevel, Progress};
use crate::store::said::SaidBy;

/// What the handlers of an execution have said. As JSON, instants are epoch milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExecutionLogs {
    /// The newest lines of each attempt, up to 200, in the order in which they were said.
    pub lines: Vec<LogLine>,
    /// How far its last attempt that told has come, if one did ([`Context::progress`]).
    ///
    /// [`Context::progress`]: crate::Context::progress
    pub progress: Option<Progress>,
}

/// A line that a handler has said ([`Context::log`](crate::Context::log)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LogLine {
    /// The attempt that said it.
    pub execution: ExecutionId,
    /// 1 for the first attempt at its occurrence.
    pub attempt: u32,
    /// The fencing token of the run that said it: an attempt that snoozes has several runs.
    pub fence: i64,
    /// Its number within that run, from 0 on. Older lines than the newest 200 are gone.
    pub number: u64,
    /// When, by the database's clock; none if that is beyond the calendar.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub at: Option<DateTime<Utc>>,
    /// How much it matters.
    pub level: LogLevel,
    /// The handler's own words: whatever they hold, control characters included.
    pub text: String,
}

impl ExecutionLogs {
    fn of(attempts: Vec<SaidBy>) -> Self {
        let progress = attempts.iter().rev().find_map(|it| it.said.progress);
        let lines = attempts.into_iter().flat_map(|SaidBy { execution, attempt, said }| {
            said.lines.into_iter().map(move |(fence, line)| {
                let Line { number: nth, at, level, text } = line;
                LogLine { execution, attempt: number(attempt), fence, number: nth, at: at.utc(), level, text }
            })
        });
        Self { lines: lines.collect(), progress }
    }
}

impl Client {
    /// What the handlers of an execution have said, in all attempts at its occurrence; the id of any of them
    /// names it. While one runs, what it has said is stored every two seconds.
    ///
    /// ```
    /// use firetime::{Client, Job};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const EXPORT: Job<u64> = Job::new("export");
    /// let client = Client::connect("shop", &url)?;
    /// let id = client.enqueue(EXPORT, &7).run()?.id();
    /// for line in client.logs(id)?.lines {
    ///     println!("{} {}", line.level.as_str(), line.text);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the application has no such execution; or the
    /// database's failure.
    pub fn logs(&self, execution: impl Into<ExecutionId>) -> Result<ExecutionLogs, Error> {
        let id = execution.into();
        let said = self.store.said(&self.application, id)?;
        if said.is_empty() { Err(self.unknown_execution(id)) } else { Ok(ExecutionLogs::of(said)) }
    }
}
