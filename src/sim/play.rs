//! Plays a scenario, has its history judged, and looks for the smallest scenario that still fails.

use super::cluster::Cluster;
use super::database::Database;
use super::judge::{Verdict, judge};
use super::sabotage::{self, Sabotage};
use super::scenario::Scenario;
use crate::domain::Millis;

/// What a simulation came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Played {
    pub verdict: Verdict,
    pub claims: u64,
    pub lost: u64,
    pub faults: u64,
    /// The longest that a death went unnoticed, by those able to notice it.
    pub unnoticed: Millis,
}

impl Scenario {
    pub(super) fn play(&self, sabotages: &[Sabotage]) -> Played {
        self.play_on(Database::memory(), sabotages)
    }

    pub(super) fn play_on(&self, database: Database, sabotages: &[Sabotage]) -> Played {
        sabotage::during(sabotages, || {
            let mut cluster = Cluster::new(self, database, sabotages);
            cluster.run();
            let ((claims, lost), faults) = (cluster.claims(), cluster.faults());
            let more = cluster.violations();
            let unnoticed = cluster.unnoticed().iter().map(|it| it.able).max().unwrap_or(0);
            let history = cluster.history();
            let mut verdict = judge(&history);
            verdict.violations.extend(more);
            Played { verdict, claims, lost, faults, unnoticed }
        })
    }

    pub(super) fn fails(&self, sabotages: &[Sabotage]) -> bool {
        !self.play(sabotages).verdict.violations.is_empty()
    }

    /// The smallest scenario found that still fails: without whole kinds of faults, shorter, with less of
    /// everything.
    pub(super) fn shrunk(mut self) -> Self {
        loop {
            let mut smaller: Vec<Self> = Vec::new();
            for n in 0..self.faults.clone().each().len() {
                let mut less = self.clone();
                let faults = less.faults.each();
                if std::mem::take(faults[n].1) > 0 {
                    smaller.push(less);
                }
            }
            let half = self.span / 2;
            smaller.extend((half >= 60_000).then(|| Self { span: half, ..self.clone() }));
            smaller.extend((self.nodes > 1).then(|| Self { nodes: self.nodes - 1, ..self.clone() }));
            let fewer = self.schedules / 2;
            smaller.extend((fewer > 0).then(|| Self { schedules: fewer, ..self.clone() }));
            match smaller.into_iter().find(|it| it.fails(&[])) {
                Some(smaller) => self = smaller,
                None => return self,
            }
        }
    }

    /// Plays it and, if something is violated, says which smallest scenario shows it.
    pub(super) fn prove(self) -> Played {
        let played = self.play(&[]);
        if played.verdict.violations.is_empty() {
            return played;
        }
        let small = self.clone().shrunk();
        let violations = small.play(&[]).verdict.violations;
        let first: Vec<_> = violations.iter().take(6).collect();
        panic!("{self}\nfails, and so does\nFIRETIME_SCENARIO='{small}'\n{first:#?}");
    }
}
