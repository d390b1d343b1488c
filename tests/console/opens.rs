//! Every page: it opens without a complaint of the browser, fits the window, and all of it can be reached.

use serde_json::json;

use crate::database::ServerKind;
use crate::page::Page;
use crate::pictures::pages;
use crate::shop::Shop;
use crate::tab;

/// What is wider than the window, or breaks within a word that would fit a line.
pub const MISFITS: &str = "(() => {
    const misfits = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) misfits.push(`the page is ${root.scrollWidth} px wide`);
    const within = (it) => it.closest('.scroll') || it.closest('.hidden');
    for (const it of document.querySelectorAll('main *, nav *')) {
        const box = it.getBoundingClientRect();
        if (box.width > 1 && !within(it) && (box.right > root.clientWidth + 1 || box.left < -1))
            misfits.push(`${it.tagName} ${it.className} ends at ${box.right}: ${it.textContent.slice(0, 60)}`);
    }
    for (const it of document.querySelectorAll('.sheet')) {
        if (it.scrollWidth > it.clientWidth) misfits.push(`a sheet scrolls: ${it.textContent.slice(0, 60)}`);
    }
    const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    while (texts.nextNode()) {
        const text = texts.currentNode;
        for (const word of text.data.matchAll(/[A-Za-z]{2,14}/g)) {
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map((it) => it.top)).size > 1)
                misfits.push(`${word[0]} breaks in ${text.data.slice(0, 60)}`);
        }
    }
    return misfits;
})()";

/// The links of the menu that are not within the window.
const HIDDEN_LINKS: &str = "[...document.querySelectorAll('nav.rail a')].filter((it) => {
    const box = it.getBoundingClientRect();
    return box.left < 0 || box.right > innerWidth || box.top < 0 || box.bottom > innerHeight || box.width === 0;
}).map((it) => it.textContent)";

/// Pages look the same on every database: all widths are tried on one.
pub fn widths(kind: ServerKind) -> &'static [u32] {
    if kind == ServerKind::Sqlite { &[1280, 1000, 700, 360] } else { &[1280] }
}

pub fn every_page_opens_in_every_width(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    for (name, address) in pages(&shop) {
        for width in widths(kind) {
            page.size(*width, 800);
            page.open(&shop.console.at(&address));
            assert!(!page.text().is_empty() && !page.text().contains("::"), "{name}: {}", page.text());
            assert_eq!(page.run(MISFITS), json!([]), "{name} at {width} px");
            assert_eq!(page.run(HIDDEN_LINKS), json!([]), "{name} at {width} px");
            assert_is_quiet(&page, name);
        }
    }
    page.run("document.querySelector('h1').style.marginLeft = '2000px'");
    assert_ne!(page.run(MISFITS), json!([]), "it sees what it looks for");
}

/// Nothing was complained of, but for a page that the server itself refused.
pub fn assert_is_quiet(page: &Page, what: &str) {
    let complaints = page.complaints();
    let others: Vec<&String> =
        complaints.iter().filter(|it| !it.contains("the server responded with a status of")).collect();
    assert!(others.is_empty(), "{what}: {others:?}");
}

/// Every link on every page leads to a page.
pub fn every_link_leads_to_a_page(kind: ServerKind) {
    let shop = Shop::open(kind);
    let page = tab();
    let mut left: Vec<String> =
        pages(&shop).into_iter().map(|(_, address)| shop.console.at(&address)).collect();
    let (mut seen, mut followed) = (std::collections::BTreeSet::new(), 0);
    while let Some(address) = left.pop() {
        // One of a kind: pages whose addresses differ in their figures alone.
        let kind: String = address.chars().filter(|it| !it.is_ascii_digit()).collect();
        if !seen.insert(kind) || followed >= 120 {
            continue;
        }
        page.open(&address);
        followed += 1;
        let is_refused = page.has(".banner");
        assert!(!is_refused || address.contains("nobody-made-it"), "{address}: {}", page.text());
        assert_is_quiet(&page, &address);
        let links = page.run("[...document.querySelectorAll('a[href]')].map((it) => it.href.baseVal ? new URL(it.href.baseVal, location.href).href : it.href)");
        let links = links.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned());
        left.extend(links.map(|it| it.split('#').next().unwrap().to_owned()));
    }
    assert!(followed > 40, "{followed} pages");
}
