//! A request as pages see it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::query::Query;
use super::said::Said;
use super::state::Console;
use super::token::Token;

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
    /// Whether the console lets whoever asks change anything.
    pub(super) may_change: bool,
}

impl FromRequestParts<Console> for Asked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Infallible> {
        let held = Token::held(&parts.headers);
        let options = console.options();
        let user = options.user.as_ref().and_then(|user| user(parts)).filter(|name| !name.is_empty());
        let may_change = !options.is_read_only && (options.user.is_none() || user.is_some());
        Ok(Self {
            path: parts.uri.path().trim_start_matches('/').to_owned(),
            query: Query::read(parts.uri.query().unwrap_or_default()),
            is_held: held.is_some(),
            token: held.unwrap_or_else(Token::fresh),
            said: Said::held(&parts.headers),
            user,
            may_change,
        })
    }
}

impl Asked {
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
