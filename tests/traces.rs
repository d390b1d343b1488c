//! One trace from a web request over what it enqueues to the handlers on other nodes, as a collector of
//! OpenTelemetry's protocol receives it. A program of its own: a subscriber is for all threads of a process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test says what went wrong by panicking, and makes threads and looks at the clock as it likes"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use chrono::Utc;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use diesel::connection::{Connection, SimpleConnection};
use firetime::{
    Builder, Client, Context, ExecutionFilter, HandlerError, Job, LogLayer, LogLevel, Outgoing, Retry,
    Schedule, Scheduler, SpanOrigin, Trigger,
};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::Value;
use tracing::{Instrument, Span, debug, info, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

const SOON: Duration = Duration::from_secs(60);
const CHARGE: Job<u64> = Job::new("charge").retry(Retry::fixed(Duration::ZERO).at_most(1));
const RECEIPT: Job<u64> = Job::new("receipt");

/// The spans of one call of a collector's client.
type Spans = Vec<Value>;

/// Reads one message of HTTP: its first line and its body.
fn message(stream: &TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_lowercase());
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(0, |it| it.trim().parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    (lines.first().cloned().unwrap_or_default(), body)
}

/// Listens on a free port of this host, and hands on the spans that it is sent.
fn collector() -> (SocketAddr, Receiver<Spans>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (asked, body) = message(&stream);
            assert!(asked.starts_with("post /v1/traces "), "{asked}");
            let body: Value = serde_json::from_slice(&body).unwrap();
            let all = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
            let scopes = all(&body, "resourceSpans").into_iter().flat_map(|it| all(&it, "scopeSpans"));
            drop(tell.send(scopes.flat_map(|it| all(&it, "spans")).collect()));
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").unwrap();
        }
    });
    (address, told)
}

/// Sends what is exported, each time on a connection of its own.
#[derive(Debug)]
struct Sender;

impl HttpClient for Sender {
    fn send_bytes<'a, 'r>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'r>>
    where
        'a: 'r,
        Self: 'r,
    {
        let (uri, body) = (request.uri(), request.body());
        let mut stream = TcpStream::connect(uri.authority().unwrap().as_str()).unwrap();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: collector\r\ncontent-length: {}\r\n\r\n",
            uri.path(),
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let (answered, body) = message(&stream);
        assert!(answered.starts_with("http/1.1 200"), "{answered}");
        Box::pin(async move { Ok(Response::new(Bytes::from(body))) })
    }
}

/// From now on all spans of the process are sent there.
fn export_to(collector: SocketAddr) -> SdkTracerProvider {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Sender)
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(format!("http://{collector}/v1/traces"))
        .build()
        .unwrap();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    let logs = LogLayer::new().level_of("receipt", LogLevel::Debug);
    let subscriber = tracing_subscriber::registry().with(layer).with(logs);
    tracing::subscriber::set_global_default(subscriber).unwrap();
    provider
}

struct Outwards<'a, 'o>(&'a mut Outgoing<'o>);

impl Injector for Outwards<'_, '_> {
    fn set(&mut self, key: &str, value: String) {
        if !value.is_empty() {
            self.0.set_header(key, &value);
        }
    }
}

struct Inwards<'a>(&'a Context);

impl Extractor for Inwards<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.header(key)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.headers().map(|(name, _)| name).collect()
    }
}

/// What is enqueued belongs to the trace of whoever enqueues it.
fn traced(client: Client) -> Client {
    client.around_enqueue(|outgoing| {
        TraceContextPropagator::new().inject_context(&Span::current().context(), &mut Outwards(outgoing));
        Ok(())
    })
}

fn node(url: &str) -> Builder {
    Scheduler::builder("shop", url).poll_interval(Duration::from_secs(1)).on_span(|span, context| {
        let from = TraceContextPropagator::new().extract(&Inwards(context));
        match context.span_origin() {
            SpanOrigin::Child => span.set_parent(from).unwrap(),
            SpanOrigin::Link => span.add_link(from.span().span_context().clone()),
            _ => {}
        }
    })
}

/// A node that charges: the first time it asks for the receipt, and fails.
fn charging(url: &str) -> Scheduler {
    let client = traced(Client::connect("shop", url).unwrap());
    let charge = move |context: &Context, order: u64| -> Result<(), HandlerError> {
        info_span!("pay").in_scope(|| info!(order, "asks the {}", "bank"));
        debug!("not of this job");
        if order > 0 && context.attempt() == 1 {
            client.enqueue(RECEIPT, &order).run()?;
            return Err("the bank does not answer".into());
        }
        Ok(())
    };
    let measured = |_: &Context, next: firetime::Next<'_>| info_span!("measured").in_scope(|| next.run());
    node(url).around(measured).handler(CHARGE, charge).start().unwrap()
}

async fn printing(url: &str) -> Scheduler {
    let print = |_, _| async {
        tokio::task::yield_now().await;
        debug!("prints");
        info_span!("print").in_scope(|| {});
        Ok(())
    };
    node(url).async_handler(RECEIPT, print).start_async().await.unwrap()
}

/// Serves `POST /`, which enqueues a charge.
async fn web(client: Client) -> SocketAddr {
    let charge = |State(client): State<Client>| {
        async move { client.enqueue(CHARGE, &7).await.unwrap().id().to_string() }
            .instrument(info_span!("request"))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().route("/", post(charge)).with_state(traced(client));
    drop(tokio::spawn(async move { axum::serve(listener, routes).await }));
    address
}

/// Reads spans until there are as many of this name as are wanted.
fn wait_for(told: &Receiver<Spans>, spans: &mut Spans, name: &str, count: usize) {
    let deadline = Instant::now() + SOON;
    while spans.iter().filter(|span| span["name"] == name).count() < count {
        let left = deadline.saturating_duration_since(Instant::now());
        spans.extend(told.recv_timeout(left).unwrap_or_else(|_| panic!("no {name}: {spans:#?}")));
    }
}

fn attribute(span: &Value, key: &str) -> String {
    let found = span["attributes"].as_array().unwrap().iter().find(|it| it["key"] == key);
    let value = found.unwrap_or_else(|| panic!("no {key}: {span:#}"))["value"].as_object().unwrap();
    let value = value.values().next().unwrap();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The only one of this name with these attributes.
fn one<'s>(spans: &'s [Value], name: &str, with: &[(&str, &str)]) -> &'s Value {
    let fits = |span: &&Value| {
        span["name"] == name && with.iter().all(|(key, value)| attribute(span, key) == *value)
    };
    let found: Vec<&Value> = spans.iter().filter(fits).collect();
    let [span] = found[..] else { panic!("{name} {with:?}: {spans:#?}") };
    span
}

/// The ids of the trace, and of the span around it; that is empty of a root.
fn place(span: &Value) -> (&str, &str) {
    (span["traceId"].as_str().unwrap(), span["parentSpanId"].as_str().unwrap_or_default())
}

fn id(span: &Value) -> &str {
    span["spanId"].as_str().unwrap()
}

/// What was exported, and what it tells of.
struct Told {
    spans: Spans,
    /// That of the first charge.
    execution: String,
    charging: String,
    printing: String,
    /// What handlers have logged.
    logs: BTreeSet<String>,
}

/// A new database of each kind that this build speaks to, SQLite's in this folder.
fn databases(folder: &Path) -> Vec<String> {
    let mut urls = vec![format!("sqlite:{}", folder.join("shop.db").display())];
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    let mut fresh = |variable: &str, run: &dyn Fn(&str, &str)| {
        let server = std::env::var(variable).unwrap_or_else(|_| {
            panic!("{variable} is not set: run the tests by scripts/test.sh or scripts/with-servers.sh")
        });
        let name = format!("traces_{}", std::process::id());
        run(&server, &format!("CREATE DATABASE {name}"));
        urls.push(format!("{}/{name}", server.rsplit_once('/').unwrap().0));
    };
    #[cfg(feature = "postgres")]
    fresh("FIRETIME_TEST_POSTGRES_URL", &|server, sql| {
        diesel::PgConnection::establish(server).unwrap().batch_execute(sql).unwrap();
    });
    #[cfg(feature = "mysql")]
    fresh("FIRETIME_TEST_MARIADB_URL", &|server, sql| {
        diesel::MysqlConnection::establish(server).unwrap().batch_execute(sql).unwrap();
    });
    urls
}

/// A request enqueues a charge, whose first attempt enqueues a receipt, and fails; and another is planned.
fn tell(url: &str, told: &Receiver<Spans>) -> Told {
    firetime::migrate(url).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let charging = charging(url);
    let printing = runtime.block_on(printing(url));
    let web = runtime.block_on(web(Client::connect("shop", url).unwrap()));

    let mut stream = TcpStream::connect(web).unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\nhost: shop\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .unwrap();
    let (answered, execution) = message(&stream);
    assert!(answered.starts_with("http/1.1 200"), "{answered}");
    let mut spans = Spans::new();
    wait_for(told, &mut spans, "firetime.execution", 3);
    wait_for(told, &mut spans, "request", 1);
    let once = Schedule::new("once", CHARGE, &0, Trigger::once(Utc::now()).unwrap()).unwrap();
    charging.client().ensure(&once).run().unwrap();
    wait_for(told, &mut spans, "firetime.execution", 4);
    assert!(charging.shutdown(SOON).is_clean() && printing.shutdown(SOON).is_clean());
    spans.extend(told.try_iter().flatten());
    let logs = logged(&Client::connect("shop", url).unwrap());
    let execution = String::from_utf8(execution).unwrap();
    let (charging, printing) = (charging.node().to_string(), printing.node().to_string());
    Told { spans, execution, charging, printing, logs }
}

/// The lines of all executions, each with its job, its attempt and its level.
fn logged(client: &Client) -> BTreeSet<String> {
    let executions = client.executions(&ExecutionFilter::default()).unwrap().into_iter();
    let logs = executions.flat_map(|it| {
        let logs = client.logs(it.id).unwrap();
        logs.lines
            .into_iter()
            .map(move |line| format!("{} {} {} {}", it.job, line.attempt, line.level.as_str(), line.text))
    });
    logs.collect()
}

#[test]
fn one_trace_leads_from_a_request_to_the_handlers_on_other_nodes() {
    let (collector, told) = collector();
    let provider = export_to(collector);
    let folder = tempfile::tempdir().unwrap();
    for url in databases(folder.path()) {
        assert_one_trace(&tell(&url, &told));
    }
    provider.shutdown().unwrap();
}

fn assert_one_trace(told: &Told) {
    let spans = &told.spans;
    let request = one(spans, "request", &[]);
    let (trace, _) = place(request);
    let of_charge = [("job", "charge"), ("attempt", "1"), ("cause", "enqueued")];
    let first = one(spans, "firetime.execution", &of_charge);
    assert_eq!(place(first), (trace, id(request)));
    assert_names(first, told);

    let receipt = one(spans, "firetime.execution", &[("job", "receipt"), ("node", &told.printing)]);
    let measured =
        |of: &Value| spans.iter().find(|it| it["name"] == "measured" && place(it).1 == id(of)).unwrap();
    assert_eq!(place(receipt), (trace, id(measured(first))), "it was enqueued inside of the middleware");
    assert_eq!(attribute(receipt, "outcome"), "SUCCEEDED");
    assert_eq!(place(one(spans, "print", &[])), (trace, id(receipt)));

    let retry = one(spans, "firetime.execution", &[("job", "charge"), ("attempt", "2")]);
    assert!(place(retry).0 != trace && place(retry).1.is_empty(), "{retry:#}");
    let [link] = &retry["links"].as_array().unwrap()[..] else { panic!("one link: {retry:#}") };
    assert_eq!((place(link).0, id(link)), (trace, id(request)));
    assert_eq!(attribute(retry, "outcome"), "SUCCEEDED");

    let planned = one(spans, "firetime.execution", &[("cause", "planned")]);
    assert!(place(planned).1.is_empty() && place(planned).0 != trace, "nobody has asked for it");
    assert_eq!(planned["links"].as_array().map_or(0, Vec::len), 0);
    let paid: BTreeSet<&str> = spans.iter().filter(|it| it["name"] == "pay").map(|it| place(it).1).collect();
    assert_eq!(paid, [first, retry, planned].map(|of| id(measured(of))).into());
    let names: BTreeSet<&str> = spans.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let expected = ["firetime.execution", "measured", "pay", "print", "request"];
    assert_eq!(names, expected.into(), "no loop has one");

    // Each in the log of its own execution, by the level of its job.
    let logged = [
        "charge 1 INFO asks the bank order=0",
        "charge 1 INFO asks the bank order=7",
        "charge 2 INFO asks the bank order=7",
        "receipt 1 DEBUG prints",
    ];
    assert_eq!(told.logs, logged.map(str::to_owned).into());
}

/// Its fields, also under OpenTelemetry's names, of a consumer's span that has failed.
fn assert_names(first: &Value, told: &Told) {
    assert_eq!((first["kind"].as_i64(), first["status"]["code"].as_i64()), (Some(5), Some(2)));
    for (key, value) in [
        ("schedule", "queue:charge"),
        ("execution", &told.execution),
        ("node", &told.charging),
        ("fence", "1"),
        ("outcome", "FAILED"),
        ("error.type", "FAILED"),
        ("messaging.system", "firetime"),
        ("messaging.operation.name", "run"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "charge"),
        ("messaging.message.id", &told.execution),
        ("messaging.client.id", &told.charging),
        ("messaging.consumer.group.name", "shop"),
    ] {
        assert_eq!(attribute(first, key), value, "{key}");
    }
    assert!((0.0..60.0).contains(&attribute(first, "lateness").parse::<f64>().unwrap()));
}
