//! Spans of time in which no node lived, as the nodes' rows tell.

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use crate::api::NodeView;

/// Outages are told for so long.
const SHOWN: TimeDelta = TimeDelta::days(1);
/// A shorter one is a restart.
const SHORTEST: TimeDelta = TimeDelta::seconds(30);

/// A span of time in which no node of the application lived. As JSON, instants are epoch milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Outage {
    /// When the last node stopped, or was last heard of.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub since: DateTime<Utc>,
    /// When the next one joined; none if none has.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub until: Option<DateTime<Utc>>,
}

/// Those of the last day, the latest first. Of a time from which no node's row is left nothing is known.
pub(super) fn outages(nodes: &[NodeView], now: DateTime<Utc>) -> Vec<Outage> {
    let mut lives: Vec<(DateTime<Utc>, DateTime<Utc>)> =
        nodes.iter().filter_map(|node| Some((node.started?, last_life(node, now)?))).collect();
    lives.sort();
    let mut outages = Vec::new();
    let Some(mut lived) = lives.first().map(|(_, until)| *until) else { return outages };
    let mut add = |since: DateTime<Utc>, until: Option<DateTime<Utc>>| {
        let end = until.unwrap_or(now);
        if end - since >= SHORTEST && end > now - SHOWN {
            outages.push(Outage { since, until });
        }
    };
    for (started, until) in lives {
        if started > lived {
            add(lived, Some(started));
        }
        lived = lived.max(until);
    }
    if lived < now {
        add(lived, None);
    }
    outages.reverse();
    outages
}

/// How long a node has certainly lived: of a dead one, nobody knows when it died.
fn last_life(node: &NodeView, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    match (node.ended, node.end_reason.as_str()) {
        (None, _) => Some(now),
        (Some(_), "dead") => node.last_beat.max(node.started),
        (ended, _) => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{NodeId, Timestamp};
    use crate::fixtures::new_node;
    use crate::store::Store;
    use crate::store::memory::MemoryStore;

    fn any_node() -> NodeView {
        let store = MemoryStore::default();
        store.register(&new_node(NodeId::fresh(), "app", Vec::new(), Timestamp::EPOCH)).unwrap();
        NodeView::from(store.nodes(None).unwrap().remove(0))
    }

    fn at(minutes: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(2_000_000_000_000).unwrap() + TimeDelta::minutes(minutes)
    }

    /// A node by its start, its last heartbeat, and its end.
    fn lived(started: i64, last_beat: i64, ended: Option<(i64, &str)>) -> NodeView {
        NodeView {
            started: Some(at(started)),
            last_beat: Some(at(last_beat)),
            ended: ended.map(|(ended, _)| at(ended)),
            end_reason: ended.map_or("", |(_, reason)| reason).to_owned(),
            ..any_node()
        }
    }

    #[test]
    fn an_outage_is_where_no_nodes_life_reaches() {
        let nodes = [
            lived(-600, -300, Some((-299, "stopped"))),
            lived(-500, -280, Some((-250, "dead"))),
            lived(-200, -100, Some((-99, "dead"))),
            lived(-60, -1, None),
        ];
        let outage = |since, until| Outage { since: at(since), until: Some(at(until)) };
        assert_eq!(outages(&nodes, at(0)), [outage(-100, -60), outage(-280, -200)]);
    }

    #[test]
    fn an_outage_may_go_on_and_long_ones_end_within_the_day() {
        let stopped = |at| lived(at - 10, at, Some((at, "stopped")));
        assert_eq!(outages(&[stopped(-5)], at(0)), [Outage { since: at(-5), until: None }]);
        let long = [stopped(-5_000), lived(-1_000, -1, None)];
        assert_eq!(outages(&long, at(0)), [Outage { since: at(-5_000), until: Some(at(-1_000)) }]);
        let past = [stopped(-9_000), stopped(-3_000), lived(-3_000, -1, None)];
        assert_eq!(outages(&past, at(0)), []);
        assert_eq!(outages(&[lived(-60, -50, None)], at(0)), [], "another node finds out whether it is dead");
        assert_eq!(outages(&[], at(0)), []);
    }
}
