//! One run as a line of JSON, and the medians of several.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

#[derive(Serialize)]
pub struct Figures {
    pub workload: &'static str,
    pub scheduler: &'static str,
    pub variant: String,
    /// `observed`, `says`, `traced`, or several of these.
    pub watched: String,
    pub database: &'static str,
    pub nodes: u16,
    pub executions: usize,
    pub among: usize,
    pub executions_per_s: f64,
    pub lateness_ms: Lateness,
    pub transactions_per_execution: Option<f64>,
    pub wal_bytes_per_execution: Option<f64>,
    pub caught_up_s: Option<f64>,
    pub poll_ms: u64,
    pub lost_claim_share: f64,
    pub cpu_s_nodes: f64,
    pub cpu_s_database: Option<f64>,
    pub peak_rss_mb: f64,
    pub duplicates: usize,
    pub missing: usize,
    pub limit_rows_per_s: f64,
    pub ratio_to_limit: Option<f64>,
}

/// Start lateness in milliseconds.
#[derive(Serialize)]
pub struct Lateness {
    pub min: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Lateness {
    /// Of microseconds. Nothing gives NaN, in JSON null.
    pub fn of(mut late: Vec<i64>) -> Self {
        late.sort_unstable();
        #[expect(clippy::cast_precision_loss, reason = "microseconds of lateness are small")]
        let at = |percent: usize| match late.len() {
            0 => f64::NAN,
            count => late[(count * percent).div_ceil(100).max(1) - 1] as f64 / 1_000.0,
        };
        Self { min: at(0), p50: at(50), p95: at(95), p99: at(99), max: at(100) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench are small")]
pub fn real(count: usize) -> f64 {
    count as f64
}

pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// A table: a line for each number of nodes.
pub fn medians(all: &[Figures]) -> String {
    let mut by_nodes: BTreeMap<(u16, &str), Vec<&Figures>> = BTreeMap::new();
    for one in all {
        by_nodes.entry((one.nodes, &one.watched)).or_default().push(one);
    }
    let mut table = String::from(
        "medians\nnodes runs executions/s of limit     p50 ms     p99 ms     max ms  tx/exec  WAL B/exec  lost %  \
         CPU s nodes, database  RSS MB  duplicates  missing  watched\n",
    );
    for ((nodes, watched), runs) in by_nodes {
        let of =
            |figure: fn(&Figures) -> Option<f64>| median(runs.iter().filter_map(|one| figure(one)).collect());
        // A String takes all that is written to it.
        writeln!(
            table,
            "{nodes:>5} {:>4} {:>12.0} {:>8.3} {:>10.3} {:>10.3} {:>10.3} {:>8.4} {:>11.0} {:>7.2} {:>11.2} {:>9.2} \
             {:>7.1} {:>11} {:>8}  {watched}",
            runs.len(),
            of(|one| Some(one.executions_per_s)),
            of(|one| one.ratio_to_limit),
            of(|one| Some(one.lateness_ms.p50)),
            of(|one| Some(one.lateness_ms.p99)),
            of(|one| Some(one.lateness_ms.max)),
            of(|one| one.transactions_per_execution),
            of(|one| one.wal_bytes_per_execution),
            of(|one| Some(100.0 * one.lost_claim_share)),
            of(|one| Some(one.cpu_s_nodes)),
            of(|one| one.cpu_s_database),
            of(|one| Some(one.peak_rss_mb)),
            runs.iter().map(|one| one.duplicates).sum::<usize>(),
            runs.iter().map(|one| one.missing).sum::<usize>(),
        )
        .ok();
    }
    table
}

/// The price of watching, for each number of nodes: the median ratio of a watched run to the unwatched run
/// just before it.
pub fn ratios(all: &[Figures]) -> String {
    let mut by_nodes: BTreeMap<u16, Vec<(&Figures, &Figures)>> = BTreeMap::new();
    for pair in all.chunks_exact(2) {
        by_nodes.entry(pair[0].nodes).or_default().push((&pair[0], &pair[1]));
    }
    let mut table =
        String::from("ratios, watched / unwatched\nnodes pairs executions/s  CPU s nodes  RSS MB\n");
    for (nodes, pairs) in by_nodes {
        let of = |figure: fn(&Figures) -> f64| {
            median(pairs.iter().map(|(without, with)| figure(with) / figure(without)).collect())
        };
        // A String takes all that is written to it.
        writeln!(
            table,
            "{nodes:>5} {:>5} {:>12.3} {:>12.3} {:>7.3}",
            pairs.len(),
            of(|one| one.executions_per_s),
            of(|one| one.cpu_s_nodes),
            of(|one| one.peak_rss_mb),
        )
        .ok();
    }
    table
}

/// NaN of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}
