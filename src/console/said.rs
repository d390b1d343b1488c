//! What a change did, told on the page that follows it.

use axum::http::HeaderMap;

use super::query::Query;
use super::token::cookie;

/// The cookie's name.
const COOKIE_NAME: &str = "firetime_said";

/// What became of a change, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// Whether it did what was asked.
    pub(super) is_done: bool,
    pub(super) sentence: String,
}

impl Said {
    pub(super) fn done(sentence: impl Into<String>) -> Self {
        Self { is_done: true, sentence: sentence.into() }
    }

    /// Nothing was changed.
    pub(super) fn not_done(sentence: impl Into<String>) -> Self {
        Self { is_done: false, sentence: sentence.into() }
    }

    /// What a browser brings from the change before.
    pub(super) fn held(headers: &HeaderMap) -> Option<Self> {
        let query = Query::read(cookie(headers, COOKIE_NAME)?);
        let said = |name| query.text(name).map(|sentence| Self { is_done: name == "done", sentence });
        said("done").or_else(|| said("not"))
    }

    /// The header that hands it on to the next page, for a minute.
    pub(super) fn set(&self) -> String {
        const LONGEST: usize = 500;
        let sentence: String = self.sentence.chars().take(LONGEST).collect();
        let name = if self.is_done { "done" } else { "not" };
        let value = Query::default().with(name, sentence).of("");
        format!("{COOKIE_NAME}={}; HttpOnly; SameSite=Strict; Max-Age=60", value.trim_start_matches('?'))
    }

    /// The header that ends it once it is told.
    pub(super) fn forget() -> String {
        format!("{COOKIE_NAME}=; HttpOnly; SameSite=Strict; Max-Age=0")
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::COOKIE;

    use super::*;

    #[test]
    fn a_sentence_is_handed_on_whatever_it_holds() {
        for said in [Said::done("\"a;b\" = <paused>, ü"), Said::not_done("it is = active")] {
            let header = said.set();
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, header.split(';').next().unwrap().parse().unwrap());
            assert_eq!(Said::held(&headers), Some(said), "{header}");
        }
        assert_eq!(Said::held(&HeaderMap::new()), None);
    }
}
