//! Calls of the store that are one function of a session each.

/// Store calls that are one function of a session each: whether it reads or writes, its name in errors, and
/// the function.
macro_rules! calls {
    ($($how:ident $name:ident($($it:ident: $It:ty),*) -> $Answer:ty = $operation:expr, $function:path;)*) => {
        $(fn $name(&self, $($it: $It),*) -> Result<$Answer> {
            self.$how($operation, |session| $function(session, $($it),*))
        })*
    };
}

/// The calls that a client makes alike on connections of ours and within a transaction of its own.
macro_rules! shared_verbs {
    () => {
        calls! {
            write order(order: &RunOrder) -> Ordered = "trigger a schedule", order::order;
            write rerun(order: &RerunOrder) -> Reran = "rerun a schedule", rerun::rerun;
            write cancel_rerun(order: &RerunCancel) -> RerunCancelled = "cancel a rerun", rerun::cancel;
            write enqueue_unique(order: &EnqueueOrder) -> Keyed = "enqueue", queue::enqueue_unique;
            write complete(outcome: &ExecutionChange) -> Completed =
                "complete an execution", change::complete;
            write checkpoint(checkpoint: &ExecutionChange) -> Applied =
                "store a checkpoint", change::checkpoint;
            write cancel(order: &ExecutionOrder) -> Cancel = "cancel an execution", order::cancel;
            write retry(order: &ExecutionOrder) -> Retry = "retry an execution", order::retry;
            write switch(order: &SwitchOrder) -> Switched = order.verb.name(), switch::switch;
            read passed(query: &PassedQuery) -> Vec<Entry> = "look for what a pause held back", poll::passed;
        }
    };
}

pub(crate) use {calls, shared_verbs};
