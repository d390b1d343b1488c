//! Whether whoever looks at an open page may still do so.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::request::Parts;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::console::access::known::Who;
use crate::console::access::sessions::By;
use crate::console::state::Console;

/// It is looked after this often: so long somebody still sees what goes on after they have logged out.
const EVERY: Duration = Duration::from_secs(2);

/// Who looks at an open page, which is found out again and again from the request that opened it.
pub(crate) struct Watch {
    console: Console,
    /// The request.
    parts: Parts,
    who: Who,
    next: Interval,
}

/// Whoever looked does so no more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// They have logged out, or their login has ended.
    LoggedOut,
    /// They have another role, or are somebody else by now.
    Other,
}

impl Watch {
    /// Of a request that the guard let through, who is known.
    pub(crate) fn new(console: Console, parts: Parts) -> Self {
        let who = parts.extensions.get::<Who>().cloned().unwrap_or(Who::LoggedOut);
        let mut next = interval(EVERY);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { console, parts, who, next }
    }

    /// Whether a login that is not the console's knows them.
    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self.who, Who::Known(_) | Who::Stranger)
    }

    /// Ready once they may look no more as they did.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Gone> {
        loop {
            ready!(self.next.poll_tick(context));
            match self.console.who(&self.parts, By::Page) {
                Ok(now) if now == self.who => {}
                Ok(Who::LoggedOut) | Err(_) => return Poll::Ready(Gone::LoggedOut),
                Ok(_) => return Poll::Ready(Gone::Other),
            }
        }
    }
}
