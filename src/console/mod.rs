//! The console: pages where people see a cluster, understand it and steer it.
//!
//! They are made on a server from nothing but the verbs of a [`Client`], and work without a script in the
//! browser. [`router`] mounts them in an application of axum's, under any path; `firetime console` serves
//! them alone. docs/console.md says what they show, and how to put them behind a login.
//!
//! ```
//! use firetime::{Client, console};
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
//! # firetime::migrate(&url)?;
//! let client = Client::connect("shop", &url)?;
//! let options = console::Options::new().host("ops.example.org");
//! let app: axum::Router = axum::Router::new().nest("/firetime", console::router(client, options));
//! # let _ = app;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod api;
mod asked;
mod changes;
mod drawn;
mod filter;
mod frame;
mod guard;
mod live;
mod options;
mod pages;
mod show;
mod state;
mod web;
mod words;

use axum::Router;
use axum::extract::{OriginalUri, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

pub use self::access::header::TrustedHeader;
pub use self::access::password::hash_password;
pub use self::access::role::Role;
pub use self::access::user::User;
pub use self::access::users::{NewToken, Users};
use self::asked::Asked;
use self::changes::{bulk, change, confirm, edit, missed};
use self::live::stream;
pub use self::options::Options;
use self::pages::{audit, execution, executions, jobs, login, nodes, now, schedule, schedules};
use self::state::Console;
use self::web::assets;
use self::web::trouble::Trouble;
use crate::Client;

/// The console of a client's application. It can do what the client can. Whoever reaches it may do all of
/// that, unless a login knows who they are and what they may: its own ([`Options::users`]), a proxy's
/// ([`Options::trust`]) or the application's ([`Options::user`]). The changes of those whom nobody knows
/// are the client's in the audit ([`Client::acting_as`]), or `console` if it has no name.
///
/// It may be nested under any path. Calls of the client wait on the blocking pool of the runtime around it.
pub fn router<S: Clone + Send + Sync + 'static>(client: Client, options: Options) -> Router<S> {
    let console = Console::new(client, options);
    Router::new()
        .route("/", get(first))
        .route("/now", get(now::page))
        .route("/schedules", get(schedules::page))
        .route("/schedule", get(schedule::page))
        .route("/executions", get(executions::page))
        .route("/execution", get(execution::page))
        .route("/jobs", get(jobs::page))
        .route("/nodes", get(nodes::page))
        .route("/audit", get(audit::page))
        .route("/edit", get(edit::page::page))
        .route("/missed", get(missed::page::page))
        .route("/bulk", get(bulk::page::page))
        .route("/confirm", get(confirm::page))
        .route("/change", post(change::change))
        .route("/login", get(login::page).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/live", get(stream::stream))
        .route("/assets/console.css", get(assets::style))
        .route("/assets/zone.js", get(assets::zone))
        .route("/assets/live.js", get(assets::live))
        .route("/assets/icon.svg", get(assets::icon))
        .nest(api::BELOW, api::routes())
        .fallback(missing)
        .layer(from_fn_with_state(console.clone(), guard::guard))
        .with_state(console)
}

/// Leads to the first page. Links are relative, so that they fit wherever the console is mounted: all pages
/// lie side by side, also where its own path is asked for without a slash at the end.
async fn first(OriginalUri(asked): OriginalUri) -> Response {
    let last = asked.path().rsplit('/').next().unwrap_or_default();
    let to = if last.is_empty() { "now".to_owned() } else { format!("./{last}/now") };
    (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, to)]).into_response()
}

async fn missing(State(console): State<Console>, asked: Asked) -> Response {
    if api::is_below(&format!("/{}", asked.path)) {
        return api::missing().await;
    }
    // Whoever has not logged in may ask for files, and sees no page.
    if guard::is_open(&format!("/{}", asked.path)) {
        return StatusCode::NOT_FOUND.into_response();
    }
    console.refuse(&asked, Trouble::not_found("The console has no such page."))
}
