//! What axe-core finds on every page, in light and in dark, wide and narrow.

use serde_json::{Value, json};

use crate::database::ServerKind;
use crate::pictures::pages;
use crate::shop::Shop;
use crate::tab;

/// The file that scripts/axe.sh fetches.
pub const FILE: &str = "FIRETIME_AXE";

const RUN: &str = "axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations
    .filter((it) => ['serious', 'critical'].includes(it.impact))
    .map((it) => `${it.id}: ${it.nodes.map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary).join('; ')}`))";

pub fn axe_finds_nothing_serious(kind: ServerKind) {
    let source = std::fs::read_to_string(std::env::var(FILE).unwrap()).unwrap();
    let shop = Shop::open(kind);
    let page = tab();
    let mut found: Vec<(String, Value)> = Vec::new();
    for (name, address) in pages(&shop) {
        for (is_dark, width) in [(false, 1280), (true, 1280), (false, 360)] {
            page.size(width, 800);
            page.dark(is_dark);
            page.open(&shop.console.at(&address));
            page.run(&format!("{source}; 0"));
            let violations = page.run(RUN);
            if violations != json!([]) {
                found.push((format!("{name}, dark: {is_dark}, {width} px"), violations));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    page.run("document.querySelector('h1').style.color = 'silver'");
    assert!(page.run(RUN)[0].as_str().unwrap().starts_with("color-contrast"), "it sees what it looks for");
}
