//! Where a page of a list begins: in an instant's order, behind a row.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::domain::{Error, ErrorKind, Timestamp};

/// A place in a list that is in the order of an instant and, of rows with the same, of their ids.
macro_rules! place {
    ($(#[$about:meta])* $Place:ident, $list:literal) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $Place {
            pub(super) at: Timestamp,
            pub(super) id: i64,
        }

        impl fmt::Display for $Place {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}.{}", self.at.millis(), self.id)
            }
        }

        impl FromStr for $Place {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                let (at, id) = numbers(text, $list)?;
                Ok(Self { at, id })
            }
        }

        impl Serialize for $Place {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

/// The instant and the id in the text of a place in a list of these.
fn numbers(text: &str, list: &str) -> Result<(Timestamp, i64), Error> {
    let numbers = text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id.parse().ok()?)));
    let (at, id) = numbers.ok_or_else(|| {
        let what = format!("{text:?} is no place in a list of {list}");
        Error::new(ErrorKind::Config, format!("{what}: give that with which the page before ended"))
    })?;
    Ok((Timestamp::at(at), id))
}

place! {
    /// Where an execution stands in a list: [`ExecutionView::place`](crate::ExecutionView::place). Its text
    /// is read back, for a program that gives it to somebody who asks for the next page.
    ExecutionPlace, "executions"
}

place! {
    /// Where a change stands in the audit: [`AuditView::place`](crate::AuditView::place). Its text is read
    /// back, for a program that gives it to somebody who asks for the next page.
    AuditPlace, "changes"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_from_its_text() {
        let place = ExecutionPlace { at: Timestamp::at(-1), id: i64::MAX };
        assert_eq!(place.to_string().parse::<ExecutionPlace>().unwrap(), place);
        for text in ["", "1", "1.", ".1", "1.x", "1.2.3", "99999999999999999999.1"] {
            let error = text.parse::<ExecutionPlace>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?} is no place in a list of executions")), "{error}");
        }
    }
}
