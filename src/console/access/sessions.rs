//! Who has logged in.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::secret::{self, Kept};
use super::user::User;
use super::users::{Account, List};
use crate::Error;

/// So many are kept; then whoever has been away the longest has to log in anew.
const MOST: usize = 10_000;

/// How long a login lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lasts {
    /// Without a request.
    pub(crate) idle: Duration,
    /// In all.
    pub(crate) whole: Duration,
}

/// What makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Somebody who is there.
    Person,
    /// A page that somebody has left open: it does not prolong a session.
    Page,
}

/// Those who have logged in, each by what is kept of the random id that their browser holds.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<Kept, Session>>);

#[derive(Debug)]
struct Session {
    name: String,
    /// Of the account's line, when they logged in.
    version: Kept,
    begun: Duration,
    seen: Duration,
}

impl Session {
    fn lasts(&self, now: Duration, lasts: Lasts) -> bool {
        now.saturating_sub(self.seen) < lasts.idle && now.saturating_sub(self.begun) < lasts.whole
    }
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<Kept, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody has logged in: the id for their browser.
    pub(crate) fn begin(&self, account: &Account, now: Duration, lasts: Lasts) -> Result<String, Error> {
        let id = secret::fresh()?;
        let mut all = self.all();
        if all.len() >= MOST {
            all.retain(|_, session| session.lasts(now, lasts));
        }
        if all.len() >= MOST {
            let longest = all.iter().min_by_key(|(_, session)| session.seen).map(|(id, _)| *id);
            longest.and_then(|id| all.remove(&id));
        }
        let (name, version) = (account.user.name().to_owned(), account.version);
        all.insert(secret::kept(&id), Session { name, version, begun: now, seen: now });
        Ok(id)
    }

    /// Whose session an id is: of a user whom the list still has, with the hash they logged in by.
    pub(crate) fn user(&self, id: &str, by: By, now: Duration, lasts: Lasts, list: &List) -> Option<User> {
        let (mut all, key) = (self.all(), secret::kept(id));
        let session = all.get_mut(&key)?;
        if session.lasts(now, lasts) {
            if by == By::Person {
                session.seen = now;
            }
            let account = list.account(&session.name);
            return account.filter(|it| it.version == session.version).map(|it| it.user.clone());
        }
        all.remove(&key);
        None
    }

    /// Somebody has logged out, or in anew.
    pub(crate) fn end(&self, id: &str) {
        self.all().remove(&secret::kept(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn an_open_page_prolongs_no_session_and_a_person_does() {
        let (list, sessions) = (List::of("ann"), Sessions::default());
        let (lasts, begun) = (Lasts { idle: 12 * HOUR, whole: 168 * HOUR }, 50 * HOUR);
        let id = sessions.begin(list.account("ann").unwrap(), begun, lasts).unwrap();
        let is_known = |by, hours: u32| sessions.user(&id, by, begun + hours * HOUR, lasts, &list).is_some();
        assert!(is_known(By::Person, 10) && is_known(By::Page, 21), "somebody was there after ten hours");
        assert!(!is_known(By::Page, 22) && !is_known(By::Person, 22), "nobody was for twelve");
    }

    #[test]
    fn a_session_ends_in_the_end_whoever_is_there() {
        let (list, sessions) = (List::of("ann"), Sessions::default());
        let lasts = Lasts { idle: 12 * HOUR, whole: 168 * HOUR };
        let id = sessions.begin(list.account("ann").unwrap(), HOUR, lasts).unwrap();
        let is_known = |hours: u32| sessions.user(&id, By::Person, hours * HOUR, lasts, &list).is_some();
        assert!((1..169).all(is_known) && !is_known(169));
    }
}
