//! The name of a row in a case, whatever store it is in.

use crate::domain::{ExecutionId, NodeId, ScheduleId};

/// A row by its key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowKey<'a> {
    App(&'a str),
    Node(NodeId),
    /// Application and name.
    Job(&'a str, &'a str),
    Schedule(ScheduleId),
    /// Of a schedule of which something is expected.
    Expected(ScheduleId),
    Execution(ExecutionId),
    /// Of an execution of a job with bounds.
    Bounded(ExecutionId),
    Request(i64),
}

impl RowKey<'_> {
    pub(crate) fn table(&self) -> &'static str {
        match self {
            Self::App(_) => "QRTZ_APP",
            Self::Node(_) => "QRTZ_NODE",
            Self::Job(..) => "QRTZ_JOB",
            Self::Schedule(_) => "QRTZ_EXECUTE",
            Self::Expected(_) => "QRTZ_EXPECTED",
            Self::Execution(_) => "QRTZ_RUN",
            Self::Bounded(_) => "QRTZ_BOUNDED",
            Self::Request(_) => "QRTZ_REQUEST",
        }
    }

    /// The WHERE that names it. Test names need no quoting.
    pub(crate) fn condition(&self) -> String {
        match self {
            Self::App(name) => format!("application = '{name}'"),
            Self::Node(id) => format!("uuid = '{id}'"),
            Self::Job(application, name) => {
                format!("application = '{application}' AND job_class = '{name}'")
            }
            Self::Schedule(id) | Self::Expected(id) => format!("id = {id}"),
            Self::Execution(id) => format!("id = {id}"),
            Self::Bounded(id) => format!("execution_id = {id}"),
            Self::Request(id) => format!("id = {id}"),
        }
    }
}
