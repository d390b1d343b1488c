//! The layout's rules, read off the source: who may import whom, who may name what.

mod tokens;
mod updates;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;

use crate::trial;

pub fn add(trials: &mut Vec<Trial>) {
    let tests: &[(&str, fn())] = &[
        ("rooms_import_only_rooms_below_them", rooms_import_only_rooms_below_them),
        ("stages_import_only_what_they_compose", stages_import_only_what_they_compose),
        ("no_files_import_each_other_in_a_circle", no_files_import_each_other_in_a_circle),
        ("every_file_is_mutated_or_left_out_for_a_reason", every_file_is_mutated_or_left_out_for_a_reason),
        ("words_stay_where_they_belong", words_stay_where_they_belong),
        (
            "the_misfire_threshold_is_not_a_literal_in_two_classes",
            the_misfire_threshold_is_not_a_literal_in_two_classes,
        ),
        ("no_two_threads_share_a_wheel", no_two_threads_share_a_wheel),
        ("no_repair_updates_where_id_alone", no_repair_updates_where_id_alone),
        ("every_update_of_the_store_has_its_guard", every_update_of_the_store_has_its_guard),
        ("unlisted_and_unguarded_updates_are_found", updates::unlisted_and_unguarded_updates_are_found),
        ("strings_and_comments_are_no_words", tokens::strings_and_comments_are_no_words),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("architecture::{name}"), *test));
    }
}

/// A source file: its path below `src`, its production code, and the lines of that without comments.
struct Source {
    path: String,
    text: String,
    lines: Vec<String>,
}

/// The library's production code.
fn sources() -> Vec<Source> {
    let mut sources = read("src", "");
    sources.retain(|source| !is_test(&source.path));
    sources
}

/// The files in `folder` of the crate whose root is in `root`, their paths from that root on.
fn read(root: &str, folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let mut found = Vec::new();
    collect(&root.join(folder), &mut found);
    let source = |file: PathBuf| {
        let path = file.strip_prefix(&root).unwrap().display().to_string();
        let text = fs::read_to_string(&file).unwrap();
        let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        Source { path, text: production.to_owned(), lines: lines(production) }
    };
    found.into_iter().map(source).collect()
}

/// Trimmed, and without comments. Within an inline module `super` is the file itself, and is left out.
fn lines(text: &str) -> Vec<String> {
    let mut is_inline = false;
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.trim().starts_with("//")) {
        let is_outer = line.starts_with(|it: char| !it.is_whitespace());
        is_inline = if is_outer { line.contains("mod ") && line.ends_with('{') } else { is_inline };
        let line = if is_inline { line.replacen("super::", "", 1) } else { line.to_owned() };
        lines.push(line.trim().to_owned());
    }
    lines
}

fn is_test(path: &str) -> bool {
    let tests = ["sim/", "store/conformance/", "store/memory/", "fixtures.rs", "trigger/tests"];
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

/// The rooms of the crate from the ground up: each may name itself and those above it in this list.
const ROOMS: &[&str] = &[
    "trigger", "domain", "time", "store", "machine", "repair", "members", "upkeep", "pipeline", "node", "api",
];

/// What else lies below src: the crate's root, the program, and what only tests and benchmarks use.
const NO_ROOMS: &[&str] = &["lib.rs", "bin", "fixtures.rs", "parts.rs", "sample.rs", "sim"];

/// Stages of the pipeline and the others that each of them may name.
const STAGES: &[(&str, &[&str])] = &[
    ("complete", &[]),
    ("dispatch", &["lanes", "plan", "poll", "pool", "start"]),
    ("expand", &[]),
    ("lanes", &["pool"]),
    ("plan", &["lanes", "poll", "wheel"]),
    ("poll", &["expand"]),
    ("pool", &[]),
    ("start", &[]),
    ("wheel", &[]),
];

fn rooms_import_only_rooms_below_them() {
    let sources = sources();
    for source in &sources {
        let room = source.room();
        let Some(height) = ROOMS.iter().position(|it| *it == room) else {
            assert!(NO_ROOMS.contains(&room), "{}: {room} is no room and not listed as none", source.path);
            continue;
        };
        for import in source.imports() {
            let below = ROOMS[..=height].iter().any(|it| import[0] == *it);
            assert!(below, "{} may not name crate::{}", source.path, import.join("::"));
        }
    }
    for room in ROOMS {
        assert!(sources.iter().any(|source| source.room() == *room), "there is no room {room}");
    }
}

fn stages_import_only_what_they_compose() {
    for source in sources().iter().filter(|source| source.room() == "pipeline") {
        let Some(stage) = source.module().get(1).cloned() else { continue };
        let listed = STAGES.iter().find(|(name, _)| *name == stage);
        let (_, allowed) = listed.unwrap_or_else(|| panic!("{}: {stage} is not listed", source.path));
        for import in source.imports().iter().filter(|import| import[0] == "pipeline" && import.len() > 1) {
            let fits = import[1] == stage || allowed.iter().any(|name| import[1] == *name);
            assert!(fits, "{} may not name {}", source.path, import.join("::"));
        }
    }
}

fn no_files_import_each_other_in_a_circle() {
    for (root, folder) in [("src", "sim"), ("src", "store/sql"), ("src/bin/firetime", "")] {
        let mut sources = read(root, folder);
        sources.retain(|source| !source.path.ends_with("tests.rs") && !source.path.contains("/tests/"));
        assert!(sources.len() > 10, "{root}/{folder} has moved");
        let circle = circle(&sources).map(|files| files.join(" -> "));
        assert_eq!(circle, None, "{root}/{folder}");
    }
}

/// Calls of methods that a file adds to a type from further below: they need no import of that file.
const ADDED: &[(&str, &str)] = &[
    (".database()", "store/sql/databases.rs"),
    ("target.connect", "store/sql/databases.rs"),
    (".want(", "store/sql/batch.rs"),
];

/// Files of which each imports the next and the last imports the first, if there are such.
fn circle(sources: &[Source]) -> Option<Vec<String>> {
    let imported: Vec<BTreeSet<usize>> = sources.iter().map(|source| source.imported(sources)).collect();
    // Leave out the files that import none of those left, until there is no such file.
    let mut left: BTreeSet<usize> = (0..sources.len()).collect();
    while let Some(end) = left.iter().copied().find(|file| imported[*file].is_disjoint(&left)) {
        left.remove(&end);
    }
    // Each file left imports another: following them leads back to one already met.
    let mut way = vec![*left.first()?];
    loop {
        let next = *imported[*way.last()?].intersection(&left).next()?;
        if let Some(first) = way.iter().position(|file| *file == next) {
            return Some(way[first..].iter().map(|file| sources[*file].path.clone()).collect());
        }
        way.push(next);
    }
}

/// Production files that no mutation touches: paths below src, or what they begin with, and the reason.
const NOT_MUTATED: &[(&str, &str)] = &[
    ("api/", "checks what applications pass and passes it on"),
    ("lib.rs", "names the crate's parts"),
    ("machine/", "a driver is a thread, and so are its store calls"),
    ("members/bell.rs", "rings for tasks alone: mutants are built without the feature tokio"),
    ("node/handlers.rs", "a registry: it calls the application's functions"),
    ("node/tasks.rs", "tasks of a runtime: mutants are built without the feature tokio"),
    ("node/teller.rs", "the thread that logs"),
    ("parts.rs", "for benchmarks"),
    ("pipeline/pool/core.rs", "threads and their lock: pool/model.rs explores their schedules"),
    ("pipeline/pool/floor.rs", "runs under the core's lock: pool/model.rs explores it with the core"),
    ("pipeline/pool/sync.rs", "makes the pool's threads"),
    ("sample.rs", "for tests and benchmarks"),
    ("store/sql/", "needs a database: store/conformance holds it to the in-memory store"),
    ("time/clock.rs", "reads clocks, beside the lease and the offset, which its own tests check"),
];

/// A file in no list would stay unmutated without anybody noticing, and so would one that a stale glob named.
fn every_file_is_mutated_or_left_out_for_a_reason() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cargo/mutants.toml");
    let config = fs::read_to_string(config).unwrap();
    let (examined, excluded) = (list(&config, "examine_globs"), list(&config, "exclude_globs"));
    let paths: Vec<String> = sources().into_iter().map(|source| source.path).collect();
    let is_named = |globs: &[&str], path: &str| globs.iter().any(|it| fits(it, &format!("src/{path}")));
    for path in &paths {
        let is_mutated = is_named(&examined, path) && !is_named(&excluded, path);
        let is_left_out = NOT_MUTATED.iter().any(|(start, _)| path.starts_with(start));
        assert!(is_mutated != is_left_out, "{path}: mutated {is_mutated}, left out {is_left_out}");
    }
    for glob in examined.iter().chain(&excluded) {
        assert!(paths.iter().any(|path| is_named(&[glob], path)), "{glob} names no file");
    }
    for (start, reason) in NOT_MUTATED {
        assert!(paths.iter().any(|path| path.starts_with(start)), "{start} names no file: {reason}");
    }
}

/// A list of strings in a TOML file, each on a line of its own; nothing if the key is missing.
fn list<'a>(toml: &'a str, key: &str) -> Vec<&'a str> {
    let lines = toml.lines().skip_while(|line| *line != format!("{key} = [")).skip(1);
    let items = lines.take_while(|line| *line != "]").map(str::trim).filter(|line| !line.starts_with('#'));
    items.filter_map(|line| line.split('"').nth(1)).collect()
}

/// Whether a glob matches a path: `**/` stands for any folders or none, `*` for any part of one name.
fn fits(glob: &str, path: &str) -> bool {
    if let Some(rest) = glob.strip_prefix("**/") {
        let below = path.match_indices('/').any(|(at, _)| fits(rest, &path[at + 1..]));
        return below || fits(rest, path);
    }
    if let Some(rest) = glob.strip_prefix('*') {
        return (0..=path.find('/').unwrap_or(path.len())).any(|at| fits(rest, &path[at..]));
    }
    let (mut glob, mut path) = (glob.chars(), path.chars());
    match (glob.next(), path.next()) {
        (None, None) => true,
        (Some(wanted), Some(found)) => wanted == found && fits(glob.as_str(), path.as_str()),
        _ => false,
    }
}

impl Source {
    /// The module this file is: `pipeline::poll::decode` as its parts; none for the crate's root.
    fn module(&self) -> Vec<String> {
        let path = self.path.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').filter(|it| !matches!(*it, "lib" | "main")).map(str::to_owned).collect()
    }

    /// The modules it declares without their text: each has a file of its own.
    fn children(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| match line.strip_suffix(';')?.split_once("mod ")? {
            (start, name) if start.is_empty() || start.starts_with("pub") => Some(name),
            _ => None,
        })
    }

    /// Whether it uses something of this child by a path that begins with the child's name.
    fn names(&self, child: &str) -> bool {
        let path = format!("{child}::");
        let begins = |line: &str, at: usize| !line[..at].ends_with(is_of_path);
        self.lines.iter().any(|line| line.match_indices(&path).any(|(at, _)| begins(line, at)))
    }

    /// Which other of these files it imports.
    fn imported(&self, sources: &[Self]) -> BTreeSet<usize> {
        let named = self.children().filter(|child| self.names(child));
        let children = named.map(|child| [self.module(), vec![child.to_owned()]].concat());
        let added = ADDED.iter().filter(|(call, _)| self.lines.iter().any(|line| line.contains(call)));
        let added = added.filter_map(|(_, file)| sources.iter().position(|source| source.path == *file));
        let named = self.imports().into_iter().chain(children);
        let files = named.filter_map(|path| defines(&path, sources)).chain(added);
        files.filter(|file| sources[*file].path != self.path).collect()
    }

    /// The file or folder below src that it is or lies in.
    fn room(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// The paths it names within the crate, from the crate's root on; those by `super` that stay in its own
    /// module are left out.
    fn imports(&self) -> Vec<Vec<String>> {
        let module = self.module();
        let mut found = Vec::new();
        for line in self.lines.iter().filter(|line| !line.starts_with('#')) {
            // A visibility names no more than an ancestor.
            let line = line.replace("pub(in crate::", "");
            for import in line.split("crate::").skip(1) {
                found.extend(paths(&[], import));
            }
            let Some(start) = line.find("super::") else { continue };
            let (mut rest, mut up) = (&line[start..], 0);
            while let Some(behind) = rest.strip_prefix("super::") {
                (rest, up) = (behind, up + 1);
            }
            if up <= module.len() {
                found.extend(paths(&module[..module.len() - up], rest));
            }
        }
        found.retain(|import| !import.is_empty());
        found
    }
}

fn is_of_path(it: char) -> bool {
    it.is_alphanumeric() || it == '_' || it == ':'
}

/// `a::b::{c, d}` as its parts before the first that is no name.
fn parts(path: &str) -> Vec<String> {
    let end = path.find(|it| !is_of_path(it)).unwrap_or(path.len());
    path[..end].split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// The paths below this module that `a::b` names, or `a::{b, c::d}` on one line.
fn paths(module: &[String], text: &str) -> Vec<Vec<String>> {
    let start = [module, &parts(text)].concat();
    let group = text.trim_start_matches(is_of_path).strip_prefix('{');
    match group.and_then(|group| group.split_once('}')) {
        Some((names, _)) => names.split(',').map(|it| [&start[..], &parts(it.trim())].concat()).collect(),
        None => vec![start],
    }
}

/// The file that defines this path: the nearest module on it. None if that lies elsewhere.
fn defines(path: &[String], sources: &[Source]) -> Option<usize> {
    let (length, file) = (0..=path.len()).rev().find_map(|length| {
        let file = sources.iter().position(|source| source.module() == path[..length])?;
        Some((length, file))
    })?;
    let is_elsewhere = sources[file].children().any(|child| path.get(length).is_some_and(|it| it == child));
    (!is_elsewhere).then_some(file)
}

/// A word and the files that may contain it.
const BELONGS: &[(&str, &[&str])] = &[
    ("diesel", &["store/", "lib.rs"]),
    ("r2d2", &["store/"]),
    ("rayon", &["pipeline/expand.rs"]),
    ("log::", &["domain/event.rs", "node/teller.rs"]),
    ("tokio::", &["members/bell.rs", "node/tasks.rs", "api/"]),
    ("clock_gettime", &["time/clock.rs"]),
    ("thread::Builder", &["machine/driver.rs", "pipeline/pool/", "store/sql/reach.rs"]),
    ("Dialect::Sqlite", &["store/sql/dialect.rs", "store/sql/sqlite"]),
    ("Dialect::Postgres", &["store/sql/dialect.rs", "store/sql/postgres"]),
    ("Dialect::Mysql", &["store/sql/dialect.rs", "store/sql/mariadb"]),
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
    // The others are how long a migration may take, how far before now polls begin, and within what span slow
    // runs count.
    let others = [
        "store/sql/migrate.rs: const LIMITS: StoreLimits = StoreLimits { call: 60_000,",
        "pipeline/poll/skipping.rs: const MARGIN: Millis = 60_000;",
        "pipeline/lanes.rs: const WITHIN: Millis = 60_000;",
        "upkeep/containment.rs: const LONGEST_DELAY: Millis = 60_000;",
    ];
    let is_other = |line: &&String| others.iter().any(|other| line.starts_with(other));
    assert!(
        named.iter().filter(|line| !is_other(line)).eq(["time/window.rs: threshold: 60_000,"]),
        "{named:?}"
    );
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
    assert_eq!(owners, ["pipeline/plan/mod.rs"]);
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

fn every_update_of_the_store_has_its_guard() {
    let sources = sources();
    let store = sources.iter().filter(|source| source.room() == "store");
    let store: Vec<(&str, &str)> = store.map(|source| (&*source.path, &*source.text)).collect();
    updates::check(&store);
}
