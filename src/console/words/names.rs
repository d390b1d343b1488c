//! What nodes and schedules are called.

use crate::{ExecutionView, NodeView};

/// A node as people know it: its host, and its process; as the audit names who has said no other name.
pub(crate) fn name_of(node: &NodeView) -> String {
    format!("{}/{}", node.host_name, node.pid)
}

/// The node that has, or had, an execution: as people know it, or by its id once its row is gone.
pub(crate) fn node_of(it: &ExecutionView, nodes: &[NodeView]) -> String {
    let Some(id) = &it.node else { return String::new() };
    nodes.iter().find(|node| node.id == *id).map_or_else(|| id.clone(), name_of)
}

/// What stands for all that was enqueued for its job, if it was; none if it has a schedule.
pub(crate) fn enqueued_for(it: &ExecutionView) -> Option<String> {
    is_of_queue(it).then(|| format!("What was enqueued for {}", it.job))
}

/// The name of its schedule; of what has none, that it was enqueued, and for which job.
pub(crate) fn name_of_schedule(it: &ExecutionView) -> String {
    if is_of_queue(it) { format!("enqueued: {}", it.job) } else { it.schedule.clone() }
}

/// Whether it was enqueued, and has no schedule.
pub(crate) fn is_of_queue(it: &ExecutionView) -> bool {
    it.schedule.strip_prefix("queue:").is_some_and(|job| job == it.job)
}
