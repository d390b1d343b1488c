//! How many pages are kept up to date at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// In all: `firetime console` keeps some of its 256 connections for whoever asks for a page.
const MOST: usize = 200;
/// Of one user: nobody takes all from the others.
const MOST_OF_USER: usize = 32;
/// Of one address, of all those there whom no login knows: several people may share it.
const MOST_OF_NETWORK: usize = 64;

/// Whose pages are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Counted {
    User(String),
    Network(String),
    /// Everybody without a login whose address is not known.
    Others,
}

impl Counted {
    fn of(user: Option<&str>, network: Option<&str>) -> Self {
        let named = user.map(|name| Self::User(name.to_owned()));
        named.or_else(|| network.map(|it| Self::Network(it.to_owned()))).unwrap_or(Self::Others)
    }

    fn most(&self) -> usize {
        match self {
            Self::User(_) => MOST_OF_USER,
            Self::Network(_) => MOST_OF_NETWORK,
            Self::Others => MOST,
        }
    }
}

/// How many pages each of them keeps up to date.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<Counted, usize>>>);

/// A place among the pages that are kept up to date, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    streams: Streams,
    counted: Counted,
}

impl Streams {
    fn all(&self) -> MutexGuard<'_, HashMap<Counted, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more page of a user, or of somebody there whom no login knows, if there is one.
    pub(crate) fn place(&self, user: Option<&str>, network: Option<&str>) -> Option<Place> {
        let (mut all, counted) = (self.all(), Counted::of(user, network));
        let count = all.get(&counted).copied().unwrap_or_default();
        if all.values().sum::<usize>() >= MOST || count >= counted.most() {
            return None;
        }
        all.insert(counted.clone(), count + 1);
        Some(Place { streams: self.clone(), counted })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.streams.all();
        match all.get_mut(&self.counted) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(all.remove(&self.counted)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_in_all_and_fewer_of_one() {
        let streams = Streams::default();
        let of = |user: Option<&str>, network: Option<&str>, count| -> Vec<Place> {
            (0..count).map_while(|_| streams.place(user, network)).collect()
        };
        // A name counts wherever its owner is.
        let ann = of(Some("ann"), Some("10.0.0.1"), MOST);
        assert!(of(Some("ann"), Some("10.0.0.2"), 1).is_empty());
        let (bea, office) = (of(Some("bea"), None, 1), of(None, Some("10.0.0.1"), MOST));
        assert_eq!([ann.len(), bea.len(), office.len()], [MOST_OF_USER, 1, MOST_OF_NETWORK]);
        let others = of(None, None, MOST);
        assert_eq!(others.len(), MOST - MOST_OF_USER - 1 - MOST_OF_NETWORK);
        assert!(of(Some("bea"), None, 1).is_empty() && of(None, Some("10.0.0.3"), 1).is_empty());
        drop((ann, bea, office, others));
        assert!(streams.all().is_empty());
        assert_eq!(of(Some("ann"), None, MOST).len(), MOST_OF_USER);
    }
}
