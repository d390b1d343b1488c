//! What has become of a node that was to stop.

/// What has become of a scheduler that was to stop: the answer of
/// [`Scheduler::shutdown`](crate::Scheduler::shutdown) and of [`Scheduler::wait`](crate::Scheduler::wait).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says whether work was left to other nodes"]
#[non_exhaustive]
pub enum Stopped {
    /// Everything ended in time, and the node's row says that it has left.
    Clean,
    /// The shutdown is over, and jobs still run that were left to themselves, or the database could not be
    /// told. Other nodes treat this one as dead once its heartbeat has been missing long enough.
    Unclean,
    /// The shutdown goes on: it was called by a handler of this scheduler, for whose end it waits, or another
    /// thread shuts down already and has not come to an end by this call's deadline.
    NotYet,
    /// The node cannot go on, and nobody has shut it down yet. Of [`Scheduler::wait`](crate::Scheduler::wait)
    /// alone.
    GivenUp,
}

impl Stopped {
    /// Whether it is [`Stopped::Clean`].
    pub const fn is_clean(self) -> bool {
        matches!(self, Self::Clean)
    }

    /// The end of a shutdown.
    pub(super) const fn of_shutdown(clean: bool) -> Self {
        if clean { Self::Clean } else { Self::Unclean }
    }
}
