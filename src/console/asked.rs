//! A request as pages see it.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;

use super::access::known::Who;
use super::access::masks::Masks;
use super::access::peer::Peer;
use super::access::role::Role;
use super::access::token::Token;
use super::state::Console;
use super::web::query::Query;
use super::web::said::Said;
use super::web::trouble::Trouble;
use super::words::zone::ZonePick;
use crate::Client;

/// What a browser asks for, and brings along.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Its path below the console, without the first slash.
    pub(super) path: String,
    pub(super) query: Query,
    /// The token it holds; a fresh one if it holds none.
    pub(super) token: Token,
    /// Whether it holds that token.
    pub(super) is_held: bool,
    /// What the change before it did.
    pub(super) said: Option<Said>,
    /// Who asks; none if nobody is asked, or if it is unknown.
    pub(super) user: Option<String>,
    /// Whether they have logged in to the console itself.
    pub(super) has_session: bool,
    /// Whether it is a program that has a token: no page elsewhere can make it ask.
    pub(super) is_program: bool,
    /// From where, as far as logins and open pages are counted by it.
    pub(super) network: Option<String>,
    /// Whether the browser asked by HTTPS.
    pub(super) is_https: bool,
    /// What whoever asks may do.
    pub(super) role: Role,
    /// The zone that they want to see times in.
    pub(super) zone: ZonePick,
    /// Whether the database takes no changes, whoever asks.
    pub(super) is_standby: bool,
    /// What nobody sees.
    pub(super) masks: Arc<Masks>,
}

/// The database takes no changes.
pub(super) fn standby() -> Trouble {
    Trouble::forbidden(
        "The database is a standby, or was made read-only: it takes no changes. Open the console of the primary, or \
         wait until this one is promoted.",
    )
}

/// That somebody may make a change. [`Asked::permit`] alone makes it, and [`Console::change`] demands it.
#[derive(Debug)]
pub(super) struct Permit {
    /// Who makes it, for the audit; the client if nobody is known.
    user: Option<String>,
}

impl Permit {
    /// A client whose changes are theirs in the audit.
    pub(super) fn acting(self, client: &Client) -> Client {
        match self.user {
            Some(name) => client.clone().acting_as(&name),
            None => client.clone(),
        }
    }
}

impl FromRequestParts<Console> for Asked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Infallible> {
        let held = Token::held(&parts.headers);
        let options = console.options();
        let who = parts.extensions.get::<Who>().cloned().unwrap_or(Who::LoggedOut);
        let peer = Peer::of(parts, options);
        let query = Query::read(parts.uri.query().unwrap_or_default());
        Ok(Self {
            path: parts.uri.path().trim_start_matches('/').to_owned(),
            zone: ZonePick::of(&query, &parts.headers),
            query,
            is_held: held.is_some(),
            token: held.unwrap_or_else(Token::fresh),
            said: Said::held(&parts.headers),
            user: who.name().map(str::to_owned),
            has_session: matches!(who, Who::LoggedIn(_)),
            is_program: matches!(who, Who::Program(_)),
            network: peer.network(),
            is_https: options.is_https || peer.is_https,
            is_standby: false,
            masks: Arc::clone(&options.masks),
            role: if options.is_read_only { Role::Viewer } else { who.role() },
        })
    }
}

impl Asked {
    /// The same of a database that takes no changes.
    pub(super) fn of_standby(self) -> Self {
        Self { role: Role::Viewer, is_standby: true, ..self }
    }

    /// Lets whoever asks change something, if they have at least this role.
    pub(super) fn permit(&self, needed: Role) -> Result<Permit, Trouble> {
        match self.role {
            _ if self.is_standby => Err(standby()),
            role if role >= needed => Ok(Permit { user: self.user.clone() }),
            Role::Viewer => Err(Trouble::forbidden("You may look here, and change nothing.")),
            role => Err(Trouble::forbidden(format!("This is for the role {needed}, and yours is {role}."))),
        }
    }

    /// A form that this browser was given.
    pub(super) fn form(&self, headers: &HeaderMap, form: &[u8]) -> Result<Query, Trouble> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("application/x-www-form-urlencoded") {
            return Err(Trouble::wrong("Nothing was changed: this is no form."));
        }
        let form = Query::read(&String::from_utf8_lossy(form));
        if !form.get("token").is_some_and(|said| self.token.is(said)) {
            let said = "The form is not one that this browser was given, or its token is old: go back, load the \
                        page again, and send it once more.";
            return Err(Trouble::forbidden(said));
        }
        Ok(form)
    }

    /// What a page is made for that many look at.
    pub(super) fn shared(address: &str, role: Role, zone: ZonePick, masks: Arc<Masks>) -> Self {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        Self {
            path: path.to_owned(),
            query: Query::read(query),
            token: Token::none(),
            is_held: true,
            said: None,
            user: None,
            has_session: false,
            is_program: false,
            network: None,
            is_https: false,
            is_standby: false,
            masks,
            role,
            zone,
        }
    }

    /// The way from its page up to the console's first one: none of a page beside that, and `../` of one
    /// further down.
    pub(super) fn root(&self) -> String {
        "../".repeat(self.path.matches('/').count())
    }

    /// The address of its page, seen from a page beside it.
    pub(super) fn here(&self) -> String {
        self.query.of(&self.path)
    }
}
