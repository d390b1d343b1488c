//! The console without a mouse, and without scripts.

use serde_json::json;

use crate::database::ServerKind;
use crate::opens::assert_is_quiet;
use crate::page::Page;
use crate::shop::Shop;
use crate::tab;
use firetime::ScheduleState;

/// Presses Tab until an element has the focus whose words are these; each one on the way is seen to have it.
fn tab_to(page: &Page, words: &str) {
    for _ in 0..80 {
        page.key("Tab");
        let focus = page.run(
            "(() => {
                const it = document.activeElement, style = getComputedStyle(it), box = it.getBoundingClientRect();
                const isOutlined = style.outlineStyle !== 'none' || it.querySelector('rect') !== null;
                const isSeen = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
                return [it.textContent.trim(), isOutlined && isSeen];
            })()",
        );
        assert_eq!(focus[1], json!(true), "{focus} shows that it has the focus");
        if focus[0] == json!(words) {
            return;
        }
    }
    panic!("no Tab reaches {words:?} on {}", page.address());
}

pub fn a_schedule_is_paused_by_the_keyboard_alone(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    page.open(&shop.console.at("now"));
    page.key("Tab");
    assert_eq!(page.run("document.activeElement.textContent"), json!("To the content"));
    page.key("Enter");
    page.until("the focus jumps", "document.activeElement.id === 'content'");
    page.open(&shop.console.at("now"));
    tab_to(&page, "Schedules");
    page.follow_key("Enter");
    tab_to(&page, "report-stock");
    page.follow_key("Enter");
    tab_to(&page, "Pause");
    page.follow_key("Enter");
    page.run("document.activeElement.blur()");
    tab_to(&page, "");
    while page.run("document.activeElement.name") != json!("reason") {
        page.key("Tab");
    }
    page.call("Input.insertText", json!({"text": "stock-taking"}));
    page.follow_key("Enter");
    let schedule = shop.client.schedule("report-stock").unwrap().schedule;
    assert_eq!((schedule.state.as_str(), schedule.reason.as_str()), ("paused", "stock-taking"));
    // A cell of the grid, whose hour then tells why.
    page.open(&shop.console.at("schedule?name=invoices-hourly"));
    while page.run("document.activeElement.querySelector?.('.c-failed') !== null && document.activeElement.closest('svg') !== null") != json!(true) {
        page.key("Tab");
    }
    page.follow_key("Enter");
    assert!(page.has("#why .why"), "{}", page.text());
    assert_is_quiet(&page, "the keyboard");
}

/// Pages are looked at, filtered and used as ever.
pub fn scripts_are_not_needed(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    page.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    for (name, address) in crate::pictures::pages(&shop) {
        page.open(&shop.console.at(&address));
        assert!(page.text().contains("shop"), "{name}");
    }
    page.open(&shop.console.at("schedules"));
    page.fill("input[name=q]", "report");
    page.follow("form.filter button");
    assert!(page.has("td a | report-sales") && !page.has("td a | rates"), "{}", page.text());
    page.follow("td a | report-stock");
    page.follow(".head a | Pause");
    page.follow("button | Pause report-stock");
    assert_eq!(shop.client.schedule("report-stock").unwrap().schedule.state, ScheduleState::Paused);
    page.follow(".head button | Resume");
    assert_eq!(shop.client.schedule("report-stock").unwrap().schedule.state, ScheduleState::Active);
    page.open(&shop.console.at("executions"));
    page.click("summary | More filters");
    page.fill("input[name=tag]", "checkout");
    page.follow("form.filter button");
    assert!(page.has("td | enqueued: billing") && !page.has("td a | rates"), "{}", page.text());
    assert_is_quiet(&page, "without scripts");
}
