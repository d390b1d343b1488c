//! Every verb, given by clicking, and its effect as the pages and the ledger show it.

use firetime::{AuditFilter, ExecutionState, ScheduleState};
use serde_json::json;

use crate::database::ServerKind;
use crate::opens::{MISFITS, assert_is_quiet};
use crate::page::Page;
use crate::shop::Shop;
use crate::tab;

/// The sentence that says what a change did.
fn said(page: &Page) -> String {
    page.of(".said", "(it) => it.textContent").as_str().unwrap().to_owned()
}

/// Clicks on a button that asks first, and says why.
fn confirm(page: &Page, button: &str, why: &str, then: &str) -> String {
    page.follow(button);
    page.fill("input[name=reason]", why);
    page.follow(then);
    said(page)
}

/// The verb that the audit has last, and why.
fn last(shop: &Shop) -> (String, String) {
    let last = shop.client.audit(&AuditFilter { limit: 1, ..AuditFilter::default() }).unwrap().remove(0);
    assert_eq!(last.actor, "ops");
    (last.verb, last.reason)
}

fn logged(shop: &Shop, verb: &str, why: &str) {
    assert_eq!(last(shop), (verb.to_owned(), why.to_owned()));
}

pub fn schedules_are_steered_by_clicking(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    let state = || shop.client.schedule("report-stock").unwrap().schedule.state;
    page.open(&shop.console.at("schedule?name=report-stock"));
    assert!(
        confirm(&page, ".head a | Pause", "stock-taking", "button | Pause report-stock")
            .ends_with(" is paused.")
    );
    assert_eq!(state(), ScheduleState::Paused);
    logged(&shop, "pause", "stock-taking");
    assert!(page.text().contains("stock-taking"), "the reason is on the page: {}", page.text());
    page.follow(".head button | Resume");
    assert!(said(&page).ends_with(" is resumed."));
    assert_eq!(state(), ScheduleState::Active);
    page.follow(".head button | Run now");
    assert!(said(&page).contains(" runs once more: execution "), "{}", said(&page));
    logged(&shop, "trigger", "");
    let next = shop.next("report-stock");
    let skip = next.format("%H:%M").to_string();
    let told =
        confirm(&page, &format!(".head a | Skip {skip}"), "no stock", &format!("button | Skip {skip}"));
    assert!(told.contains(" skips "), "{told}");
    logged(&shop, "skip", "no stock");
    assert!(shop.next("report-stock") > next);
    let told = confirm(&page, ".head a | Remove", "sold", "button | Remove report-stock");
    assert!(told.ends_with(" is removed."), "{told}");
    assert!(
        page.address().starts_with("/schedules") && !page.has("td a | report-stock"),
        "{}",
        page.address()
    );
    logged(&shop, "remove", "sold");
    page.open(&shop.console.at("schedules"));
    page.follow("tr:has(a[href='schedule?name=index-products']) button | Run now");
    logged(&shop, "trigger", "");
    assert_is_quiet(&page, "steering");
}

pub fn executions_are_cancelled_and_tried_again_by_clicking(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    let running = shop.newest(ExecutionState::Running);
    page.open(&shop.console.at(&format!("execution?id={running}")));
    page.reload_until(
        "its log",
        "document.querySelector('.log')?.textContent.includes('reading the orders of eu')",
    );
    let told = confirm(&page, ".head a | Cancel", "wrong month", &format!("button | Cancel {running}"));
    assert!(told.contains("is asked to end"), "{told}");
    logged(&shop, "cancel", "wrong month");
    page.reload_until(
        "its handler ends",
        "document.querySelector('.head .state').textContent === 'cancelled'",
    );
    page.follow(".head button | Try again");
    assert!(said(&page).contains(" tries "), "{}", said(&page));
    logged(&shop, "retry", "");
    page.reload_until("a second attempt", "document.querySelectorAll('table tbody tr').length === 2");
    page.open(&shop.console.at("executions?state=PENDING&job=mail"));
    page.follow("td a | Cancel");
    page.follow("button[class=primary]");
    assert!(said(&page).contains("is cancelled: it had not begun."), "{}", said(&page));
    assert_is_quiet(&page, "executions");
}

pub fn jobs_and_nodes_are_steered_by_clicking(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    page.open(&shop.console.at("jobs"));
    page.follow("tr:has(td[data-label=State]):has(a[href*='mail']) button | Resume");
    assert!(said(&page).ends_with(" is resumed."), "{}", said(&page));
    logged(&shop, "resume", "");
    let told =
        confirm(&page, "tr:has(a[href*='job=billing']) a.button", "month's end", "button[class=primary]");
    assert!(told.ends_with(" is paused."), "{told}");
    logged(&shop, "pause", "month's end");
    page.open(&shop.console.at("nodes"));
    let told = confirm(&page, "td a | Pause", "new kernel", "button[class=primary]");
    assert!(told.ends_with(" is paused."), "{told}");
    page.follow("td button | Resume");
    assert!(said(&page).ends_with(" is resumed."), "{}", said(&page));
    let told = confirm(&page, "td a | Drain", "new kernel", "button[class=primary]");
    assert!(told.contains("drain"), "{told}");
    logged(&shop, "drain", "new kernel");
    assert!(page.has("td .state | draining") || page.has("td .state | drained"), "{}", page.text());
    assert_is_quiet(&page, "nodes");
}

/// From the first page over the grid's cell to the button that repairs it.
pub fn what_was_missed_is_run_from_its_cell(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    page.open(&shop.console.at("schedule?name=invoices-hourly"));
    page.follow("svg.grid a:has(.c-skipped)");
    assert!(page.has(".c-picked") && page.has("#why .why"), "{}", page.text());
    let before = shop.newest(ExecutionState::Succeeded);
    page.follow("#why button");
    assert!(said(&page).contains("1 execution ordered."), "{}", said(&page));
    logged(&shop, "rerun", "");
    crate::until("it has run", || (shop.newest(ExecutionState::Succeeded) > before).then_some(()));
    assert_is_quiet(&page, "rerunning");
}

/// The form, what it comes to, and the schedule as it is then.
pub fn schedules_are_edited_by_clicking(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    page.open(&shop.console.at("schedule?name=report-stock"));
    page.follow(".head a | Edit");
    page.fill("input[name=cron]", "0 0 25 * * ?");
    page.follow("button | Show what it comes to");
    assert!(page.has(".problem[role=alert]"), "there is no such hour: {}", page.text());
    page.fill("input[name=cron]", "0 15 7 ? * MON-FRI");
    page.follow("button | Show what it comes to");
    assert!(page.has("#preview table"), "{}", page.text());
    assert_eq!(page.run(MISFITS), json!([]));
    page.fill("#preview input[name=reason]", "the board meets later");
    page.follow("#preview button[class=primary]");
    assert!(page.text().contains("07:15"), "{}", page.text());
    logged(&shop, "edit", "the board meets later");
    assert_is_quiet(&page, "editing");
}

/// What a filter means is tried again, one by one, and what is missing of a schedule is run.
pub fn many_are_changed_by_clicking(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    page.open(&shop.console.at("executions?state=FAILED&job=exchange-rates"));
    page.follow(".head .actions a");
    assert!(page.has("form.ask") && page.has("table.cards"), "{}", page.text());
    assert_eq!(page.run(MISFITS), json!([]));
    page.fill("input[name=reason]", "the bank is back");
    page.follow("form.ask button[class=primary]");
    page.reload_until("it is done", "document.querySelector('h1').textContent.endsWith('done')");
    logged(&shop, "retry", "the bank is back");
    page.open(&shop.console.at("schedule?name=invoices-hourly"));
    page.follow(".head a | Run what is missing");
    page.follow("form.filter button | Show which");
    assert_eq!(page.run(MISFITS), json!([]));
    page.fill("form.ask input[name=reason]", "what was missed");
    page.follow("form.ask button[class=primary]");
    assert!(said(&page).contains("ordered"), "{}", said(&page));
    logged(&shop, "rerun", "what was missed");
    assert_is_quiet(&page, "many");
}

pub fn all_schedules_of_a_filter_are_paused_and_resumed_by_clicking(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    let states =
        || ["report-sales", "report-stock"].map(|it| shop.client.schedule(it).unwrap().schedule.state);
    let changed = |button: &str, why: &str| {
        page.open(&shop.console.at("schedules?job=nightly-report"));
        page.follow(&format!(".head .actions a | {button}"));
        assert!(page.has("td a | report-sales") && page.has("td a | report-stock"), "{}", page.text());
        assert_eq!(page.run(MISFITS), json!([]));
        page.fill("form.ask input[name=reason]", why);
        page.follow("form.ask button[class=primary]");
        page.reload_until("it is done", "document.querySelector('h1').textContent.endsWith('done')");
        assert!(page.text().contains("2 changed, 0 left as they were"), "{}", page.text());
    };
    changed("Pause all of these", "the year ends");
    assert_eq!(states(), [ScheduleState::Paused, ScheduleState::Paused]);
    logged(&shop, "pause", "the year ends");
    page.open(&shop.console.at("schedules?job=nightly-report"));
    assert!(page.text().contains("the year ends") && !page.has(".head .actions a | Pause all of these"));
    changed("Resume all of these", "the books are closed");
    assert_eq!(states(), [ScheduleState::Active, ScheduleState::Active]);
    logged(&shop, "resume", "the books are closed");
    let others =
        ["index-products", "index-reviews"].map(|it| shop.client.schedule(it).unwrap().schedule.state);
    assert_eq!(others, [ScheduleState::Active, ScheduleState::Paused], "the filter has none of them");
    assert_is_quiet(&page, "all schedules of a filter");
}
