//! The limits of one poll, and of each of its calls.

use crate::domain::Millis;

/// The most schedules, and the most PENDING executions, one poll plans.
pub(crate) const POLL_LIMIT: usize = 50_000;
/// Rows per page: one store call. Halved by each poll that fails, down to the least, and doubled by each that
/// does not.
pub(super) const PAGE: usize = 25_000;
pub(super) const LEAST_PAGE: usize = 64;
/// A poll begins no call after so long, but for the first that may bring rows and the first that brings large
/// payloads.
pub(super) const PATIENCE: Millis = 1_000;
/// The rows of a short poll.
pub(super) const SHORT_PAGE: usize = 1_000;
/// The most rows of others' shards one page asks for, and the number after which no page follows.
pub(super) const OTHERS: usize = 1_000;
/// A node with this many late rows at home has a backlog, and brings none of others' shards.
pub(super) const BACKLOG: usize = 256;
/// The most bytes of large payloads one poll brings, and one call of it with a full page.
pub(super) const POLL_BYTES: usize = 32 << 20;
pub(super) const PAGE_BYTES: usize = 4 << 20;
/// The most large payloads one call brings.
pub(super) const PAYLOADS: usize = 256;
