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
pub(super) struct Lasts {
    /// Without a request.
    pub(super) idle: Duration,
    /// In all.
    pub(super) whole: Duration,
}

/// Those who have logged in, each by what is kept of the random id that their browser holds.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Kept, Session>>);

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
    pub(super) fn begin(&self, account: &Account, now: Duration, lasts: Lasts) -> Result<String, Error> {
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
    pub(super) fn user(&self, id: &str, now: Duration, lasts: Lasts, list: &List) -> Option<User> {
        let (mut all, key) = (self.all(), secret::kept(id));
        let session = all.get_mut(&key)?;
        if session.lasts(now, lasts) {
            session.seen = now;
            let account = list.account(&session.name);
            return account.filter(|it| it.version == session.version).map(|it| it.user.clone());
        }
        all.remove(&key);
        None
    }

    /// Somebody has logged out, or in anew.
    pub(super) fn end(&self, id: &str) {
        self.all().remove(&secret::kept(id));
    }
}
