//! Who asks, by whichever login knows them.

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use super::clock;
use super::peer::Peer;
use super::role::Role;
use super::sessions::{By, Sessions};
use super::user::User;
use super::users::{TOKEN_BEGIN, Users};
use crate::console::options::Options;
use crate::console::web::cookie::cookie;
use crate::console::web::trouble::Trouble;

/// The cookie that holds the id of a session.
pub(crate) const SESSION_COOKIE: &str = "firetime_session";

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// No login is asked: an admin, whose changes are the client's.
    Anybody,
    /// Whom the application's login knows, or a proxy names.
    Known(User),
    /// A program with a token.
    Program(User),
    /// Who has logged in to the console itself.
    LoggedIn(User),
    /// Somebody whom the application's login does not know: they may look.
    Stranger,
    /// Somebody who may log in.
    LoggedOut,
}

impl Who {
    pub(crate) fn role(&self) -> Role {
        match self {
            Self::Anybody => Role::Admin,
            Self::Known(user) | Self::Program(user) | Self::LoggedIn(user) => user.role(),
            Self::Stranger | Self::LoggedOut => Role::Viewer,
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Known(user) | Self::Program(user) | Self::LoggedIn(user) => Some(user.name()),
            Self::Anybody | Self::Stranger | Self::LoggedOut => None,
        }
    }
}

/// Who asks: whom the application's login knows or a proxy names, a program with a token, or who has a
/// session.
pub(crate) fn who(
    options: &Options,
    sessions: &Sessions,
    parts: &Parts,
    peer: &Peer,
    by: By,
) -> Result<Who, Trouble> {
    // A header that is not the proxy's is refused also beside another login.
    let named = match &options.header {
        Some(header) => header.user(&parts.headers, peer.is_proxy)?,
        None => None,
    };
    let by_application = options.user.as_ref().and_then(|user| user(parts));
    if let Some(user) = by_application.or(named).filter(|user| !user.name().is_empty()) {
        return Ok(Who::Known(user));
    }
    if let Some(program) = program(options, parts)? {
        return Ok(Who::Program(program));
    }
    match (&options.users, &options.header, &options.user) {
        (Some(_), ..) => Ok(session(options, sessions, parts, by).map_or(Who::LoggedOut, Who::LoggedIn)),
        (None, _, Some(_)) => Ok(Who::Stranger),
        (None, Some(_), None) => {
            let said = "Nobody says who you are: come through the proxy that asks for your login.";
            Err(Trouble::forbidden(said))
        }
        (None, None, None) => Ok(Who::Anybody),
    }
}

/// The program whose token a request brings. A proxy may leave another login's there, which is none of ours.
fn program(options: &Options, parts: &Parts) -> Result<Option<User>, Trouble> {
    let line = parts.headers.get(AUTHORIZATION).and_then(|line| line.to_str().ok());
    let token =
        line.and_then(|line| line.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
    let Some(token) = token.map(|(_, token)| token.trim()).filter(|it| it.starts_with(TOKEN_BEGIN)) else {
        return Ok(None);
    };
    let list = options.users.as_ref().map(Users::now);
    let program = list.and_then(|list| list.program(token).cloned());
    let said = "The token is not one of this console: its line may have left the users file.";
    program.map(Some).ok_or_else(|| Trouble::unauthorized(said))
}

fn session(options: &Options, sessions: &Sessions, parts: &Parts, by: By) -> Option<User> {
    let list = options.users.as_ref()?.now();
    let id = cookie(&parts.headers, SESSION_COOKIE)?;
    sessions.user(id, by, clock::now(), options.lasts, &list)
}
