//! A handler's answer: how its run ended.

use std::error::Error as StdError;
use std::time::Duration;

use super::{ExecutionId, Token};

/// The error of a run whose own transaction was to store its outcome, and has not.
pub(crate) const UNCOMMITTED: &str =
    "complete_in was called, and its transaction was rolled back or not committed";

/// What a handler returns when it fails: any error. Its text is stored with the execution (4,000 characters).
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// Proof that a transaction of the handler's own is to store the outcome of its execution: made by
/// [`Context::complete_in`](crate::Context::complete_in), and handed back as [`Answer::Completed`] once the
/// transaction is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "commit the transaction, then answer with it"]
pub struct Receipt {
    pub(crate) execution: ExecutionId,
    pub(crate) token: Token,
}

/// What a handler that returned says of its execution. An error, returned with `?` or as `Err`, is
/// [`Failed`](Answer::Failed); so is a panic. `()` is [`Done`](Answer::Done).
///
/// ```
/// use firetime::{Answer, Builder, Job, Scheduler};
/// use std::time::Duration;
///
/// const INVOICE: Job<u64> = Job::new("invoice");
///
/// fn served(builder: Builder) -> Builder {
///     builder.handler(INVOICE, |_, number| {
///         if number == 0 {
///             return Ok(Answer::GiveUp("there is no invoice 0".to_owned()));
///         }
///         if !std::path::Path::new("/tmp").exists() {
///             return Ok(Answer::Snooze(Duration::from_secs(30)));
///         }
///         let _text = std::fs::read_to_string("Cargo.toml")?;
///         Ok(Answer::Done)
///     })
/// }
/// # let _ = served(Scheduler::builder("shop", "sqlite:shop.db"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a handler returns its answer"]
pub enum Answer {
    /// SUCCEEDED.
    Done,
    /// SUCCEEDED, as the handler's own transaction has stored it
    /// ([`Context::complete_in`](crate::Context::complete_in)). FAILED, and tried again as
    /// [`Job::retry`](crate::Job::retry) says, if that transaction was not committed.
    Completed(Receipt),
    /// FAILED, with this text; tried again as [`Job::retry`](crate::Job::retry) says.
    Failed(String),
    /// FAILED, with this text; if [`Job::retry`](crate::Job::retry) grants another retry, it waits so long
    /// instead.
    RetryIn(Duration, String),
    /// Not finished: the same attempt runs again after so long, on whatever node. It is PENDING meanwhile,
    /// reason `snoozed`, and uses up neither an attempt nor a retry. There is no limit.
    Snooze(Duration),
    /// FAILED, with this text and the reason `gave up`: no retry would help.
    GiveUp(String),
    /// CANCELLED, with this text; not tried again.
    Cancelled(String),
}

impl Answer {
    /// What the run of an execution that somebody asked to end came to: unless it has succeeded, it is
    /// cancelled.
    pub(crate) fn after_cancel(self) -> Self {
        match self {
            Self::Failed(text) | Self::RetryIn(_, text) | Self::GiveUp(text) => Self::Cancelled(text),
            Self::Snooze(_) => Self::Cancelled("snoozed after it was asked to end".to_owned()),
            Self::Completed(_) => Self::Cancelled(UNCOMMITTED.to_owned()),
            Self::Done | Self::Cancelled(_) => self,
        }
    }

    /// The same answer, of a run whose outcome no transaction of its own has stored although it was to.
    pub(crate) fn uncommitted(self) -> Self {
        match self {
            Self::Done | Self::Completed(_) => Self::Failed(UNCOMMITTED.to_owned()),
            other => other,
        }
    }

    /// The pause before its retry, if it failed and names one.
    pub(crate) fn own_pause(&self) -> Option<Duration> {
        if let Self::RetryIn(pause, _) = self { Some(*pause) } else { None }
    }

    /// Whether its job's policy decides about a retry.
    pub(crate) fn may_be_retried(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::RetryIn(..) | Self::Completed(_))
    }
}

impl From<Receipt> for Answer {
    fn from(receipt: Receipt) -> Self {
        Self::Completed(receipt)
    }
}

impl From<()> for Answer {
    fn from((): ()) -> Self {
        Self::Done
    }
}

/// What a handler may return in `Ok`: an [`Answer`]; `()`, which is [`Answer::Done`]; a [`Receipt`], which is
/// [`Answer::Completed`]. A type of yours may be one more.
#[diagnostic::on_unimplemented(
    message = "a handler cannot answer with `{Self}`",
    label = "the handler returns `Ok` of `{Self}`",
    note = "a handler returns `Ok(())`, `Ok` of an `Answer`, or `Ok` of the `Receipt` of `complete_in`",
    note = "`context.result(&value)?` stores a value with the execution, for others to read",
    note = "a handler with `async` is given to `async_handler`"
)]
pub trait IntoAnswer {
    /// The answer that it stands for.
    fn into_answer(self) -> Answer;
}

impl IntoAnswer for Answer {
    fn into_answer(self) -> Answer {
        self
    }
}

impl IntoAnswer for Receipt {
    fn into_answer(self) -> Answer {
        self.into()
    }
}

impl IntoAnswer for () {
    fn into_answer(self) -> Answer {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_does_not_succeed_after_a_cancel_is_cancelled() {
        let text = || "no".to_owned();
        let pause = Duration::from_secs(1);
        for failed in [Answer::Failed(text()), Answer::RetryIn(pause, text()), Answer::GiveUp(text())] {
            assert_eq!(failed.after_cancel(), Answer::Cancelled(text()));
        }
        assert!(matches!(Answer::Snooze(pause).after_cancel(), Answer::Cancelled(_)));
        assert_eq!(Answer::Done.after_cancel(), Answer::Done);
    }

    #[test]
    fn what_was_to_be_committed_and_was_not_is_no_success() {
        let receipt = Receipt { execution: ExecutionId(1), token: Token::fresh() };
        for answer in [Answer::Done, receipt.into()] {
            assert_eq!(answer.uncommitted(), Answer::Failed(UNCOMMITTED.to_owned()));
        }
        let snooze = Answer::Snooze(Duration::ZERO);
        assert_eq!(snooze.clone().uncommitted(), snooze);
    }
}
