//! The words of the scheduler as types: ids, states, rows, occurrences, outcomes, errors and events.
//!
//! Inside the crate an instant is a [`Timestamp`] of database time or one of the boot clock ([`Boot`]), and a
//! span is a number of milliseconds ([`Millis`]). Public items have `DateTime<Utc>` and `Duration`, events
//! epoch milliseconds.

mod answer;
pub(crate) mod attempt_span;
mod bounds;
mod cause;
mod covers;
mod entry;
mod error;
mod event;
mod field;
pub(crate) mod headers;
pub(crate) mod histogram;
mod ids;
mod instants;
mod lane_health;
mod lineage;
mod missed;
mod overlap;
mod pause_after;
pub(crate) mod payload;
mod policy;
#[cfg(any(feature = "sql", feature = "testing", test))]
mod room;
mod said;
mod seat_wait;
pub(crate) mod shards;
mod states;
pub(crate) mod text;
mod timing;
pub(crate) mod user_code;
mod word;

pub(crate) use answer::UNCOMMITTED;
pub use answer::{Answer, HandlerError, IntoAnswer, Receipt};
#[cfg(feature = "tracing")]
pub use attempt_span::SpanOrigin;
#[cfg(any(test, feature = "testing"))]
pub(crate) use bounds::Bound;
pub(crate) use bounds::{BoundOf, BoundScope, Bounds, Full, MOST_AHEAD, Rate};
pub use cause::Cause;
#[cfg(any(feature = "sql", feature = "testing", test))]
pub(crate) use covers::LastAttempt;
pub use covers::{Covers, LeftOut};
pub(crate) use entry::{Candidate, Cursor, DEFAULT_PRIORITY, Entry, Occurrence, Pending};
#[cfg(feature = "sql")]
pub(crate) use error::Source;
pub use error::{Error, ErrorKind};
pub(crate) use event::LISTENING;
pub use event::{Attempt, Event};
pub(crate) use field::FieldSet;
pub use field::{Difference, ScheduleField};
pub use ids::{ExecutionId, NodeId, ScheduleId};
pub(crate) use ids::{JobId, Token};
pub(crate) use instants::{Boot, Millis, Timestamp};
pub use lane_health::LaneHealth;
pub(crate) use lane_health::LaneReport;
pub use lineage::Lineage;
pub(crate) use missed::{MOST_FIRED, MOST_PASSED, Missed};
pub use overlap::Overlap;
pub(crate) use pause_after::PauseAfter;
pub use policy::Retry;
pub(crate) use policy::{JobPolicy, JobSettings, JobSpec, LONGEST_ERROR};
#[cfg(any(feature = "sql", feature = "testing", test))]
pub(crate) use room::{Noted, Room};
pub(crate) use said::{LONGEST_LINE, Line, MOST_LINES};
pub use said::{LogLevel, Progress};
pub(crate) use seat_wait::{SeatKind, SeatWait};
pub(crate) use states::Reason;
pub use states::{Activity, ExecutionState, MisfirePolicy, ScheduleState, UnknownWord};
pub(crate) use timing::NextFire;
#[cfg(any(feature = "sql", feature = "testing", test))]
pub(crate) use timing::after_run;
pub use word::Word;
