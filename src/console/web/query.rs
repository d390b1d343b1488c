//! What an address asks for behind its `?`, and addresses that ask.

use form_urlencoded::Serializer;

/// Pairs of names and values, as an address or a form has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn read(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The first value of this name as it was written, unless it is blank: a name may end in a space.
    pub(crate) fn get<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// The first value of this name that people typed: without spaces around it.
    pub(crate) fn typed<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.get(name).map(str::trim)
    }

    /// The first value of this name, as a value of its own.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// All values of this name that are not blank.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(it, _)| it == name);
        named.map(|(_, value)| value.as_str()).filter(|value| !value.trim().is_empty())
    }

    /// The names that there are.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The same with this one value of this name, in place of those it has.
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.0.retain(|(it, _)| it != name);
        self.0.push((name.to_owned(), value.to_string()));
        self
    }

    /// The same with another value of this name.
    pub(crate) fn and(mut self, name: &str, value: &str) -> Self {
        self.0.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same without this name, and without blank values.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.0.retain(|(it, value)| it != name && !value.trim().is_empty());
        self
    }

    /// All of it, in its order.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// What it has of these names, without blank values.
    pub(crate) fn only(&self, names: &[&str]) -> Self {
        let named =
            self.0.iter().filter(|(name, value)| names.contains(&&**name) && !value.trim().is_empty());
        Self(named.cloned().collect())
    }

    /// The address of a page that asks for this.
    pub(crate) fn of(&self, page: &str) -> String {
        match self.0.is_empty() {
            true => page.to_owned(),
            false => format!("{page}?{}", Serializer::new(String::new()).extend_pairs(&self.0).finish()),
        }
    }
}

/// The address of a page that asks for one thing.
pub(crate) fn address(page: &str, name: &str, value: impl ToString) -> String {
    Query::default().with(name, value).of(page)
}

/// The address of a schedule's page.
pub(crate) fn schedule(name: &str) -> String {
    address("schedule", "name", name)
}

/// The address of an execution's page.
pub(crate) fn execution(id: impl Into<i64>) -> String {
    address("execution", "id", id.into())
}

/// Whether an address that came with a request is one of the console's own pages, seen from a page beside it.
pub(crate) fn is_page(to: &str) -> bool {
    const PAGES: [&str; 11] = [
        "now",
        "schedules",
        "schedule",
        "executions",
        "execution",
        "jobs",
        "nodes",
        "audit",
        "edit",
        "missed",
        "bulk",
    ];
    PAGES.contains(&to.split('?').next().unwrap_or_default()) && to.bytes().all(|it| it.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_whatever_the_names_are() {
        for name in ["a b", "..", "a/../b", "<b>&amp;\"'", "%2e%2e", "ü?#=&;", "a+b"] {
            let address = schedule(name);
            let (page, query) = address.split_once('?').unwrap();
            assert_eq!((page, Query::read(query).get("name")), ("schedule", Some(name)), "{address}");
            assert!(!address.contains(['<', '"', '\'', '/', '#', ' ']), "{address}");
        }
    }

    /// A schedule may be called `report `, beside another that is called `report`.
    #[test]
    fn names_keep_the_spaces_around_them() {
        let query = Query::read("name=+report+&since=+2h+");
        assert_eq!((query.get("name"), query.text("name")), (Some(" report "), Some(" report ".to_owned())));
        assert_eq!((query.typed("since"), query.typed("q")), (Some("2h"), None));
    }

    #[test]
    fn blank_values_ask_for_nothing() {
        let query = Query::read("q=&state=paused&state=+&state=error&after=x");
        assert_eq!((query.get("q"), query.get("state")), (None, Some("paused")));
        assert_eq!(query.all("state").collect::<Vec<_>>(), ["paused", "error"]);
        let next = query.without("after").with("state", "active");
        assert_eq!(next.of("schedules"), "schedules?state=active");
        assert_eq!(Query::default().of("now"), "now");
    }
}
