//! Names, payloads and errors that try to be more than text.

use std::time::Duration;

use firetime::console::Options;
use firetime::{
    Client, ExecutionFilter, ExecutionState, HandlerError, Job, Schedule, Scheduler, Target, Trigger,
};

use crate::database::ServerKind;
use crate::opens::assert_is_quiet;
use crate::shop::{APPLICATION, Server};
use crate::{tab, until};

/// Markup and scripts, the ends of attributes and of scripts, marks that turn the line around, and orders to
/// a terminal. A page on which one of them runs says so by its title or by an element that should not be
/// there.
const TEXTS: [&str; 7] = [
    "<script>document.title='taken'</script>",
    "\"><img src=x onerror=\"document.title='taken'\"><u class=taken>",
    "' onmouseover='document.title=1' x='",
    "</title></style></textarea><svg onload=document.title='taken'>",
    "\u{202e}\u{2066}gnp.tropper\u{2069}\u{202c}",
    "\u{1b}[2J\u{1b}]0;taken\u{7}",
    "javascript:document.title='taken'",
];
const JOB: Job<String> = Job::new("<b onclick=x>job</b>");

pub fn hostile_names_are_text(kind: ServerKind) {
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let client = Client::connect(APPLICATION, &database.url).unwrap().acting_as("<u class=taken>ops</u>");
    let node = Scheduler::builder(APPLICATION, &database.url)
        .poll_interval(Duration::from_secs(1))
        .handler(JOB, |context, text| {
            context.log(&text);
            Err::<(), HandlerError>(text.into())
        })
        .start()
        .unwrap();
    let nightly = || Trigger::cron("0 30 2 * * ?", "UTC").unwrap();
    let long = "x".repeat(1_000);
    let texts = TEXTS.iter().copied().chain([long.as_str()]);
    let (mut names, mut orders) = (Vec::new(), 0);
    for text in texts {
        let name: String = text.chars().filter(|it| !it.is_control()).take(200).collect();
        let description: String = text.chars().take(500).collect();
        let schedule =
            Schedule::new(&name, JOB, &text.to_owned(), nightly()).unwrap().description(&description);
        if client.ensure(&schedule).run().is_ok() {
            client.pause(Target::schedule(&name)).reason(&description).run().ok();
            names.push(name.clone());
        }
        client.enqueue(JOB, &text.to_owned()).tag(&name[..name.len().min(60)]).run().ok();
        client.enqueue(JOB, &text.to_owned()).run().unwrap();
        orders += 1;
    }
    let list = || client.executions(&ExecutionFilter { limit: 100, ..ExecutionFilter::default() }).unwrap();
    until("all have failed", || {
        (list().iter().filter(|it| it.state == ExecutionState::Failed).count() >= orders).then_some(())
    });
    assert!(names.len() >= 6, "{names:?}");
    look(kind, &client, &names, &list().iter().map(|it| it.id.get()).collect::<Vec<_>>());
    node.shutdown(Duration::ZERO).is_clean();
}

/// Opens every page on them, wide and, on one database, narrow.
fn look(kind: ServerKind, client: &Client, names: &[String], ids: &[i64]) {
    let console = Server::start(client, Options::new());
    let page = tab();
    let encoded = |key: &str, text: &str| {
        form_urlencoded::Serializer::new(String::new()).append_pair(key, text).finish()
    };
    let mut addresses: Vec<String> =
        ["now", "schedules", "executions", "jobs", "nodes", "audit"].map(str::to_owned).into();
    addresses.extend(ids.iter().map(|id| format!("execution?id={id}")));
    for name in names {
        addresses.push(format!("schedule?{}", encoded("name", name)));
        addresses.push(format!("schedules?{}", encoded("q", name)));
        addresses.push(format!("audit?{}", encoded("target", name)));
        addresses.push(format!("confirm?verb=remove&{}", encoded("schedule", name)));
        // A page that refuses says what it was asked for.
        addresses.push(format!("schedule?{}", encoded("name", &format!("{name}?"))));
        addresses.push(format!("executions?{}", encoded("state", name)));
    }
    let widths = if kind == ServerKind::Sqlite { &[1280, 360][..] } else { &[1280] };
    for (address, width) in addresses.iter().flat_map(|it| widths.iter().map(move |width| (it, *width))) {
        page.size(width, 800);
        page.open(&console.at(address));
        let taken = page.run("document.title.includes('taken') && !document.title.includes('·') || document.querySelector('.taken, main img, main u, [onclick], [onerror], [onload], [onmouseover], [href^=javascript]') !== null");
        assert_eq!(taken, false, "{address}");
        assert_eq!(
            page.run("document.documentElement.scrollWidth > innerWidth"),
            false,
            "{address} at {width} px"
        );
        assert_is_quiet(&page, address);
    }
    // If one of them were markup after all, the policy would keep its script from running.
    page.run(
        "const it = document.createElement('script');
        it.textContent = 'document.title = 1';
        document.body.append(it);
        const shown = document.createElement('div');
        document.body.append(shown);
        shown.innerHTML = '<u onclick=\"document.title = 1\">x</u>';
        shown.firstChild.click();",
    );
    assert_ne!(page.run("document.title"), "1");
    let complaints = page.complaints();
    assert!(
        complaints.iter().filter(|it| it.contains("Content Security Policy")).count() >= 2,
        "{complaints:?}"
    );
    page.open(&console.at(&format!("schedule?{}", encoded("name", &names[0]))));
    assert_eq!(page.of("h1", "(it) => it.textContent"), names[0].as_str(), "the name is shown whole");
}
