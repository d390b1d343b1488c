//! A run's figures: printed, handed to `scripts/chaos.sh`, and held against their bounds.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::judge::Verdict;

/// A file that gets one line per run.
const REPORT: &str = "FIRETIME_CHAOS_REPORT";
/// A folder that outlives a failure.
const LOGS: &str = "FIRETIME_CHAOS_LOGS";

/// A folder for the evidence of a run that failed.
pub fn evidence(run: &str) -> Option<PathBuf> {
    let folder = Path::new(&std::env::var_os(LOGS)?).join(run.replace("::", "-"));
    fs::create_dir_all(&folder).ok().map(|()| folder)
}

#[derive(Default)]
pub struct Report {
    pub killed: usize,
    pub stopped: usize,
    measures: Vec<Measure>,
}

struct Measure {
    name: &'static str,
    value: i64,
    most: Option<i64>,
    promise: &'static str,
}

impl Measure {
    fn shown(&self) -> String {
        match self.most {
            Some(most) => format!(" {}={} (at most {most})", self.name, self.value),
            None => format!(" {}={}", self.name, self.value),
        }
    }
}

impl Report {
    /// A figure and the most it may be.
    pub fn measure(&mut self, name: &'static str, value: i64, most: i64) {
        self.promise("", name, value, most);
    }

    /// A figure, the most it may be, and the promise that says so.
    pub fn promise(&mut self, promise: &'static str, name: &'static str, value: i64, most: i64) {
        self.measures.push(Measure { name, value, most: Some(most), promise });
    }

    /// A figure for people.
    pub fn note(&mut self, name: &'static str, value: i64) {
        self.measures.push(Measure { name, value, most: None, promise: "" });
    }

    /// Prints everything, and only then panics about what is wrong.
    pub fn conclude(&self, run: &str, (cut, commits): (usize, usize), verdict: &Verdict) {
        let Self { killed, stopped, .. } = self;
        let Verdict { fired, skipped, excused, violations, .. } = verdict;
        let measures: String = self.measures.iter().map(Measure::shown).collect();
        let violations = violations.len();
        let line = format!(
            "chaos {run}: violations={violations} killed={killed} stopped={stopped} cut={cut} commits_cut={commits} \
             fired={fired} skipped={skipped} excused={excused}{measures}\n"
        );
        println!("\n{}", line.trim_end());
        if let Some(path) = std::env::var_os(REPORT) {
            let mut file = File::options().append(true).create(true).open(path).unwrap();
            file.write_all(line.as_bytes()).unwrap();
        }
        let is_broken = |it: &&Measure| it.most.is_some_and(|most| it.value > most);
        let broken = self.measures.iter().filter(is_broken);
        let broken: Vec<String> = broken.map(|it| it.shown() + " " + it.promise).collect();
        if !broken.is_empty() {
            println!("{run}: broken:{}", broken.join(";"));
        }
        verdict.assert_clean();
        assert!(broken.is_empty(), "{run}: broken:{}", broken.join(";"));
    }
}
