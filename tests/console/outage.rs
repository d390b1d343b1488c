//! The database goes away under an open page, and comes back.

use firetime::Client;
use firetime::console::Options;
use serde_json::json;
use std::time::Duration;

use crate::chaos::proxy::{Mode, Proxy};
use crate::chaos::wire::Protocol;
use crate::database::{Database, ServerKind};
use crate::opens::assert_is_quiet;
use crate::page::Page;
use crate::shop::{APPLICATION, Server, Shop};
use crate::tab;

/// That a page hears of changes.
const IS_LIVE: &str = "document.getElementById('live')?.dataset.state === 'on'";
/// That it tells of an outage.
const SAYS_AWAY: &str = "!document.getElementById('away').hidden";

/// The way to a database, which can be cut.
enum Way {
    Proxy(Proxy),
    File(String),
}

impl Way {
    /// The way, and the database's URL along it.
    fn to(database: &Database) -> (Self, String) {
        let Some((_, server)) = database.url.split_once('@') else {
            let file = database.url.strip_prefix("sqlite:").unwrap();
            return (Self::File(file.to_owned()), database.url.clone());
        };
        let address = server.split('/').next().unwrap();
        let proxy = Proxy::new(address.parse().unwrap(), Protocol::Postgres);
        let url = database.url.replace(address, &format!("127.0.0.1:{}", proxy.port()));
        (Self::Proxy(proxy), url)
    }

    fn cut(&self) {
        match self {
            Self::Proxy(proxy) => proxy.set(Mode::Down),
            Self::File(file) => std::fs::rename(file, format!("{file}.gone")).unwrap(),
        }
    }

    fn mend(&self) {
        match self {
            Self::Proxy(proxy) => proxy.set(Mode::Pass),
            Self::File(file) => std::fs::rename(format!("{file}.gone"), file).unwrap(),
        }
    }
}

fn assert_is_away(page: &Page, what: &str) {
    assert!(page.has(".banner[role=alert]") && page.has("nav.rail a | Schedules"), "{what}: {}", page.text());
    assert!(page.has("h1 | The database is away"), "{what}: {}", page.text());
}

pub fn a_page_tells_of_an_outage_and_is_well_again(kind: ServerKind) {
    let shop = Shop::open(kind);
    let (way, url) = Way::to(&shop.database);
    let client = Client::connect(APPLICATION, &url).unwrap();
    let console = Server::start(&client, Options::new().patience(Duration::from_secs(2)));
    let page = tab();
    page.open(&console.at("schedule?name=report-stock"));
    way.cut();
    for address in ["now", "schedules", "jobs", "nodes", "audit"] {
        page.follow(&format!("nav.rail a[href='{address}']"));
        assert_is_away(&page, address);
    }
    page.open(&console.at("schedule?name=report-stock"));
    assert_is_away(&page, "a schedule");
    way.mend();
    page.reload_until("it is back", "document.querySelector('h1').textContent === 'report-stock'");
    // A form that is sent meanwhile says that nothing is known of it, and leads to the audit. The banner
    // moves the form: it is clicked where it then is.
    page.until("it is live", IS_LIVE);
    way.cut();
    page.until("a banner says so", SAYS_AWAY);
    page.follow(".head button | Run now");
    assert!(page.has(".banner[role=alert]"), "{}", page.text());
    assert!(page.has("a | Show the audit"), "{}", page.text());
    way.mend();
    page.call("Page.navigate", json!({"url": console.at("now")}));
    page.open(&console.at("now"));
    page.reload_until("it is back", "document.querySelector('.figures') !== null");
    assert_is_quiet(&page, "the outage");
}

/// Without anybody loading it anew.
pub fn an_open_page_hears_of_changes_and_of_an_outage(kind: ServerKind) {
    let shop = Shop::open(kind);
    let (way, url) = Way::to(&shop.database);
    let client = Client::connect(APPLICATION, &url).unwrap();
    let console = Server::start(&client, Options::new().patience(Duration::from_secs(2)));
    let page = tab();
    page.open(&console.at("schedule?name=report-stock"));
    page.until("it is live", IS_LIVE);
    page.run("window.isTheSame = true");
    shop.client.pause("report-stock").reason("stock-taking").run().unwrap();
    page.until("the pause is seen", "document.querySelector('main').textContent.includes('stock-taking')");
    way.cut();
    page.until("a banner says so", SAYS_AWAY);
    assert!(page.has("h1 | report-stock"), "what it knew is still there: {}", page.text());
    way.mend();
    page.until("it is well again", "document.getElementById('away').hidden");
    shop.client.resume("report-stock").run().unwrap();
    page.until(
        "the end of the pause is seen",
        "document.querySelector('.head .state').textContent === 'active'",
    );
    assert_eq!(page.run("window.isTheSame"), true);
}
