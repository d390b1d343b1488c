//! Counts the statements that this thread's connections are given.

use std::cell::Cell;

use diesel::connection::{InstrumentationEvent, set_default_instrumentation};

thread_local! {
    static STATEMENTS: Cell<usize> = const { Cell::new(0) };
}

/// From now on new connections count.
pub(crate) fn begin() {
    set_default_instrumentation(|| Some(Box::new(count))).unwrap();
}

fn count(event: InstrumentationEvent<'_>) {
    if matches!(event, InstrumentationEvent::StartQuery { .. }) {
        STATEMENTS.set(STATEMENTS.get() + 1);
    }
}

/// How many there were so far.
pub(crate) fn statements() -> usize {
    STATEMENTS.get()
}
