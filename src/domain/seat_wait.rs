//! What a due execution waited for before it was claimed, and for how long.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{BoundScope, Millis};

/// A wait for a seat, as the ledger keeps it: `lane slow 41200`, `job 3100`, `group rate 2000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeatWait {
    pub seat: SeatKind,
    pub span: Millis,
}

/// Whose seat it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeatKind {
    /// One of a lane of its node.
    Lane(Arc<str>),
    /// One of those that may run at once.
    Bound(BoundScope),
    /// One of those that may begin within a span of time.
    Rate(BoundScope),
}

impl fmt::Display for SeatWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = self.span;
        match &self.seat {
            SeatKind::Lane(name) => write!(f, "lane {name} {span}"),
            SeatKind::Bound(BoundScope::Job) => write!(f, "job {span}"),
            SeatKind::Bound(BoundScope::Group) => write!(f, "group {span}"),
            SeatKind::Rate(BoundScope::Job) => write!(f, "job rate {span}"),
            SeatKind::Rate(BoundScope::Group) => write!(f, "group rate {span}"),
        }
    }
}

impl FromStr for SeatWait {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (seat, span) = text.rsplit_once(' ').ok_or(())?;
        let seat = match (seat, seat.strip_prefix("lane ")) {
            (_, Some(name)) => SeatKind::Lane(name.into()),
            ("job", _) => SeatKind::Bound(BoundScope::Job),
            ("group", _) => SeatKind::Bound(BoundScope::Group),
            ("job rate", _) => SeatKind::Rate(BoundScope::Job),
            ("group rate", _) => SeatKind::Rate(BoundScope::Group),
            _ => return Err(()),
        };
        Ok(Self { seat, span: span.parse().map_err(|_| ())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_is_read_as_it_is_written() {
        let scopes = [BoundScope::Job, BoundScope::Group];
        let bounds = scopes.into_iter().flat_map(|scope| [SeatKind::Bound(scope), SeatKind::Rate(scope)]);
        let lanes = ["slow", "very slow 7", "job"].map(|name| SeatKind::Lane(name.into()));
        for seat in bounds.chain(lanes) {
            let wait = SeatWait { seat, span: 41_200 };
            assert_eq!(wait.to_string().parse(), Ok(wait));
        }
        for text in ["", "lane", "job", "job x", "seat 5", "lane slow"] {
            assert_eq!(text.parse::<SeatWait>(), Err(()), "{text}");
        }
    }
}
