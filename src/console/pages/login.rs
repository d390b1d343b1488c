//! Logging in and out.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use crate::console::access::clock;
use crate::console::access::known::SESSION_COOKIE;
use crate::console::access::token::Token;
use crate::console::access::users::Users;
use crate::console::asked::Asked;
use crate::console::show::led;
use crate::console::state::Console;
use crate::console::web::cookie::{cookie, end_cookie, set_cookie};
use crate::console::web::query::is_page;
use crate::console::web::trouble::Trouble;

#[derive(Template)]
#[template(path = "console/login.html")]
struct LoginPage {
    token: String,
    name: String,
    /// The page that it leads to.
    to: String,
    /// Why the login before it failed.
    failed: String,
}

impl LoginPage {
    fn new(asked: &Asked, name: String, to: String, failed: String) -> Self {
        Self { token: asked.token.as_str().to_owned(), name, to, failed }
    }
}

impl Console {
    /// The page where people log in.
    fn login(&self, asked: &Asked, status: StatusCode, page: LoginPage) -> Response {
        match page.render() {
            Ok(page) => self.sent(asked, status, page),
            Err(error) => self.refuse(asked, error.into()),
        }
    }

    /// The id of a session, if it is the password of a user.
    async fn begin(&self, name: String, password: String) -> Result<Option<String>, Trouble> {
        let (logins, options) = (Arc::clone(self.logins()), Arc::clone(self.options()));
        let compared = async {
            let permit = Arc::clone(&logins.at_once).acquire_owned().await.map_err(|_| Trouble::broken())?;
            let blocking = tokio::task::spawn_blocking(move || {
                let list = options.users.as_ref().map(Users::now);
                let account = list.as_ref().and_then(|list| list.check(&name, &password));
                drop(permit);
                account.map(|it| logins.sessions.begin(it, clock::now(), options.lasts)).transpose()
            });
            Ok(blocking.await.map_err(|_| Trouble::broken())??)
        };
        let busy = "Too many people log in just now: try again in a minute.";
        let waited = tokio::time::timeout(self.options().patience, compared).await;
        waited.unwrap_or_else(|_| Err(Trouble::busy(busy)))
    }
}

/// Logging in is for consoles that have a users file.
fn has_logins(console: &Console) -> Result<(), Trouble> {
    match console.options().users {
        Some(_) => Ok(()),
        None => Err(Trouble::not_found("Nobody logs in to this console itself.")),
    }
}

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    if let Err(trouble) = has_logins(&console) {
        return console.refuse(&asked, trouble);
    }
    let to = asked.query.text("to").unwrap_or_default();
    console.login(&asked, StatusCode::OK, LoginPage::new(&asked, String::new(), to, String::new()))
}

/// Logs in whoever knows a user's password, under a new id: one that the browser held before is worth
/// nothing.
pub(crate) async fn log_in(
    State(console): State<Console>,
    asked: Asked,
    headers: HeaderMap,
    form: Bytes,
) -> Response {
    let form = match has_logins(&console).and_then(|()| asked.form(&headers, &form)) {
        Ok(form) => form,
        Err(trouble) => return console.refuse(&asked, trouble),
    };
    let text = |name: &str| form.text(name).unwrap_or_default();
    let (name, to, network) = (text("name"), text("to"), asked.network.as_deref());
    if let Err(wait) = console.logins().count(&name, network, clock::now()) {
        return too_many(&console, &asked, LoginPage::new(&asked, name, to, String::new()), wait);
    }
    match console.begin(name.clone(), text("password")).await {
        Ok(Some(id)) => {
            console.logins().forgive(&name, network);
            if let Some(before) = cookie(&headers, SESSION_COOKIE) {
                console.logins().sessions.end(before);
            }
            log::info!("console: {name:?} has logged in");
            let to = if is_page(&to) { to } else { "now".to_owned() };
            let session = set_cookie(SESSION_COOKIE, &id, "Lax", asked.is_https);
            led(to, [session, Token::fresh().set(asked.is_https)])
        }
        Ok(None) => {
            // Not the name: somebody may have typed the password there.
            log::warn!("console: a login from {} failed", network.unwrap_or("an unknown address"));
            let failed = "The name or the password is wrong.".to_owned();
            console.login(&asked, StatusCode::FORBIDDEN, LoginPage::new(&asked, name, to, failed))
        }
        Err(trouble) => console.refuse(&asked, trouble),
    }
}

fn too_many(console: &Console, asked: &Asked, page: LoginPage, wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let failed =
        format!("Too many logins failed for this name, or from your address: try again in {seconds} s.");
    let mut page = console.login(asked, StatusCode::TOO_MANY_REQUESTS, LoginPage { failed, ..page });
    page.headers_mut().insert(RETRY_AFTER, seconds.into());
    page
}

/// Ends the session, here and in the browser.
pub(crate) async fn log_out(
    State(console): State<Console>,
    asked: Asked,
    headers: HeaderMap,
    form: Bytes,
) -> Response {
    if let Err(trouble) = has_logins(&console).and_then(|()| asked.form(&headers, &form)) {
        return console.refuse(&asked, trouble);
    }
    if let Some(id) = cookie(&headers, SESSION_COOKIE) {
        console.logins().sessions.end(id);
    }
    led("login".to_owned(), [end_cookie(SESSION_COOKIE, asked.is_https)])
}
