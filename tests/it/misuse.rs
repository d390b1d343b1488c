//! What the compiler says to who uses firetime wrongly: each file of `tests/ui` does, and the text beside it
//! is what is said. After a change that is meant, `FIRETIME_WRITE_MESSAGES=1` writes the texts anew.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::trial;

const FOLDER: &str = "tests/ui";

pub fn add(trials: &mut Vec<Trial>) {
    let mut cases: Vec<PathBuf> =
        fs::read_dir(root().join(FOLDER)).unwrap().map(|it| it.unwrap().path()).collect();
    cases.retain(|it| it.extension().is_some_and(|it| it == "rs"));
    assert!(!cases.is_empty(), "no case in {FOLDER}");
    for case in cases {
        let name = case.file_stem().unwrap().to_str().unwrap().to_owned();
        trials.push(trial(format!("misuse::{name}"), move || is_told(&name)));
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compilers differ in words: only the one that the gate has is held to them.
fn is_told(name: &str) {
    let version = Command::new("rustc").arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    if !version.starts_with(concat!("rustc ", env!("CARGO_PKG_RUST_VERSION"), ".")) {
        return eprintln!("NOT CHECKED: what {version} says");
    }
    let said = said(name);
    let file = root().join(FOLDER).join(name).with_extension("txt");
    if std::env::var_os("FIRETIME_WRITE_MESSAGES").is_some() {
        fs::write(file, said).unwrap();
        return;
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(said == expected, "{} expects\n{expected}\nThe compiler says\n{said}", file.display());
}

/// What rustc says about the case, a line for each part of it.
fn said(name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut rustc = Command::new("rustc");
    rustc.current_dir(root()).args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata"]);
    rustc.args(["--error-format", "json", "--out-dir"]).arg(folder.path());
    let library = &*LIBRARY;
    rustc.arg("-L").arg(format!("dependency={}", library.parent().unwrap().display()));
    rustc.arg("--extern").arg(format!("firetime={}", library.display()));
    let output = rustc.arg(format!("{FOLDER}/{name}.rs")).output().unwrap();
    assert!(!output.status.success(), "{name} compiles");
    let mut said = String::new();
    for line in String::from_utf8(output.stderr).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        if message["level"] == "error" && !message["spans"].as_array().unwrap().is_empty() {
            tell(&mut said, &message);
        }
    }
    said
}

/// Without line numbers of firetime, and without the lists of types that have a trait.
fn tell(said: &mut String, message: &Value) {
    writeln!(said, "error: {}", message["message"].as_str().unwrap()).unwrap();
    for span in message["spans"].as_array().unwrap() {
        let line = span["text"][0]["text"].as_str().unwrap_or_default().trim();
        let label = span["label"].as_str().map(|it| format!(": {it}")).unwrap_or_default();
        writeln!(said, "  `{line}`{label}").unwrap();
    }
    for more in message["children"].as_array().unwrap() {
        let text = more["message"].as_str().unwrap().replace('\n', "\n    ");
        if text.starts_with("the following other types") {
            continue;
        }
        writeln!(said, "  {}: {text}", more["level"].as_str().unwrap()).unwrap();
        for span in more["spans"].as_array().unwrap() {
            let line = span["text"][0]["text"].as_str().unwrap_or_default().trim();
            match span["suggested_replacement"].as_str() {
                Some(instead) => writeln!(said, "    `{line}`: `{instead}`").unwrap(),
                None => writeln!(said, "    `{line}`").unwrap(),
            }
        }
    }
    said.push('\n');
}

/// The library that these tests are linked with, as cargo has built it.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["test", "--locked", "--all-features", "--test", "it", "--no-run"]);
    let output = cargo.args(["--message-format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let artifacts = String::from_utf8(output.stdout).unwrap();
    let of_library = |line: &str| {
        let artifact: Value = serde_json::from_str(line).unwrap();
        let target = &artifact["target"];
        let is_meant = target["name"] == "firetime" && target["kind"][0] == "lib";
        let file =
            artifact["filenames"].as_array()?.iter().find(|it| it.as_str().unwrap().ends_with(".rlib"))?;
        is_meant.then(|| PathBuf::from(file.as_str().unwrap()))
    };
    artifacts.lines().find_map(of_library).unwrap()
});
