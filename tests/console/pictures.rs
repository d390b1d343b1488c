//! Pictures of every page: wide and narrow, in light and in dark.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use firetime::ExecutionState;

use crate::database::ServerKind;
use crate::shop::Shop;
use crate::tab;

/// Every page, by the name of its picture.
pub fn pages(shop: &Shop) -> Vec<(&'static str, String)> {
    let failed = shop.newest(ExecutionState::Failed);
    let running = shop.newest(ExecutionState::Running);
    let node = shop.client.nodes().unwrap()[0].id.clone();
    let picked = (shop.next("invoices-hourly") - chrono::TimeDelta::hours(4)).format("%Y-%m-%dT%H:00:00Z");
    [
        ("now", "now".to_owned()),
        ("schedules", "schedules".to_owned()),
        ("schedules-none", "schedules?q=nothing+is+called+so".to_owned()),
        ("schedules-few", "schedules?job=billing".to_owned()),
        ("schedule", "schedule?name=invoices-hourly".to_owned()),
        ("schedule-why", format!("schedule?name=invoices-hourly&at={picked}")),
        ("schedule-paused", "schedule?name=index-reviews".to_owned()),
        ("edit", "edit?name=report-sales".to_owned()),
        ("missed", "missed?name=invoices-hourly".to_owned()),
        ("executions", "executions?since=12h".to_owned()),
        ("execution-failed", format!("execution?id={failed}")),
        ("execution-running", format!("execution?id={running}")),
        ("jobs", "jobs".to_owned()),
        ("nodes", "nodes".to_owned()),
        ("audit", "audit".to_owned()),
        ("confirm", "confirm?verb=remove&schedule=report-sales&back=schedules".to_owned()),
        ("confirm-drain", format!("confirm?verb=drain&node={node}&back=nodes")),
        ("missing", "schedule?name=nobody-made-it".to_owned()),
    ]
    .into()
}

/// Makes them all in a folder.
pub fn make(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let shop = Shop::open(ServerKind::Sqlite);
    let page = tab();
    let pages = pages(&shop);
    let wanted = std::env::var("FIRETIME_PICTURED").unwrap_or_default();
    for (name, address) in pages.iter().filter(|(name, _)| name.contains(&wanted)) {
        for (look, is_dark, width) in [("light", false, 1280), ("dark", true, 1280), ("narrow", false, 360)] {
            page.size(width, 800);
            page.dark(is_dark);
            page.open(&shop.console.at(address));
            let picture = STANDARD.decode(page.picture()).unwrap();
            std::fs::write(folder.join(format!("{name}-{look}.png")), picture).unwrap();
        }
    }
}
