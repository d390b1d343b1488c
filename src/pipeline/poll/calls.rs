//! The store calls of the poll machine.

use super::decode::Decode;
use super::pages::Poll;
use super::skipping::Look;
use crate::domain::ScheduleId;
use crate::machine::calls::calls;
use crate::store::news::{Glance, GlanceQuery};
use crate::store::{LargePayload, PollQuery, Polled};

/// The name of a poll's calls in messages.
const POLL: &str = "poll";

calls! { []
    /// Reads a page of a poll.
    page = Page { POLL, asks (query: PollQuery), keeps Poll, brings Polled }
        |store| store.poll(&query);
    /// Fetches large payloads.
    payloads = Payloads { POLL, asks (schedules: Vec<ScheduleId>), keeps Poll, brings Vec<LargePayload> }
        |store| store.payloads(&schedules);
    /// Calls decoders of the application; the store has no part in it.
    decode = Decode { POLL, asks (decode: Decode), keeps Poll, brings () }
        |_store| { decode.perform(); Ok(()) };
    /// Looks for overdue schedules, however old.
    look = Look { "looking for long overdue schedules", asks (query: PollQuery), keeps Look, brings Polled }
        |store| store.poll(&query);
    /// Asks for news.
    glance = Glance { "looking for news", asks (query: GlanceQuery), keeps (), brings Glance }
        |store| store.glance(&query);
}
