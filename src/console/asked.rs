//! A request as pages see it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::query::Query;
use super::role::Role;
use super::said::Said;
use super::state::Console;
use super::token::Token;
use super::trouble::Trouble;
use super::user::User;
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
    /// What whoever asks may do.
    pub(super) role: Role,
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
        let user = options.user.as_ref().map(|user| user(parts).filter(|user| !user.name().is_empty()));
        let role = match &user {
            _ if options.is_read_only => Role::Viewer,
            None => Role::Admin,
            Some(user) => user.as_ref().map_or(Role::Viewer, User::role),
        };
        Ok(Self {
            path: parts.uri.path().trim_start_matches('/').to_owned(),
            query: Query::read(parts.uri.query().unwrap_or_default()),
            is_held: held.is_some(),
            token: held.unwrap_or_else(Token::fresh),
            said: Said::held(&parts.headers),
            user: user.flatten().map(|user| user.name().to_owned()),
            role,
        })
    }
}

impl Asked {
    /// Lets whoever asks change something, if they have at least this role.
    pub(super) fn permit(&self, needed: Role) -> Result<Permit, Trouble> {
        match self.role {
            role if role >= needed => Ok(Permit { user: self.user.clone() }),
            Role::Viewer => Err(Trouble::forbidden("You may look here, and change nothing.")),
            role => Err(Trouble::forbidden(format!("This is for the role {needed}, and yours is {role}."))),
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
