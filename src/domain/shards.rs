//! Home shards: which schedules a node looks at first, so that nodes do not all reach for the same ones.
//!
//! A schedule's name puts it into one of [`SHARDS`] shards. The live nodes that list a job, and can run it
//! now, share its shards out by rendezvous hashing with bounded load. Everybody works that out alone, from
//! the heartbeat table; it is a hint, and disagreement costs lost claims, nothing else: the claim's guard
//! decides. Pure.

use std::collections::BTreeMap;

use crate::domain::NodeId;

pub(crate) const SHARDS: usize = 16;

/// The shard of a schedule: FNV-1a of its name. Stored, so it must never change.
pub(crate) fn of(name: &str) -> i64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    i64::from(u8::try_from(hash % SHARDS as u64).unwrap_or(0))
}

/// The shard of an enqueued execution: they are shared out one by one, in the order in which they are stored.
pub(crate) fn of_origin(origin: i64) -> i64 {
    origin.rem_euclid(SHARDS as i64)
}

/// A live node and the jobs it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub id: NodeId,
    pub jobs: Vec<String>,
    /// Those of them that it cannot run now.
    pub blocked: Vec<String>,
}

impl Member {
    /// Whether it has part in the job's shards.
    fn shares(&self, job: &String) -> bool {
        self.jobs.contains(job) && !self.blocked.contains(job)
    }
}

/// Schedules: of these jobs, in these shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub jobs: Vec<String>,
    pub shards: Vec<i64>,
}

impl Share {
    /// Everything of these jobs.
    pub(crate) fn whole(jobs: Vec<String>) -> Self {
        Self { jobs, shards: every().collect() }
    }

    /// The other nodes' shards of these jobs.
    pub(crate) fn others(&self) -> Self {
        let shards = every().filter(|shard| !self.shards.contains(shard)).collect();
        Self { jobs: self.jobs.clone(), shards }
    }
}

/// All shards.
pub(crate) fn every() -> impl Iterator<Item = i64> {
    (0_i64..).take(SHARDS)
}

/// The home shards of the node `me`, which runs `jobs` beside these other nodes. Jobs with the same shards
/// make one share.
pub(crate) fn home(me: NodeId, jobs: &[String], members: &[Member]) -> Vec<Share> {
    let mut candidates: BTreeMap<Vec<NodeId>, Vec<String>> = BTreeMap::new();
    for job in jobs {
        let lists = |member: &&Member| member.id != me && member.shares(job);
        let mut nodes: Vec<NodeId> = members.iter().filter(lists).map(|member| member.id).collect();
        nodes.push(me);
        nodes.sort_unstable();
        nodes.dedup();
        candidates.entry(nodes).or_default().push(job.clone());
    }
    let mut shares: Vec<Share> = Vec::new();
    for (nodes, mut jobs) in candidates {
        let owners = every().zip(owners(&nodes));
        let shards: Vec<i64> = owners.filter(|(_, owner)| *owner == me).map(|(shard, _)| shard).collect();
        match shares.iter_mut().find(|share| share.shards == shards) {
            Some(share) => share.jobs.append(&mut jobs),
            None => shares.push(Share { jobs, shards }),
        }
    }
    shares
}

/// Each shard's owner: in turn, the node that weighs most for it and has room. Loads differ by one at most.
fn owners(nodes: &[NodeId]) -> Vec<NodeId> {
    let (least, mut larger) = (SHARDS / nodes.len(), SHARDS % nodes.len());
    let mut loads = vec![0; nodes.len()];
    let mut owners = Vec::with_capacity(SHARDS);
    for shard in every() {
        let has_room = |n: &usize| loads[*n] < least || loads[*n] == least && larger > 0;
        let heaviest =
            (0..nodes.len()).filter(has_room).max_by_key(|n| (weight(nodes[*n], shard), nodes[*n]));
        let Some(owner) = heaviest else { break };
        larger -= usize::from(loads[owner] == least);
        loads[owner] += 1;
        owners.push(nodes[owner]);
    }
    owners
}

fn weight(node: NodeId, shard: i64) -> u64 {
    let (high, low) = node.0.as_u64_pair();
    mixed(mixed(high ^ mixed(low)) ^ shard.unsigned_abs())
}

/// SplitMix64's last step: every bit depends on every other.
pub(super) fn mixed(bits: u64) -> u64 {
    let mut z = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as alike as names can be.
    fn nodes(count: u128) -> Vec<NodeId> {
        (1..=count).map(|n| NodeId(uuid::Uuid::from_u128(n))).collect()
    }

    fn members(nodes: &[NodeId], jobs: &[&str]) -> Vec<Member> {
        let jobs: Vec<String> = jobs.iter().map(|job| (*job).to_owned()).collect();
        nodes.iter().map(|id| Member { id: *id, jobs: jobs.clone(), blocked: Vec::new() }).collect()
    }

    fn share(jobs: &[&str], shards: &[i64]) -> Share {
        Share { jobs: jobs.iter().map(|job| (*job).to_owned()).collect(), shards: shards.to_vec() }
    }

    #[test]
    fn a_name_keeps_its_shard_for_ever() {
        assert_eq!([of(""), of("report"), of("nightly")], [5, 11, 10]);
        let used: std::collections::BTreeSet<i64> = (0..200).map(|n| of(&format!("job-{n}"))).collect();
        assert_eq!(used.len(), SHARDS);
    }

    #[test]
    fn a_node_alone_is_at_home_everywhere() {
        let me = nodes(1)[0];
        let jobs = ["a".to_owned(), "b".to_owned()];
        let all: Vec<i64> = (0..16).collect();
        assert_eq!(home(me, &jobs, &[]), [share(&["a", "b"], &all)]);
        assert_eq!(home(me, &jobs, &members(&[me], &["a", "b"])), [share(&["a", "b"], &all)]);
        assert_eq!(home(me, &jobs, &members(&nodes(3)[1..], &["c"])), [share(&["a", "b"], &all)]);
        assert_eq!(home(me, &[], &members(&nodes(3), &["c"])), []);
    }

    #[test]
    fn every_shard_has_one_owner_and_loads_differ_by_one_at_most() {
        for count in 1..=20 {
            let nodes = nodes(count);
            let members = members(&nodes, &["job"]);
            let of_each = nodes.iter().map(|me| home(*me, &["job".to_owned()], &members)[0].shards.clone());
            let of_each: Vec<Vec<i64>> = of_each.collect();
            let loads = of_each.iter().map(Vec::len);
            let (least, most) = (loads.clone().min().unwrap(), loads.max().unwrap());
            assert!(most - least <= 1, "{count} nodes: {least} to {most}");
            let mut all: Vec<i64> = of_each.concat();
            all.sort_unstable();
            assert_eq!(all, (0..16).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_order_in_which_nodes_are_named_does_not_matter() {
        let nodes = nodes(7);
        let mut members = members(&nodes, &["job"]);
        let before = home(nodes[3], &["job".to_owned()], &members);
        for _ in 0..7 {
            members.rotate_left(1);
            assert_eq!(home(nodes[3], &["job".to_owned()], &members), before);
        }
        members.reverse();
        assert_eq!(home(nodes[3], &["job".to_owned()], &members), before);
    }

    /// A node more, or the same node less: no shard moves that need not, give or take what the bound
    /// displaces.
    #[test]
    fn few_shards_move_when_a_node_joins_or_leaves() {
        for count in 2..=12 {
            let (mut moved, tries) = (0, 50);
            for first in 0..tries {
                let all: Vec<NodeId> =
                    (0..count).map(|n| NodeId(uuid::Uuid::from_u128(1_000 * first + n as u128))).collect();
                let (with, without) = (owners(&all), owners(&all[1..]));
                moved += with.iter().zip(&without).filter(|(one, other)| one != other).count();
            }
            let needed = SHARDS.div_ceil(count);
            let average = moved as f64 / tries as f64;
            println!("shards moved: nodes={count} average={average:.1} needed={needed}");
            assert!(average <= 2.5 + needed as f64, "{count} nodes: {average} moved, {needed} had to");
        }
    }

    #[test]
    fn only_who_runs_a_job_shares_it() {
        let nodes = nodes(2);
        let mut members = members(&nodes, &["both"]);
        members[0].jobs.push("mine".to_owned());
        members[1].jobs.push("others".to_owned());
        let shares = home(nodes[0], &["both".to_owned(), "mine".to_owned()], &members);
        let of = |job: &str| shares.iter().find(|share| share.jobs == [job]).unwrap().shards.len();
        assert_eq!((shares.len(), of("both"), of("mine")), (2, 8, 16));
    }

    #[test]
    fn who_cannot_run_a_job_now_has_no_part_in_it() {
        let nodes = nodes(2);
        let mut members = members(&nodes, &["blocked", "job"]);
        members[1].blocked.push("blocked".to_owned());
        let shares = home(nodes[0], &["blocked".to_owned(), "job".to_owned()], &members);
        let of = |job: &str| shares.iter().find(|share| share.jobs == [job]).unwrap().shards.len();
        assert_eq!((shares.len(), of("blocked"), of("job")), (2, 16, 8));
    }

    #[test]
    fn what_is_not_home_is_others() {
        assert_eq!(
            share(&["job"], &[0, 3, 15]).others().shards,
            [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
        );
        assert_eq!(Share::whole(vec!["job".to_owned()]).others().shards, [0_i64; 0]);
    }
}
