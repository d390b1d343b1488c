//! What pages say and people write: states, instants, spans, counts and names.

mod badge;
pub(crate) mod instant;
mod moment;
mod names;
pub(crate) mod span;
mod text;
pub(crate) mod zone;

pub(crate) use self::badge::{Badge, Glyph, Mark};
pub(crate) use self::moment::{Moment, clock, exact, length, span};
pub(crate) use self::names::{enqueued_for, is_of_queue, name_of, name_of_schedule, node_of};
pub(crate) use self::text::{because, cause, counted, first_line, in_words, number, trigger};
