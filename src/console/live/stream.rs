//! Live updates: a stream that tells a page what of its content has changed.
//!
//! The page is made here as for a browser, once for all that look at the same address, and its parts that
//! changed are sent as server-sent events. A browser without scripts asks for no stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::State;
use axum::http::header::{HeaderName, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

use super::asker::{Question, Shown};
use super::streams::Place;
use super::watch::{Gone, Watch};
use crate::Client;
use crate::console::asked::Asked;
use crate::console::pages::make;
use crate::console::state::Console;
use crate::console::web::query::Query;
use crate::console::web::trouble::Trouble;
use crate::console::words::zone::{ZonePick, within};

/// A stream ends after this long.
const LONGEST: Duration = Duration::from_secs(120);
/// One of somebody whom a proxy's login knows, or the application's: only their next request tells whether it
/// still does.
const LONGEST_KNOWN: Duration = Duration::from_secs(15);
/// Something is sent at least this often: proxies end streams that say nothing.
const ALIVE: Duration = Duration::from_secs(15);

/// Whether a path, seen from the console, is the stream's.
pub(crate) fn is_stream(path: &str) -> bool {
    path == "/live"
}

/// The stream of somebody who is not logged in. A browser tells a page nothing of one with another status.
pub(crate) fn logged_out() -> Response {
    sent(Events(Some(Box::pin(async { Some((said_out(), None)) }))))
}

/// What `?of=` names, a page's address, as it changes.
pub(crate) async fn stream(State(console): State<Console>, asked: Asked, parts: Parts) -> Response {
    let Some(of) = asked.query.get("of") else {
        return console.refuse(&asked, Trouble::wrong("The stream is of no page: name one as `?of=`."));
    };
    let question = Question { address: of.to_owned(), role: asked.role, zone: zone_of(of, &asked) };
    let asking = console.clone();
    let ask = move |question: Question| {
        let console = asking.clone();
        async move { console.call(Trouble::away, page_of(&console, &question)).await }
    };
    let viewer = console.stream(asked.user.as_deref(), asked.network.as_deref());
    let viewer = viewer.and_then(|place| Some((place, console.askers().look(question, ask)?)));
    let Some((place, shown)) = viewer else {
        return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "30")]).into_response();
    };
    let watch = Watch::new(console, parts);
    let over = Box::pin(sleep(if watch.is_elsewhere() { LONGEST_KNOWN } else { LONGEST }));
    let viewer = Viewer { shown, sent: Vec::new(), is_new: true, watch, over, _place: place };
    sent(Events(Some(Box::pin(viewer.next()))))
}

fn sent(events: Events) -> Response {
    let stream = Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE));
    // A proxy is to hold nothing back.
    ([(HeaderName::from_static("x-accel-buffering"), "no")], stream).into_response()
}

/// The zone that a page's address names, or else the one that was picked before.
fn zone_of(address: &str, asked: &Asked) -> ZonePick {
    let query = Query::read(address.split_once('?').map_or("", |(_, query)| query));
    match query.get("zone") {
        Some(_) => ZonePick::of(&query, &HeaderMap::new()),
        None => asked.zone,
    }
}

/// How the page is made that a question is of.
fn page_of(
    console: &Console,
    question: &Question,
) -> impl FnOnce(&Client) -> Result<String, Trouble> + Send + use<> {
    let masks = Arc::clone(&console.options().masks);
    let asked = Asked::shared(&question.address, question.role, question.zone, masks);
    let console = console.clone();
    move |client| {
        let asked = if console.is_standby(client)? { asked.of_standby() } else { asked };
        within(&asked.zone, || make(client, &asked))
    }
}

/// Who looks at a page.
struct Viewer {
    shown: watch::Receiver<Shown>,
    /// The marks of the parts that were sent.
    sent: Vec<u64>,
    /// Whether nothing was sent yet.
    is_new: bool,
    watch: Watch,
    /// When the stream ends.
    over: Pin<Box<Sleep>>,
    _place: Place,
}

/// Why a viewer waits no longer.
enum Woken {
    Changed,
    Over,
    LoggedOut,
}

impl Viewer {
    /// Waits for the next change, and tells it. Whoever reads slowly misses what came between.
    async fn next(mut self) -> Option<(Event, Option<Self>)> {
        loop {
            let is_known = self.is_new && is_known(&self.shown.borrow());
            if !is_known {
                match self.woken().await {
                    Woken::Changed => {}
                    Woken::Over => return None,
                    Woken::LoggedOut => return Some((said_out(), None)),
                }
            }
            self.is_new = false;
            let shown = self.shown.borrow_and_update().clone();
            if let Some(event) = self.event(&shown) {
                return Some((event, Some(self)));
            }
        }
    }

    /// Waits for the next change, or the end of the stream.
    async fn woken(&mut self) -> Woken {
        let Self { shown, over, watch, .. } = self;
        let mut changed = std::pin::pin!(shown.changed());
        std::future::poll_fn(|context| {
            // First: whoever may look no more is told of no change.
            match watch.poll(context) {
                Poll::Ready(Gone::LoggedOut) => return Poll::Ready(Woken::LoggedOut),
                Poll::Ready(Gone::Other) => return Poll::Ready(Woken::Over),
                Poll::Pending => {}
            }
            if over.as_mut().poll(context).is_ready() {
                return Poll::Ready(Woken::Over);
            }
            changed.as_mut().poll(context).map(|it| if it.is_ok() { Woken::Changed } else { Woken::Over })
        })
        .await
    }

    fn event(&mut self, shown: &Shown) -> Option<Event> {
        if let Some(trouble) = &shown.trouble {
            return Some(told("away", &json!({ "said": trouble })));
        }
        let parts = shown.parts.as_ref()?;
        let before = std::mem::replace(&mut self.sent, parts.iter().map(|part| part.mark).collect());
        let changed = parts.iter().enumerate();
        let changed = changed.filter(|(place, part)| before.get(*place) != Some(&part.mark));
        let changed: Vec<_> = changed.map(|(place, part)| json!([place, &*part.html])).collect();
        Some(told("parts", &json!({ "count": parts.len(), "parts": changed })))
    }
}

/// The last that is told to somebody who has lost their login.
fn said_out() -> Event {
    told("out", &json!({ "said": "You are not logged in any more: load the page again to log in." }))
}

/// JSON has no line breaks outside of its texts, and none inside.
fn told(name: &str, what: &serde_json::Value) -> Event {
    Event::default().event(name).data(what.to_string())
}

fn is_known(shown: &Shown) -> bool {
    shown.parts.is_some() || shown.trouble.is_some()
}

/// An event, and the viewer whom the next one is for; none after the last.
type NextEvent = Pin<Box<dyn Future<Output = Option<(Event, Option<Viewer>)>> + Send>>;

/// The events of a viewer; none once they have ended.
struct Events(Option<NextEvent>);

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(next) = &mut self.0 else { return Poll::Ready(None) };
        let Poll::Ready(told) = next.as_mut().poll(context) else { return Poll::Pending };
        let (event, next) = told.map_or((None, None), |(event, viewer)| (Some(event), viewer));
        self.0 = next.map(|viewer| Box::pin(viewer.next()) as NextEvent);
        Poll::Ready(event.map(Ok))
    }
}
