//! The token without which nothing is changed: a form must hold what the browser's cookie holds.
//!
//! A page elsewhere can make a browser send the form, and cannot know the token; the cookie does not come
//! along either, as browsers leave it away from forms of other sites.

use axum::http::HeaderMap;
use uuid::Uuid;

use crate::console::web::cookie::{cookie, set_cookie};

/// The cookie's name.
pub(crate) const COOKIE_NAME: &str = "firetime_token";

/// What a browser has to hold, and a form to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// Drawn anew: 244 random bits.
    pub(crate) fn fresh() -> Self {
        Self(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    /// None: of a page that is made for many, whose forms get each browser's own there.
    pub(crate) fn none() -> Self {
        Self(String::new())
    }

    /// The one that a browser holds.
    pub(crate) fn held(headers: &HeaderMap) -> Option<Self> {
        let held = cookie(headers, COOKIE_NAME)?;
        let is_whole = held.len() == 64 && held.bytes().all(|it| it.is_ascii_hexdigit());
        is_whole.then(|| Self(held.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a form repeats it. How long that takes tells nothing of where they differ.
    pub(crate) fn is(&self, said: &str) -> bool {
        let differs = self.0.bytes().zip(said.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
        self.0.len() == said.len() && differs == 0
    }

    /// The header that makes a browser hold it. Its path is that of the pages, wherever they are mounted. It
    /// is `Lax` so that it comes along with a link in a chat: else the page would bring a fresh token, and
    /// the forms in other tabs would hold an old one. With forms of other sites it does not come along either
    /// way.
    pub(crate) fn set(&self, is_https: bool) -> String {
        set_cookie(COOKIE_NAME, &self.0, "Lax", is_https)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::COOKIE;

    use super::*;

    #[test]
    fn a_form_repeats_the_whole_token() {
        let token = Token::fresh();
        assert!(token.is(token.as_str()));
        assert!(!token.is("") && !token.is(&token.as_str()[1..]) && !token.is(Token::fresh().as_str()));
        let flipped = token.as_str().replace(|it: char| it == token.as_str().chars().next().unwrap(), "z");
        assert!(!token.is(&flipped));
    }

    #[test]
    fn a_cookie_that_is_no_token_is_not_held() {
        let held = |line: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, line.parse().unwrap());
            Token::held(&headers)
        };
        let token = Token::fresh();
        assert_eq!(held(&format!("a=b; {COOKIE_NAME}={}; c=d", token.as_str())), Some(token));
        assert_eq!(
            (held(&format!("{COOKIE_NAME}=")), held("a=b"), held("firetime_token")),
            (None, None, None)
        );
        assert_eq!(held(&format!("{COOKIE_NAME}={}", "z".repeat(64))), None);
    }
}
