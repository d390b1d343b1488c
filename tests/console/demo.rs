//! `firetime demo --console`: what newcomers see first.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use crate::opens::assert_is_quiet;
use crate::tab;

pub fn the_demo_is_seen_in_the_console() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_firetime"))
        .args(["demo", "--console"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(demo.stdout.take().unwrap());
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    let address = first.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:"));
    let address = address.unwrap_or_else(|| panic!("the first line has no address: {first}"));
    let page = tab();
    page.open(&format!("{address}executions"));
    page.reload_until("occurrences run", "document.querySelectorAll('td .ran').length > 3");
    page.open(&format!("{address}nodes"));
    page.reload_until(
        "a node is killed",
        "document.querySelectorAll('section:nth-of-type(2) tbody tr').length === 1",
    );
    page.open(&format!("{address}executions?state=ABANDONED"));
    page.reload_until("what it was at is given up", "document.querySelector('tbody tr td a') !== null");
    page.follow("tbody td a");
    page.reload_until("another attempt has run", "document.querySelector('main table .ran') !== null");
    assert!(!page.has("form[method=post]"), "it changes nothing: {}", page.text());
    assert_is_quiet(&page, "the demo");
    // It stays open until somebody presses Enter.
    let mut line = String::new();
    while !line.contains("press Enter") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "the demo has ended");
        print!("{line}");
    }
    page.open(&format!("{address}now"));
    assert!(page.text().contains("The last 24 hours"), "{}", page.text());
    demo.stdin.take().unwrap().write_all(b"\n").unwrap();
    said.read_to_string(&mut line).unwrap();
    assert!(demo.wait().unwrap().success());
}
