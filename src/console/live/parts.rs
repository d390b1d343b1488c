//! A page's content in parts, of which those that changed are sent.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What stands around the content of a page, in its frame.
const AROUND: (&str, &str) = (r#"<div id="matter">"#, "</div><!-- matter -->");
/// What parts begin with.
const BEGINS: [&str; 3] = ["<section", "<tr", r#"<div class="need""#];

/// A part of the content, and a mark that another one has unless only near instants read differently:
/// browsers tell these by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) html: Arc<str>,
    pub(crate) mark: u64,
}

/// The content of a page; none if it has none.
pub(crate) fn parts(page: &str) -> Option<Vec<Part>> {
    let (_, rest) = page.split_once(AROUND.0)?;
    let (mut rest, _) = rest.rsplit_once(AROUND.1)?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let begin = |word: &&str| rest.get(1..).and_then(|rest| rest.find(*word)).map(|at| at + 1);
        let end = BEGINS.iter().filter_map(begin).min().unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        parts.push(Part { html: part.into(), mark: mark(part) });
        rest = behind;
    }
    Some(parts)
}

fn mark(part: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (place, piece) in part.split("<time ").enumerate() {
        // The first piece lies before any instant.
        let told = piece.split_once('>').filter(|_| place > 0);
        match told.and_then(|(about, rest)| Some((about, rest.split_once("</time>")?.1))) {
            Some((about, behind)) => (about, behind).hash(&mut hasher),
            None => piece.hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(content: &str) -> String {
        format!("<main><p>said</p>{}{content}{}</main>", AROUND.0, AROUND.1)
    }

    fn marks(content: &str) -> Vec<u64> {
        parts(&page(content)).unwrap().iter().map(|part| part.mark).collect()
    }

    #[test]
    fn parts_are_the_content_in_its_order() {
        let content =
            "<h1>é</h1><section><table><tr><td>a</td></tr><tr>b</tr></table></section><section>c</section>";
        let parts = parts(&page(content)).unwrap();
        assert_eq!(parts.len(), 5, "{parts:?}");
        assert_eq!(parts.iter().map(|part| &*part.html).collect::<String>(), content);
        assert!(super::parts("<html>no content</html>").is_none());
        assert!(super::parts(&page("")).unwrap().is_empty());
    }

    #[test]
    fn an_instant_that_reads_differently_is_no_change_and_another_instant_is() {
        let near = |at: &str, said: &str| format!(r#"<p>a <time datetime="{at}">{said}</time> b</p>"#);
        assert_eq!(marks(&near("10:00", "3 s ago")), marks(&near("10:00", "5 s ago")));
        assert_ne!(marks(&near("10:00", "3 s ago")), marks(&near("10:01", "3 s ago")));
        assert_ne!(marks("<p>a</p>"), marks("<p>b</p>"));
        let two = |other: &str| near("10:00", "x") + &near("10:00", "y") + other;
        assert_ne!(marks(&two("a")), marks(&two("b")));
    }
}
