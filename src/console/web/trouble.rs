//! Why there is no page, or no change.

use axum::http::StatusCode;

use crate::{Error, ErrorKind};

/// Why a request gets no page of its own: said to people, with the status that says it to programs.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    /// What is wrong, and what helps.
    pub(crate) said: String,
}

impl Trouble {
    /// The request cannot be understood.
    pub(crate) fn wrong(said: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, title: "This cannot be asked", said: said.into() }
    }

    /// Nobody knows who asks.
    pub(crate) fn unauthorized(said: impl Into<String>) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, title: "Who are you?", said: said.into() }
    }

    /// The path is another method's.
    pub(crate) fn not_allowed(said: impl Into<String>) -> Self {
        Self { status: StatusCode::METHOD_NOT_ALLOWED, title: "This is asked otherwise", said: said.into() }
    }

    /// A form was not taken.
    pub(crate) fn not_taken(status: StatusCode, said: impl Into<String>) -> Self {
        Self { status, title: "Nothing was changed", said: said.into() }
    }

    pub(crate) fn forbidden(said: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, title: "Nothing was changed", said: said.into() }
    }

    /// Others ask for the same, and too many.
    pub(crate) fn busy(said: impl Into<String>) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, title: "The console is busy", said: said.into() }
    }

    pub(crate) fn not_found(said: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, title: "There is nothing here", said: said.into() }
    }

    /// The database does not answer, or not in time.
    pub(crate) fn away() -> Self {
        let said = "The database does not answer. Nodes go on with what they have claimed, and claim again once \
                    it is back; nothing that is due is lost.";
        Self { status: StatusCode::SERVICE_UNAVAILABLE, title: "The database is away", said: said.to_owned() }
    }

    /// A change was begun, and what became of it is not known: it may go on, or its answer was lost.
    pub(crate) fn unknown() -> Self {
        let said = "It may have been carried out: look at the page or the audit before you send it again.";
        Self { status: StatusCode::GATEWAY_TIMEOUT, title: "The answer did not come", said: said.to_owned() }
    }

    /// An instant that no calendar has.
    pub(crate) fn beyond() -> Self {
        Self::wrong("This instant is beyond the calendar.")
    }

    /// Something in the console itself went wrong.
    pub(crate) fn broken() -> Self {
        let said = "The page could not be made; the log of the console's process says why.";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self { status, title: "This page is broken", said: said.to_owned() }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error.kind() {
            // Where a program would look further is not for people, who have the menu.
            ErrorKind::NotFound => {
                let said = error.to_string();
                Self::not_found(said.split(": see Client::").next().unwrap_or(&said))
            }
            ErrorKind::Config => Self::wrong(error.to_string()),
            // The error in full is for the log: it may name the database's host.
            ErrorKind::Unavailable | ErrorKind::System => {
                log::warn!("console: {error:#}");
                Self::away()
            }
            ErrorKind::Unknown => {
                log::warn!("console: {error:#}");
                Self::unknown()
            }
            _ => {
                log::warn!("console: {error:#}");
                let (status, title) = (StatusCode::INTERNAL_SERVER_ERROR, "The database refused");
                Self { status, title, said: error.to_string() }
            }
        }
    }
}

impl From<askama::Error> for Trouble {
    fn from(error: askama::Error) -> Self {
        log::error!("console: {error}");
        Self::broken()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_whose_answer_was_lost_may_have_been_made() {
        let trouble = Trouble::from(Error::new(ErrorKind::Unknown, "pausing a schedule"));
        assert_eq!(trouble.status, StatusCode::GATEWAY_TIMEOUT);
        assert!(trouble.said.starts_with("It may have been carried out"), "{}", trouble.said);
    }
}
