//! The layout's rules, read off the source: who may import whom, who may name what.

mod guide;
mod imports;
mod tokens;
mod updates;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;

use self::imports::{Crate, Names};
use crate::trial;

pub fn add(trials: &mut Vec<Trial>) {
    let tests: &[(&str, fn())] = &[
        ("rooms_import_only_rooms_listed_before_them", rooms_import_only_rooms_listed_before_them),
        ("the_console_names_the_public_interface_alone", the_console_names_the_public_interface_alone),
        (
            "folders_of_the_console_import_only_those_listed_before_them",
            folders_of_the_console_import_only_those_listed_before_them,
        ),
        ("stages_import_only_what_they_compose", stages_import_only_what_they_compose),
        ("no_files_import_each_other_in_a_circle", no_files_import_each_other_in_a_circle),
        (
            "modules_lie_in_their_folders_unless_these_hold_only_tests",
            modules_lie_in_their_folders_unless_these_hold_only_tests,
        ),
        ("every_file_is_mutated_or_left_out_for_a_reason", every_file_is_mutated_or_left_out_for_a_reason),
        ("words_stay_where_they_belong", words_stay_where_they_belong),
        (
            "the_misfire_threshold_is_not_a_literal_in_two_classes",
            the_misfire_threshold_is_not_a_literal_in_two_classes,
        ),
        (
            "comments_and_lines_of_the_store_end_at_the_margin",
            comments_and_lines_of_the_store_end_at_the_margin,
        ),
        ("the_contract_names_files_that_exist", the_contract_names_files_that_exist),
        ("the_contract_lists_the_files_of_a_new_field", the_contract_lists_the_files_of_a_new_field),
        ("no_two_threads_share_a_wheel", no_two_threads_share_a_wheel),
        ("no_repair_updates_where_id_alone", no_repair_updates_where_id_alone),
        ("every_update_of_the_store_has_its_guard", every_update_of_the_store_has_its_guard),
        ("strings_and_comments_are_no_words", tokens::strings_and_comments_are_no_words),
        ("items_of_tests_are_left_out", tokens::items_of_tests_are_left_out),
        (
            "paths_are_followed_to_the_files_that_define_them",
            imports::paths_are_followed_to_the_files_that_define_them,
        ),
        (
            "the_guides_links_lead_somewhere_in_both_places",
            guide::the_guides_links_lead_somewhere_in_both_places,
        ),
        ("circles_are_found", imports::circles_are_found),
        ("unlisted_and_unguarded_updates_are_found", updates::unlisted_and_unguarded_updates_are_found),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("architecture::{name}"), *test));
    }
}

/// A source file: its path below a folder, and its text.
struct Source {
    path: String,
    text: String,
}

/// The library's source, tests and simulator with it.
fn library() -> Vec<Source> {
    let mut sources = read("src");
    sources.retain(|source| source.room() != "bin");
    sources
}

/// The program's source, with its demo, which lies beside it.
fn program() -> Vec<Source> {
    let demo = read("src/bin").into_iter().filter(|source| source.path.starts_with("demo/"));
    read("src/bin/firetime").into_iter().chain(demo).collect()
}

/// The library's production code.
fn sources() -> Vec<Source> {
    let mut sources = library();
    sources.retain(|source| !is_test(&source.path));
    sources
}

/// The files in a folder, their paths from there on.
fn read(root: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let mut found = Vec::new();
    collect(&root, &mut found);
    let source = |file: PathBuf| {
        let path = file.strip_prefix(&root).unwrap().display().to_string();
        Source { path, text: fs::read_to_string(&file).unwrap() }
    };
    found.into_iter().map(source).collect()
}

/// What the files say of names.
fn names(sources: &[Source]) -> Crate {
    let files: Vec<(Names, &str)> = sources.iter().map(|source| (source.module(), &*source.text)).collect();
    Crate::new(&files)
}

fn is_test(path: &str) -> bool {
    let tests = ["sim/", "store/conformance/", "store/memory/", "fixtures.rs", "trigger/tests"];
    tests.iter().any(|start| path.starts_with(start)) || is_of_tests(path) || path.ends_with("pool/model.rs")
}

fn is_of_tests(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs")
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

/// The rooms of the crate: each may name itself and those listed before it.
const ROOMS: &[&str] = &[
    "trigger", "domain", "time", "store", "machine", "repair", "members", "misfire", "requests", "pipeline",
    "node", "api", "testing", "console",
];

/// Folders of the console: each may name itself, those listed before it, and the files beside the folders.
const CONSOLE: &[&str] = &["web", "words", "access", "drawn", "changes", "pages", "live", "api"];

/// What else lies below src: the crate's root, the program, and what only tests and benchmarks use.
const NO_ROOMS: &[&str] = &["lib.rs", "bin", "fixtures.rs", "guide_pages.rs", "parts.rs", "sample.rs", "sim"];

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

fn rooms_import_only_rooms_listed_before_them() {
    let sources = sources();
    let names = names(&sources);
    for (file, source) in sources.iter().enumerate() {
        let room = source.room();
        let Some(place) = ROOMS.iter().position(|it| *it == room) else {
            assert!(NO_ROOMS.contains(&room), "{}: {room} is no room and not listed as none", source.path);
            continue;
        };
        for path in names.named(file) {
            let is_listed = ROOMS[..=place].iter().any(|it| path.first().is_some_and(|first| first == it));
            // What lib.rs passes on to everybody.
            let is_listed = is_listed || room == "console" && path.first().is_some_and(|it| is_public(it));
            assert!(is_listed, "{} may not name crate::{}", source.path, path.join("::"));
        }
    }
    for room in ROOMS {
        assert!(sources.iter().any(|source| source.room() == *room), "there is no room {room}");
    }
}

fn is_public(name: &str) -> bool {
    !ROOMS.contains(&name) && !NO_ROOMS.iter().any(|it| it.trim_end_matches(".rs") == name)
}

/// The console can do nothing that a client cannot: it names what lib.rs passes on to everybody, and itself.
fn the_console_names_the_public_interface_alone() {
    let sources = sources();
    let console: Vec<&Source> = sources.iter().filter(|source| source.room() == "console").collect();
    assert!(console.len() > 5, "the files have moved");
    for source in console {
        let named = source.text.split("crate::").skip(1);
        let begin =
            |path: &str| path.split(|it: char| !it.is_alphanumeric() && it != '_').next().unwrap().to_owned();
        for name in named.map(begin).filter(|name| !name.is_empty()) {
            let is_room = ROOMS.iter().any(|room| *room == name && !["console", "trigger"].contains(room));
            assert!(!is_room, "{} names crate::{name}", source.path);
        }
    }
}

fn folders_of_the_console_import_only_those_listed_before_them() {
    let sources = sources();
    let names = names(&sources);
    let place = |name: &str| CONSOLE.iter().position(|it| *it == name);
    let mut found = BTreeSet::new();
    for (file, source) in sources.iter().enumerate().filter(|(_, source)| source.room() == "console") {
        let [_, folder, _] = source.path.splitn(3, '/').collect::<Vec<_>>()[..] else { continue };
        let own = place(folder).unwrap_or_else(|| panic!("{}: {folder} is not listed", source.path));
        found.insert(folder);
        for path in names.named(file) {
            let [room, other, ..] = &path[..] else { continue };
            let fits = room != "console" || other != "guard" && place(other).is_none_or(|it| it <= own);
            assert!(fits, "{} may not name {}", source.path, path.join("::"));
        }
    }
    assert_eq!(found.len(), CONSOLE.len(), "a folder is gone: {found:?}");
}

fn stages_import_only_what_they_compose() {
    let sources = sources();
    let names = names(&sources);
    for (file, source) in sources.iter().enumerate().filter(|(_, source)| source.room() == "pipeline") {
        let Some(stage) = source.module().get(1).cloned() else { continue };
        let listed = STAGES.iter().find(|(name, _)| *name == stage);
        let (_, allowed) = listed.unwrap_or_else(|| panic!("{}: {stage} is not listed", source.path));
        for path in names.named(file) {
            let [room, other, ..] = &path[..] else { continue };
            let fits = room != "pipeline" || *other == stage || allowed.iter().any(|name| other == name);
            assert!(fits, "{} may not name {}", source.path, path.join("::"));
        }
    }
}

fn no_files_import_each_other_in_a_circle() {
    for sources in [library(), program()] {
        assert!(sources.len() > 10, "the files have moved");
        let imported = imported(&sources);
        let circle = imports::circle(&imported).map(|files| {
            let paths: Vec<&str> = files.iter().map(|file| &*sources[*file].path).collect();
            paths.join(" -> ")
        });
        assert_eq!(circle, None);
    }
    for (call, file) in ADDED {
        assert!(library().iter().any(|source| source.path == *file), "{file} has moved: {call}");
    }
}

/// Calls of methods that a file adds to a type from further below: they need no import of that file.
const ADDED: &[(&str, &str)] = &[
    (".database()", "store/sql/dialect/databases.rs"),
    ("target.connect", "store/sql/dialect/databases.rs"),
    (".want(", "store/sql/session/batch.rs"),
];

/// The files that each file imports. Tests import what they test, and are left out.
fn imported(sources: &[Source]) -> Vec<BTreeSet<usize>> {
    let names = names(sources);
    let is_test = |file: &usize| is_of_tests(&sources[*file].path);
    let of = |(file, source): (usize, &Source)| {
        if is_test(&file) {
            return BTreeSet::new();
        }
        let mut files = names.imported(file);
        for (_, added) in ADDED.iter().filter(|(call, _)| source.lines().any(|line| line.contains(call))) {
            files.extend(sources.iter().position(|it| it.path == *added).filter(|it| *it != file));
        }
        files.retain(|file| !is_test(file));
        files
    };
    sources.iter().enumerate().map(of).collect()
}

fn modules_lie_in_their_folders_unless_these_hold_only_tests() {
    for sources in [library(), program()] {
        let parents = |path: &str| path.match_indices('/').map(|(end, _)| path[..end].to_owned()).collect();
        let folders: BTreeSet<String> =
            sources.iter().flat_map(|source| -> Vec<String> { parents(&source.path) }).collect();
        for folder in folders {
            let is_other = |path: &str| path.starts_with(&format!("{folder}/")) && !is_of_tests(path);
            let has_others = sources.iter().any(|it| is_other(&it.path));
            let is_beside = sources.iter().any(|it| it.path == format!("{folder}.rs"));
            assert_eq!(is_beside, !has_others, "{folder}");
        }
    }
}

/// Production files that no mutation touches: paths below src, or what they begin with, and the reason.
const NOT_MUTATED: &[(&str, &str)] = &[
    ("api/", "checks what applications pass and passes it on"),
    ("console/", "pages: mutants are built without the feature console"),
    ("guide_pages.rs", "names the guide's pages"),
    ("lib.rs", "names the crate's parts"),
    ("machine/", "a driver is a thread, and so are its store calls"),
    ("members/bell.rs", "rings for tasks alone: mutants are built without the feature tokio"),
    ("node/context.rs", "the fields of an execution, for its handler"),
    ("node/handlers.rs", "a registry: it calls the application's functions"),
    ("node/tasks.rs", "tasks of a runtime: mutants are built without the feature tokio"),
    ("node/teller.rs", "the thread that logs"),
    ("parts.rs", "for benchmarks"),
    ("pipeline/pool/core.rs", "threads and their lock: pool/model.rs explores their schedules"),
    ("pipeline/pool/floor.rs", "runs under the core's lock: pool/model.rs explores it with the core"),
    ("pipeline/pool/sync.rs", "makes the pool's threads"),
    ("sample.rs", "for tests and benchmarks"),
    ("store/sql/", "needs a database: store/conformance holds it to the in-memory store"),
    ("testing/", "for tests of those who use the crate; its own drive it"),
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
    fn module(&self) -> Names {
        let path = self.path.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').filter(|it| !matches!(*it, "lib" | "main")).map(str::to_owned).collect()
    }

    /// The file or folder below src that it is or lies in.
    fn room(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// Its lines, trimmed, but for the comments and a `mod tests` at its end.
    fn lines(&self) -> impl Iterator<Item = &str> {
        let production = self.text.split("\nmod tests {").next().unwrap_or_default();
        production.lines().map(str::trim).filter(|line| !line.starts_with("//"))
    }
}

/// Drivers of callers, each of which speaks to one database.
const CALLERS: &str = "store/sql/connection/caller/";

/// A word and the files that may contain it.
const BELONGS: &[(&str, &[&str])] = &[
    ("diesel", &["store/", "lib.rs", "guide_pages.rs"]),
    ("r2d2", &["store/"]),
    ("rayon", &["pipeline/expand.rs"]),
    ("log::", &["console/", "domain/event.rs", "node/log_lines.rs", "node/teller.rs"]),
    ("tracing::", &["domain/attempt_span.rs", "node/log_layer.rs", "node/spans.rs", "api/builder.rs"]),
    (
        "tokio::",
        &["members/bell.rs", "node/tasks.rs", "store/sql/connection/caller/relay.rs", "api/", "console/"],
    ),
    ("askama", &["console/"]),
    ("axum", &["console/", "guide_pages.rs"]),
    ("sqlx::", &["store/sql/connection/caller/sqlx/"]),
    ("tokio_postgres::", &["store/sql/connection/caller/tokio_postgres.rs"]),
    ("diesel_async::", &["store/sql/connection/caller/diesel_async.rs"]),
    ("clock_gettime", &["time/clock.rs", "console/access/clock.rs"]),
    ("thread::Builder", &["machine/driver.rs", "pipeline/pool/", "store/sql/connection/reach.rs"]),
    ("Dialect::Sqlite", &["store/sql/dialect/mod.rs", "store/sql/dialect/sqlite", CALLERS]),
    ("Dialect::Postgres", &["store/sql/dialect/mod.rs", "store/sql/dialect/postgres", CALLERS]),
    ("Dialect::Mysql", &["store/sql/dialect/mod.rs", "store/sql/dialect/mariadb", CALLERS]),
    ("Utc::now", &[]),
    ("Instant::now", &[]),
    ("SystemTime::now", &[]),
    ("static mut", &[]),
];

fn words_stay_where_they_belong() {
    for source in sources() {
        for (word, files) in BELONGS {
            let allowed = files.iter().any(|file| source.path.starts_with(file));
            let found = source.lines().find(|line| line.contains(word));
            assert!(allowed || found.is_none(), "{}: {word} in {found:?}", source.path);
        }
    }
}

/// rustfmt leaves strings, macros and comments as they are. A table has a row in each line.
fn comments_and_lines_of_the_store_end_at_the_margin() {
    let is_prose = |line: &str| {
        line.trim_start().starts_with("//") && !line.contains("//! |") && !line.contains("/// |")
    };
    for source in &sources() {
        let kept = |line: &&str| source.room() == "store" || is_prose(line);
        for (place, line) in source.text.lines().enumerate().filter(|(_, line)| kept(line)) {
            assert!(line.chars().count() <= 110, "{}:{}: {line}", source.path, place + 1);
        }
    }
}

/// Earlier schedulers of this design repeated it as a literal in two classes, and the two drifted apart.
fn the_misfire_threshold_is_not_a_literal_in_two_classes() {
    let named: Vec<String> = sources()
        .iter()
        .flat_map(|source| source.lines().map(|line| format!("{}: {line}", source.path)))
        .filter(|line| line.replace('_', "").split(|it: char| !it.is_ascii_digit()).any(|it| it == "60000"))
        .collect();
    // The others are how long a migration may take, how far before now polls begin, within what span slow
    // runs count, how often the log tells of what goes on, since when what a certificate seals has ended, and
    // how often the misfire handler looks for jobs that nobody can run.
    let others = [
        "node/log_lines.rs: const EVERY: Millis = 60_000;",
        "store/sql/migrate.rs: const LIMITS: StoreLimits = StoreLimits { call: 60_000,",
        "pipeline/poll/skipping.rs: const MARGIN: Millis = 60_000;",
        "pipeline/lanes.rs: const WITHIN: Millis = 60_000;",
        "misfire/containment.rs: const LONGEST_DELAY: Millis = 60_000;",
        "api/verify/certificate.rs: const SETTLED: Millis = 60_000;",
        "misfire/nobody.rs: const LOOKS_EVERY: Millis = 60_000;",
    ];
    let is_other = |line: &&String| others.iter().any(|other| line.starts_with(other));
    assert!(
        named.iter().filter(|line| !is_other(line)).eq(["time/window.rs: threshold: 60_000,"]),
        "{named:?}"
    );
}

/// Paths are written from the root, from src, or from the rooms of the API and the store.
fn the_contract_names_files_that_exist() {
    let contract = fs::read_to_string("docs/architecture.md").unwrap();
    let quoted = contract.split('`').skip(1).step_by(2);
    // In capitals stands what differs from verb to verb; between braces, what each of them has.
    let is_path = |word: &&str| word.contains('/') && !word.contains([' ', '(']) && !word.contains("VERB");
    let paths: Vec<&str> = quoted.filter(is_path).collect();
    assert!(paths.len() > 40, "{paths:?}");
    let lacks = |path: &&&str| {
        let path = path.split_once(['{', '*']).map_or(**path, |(folder, _)| folder);
        ["src", "src/api", "src/store", "."].iter().all(|root| !Path::new(root).join(path).exists())
    };
    let missing: Vec<&&str> = paths.iter().filter(lacks).collect();
    assert!(missing.is_empty(), "docs/architecture.md names files that do not exist: {missing:?}");
}

/// The lists of files for a new field of a schedule or a job, against the field that is their example.
fn the_contract_lists_the_files_of_a_new_field() {
    let contract = fs::read_to_string("docs/architecture.md").unwrap();
    let lists = contract.split("\n* ").filter_map(|it| it.split_once("::description`"));
    let listed: BTreeSet<&str> =
        lists.flat_map(|(list, _)| list.split('`')).filter(|word| word.ends_with(".rs")).collect();
    let sources = read("src");
    let has_it =
        |source: &&Source| !is_test(&source.path) && source.lines().any(|line| line.contains("description"));
    let found: BTreeSet<&str> = sources.iter().filter(has_it).map(|source| &*source.path).collect();
    assert_eq!(listed, found);
}

/// A wheel that two threads share without a lock was such a scheduler's fault: ours belongs to the plan
/// alone.
fn no_two_threads_share_a_wheel() {
    let owners: Vec<String> = sources()
        .iter()
        .filter(|source| source.lines().any(|line| line.contains("Wheel<") && !source.path.contains("wheel")))
        .map(|source| source.path.clone())
        .collect();
    assert_eq!(owners, ["pipeline/plan/mod.rs"]);
    let shared = sources().iter().any(|source| source.lines().any(|line| line.contains("<Wheel<")));
    assert!(!shared, "a wheel behind an Arc or a lock");
}

fn no_repair_updates_where_id_alone() {
    for source in sources().iter().filter(|source| source.path.starts_with("store/sql")) {
        let text = source.lines().collect::<Vec<_>>().join(" ");
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
