//! What a change did, told on the page that follows it.

use axum::http::HeaderMap;
use form_urlencoded::byte_serialize;

use super::cookie::{cookie, end_cookie, set_cookie};
use super::query::Query;

/// The cookie's name.
const COOKIE_NAME: &str = "firetime_said";

/// What became of a change, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Whether it did what was asked.
    pub(crate) is_done: bool,
    pub(crate) sentence: String,
}

impl Said {
    pub(crate) fn done(sentence: impl Into<String>) -> Self {
        Self { is_done: true, sentence: sentence.into() }
    }

    /// Nothing was changed.
    pub(crate) fn not_done(sentence: impl Into<String>) -> Self {
        Self { is_done: false, sentence: sentence.into() }
    }

    /// What a browser brings from the change before.
    pub(crate) fn held(headers: &HeaderMap) -> Option<Self> {
        let query = Query::read(cookie(headers, COOKIE_NAME)?);
        let said = |name| query.text(name).map(|sentence| Self { is_done: name == "done", sentence });
        said("done").or_else(|| said("not"))
    }

    /// The header that hands it on to the next page, for a minute. Browsers drop a cookie of more than 4,096
    /// bytes.
    pub(crate) fn set(&self, is_https: bool) -> String {
        const LONGEST: usize = 3_800;
        let mut bytes = 0;
        let fits = |it: &char| {
            bytes += byte_serialize(it.encode_utf8(&mut [0; 4]).as_bytes()).map(str::len).sum::<usize>();
            bytes <= LONGEST
        };
        let sentence: String = self.sentence.chars().take_while(fits).collect();
        let name = if self.is_done { "done" } else { "not" };
        let value = Query::default().with(name, sentence).of("");
        set_cookie(COOKIE_NAME, value.trim_start_matches('?'), "Strict", is_https) + "; Max-Age=60"
    }

    /// The header that ends it once it is told.
    pub(crate) fn forget(is_https: bool) -> String {
        end_cookie(COOKIE_NAME, is_https)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::COOKIE;

    use super::*;

    #[test]
    fn a_sentence_is_handed_on_whatever_it_holds() {
        for said in [Said::done("\"a;b\" = <paused>, ü"), Said::not_done("it is = active")] {
            let header = said.set(false);
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, header.split(';').next().unwrap().parse().unwrap());
            assert_eq!(Said::held(&headers), Some(said), "{header}");
        }
        assert_eq!(Said::held(&HeaderMap::new()), None);
    }

    #[test]
    fn a_browser_keeps_a_long_sentence_in_part() {
        for sentence in ["x", "ü", "😀", "a \""].map(|text| text.repeat(5_000)) {
            let header = Said::done(&sentence).set(false);
            assert!((3_700..4_096).contains(&header.len()), "{}", header.len());
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, header.split(';').next().unwrap().parse().unwrap());
            assert!(sentence.starts_with(&Said::held(&headers).unwrap().sentence), "{header}");
        }
    }
}
