//! The layout's rules, read off the source: who may import whom, who may name what.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;

use crate::trial;

pub fn add(trials: &mut Vec<Trial>) {
    let tests: &[(&str, fn())] = &[
        ("modules_import_only_what_the_layout_allows", modules_import_only_what_the_layout_allows),
        ("words_stay_where_they_belong", words_stay_where_they_belong),
        (
            "the_misfire_threshold_is_not_a_literal_in_two_classes",
            the_misfire_threshold_is_not_a_literal_in_two_classes,
        ),
        ("no_two_threads_share_a_wheel", no_two_threads_share_a_wheel),
        ("no_repair_updates_where_id_alone", no_repair_updates_where_id_alone),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("architecture::{name}"), *test));
    }
}

/// A source file: its path below `src`, its production lines (tests and comments left out).
struct Source {
    path: String,
    lines: Vec<String>,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    collect(&root, &mut found);
    found
        .into_iter()
        .map(|file| {
            let path = file.strip_prefix(&root).unwrap().display().to_string();
            let text = fs::read_to_string(&file).unwrap();
            let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let lines = production.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            Source { path, lines: lines.map(str::to_owned).collect() }
        })
        .filter(|source| !is_test(&source.path))
        .collect()
}

fn is_test(path: &str) -> bool {
    let tests = ["sim/", "store/conformance/", "store/memory/", "pipeline/fixtures.rs", "schedule/tests"];
    path.starts_with("bin/")
        || tests.iter().any(|start| path.starts_with(start))
        || path.contains("/tests")
        || path.ends_with("tests.rs")
        || path.ends_with("pool/model.rs")
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// Where each module may reach: `crate::X` in its files must name one of these.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("model.rs", &["schedule"]),
    ("error.rs", &[]),
    ("schedule", &[]),
    ("clock.rs", &["model", "error", "window"]),
    ("window.rs", &["model", "error"]),
    ("event.rs", &["model", "error", "panics", "text"]),
    ("panics.rs", &["model"]),
    ("text.rs", &[]),
    ("shards.rs", &["model"]),
    ("payload.rs", &[]),
    ("machine.rs", &["clock", "error", "model", "store"]),
    ("store", &["model", "error", "schedule", "clock", "window", "event", "panics", "shards", "store"]),
    (
        "pipeline/poll.rs",
        &["clock", "error", "event", "machine", "model", "pipeline::expand", "shards", "store", "window"],
    ),
    ("pipeline/expand.rs", &["model"]),
    ("pipeline/wheel.rs", &[]),
    ("pipeline/pool", &["panics"]),
    ("pipeline/plan.rs", &["model"]),
    ("pipeline/ahead.rs", &["model", "window"]),
    ("pipeline/start.rs", &["clock", "error", "event", "machine", "model", "store", "window"]),
    ("pipeline/complete.rs", &["clock", "error", "event", "machine", "model", "node", "store", "window"]),
    ("misfire.rs", &["clock", "error", "event", "machine", "model", "store", "window"]),
    ("node.rs", &["clock", "error", "event", "machine", "misfire", "model", "shards", "store", "window"]),
    (
        "client.rs",
        &["model", "schedule", "clock", "store", "config", "error", "job", "misfire", "payload", "window"],
    ),
];

fn modules_import_only_what_the_layout_allows() {
    let sources = sources();
    for (module, allowed) in MAY_IMPORT {
        let mut files = 0;
        for source in sources.iter().filter(|source| belongs(source, module)) {
            files += 1;
            for line in &source.lines {
                for import in line.split("crate::").skip(1) {
                    let fits = allowed.iter().any(|name| import.starts_with(name));
                    assert!(fits || line.starts_with('#'), "{} may not name crate::{import}", source.path);
                }
            }
        }
        assert!(files > 0, "no file {module}: the table is out of date");
    }
}

/// Whether a file is the module or lies below it.
fn belongs(source: &Source, module: &str) -> bool {
    source.path == *module || source.path.starts_with(&format!("{module}/"))
}

/// A word and the files that may contain it.
const BELONGS: &[(&str, &[&str])] = &[
    ("diesel", &["store/", "lib.rs"]),
    ("r2d2", &["store/"]),
    ("rayon", &["pipeline/expand.rs"]),
    ("log::", &["event.rs"]),
    ("clock_gettime", &["clock.rs"]),
    ("thread::Builder", &["driver.rs", "pipeline/pool/", "store/sql/reach.rs"]),
    ("Utc::now", &[]),
    ("Instant::now", &[]),
    ("SystemTime::now", &[]),
    ("static mut", &[]),
];

fn words_stay_where_they_belong() {
    for source in sources() {
        for (word, files) in BELONGS {
            let allowed = files.iter().any(|file| source.path.starts_with(file));
            let found = source.lines.iter().find(|line| line.contains(word));
            assert!(allowed || found.is_none(), "{}: {word} in {found:?}", source.path);
        }
    }
}

/// Earlier schedulers of this design repeated it as a literal in two classes, and the two drifted apart.
fn the_misfire_threshold_is_not_a_literal_in_two_classes() {
    let named: Vec<String> = sources()
        .iter()
        .flat_map(|source| source.lines.iter().map(|line| format!("{}: {line}", source.path)))
        .filter(|line| line.replace('_', "").split(|it: char| !it.is_ascii_digit()).any(|it| it == "60000"))
        .collect();
    // The others are how long a migration may take, and how far before now polls begin.
    let others = [
        "store/sql/migrate.rs: const LIMITS: Limits = Limits { call: 60_000,",
        "pipeline/poll.rs: const MARGIN: Millis = 60_000;",
    ];
    let is_other = |line: &&String| others.iter().any(|other| line.starts_with(other));
    assert!(named.iter().filter(|line| !is_other(line)).eq(["window.rs: threshold: 60_000,"]), "{named:?}");
}

/// A wheel that two threads share without a lock was such a scheduler's fault: ours belongs to the plan
/// alone.
fn no_two_threads_share_a_wheel() {
    let owners: Vec<String> = sources()
        .iter()
        .filter(|source| {
            source.lines.iter().any(|line| line.contains("Wheel<") && !source.path.contains("wheel"))
        })
        .map(|source| source.path.clone())
        .collect();
    assert_eq!(owners, ["pipeline/plan.rs"]);
    let shared = sources().iter().any(|source| source.lines.iter().any(|line| line.contains("<Wheel<")));
    assert!(!shared, "a wheel behind an Arc or a lock");
}

fn no_repair_updates_where_id_alone() {
    for source in sources().iter().filter(|source| source.path.starts_with("store/sql")) {
        let text = source.lines.join(" ");
        for update in text.split("UPDATE ").skip(1) {
            let statement = update.split(['"', ';']).next().unwrap_or_default();
            let guard = statement.split("WHERE").nth(1).unwrap_or("guarded elsewhere AND").trim();
            let alone = guard.starts_with("id = ?") && !guard.contains("AND");
            assert!(!alone, "{}: UPDATE {statement}", source.path);
        }
    }
}
