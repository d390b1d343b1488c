//! `exporter`: serves the cluster's figures to Prometheus, for applications without a route of their own.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{Client, Error, Metrics};
use tiny_http::{Header, Method, Request, Response, Server};

use crate::failure::{Failure, Result};
use crate::inspect::{connect, find_application};
use crate::target::Target;
use crate::when;

/// Figures are read anew once they are so old: more scrapers cost the database nothing.
const KEPT: TimeDelta = TimeDelta::seconds(5);
/// So many answers may be under way: a scraper that does not read its own keeps no other waiting.
const MOST_ANSWERS: usize = 64;

/// The last figures, or why there are none.
struct Figures {
    read: DateTime<Utc>,
    text: std::result::Result<String, String>,
}

pub(crate) fn serve(target: &Target, listen: SocketAddr, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    find_application(&client, target)?;
    let server = Server::http(listen).map_err(|error| {
        Failure::Failed(format!("listening on {listen}: {error}; name another address with --listen"))
    })?;
    writeln!(out, "listening on http://{}/metrics", server.server_addr())?;
    out.flush()?;
    let (answers, mut figures) = (Arc::new(AtomicUsize::new(0)), None::<Figures>);
    loop {
        let request = server.recv()?;
        let (status, text) = match (request.method(), request.url()) {
            (Method::Get, "/metrics") => {
                let kept = figures.take();
                let fresh = figures.insert(fresh(&client, kept));
                fresh.text.clone().map_or_else(|error| (503, error), |text| (200, text))
            }
            (Method::Get, "/") => (200, "firetime exporter: the figures are at /metrics\n".to_owned()),
            _ => (404, "GET /metrics\n".to_owned()),
        };
        answer(request, status, text, &answers);
    }
}

fn fresh(client: &Client, kept: Option<Figures>) -> Figures {
    let now = when::now();
    let is_fresh = |figures: &Figures| (TimeDelta::zero()..KEPT).contains(&(now - figures.read));
    kept.filter(is_fresh).unwrap_or_else(|| {
        let text = client.metrics().map(|metrics| metrics.to_prometheus()).map_err(|error| failed(&error));
        Figures { read: when::now(), text }
    })
}

/// The error in full is for the log: it may name the database's host.
fn failed(error: &Error) -> String {
    log::warn!("{error:#}");
    "the database did not answer; the exporter's log has the reason (-v)\n".to_owned()
}

/// Answers on a thread of its own.
#[expect(clippy::disallowed_methods, reason = "a scraper may take its time to read an answer")]
fn answer(request: Request, status: u16, text: String, answers: &Arc<AtomicUsize>) {
    let header = Header::from_bytes("Content-Type", Metrics::CONTENT_TYPE);
    if answers.fetch_add(1, Ordering::Relaxed) >= MOST_ANSWERS {
        answers.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let left = Arc::clone(answers);
    let write = move || {
        let response = Response::from_string(text).with_status_code(status);
        // Whoever asked may have gone.
        request.respond(header.into_iter().fold(response, Response::with_header)).ok();
        left.fetch_sub(1, Ordering::Relaxed);
    };
    if std::thread::Builder::new().name("firetime-answer".to_owned()).spawn(write).is_err() {
        answers.fetch_sub(1, Ordering::Relaxed);
    }
}
