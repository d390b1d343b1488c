//! `exporter`: serves the cluster's figures to Prometheus, for applications without a route of their own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{Client, Error, Metrics};

use crate::failure::{Failure, Result};
use crate::inspect::{connect, find_application};
use crate::target::Target;
use crate::when;

/// Figures are read anew once they are so old: more scrapers cost the database nothing.
const KEPT: TimeDelta = TimeDelta::seconds(5);
/// So many may be answered at once; further ones are hung up on.
const MOST_ASKERS: usize = 64;
/// Whoever takes longer to ask, or to read, is hung up on.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of a request's head.
const LONGEST_HEAD: usize = 8_192;

/// What all answers share.
struct Exporter {
    client: Client,
    figures: Mutex<Option<Figures>>,
    askers: AtomicUsize,
}

/// The last figures, or why there are none.
struct Figures {
    read: DateTime<Utc>,
    text: std::result::Result<String, String>,
}

#[expect(clippy::disallowed_methods, reason = "a scraper may take its time: each has a thread")]
pub(crate) fn serve(target: &Target, listen: SocketAddr, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    find_application(&client, target)?;
    let listener = TcpListener::bind(listen).map_err(|error| {
        Failure::Failed(format!("listening on {listen}: {error}; name another address with --listen"))
    })?;
    writeln!(out, "listening on http://{}/metrics", listener.local_addr()?)?;
    out.flush()?;
    let exporter = Arc::new(Exporter { client, figures: Mutex::default(), askers: AtomicUsize::new(0) });
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                // It may be out of file descriptors: others hang up soon.
                log::warn!("accepting a connection: {error}");
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let asked = Arc::clone(&exporter);
        if exporter.askers.fetch_add(1, Ordering::Relaxed) >= MOST_ASKERS {
            exporter.askers.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let answer = move || {
            // Whoever asked may have gone.
            asked.answer(stream).ok();
            asked.askers.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("firetime-answer".to_owned()).spawn(answer).is_err() {
            exporter.askers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Exporter {
    /// One request, and its answer.
    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let asked = first_line(&mut stream)?;
        let mut words = asked.split(' ');
        let (status, text) = match (words.next(), words.next()) {
            (Some("GET"), Some("/metrics")) => match self.text() {
                Ok(text) => ("200 OK", text),
                Err(error) => ("503 Service Unavailable", error),
            },
            (Some("GET"), Some("/")) => {
                ("200 OK", "firetime exporter: the figures are at /metrics\n".to_owned())
            }
            _ => ("404 Not Found", "GET /metrics\n".to_owned()),
        };
        let (kind, length) = (Metrics::CONTENT_TYPE, text.len());
        let head = format!("content-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        stream.write_all(format!("HTTP/1.1 {status}\r\n{head}{text}").as_bytes())
    }

    fn text(&self) -> std::result::Result<String, String> {
        let mut kept = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let now = when::now();
        let is_fresh = |figures: &Figures| (TimeDelta::zero()..KEPT).contains(&(now - figures.read));
        let fresh = kept.take().filter(is_fresh).unwrap_or_else(|| {
            let text = self.client.metrics().map(|metrics| metrics.to_prometheus());
            Figures { read: when::now(), text: text.map_err(|error| failed(&error)) }
        });
        kept.insert(fresh).text.clone()
    }
}

/// The first line of a request, once its head is there.
fn first_line(stream: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut part) = (Vec::new(), [0; 1_024]);
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&part[..count]),
        }
        if head.len() > LONGEST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

/// The error in full is for the log: it may name the database's host.
fn failed(error: &Error) -> String {
    log::warn!("{error:#}");
    "the database did not answer; the exporter's log has the reason (-v)\n".to_owned()
}
