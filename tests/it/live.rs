//! Pages of the console that are kept up to date by server-sent events.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, StatusCode};
use diesel::connection::{InstrumentationEvent, set_default_instrumentation};
use firetime::console::{Options, Role, User, router};
use firetime::{Client, Job, Schedule, Trigger};
use futures_core::Stream;
use libtest_mimic::Trial;
use serde_json::Value;
use tower::ServiceExt;

use crate::support::database::ServerKind;
use crate::trial;

const TICK: Job<()> = Job::new("tick");
const SOON: Duration = Duration::from_secs(60);

pub fn add(trials: &mut Vec<Trial>) {
    let tests: &[(&str, fn())] = &[
        ("a_stream_tells_what_has_changed", a_stream_tells_what_has_changed),
        ("two_hundred_pages_ask_as_often_as_one", two_hundred_pages_ask_as_often_as_one),
        ("a_stream_is_of_a_page", a_stream_is_of_a_page),
        ("nobody_takes_all_streams_from_the_others", nobody_takes_all_streams_from_the_others),
        ("no_address_without_a_login_takes_all_streams", no_address_without_a_login_takes_all_streams),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("live::{name}"), *test));
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub fn add_far(trials: &mut Vec<Trial>, kind: ServerKind) {
    if crate::chaos::cluster::protocol(kind).is_some() {
        let name = format!("{}::live::a_page_outlives_its_database", kind.name());
        trials.push(trial(name, move || a_page_outlives_its_database(kind)));
    }
}

fn nobody_takes_all_streams_from_the_others() {
    let database = ServerKind::Sqlite.fresh();
    let client = crate::support::scheduler::client(&database);
    let options = Options::new()
        .user(|request| Some(User::new(request.headers.get("x-who")?.to_str().ok()?, Role::Viewer)));
    let pages = router(client, options);
    let open = |who: &'static str| {
        let request = Request::get("/live?of=now").header("host", "localhost").header("x-who", who);
        pages.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut streams = Vec::new();
        for _ in 0..32 {
            streams.push(open("ann").await.unwrap());
        }
        assert!(streams.iter().all(|it| it.status() == StatusCode::OK));
        let refused = open("ann").await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key("retry-after"));
        assert_eq!(open("bea").await.unwrap().status(), StatusCode::OK);
        streams.pop();
        assert_eq!(open("ann").await.unwrap().status(), StatusCode::OK);
    });
}

/// Behind a proxy it is the address that the proxy tells: an open door has many behind it.
fn no_address_without_a_login_takes_all_streams() {
    let database = ServerKind::Sqlite.fresh();
    let pages = router(crate::support::scheduler::client(&database), Options::new());
    let open = |connected: &str, forwarded: Option<&str>| {
        let address: SocketAddr = connected.parse().unwrap();
        let request =
            Request::get("/live?of=now").header("host", "localhost").extension(ConnectInfo(address));
        let request = forwarded.into_iter().fold(request, |it, said| it.header("x-forwarded-for", said));
        pages.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    let (proxy, other) = ("127.0.0.1:9", "10.0.0.7:9");
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        for (connected, forwarded) in [(other, None), (proxy, Some("10.1.0.1"))] {
            let mut streams = Vec::new();
            for _ in 0..64 {
                streams.push(open(connected, forwarded).await.unwrap());
            }
            assert!(streams.iter().all(|it| it.status() == StatusCode::OK), "{connected}");
            let refused = open(connected, forwarded).await.unwrap();
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{connected}");
            // Nobody else speaks for others.
            let claims = open(other, Some("10.1.0.9")).await.unwrap().status();
            assert_eq!(claims == StatusCode::SERVICE_UNAVAILABLE, connected == other);
            assert_eq!(open(proxy, Some("10.1.0.2")).await.unwrap().status(), StatusCode::OK);
            streams.pop();
            assert_eq!(open(connected, forwarded).await.unwrap().status(), StatusCode::OK);
        }
    });
}

/// An open page.
pub struct Page {
    stream: BodyDataStream,
    read: String,
    /// The parts of its content.
    parts: Vec<String>,
}

impl Page {
    async fn open(pages: &Router, of: &str) -> (StatusCode, HeaderMap, Self) {
        Self::open_as(pages, of, &[]).await
    }

    /// With these headers.
    pub async fn open_as(pages: &Router, of: &str, lines: &[(&str, &str)]) -> (StatusCode, HeaderMap, Self) {
        let of: String = form_urlencoded::byte_serialize(of.as_bytes()).collect();
        let request = Request::get(format!("/live?of={of}")).header("host", "localhost");
        let request = lines.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = pages.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let stream = answer.into_body().into_data_stream();
        (status, headers, Self { stream, read: String::new(), parts: Vec::new() })
    }

    /// The next event and its data. Comments that keep it alive are none.
    pub async fn event(&mut self) -> (String, Value) {
        self.next().await.expect("the stream goes on")
    }

    /// The name of the last event before the stream ends.
    pub async fn last(&mut self) -> Option<String> {
        let mut last = None;
        while let Some((name, _)) = self.next().await {
            last = Some(name);
        }
        last
    }

    /// The next event and its data; none once the stream has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((event, rest)) = self.read.split_once("\n\n") {
                let line = |word: &str| event.lines().find_map(|line| line.strip_prefix(word));
                let told = line("event: ").zip(line("data: "));
                let told = told.map(|(name, data)| (name.to_owned(), serde_json::from_str(data).unwrap()));
                self.read = rest.to_owned();
                if told.is_some() {
                    return told;
                }
            }
            let next = std::future::poll_fn(|context| Pin::new(&mut self.stream).poll_next(context));
            let next = tokio::time::timeout(SOON, next).await.expect("an event comes");
            self.read += std::str::from_utf8(&next?.unwrap()).unwrap();
        }
    }

    /// Takes the next change of its parts, and tells how many those are. That something is away is none.
    async fn change(&mut self) -> usize {
        let data = loop {
            let (name, data) = self.event().await;
            if name == "parts" {
                break data;
            }
        };
        self.parts.resize(usize::try_from(data["count"].as_u64().unwrap()).unwrap(), String::new());
        let parts = data["parts"].as_array().unwrap();
        for part in parts {
            let place = usize::try_from(part[0].as_u64().unwrap()).unwrap();
            self.parts[place] = part[1].as_str().unwrap().to_owned();
        }
        parts.len()
    }

    /// Waits until its content has this text.
    async fn shows(&mut self, text: &str) -> usize {
        loop {
            let changed = self.change().await;
            if self.parts.concat().contains(text) {
                return changed;
            }
        }
    }
}

pub fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

/// Schedules that fire once a night, so that nothing changes by itself.
fn filled(application: &str, url: &str, count: usize) -> Client {
    firetime::migrate(url).unwrap();
    let client = Client::connect(application, url).unwrap();
    for number in 0..count {
        let nightly = Trigger::cron("0 30 2 1 1 ?", "UTC").unwrap();
        client.ensure(&Schedule::new(&format!("s{number:02}"), TICK, &(), nightly).unwrap()).run().unwrap();
    }
    client
}

fn a_stream_tells_what_has_changed() {
    let database = ServerKind::Sqlite.fresh();
    let client = filled("told", &database.url, 20);
    let pages: Router = router(client.clone(), Options::new());
    run(async {
        let (status, headers, mut page) = Page::open(&pages, "schedules?state=active").await;
        assert_eq!(
            (status, &headers["content-type"]),
            (StatusCode::OK, &"text/event-stream".parse().unwrap())
        );
        assert_eq!(
            (&headers["x-accel-buffering"], &headers["cache-control"]),
            (&"no".parse().unwrap(), &"no-cache".parse().unwrap())
        );
        let whole = page.change().await;
        assert_eq!(whole, page.parts.len());
        let content = page.parts.concat();
        assert!(
            content.contains("s07") && content.contains("<h1>") && !content.contains("<main"),
            "{content}"
        );
        assert!(
            content.contains(r#"name="token" value="""#),
            "each browser has a token of its own: {content}"
        );
        let edited = Schedule::new("s07", TICK, &(), Trigger::cron("0 30 2 1 1 ?", "UTC").unwrap()).unwrap();
        client.ensure(&edited.description("purpose")).run().unwrap();
        let changed = page.shows("purpose").await;
        assert!(changed < 3, "one row of {whole} parts: {changed}");
        client.pause("s07").run().unwrap();
        while page.parts.concat().contains("s07") {
            page.change().await;
        }
        assert!(page.parts.concat().contains("s08"));
    });
}

/// The statements of one application: tests beside this one have others.
static STATEMENTS: AtomicUsize = AtomicUsize::new(0);
const COUNTED: &str = "counted-by-live";

fn count(event: InstrumentationEvent<'_>) {
    if let InstrumentationEvent::StartQuery { query, .. } = event
        && query.to_string().contains(COUNTED)
    {
        STATEMENTS.fetch_add(1, Ordering::SeqCst);
    }
}

fn two_hundred_pages_ask_as_often_as_one() {
    set_default_instrumentation(|| Some(Box::new(count))).unwrap();
    let database = ServerKind::Sqlite.fresh();
    let client = filled(COUNTED, &database.url, 3);
    run(async {
        // Five rounds of changes; each is seen within a round or two of questions.
        let mut asked = Vec::new();
        for viewers in [1, 200] {
            let pages: Router = router(client.clone(), Options::new());
            let mut open = Vec::new();
            for _ in 0..viewers {
                let (status, _, mut page) = Page::open(&pages, "schedules").await;
                assert_eq!(status, StatusCode::OK);
                page.change().await;
                open.push(page);
            }
            let before = STATEMENTS.load(Ordering::SeqCst);
            for round in 0..3 {
                let purpose = format!("purpose {viewers} {round}");
                let trigger = Trigger::cron("0 30 2 1 1 ?", "UTC").unwrap();
                let edited = Schedule::new("s01", TICK, &(), trigger).unwrap().description(&purpose);
                client.ensure(&edited).run().unwrap();
                for page in &mut open {
                    page.shows(&purpose).await;
                }
            }
            asked.push(STATEMENTS.load(Ordering::SeqCst) - before);
        }
        assert!(asked[0] > 10, "they are counted: {asked:?}");
        assert!(asked[1] < 4 * asked[0], "{asked:?}");
    });
}

fn a_stream_is_of_a_page() {
    let database = ServerKind::Sqlite.fresh();
    let client = filled("pages", &database.url, 1);
    let pages: Router = router(client, Options::new());
    run(async {
        let (_, _, mut page) = Page::open(&pages, "schedule?name=nobody").await;
        let (name, data) = page.event().await;
        assert!(name == "away" && data["said"].as_str().unwrap().contains("nobody"), "{data}");
        for other in ["confirm?verb=pause", "../now", "assets/live.js", "live"] {
            let (_, _, mut page) = Page::open(&pages, other).await;
            let (name, data) = page.event().await;
            assert!(
                name == "away" && data["said"].as_str().unwrap().contains("no changes"),
                "{other}: {data}"
            );
        }
        let (status, _, _) = Page::open(&pages, "").await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let request = Request::get("/live?of=now").header("host", "evil.example");
        let answer = pages.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    });
}

/// Its connections break, and new ones are refused, until it is back.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn a_page_outlives_its_database(kind: ServerKind) {
    use crate::chaos::cluster::{address, protocol};
    use crate::chaos::proxy::{Mode, Proxy};

    let database = kind.fresh();
    let server = address(&database.url);
    let direct = filled("outlives", &database.url, 3);
    let proxy = Proxy::new(server, protocol(kind).unwrap());
    let far = database.url.replace(&server.to_string(), &format!("127.0.0.1:{}", proxy.port()));
    let pages: Router = router(Client::connect("outlives", &far).unwrap(), Options::new());
    run(async {
        let (_, _, mut page) = Page::open(&pages, "schedules").await;
        page.change().await;
        let known = page.parts.clone();
        proxy.set(Mode::Down);
        let (name, data) = page.event().await;
        assert!(name == "away" && data["said"].as_str().unwrap().contains("does not answer"), "{data}");
        // Whoever comes now hears the same.
        let (_, _, mut other) = Page::open(&pages, "schedules").await;
        assert_eq!(other.event().await.0, "away");
        direct.pause("s01").reason("stock-taking").run().unwrap();
        proxy.set(Mode::Pass);
        page.shows("stock-taking").await;
        other.shows("stock-taking").await;
        assert_eq!(page.parts.len(), known.len());
        assert_eq!(page.parts, other.parts);
    });
}
