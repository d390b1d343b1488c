//! How many pages are kept up to date at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// In all: `firetime console` keeps some of its 256 connections for whoever asks for a page.
const MOST: usize = 200;
/// Of one user: nobody takes all from the others.
const MOST_OF_ONE: usize = 32;

/// How many pages each user keeps up to date; none is whoever has no name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<Option<String>, usize>>>);

/// A place among the pages that are kept up to date, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    streams: Streams,
    user: Option<String>,
}

impl Streams {
    fn all(&self) -> MutexGuard<'_, HashMap<Option<String>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more page of a user, if there is one.
    pub(crate) fn place(&self, user: Option<&str>) -> Option<Place> {
        let (mut all, user) = (self.all(), user.map(str::to_owned));
        let count = all.get(&user).copied().unwrap_or_default();
        if all.values().sum::<usize>() >= MOST || (user.is_some() && count >= MOST_OF_ONE) {
            return None;
        }
        all.insert(user.clone(), count + 1);
        Some(Place { streams: self.clone(), user })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.streams.all();
        match all.get_mut(&self.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(all.remove(&self.user)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_in_all_and_fewer_of_one() {
        let streams = Streams::default();
        let of =
            |user: Option<&str>, count| (0..count).map_while(|_| streams.place(user)).collect::<Vec<_>>();
        let (ann, bea) = (of(Some("ann"), MOST), of(Some("bea"), 1));
        assert_eq!((ann.len(), bea.len()), (MOST_OF_ONE, 1));
        let others = of(None, MOST);
        assert_eq!(others.len(), MOST - MOST_OF_ONE - 1);
        assert!(of(Some("bea"), 1).is_empty() && of(Some("eve"), 1).is_empty());
        drop((ann, bea, others));
        assert!(streams.all().is_empty());
        assert_eq!(of(Some("ann"), MOST).len(), MOST_OF_ONE);
    }
}
