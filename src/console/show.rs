//! How pages are made, and changes answered.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::response::{Html, IntoResponse, Response};

use super::asked::{Asked, Permit, standby};
use super::frame::Frame;
use super::state::Console;
use super::web::said::Said;
use super::web::trouble::Trouble;
use super::words::zone::{ZonePick, within};
use crate::Client;

/// A page instead of another that cannot be made.
#[derive(Template)]
#[template(path = "console/trouble.html")]
struct TroublePage {
    frame: Frame,
    trouble: Trouble,
}

impl Console {
    /// A page that `make` makes on a thread where it may wait for the database.
    pub(super) async fn show<T: Template + 'static>(
        &self,
        asked: Asked,
        make: impl FnOnce(&Client, &Asked) -> Result<T, Trouble> + Send + 'static,
    ) -> Response {
        if let Err(trouble) = ZonePick::check(&asked.query) {
            return self.refuse(&asked, trouble);
        }
        let (console, with) = (self.clone(), asked.clone());
        let made = move |client: &Client| -> Result<String, Trouble> {
            let with = if console.is_standby(client)? { with.of_standby() } else { with };
            within(&with.zone, || Ok(make(client, &with)?.render()?))
        };
        let page = self.call(Trouble::away, made).await;
        match page {
            Ok(page) => self.sent(&asked, StatusCode::OK, page),
            Err(trouble) => self.refuse(&asked, trouble),
        }
    }

    /// Carries out a change that is permitted, and leads to the page that tells what it did.
    pub(super) async fn change(
        &self,
        asked: Asked,
        permit: Permit,
        change: impl FnOnce(&Client) -> Result<(Said, String), Trouble> + Send + 'static,
    ) -> Response {
        let zone = asked.zone;
        match self.order(permit, move |client| within(&zone, || change(client))).await {
            Ok((said, to)) => led(to, [said.set(asked.is_https)]),
            Err(trouble) => self.refuse(&asked, trouble),
        }
    }

    /// Carries out a change that is permitted, under the name of whoever makes it.
    pub(super) async fn order<T: Send + 'static>(
        &self,
        permit: Permit,
        change: impl FnOnce(&Client) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let console = self.clone();
        let made = move |client: &Client| -> Result<T, Trouble> {
            if console.is_standby(client)? {
                return Err(standby());
            }
            change(&permit.acting(client))
        };
        self.call(Trouble::unknown, made).await
    }

    /// The page that says why there is no other.
    pub(super) fn refuse(&self, asked: &Asked, trouble: Trouble) -> Response {
        let (status, title) = (trouble.status, trouble.title);
        // A page that is wrong does not get right by itself; one that is away may come back.
        let is_still = status.is_client_error();
        let frame = Frame::new(asked, self.application(), "", title).still(is_still);
        match within(&asked.zone, || (TroublePage { frame, trouble }).render()) {
            Ok(page) => self.sent(asked, status, page),
            Err(_) => status.into_response(),
        }
    }

    pub(super) fn sent(&self, asked: &Asked, status: StatusCode, page: String) -> Response {
        let mut response = (status, Html(page)).into_response();
        let token = (!asked.is_held).then(|| asked.token.set(asked.is_https));
        let told = asked.said.as_ref().map(|_| Said::forget(asked.is_https));
        let is_picked = status == StatusCode::OK && asked.query.get("zone").is_some();
        let zone = is_picked.then(|| asked.zone.set(asked.is_https));
        set(&mut response, token.into_iter().chain(told).chain(zone));
        response
    }
}

/// Leads to another page, with cookies.
pub(super) fn led(to: String, cookies: impl IntoIterator<Item = String>) -> Response {
    let mut response = (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response();
    set(&mut response, cookies);
    response
}

fn set(response: &mut Response, cookies: impl IntoIterator<Item = String>) {
    for cookie in cookies.into_iter().filter_map(|cookie| cookie.parse().ok()) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}
