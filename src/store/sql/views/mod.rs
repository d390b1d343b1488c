//! Views for people, of the payloads that wait, and of the cluster's figures.

pub(super) mod awaited;
pub(super) mod covers;
pub(super) mod figures;
pub(super) mod history;
pub(super) mod inspect;
pub(super) mod ledger;
pub(super) mod outcomes;
pub(super) mod past;
pub(super) mod place;
pub(super) mod schedules;
pub(super) mod waiting;
