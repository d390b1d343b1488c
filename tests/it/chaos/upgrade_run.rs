//! A cluster that is upgraded node by node, by `scripts/upgrade.sh`.

use std::collections::BTreeSet;

use super::cluster::{Cluster, OLD, QUICK, now};
use crate::support::database::ServerKind;

/// How long there is something to do.
const SPAN: i64 = 18_000;

/// Two nodes of the older build make the tables; this build brings them up to date and joins. Then one of the
/// older nodes stops in order and the other is killed, and what they held is done by the newer ones.
pub fn nodes_of_two_releases_share_the_work(kind: ServerKind) {
    let (mut cluster, is_newer) = Cluster::of_old("upgrade", kind, 2);
    let from = now() + 1_500;
    cluster.load.ticks(&cluster.client, 24, from, from + SPAN);
    cluster.load.held(&cluster.client, 12, from + 3_000, 4_000);
    cluster.load.saved(&cluster.client, 8, from + 2_000, 300);
    cluster.pay(60, (from + 1_000, 150));
    let first = cluster.add(QUICK);
    cluster.await_ready();
    await_begins_on(&mut cluster, &[0, 1, first]);
    let (_, clean) = cluster.shut_down(0);
    assert!(clean, "the older node did not stop cleanly");
    let second = cluster.add(QUICK);
    cluster.await_ready();
    await_begins_on(&mut cluster, &[1, first, second]);
    cluster.kill(1);
    cluster.heal();
    // As long as no release has changed the tables there is a way back, too.
    if !is_newer {
        let back = cluster.add(OLD);
        cluster.await_ready();
        await_begins_on(&mut cluster, &[first, second, back]);
    }
    let settled = cluster.settle(false);
    cluster.report.note("migrated", i64::from(is_newer));
    cluster.conclude(&settled);
}

/// Waits until each of these nodes has begun something.
fn await_begins_on(cluster: &mut Cluster, nodes: &[usize]) {
    let mut missing: BTreeSet<usize> = nodes.iter().copied().collect();
    while !missing.is_empty() {
        let begun = cluster.await_begin("");
        missing.remove(&begun);
    }
}
