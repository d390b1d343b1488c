//! The database that a URL names, and what its messages may not repeat.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::hosts::Hosts;
use super::opened::OpenedFile;
use super::reach::Reach;
use super::watched::Watched;
use crate::domain::{Error, ErrorKind, Lineage};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::{Result, StoreLimits};
use crate::time::span;

/// A session that has just been opened.
pub(crate) type Opened = Box<dyn Session + Send>;

/// A database as its URL names it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) dialect: Dialect,
    /// A SQLite file as diesel is given it, or a server's URL.
    pub(crate) address: String,
    pub(crate) hosts: Hosts,
    secrets: Vec<String>,
    pub(crate) memory: bool,
    pub(crate) reach: Reach,
    opened: OpenedFile,
    /// The copy of a PostgreSQL database that a session was opened on last.
    lineage: Arc<Mutex<Option<Lineage>>>,
    /// How often that became another: sessions opened before lead to a server that was replaced.
    moves: Arc<AtomicU64>,
    /// How many sessions were given up and have not returned.
    given_up: Arc<AtomicUsize>,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once(':').unwrap_or_default();
        let (dialect, address) = match Dialect::of_scheme(scheme) {
            Some(dialect) if scheme != "sqlite" && !rest.starts_with("//") => {
                let problem =
                    format!("the URL of a {dialect:?} database begins with `{scheme}://`, two slashes");
                return Err(Error::new(ErrorKind::Config, problem));
            }
            Some(dialect) => (dialect, dialect.address(url, rest)),
            // A mistyped scheme must not make a new file; one letter is a drive's.
            None if scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
                return Err(unknown(&format!("scheme {scheme:?}")));
            }
            None if url.ends_with(".db") || url.ends_with(".sqlite") => (Dialect::OF_PATHS, url.to_owned()),
            None => return Err(unknown("URL")),
        };
        let (feature, is_on) = dialect.feature();
        if !is_on {
            let message = format!(
                "this build cannot speak to that database: firetime's feature `{feature}` is off; the \
                         program has all three with `cargo install --path . --features cli,postgres,mysql`"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        if address.is_empty() {
            return Err(Error::new(
                ErrorKind::Config,
                "the URL of a SQLite database names its file: `sqlite:path`",
            ));
        }
        if dialect.is_file() && !address.starts_with("file:") && address.contains('?') {
            return Err(Error::new(
                ErrorKind::Config,
                "a path of a SQLite database has no settings behind a `?`: leave them out, or write a URI of \
                 SQLite's own, `sqlite:file:shop.db?mode=rwc`",
            ));
        }
        let (secrets, memory) = (secrets(dialect, url), address == ":memory:");
        let is_file = dialect.is_file() && !memory && !address.starts_with("file:");
        let address = if is_file { absolute(address) } else { address };
        let (reach, opened) = (Reach::default(), OpenedFile::default());
        let (lineage, moves, given_up) = (Arc::default(), Arc::default(), Arc::default());
        let hosts = Hosts::of(&address);
        Ok(Self { dialect, memory, address, hosts, secrets, reach, opened, lineage, moves, given_up })
    }

    /// The path of a SQLite file; none where the address is a URI, whose file only SQLite knows.
    fn file(&self) -> Option<&str> {
        let is_file = self.dialect.is_file() && !self.memory && !self.address.starts_with("file:");
        is_file.then_some(&self.address)
    }

    /// A SQLite file that is not there; opening it would make an empty one.
    pub(crate) fn missing_file(&self) -> Option<&str> {
        self.file().filter(|file| !std::path::Path::new(file).exists())
    }

    /// Notes which file the database is, if it is there.
    pub(crate) fn note_file(&self) {
        if let Some(file) = self.file() {
            self.opened.note(file);
        }
    }

    /// The path of the SQLite file that sessions have open, if another file, or none, is there now.
    pub(crate) fn replaced_file(&self) -> Option<String> {
        self.file().filter(|file| self.opened.is_replaced(file)).map(|file| self.redact(file))
    }

    /// Fails if another SQLite file, or none, is at the path of the one that sessions have open.
    pub(crate) fn check_file(&self) -> Step<()> {
        self.replaced_file().map_or(Ok(()), |file| {
            let message =
                format!("the database file {file} was replaced or removed after it had been opened");
            Err(Fault::new(FaultKind::Lost, message))
        })
    }

    pub(crate) fn lineage(&self) -> Option<Lineage> {
        *self.lineage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sessions lead to this copy of the database from now on. Refuses one that was replaced by the last.
    pub(crate) fn follow(&self, lineage: Lineage) -> Step<()> {
        let mut last = self.lineage.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = last.filter(|seen| lineage.is_behind(*seen)) {
            let message = format!("the server was replaced: it is on {lineage}, another on {seen}");
            return Err(Fault::new(FaultKind::ReadOnly, message));
        }
        if last.replace(lineage).is_some_and(|seen| seen != lineage) {
            self.moves.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How often sessions were led to another copy than those before.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    /// A driver's message without anything of the password in it.
    pub(crate) fn redact(&self, message: &str) -> String {
        self.secrets.iter().fold(message.to_owned(), |text, secret| without(&text, secret))
    }

    /// Opens a connection of diesel's.
    pub(crate) fn establish<C: diesel::Connection>(&self, address: &str) -> Step<C> {
        let told = |error: diesel::ConnectionError| self.redact(&error.to_string());
        C::establish(address).map_err(|error| Fault::caused(FaultKind::Lost, told(error)))
    }

    /// The session, or one that gives its statements up, where nobody else does and a server may be silent.
    pub(crate) fn watched(&self, session: Opened, limits: StoreLimits) -> Step<Opened> {
        if limits.is_of_node() {
            return Ok(session);
        }
        // The server itself gives up a statement after `call`, and mostly says so.
        let wait = span(limits.call + limits.call / 4);
        Ok(Box::new(Watched::over(session, wait, &self.given_up)?))
    }

    /// A fault without anything of the password in its message or cause. A cause with some of it keeps its
    /// text alone.
    pub(crate) fn clean(&self, fault: Fault) -> Fault {
        let fault = Fault { message: self.redact(&fault.message), ..fault };
        let said = fault.cause.as_ref().map(ToString::to_string).unwrap_or_default();
        let clean = self.redact(&said);
        if clean == said {
            fault
        } else {
            Fault { message: fault.message, ..Fault::caused(fault.kind, clean) }
        }
    }
}

/// What no message may repeat, longest first: a server's URL, and what stands where a password does, raw and
/// decoded, however the URL is mistyped.
fn secrets(dialect: Dialect, url: &str) -> Vec<String> {
    let rest = url.split_once(':').map_or("", |(_, rest)| rest).trim_start_matches('/');
    let authority = rest.split('/').next().unwrap_or(rest);
    let of_login = |text: &'_ str| -> Option<String> {
        let (login, _) = text.rsplit_once('@')?;
        login.split_once(':').map(|(_, password)| password.to_owned())
    };
    // With a `/` of its own, not encoded, it reaches beyond what drivers take for the authority.
    let mut passwords: Vec<String> = [authority, rest].into_iter().filter_map(of_login).collect();
    let options = rest.split(['?', '&']).filter_map(|option| option.split_once('='));
    passwords.extend(options.filter(|(name, _)| name.contains("pass")).map(|(_, value)| value.to_owned()));
    // A driver that reads a part of it as host or port repeats that part.
    let parts = passwords.iter().flat_map(|password| password.split(['/', '?', '#', '@', ':', ',']));
    let parts: Vec<String> = parts.filter(|part| part.len() > 1).map(str::to_owned).collect();
    passwords.extend(parts);
    let mut secrets: Vec<String> = passwords.iter().map(|password| decoded(password)).collect();
    secrets.extend(passwords);
    if !dialect.is_file() {
        secrets.push(url.to_owned());
    }
    secrets.retain(|secret| !secret.is_empty());
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    secrets
}

/// A text with a secret hidden. A short one is hidden where it stands as a part of a URL does, or in quotes:
/// hidden within words, it would show by what the words lack.
fn without(text: &str, secret: &str) -> String {
    /// Texts seldom contain longer ones by chance.
    const SHORT: usize = 3;
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    let mut before = None;
    while let Some(place) = rest.find(secret) {
        let (ahead, behind) = (&rest[..place], &rest[place + secret.len()..]);
        before = ahead.chars().next_back().or(before);
        let ends = if before == Some('=') { "@&?/,\"'`) ;" } else { "@&?/,\"'`)" };
        let stands_alone = before.is_none_or(|it| ":=/,\"'`(".contains(it))
            && behind.chars().next().is_none_or(|it| ends.contains(it));
        let is_hidden = secret.chars().count() > SHORT || stands_alone;
        clean.extend([ahead, if is_hidden { "***" } else { secret }]);
        before = secret.chars().next_back();
        rest = behind;
    }
    clean + rest
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%').then(|| tail.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Connections are opened later, and the process may change its directory until then. The path is joined and
/// not tidied: what looks like a password must still be found in it. One below a directory whose name is not
/// UTF-8 stays relative: diesel takes no other.
fn absolute(file: String) -> String {
    let path = std::env::current_dir().ok().map(|here| here.join(&file));
    path.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or(file)
}

fn unknown(what: &str) -> Error {
    let known =
        "`postgres://…`, `mysql://…`, `mariadb://…`, `sqlite:path`, or a path ending in .db or .sqlite";
    Error::new(ErrorKind::Config, format!("unknown database {what}: write {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_database() {
        let dialect = |url| Target::parse(url).map(|target| (target.dialect, target.address));
        assert_eq!(dialect("sqlite:/a/b.db").unwrap(), (Dialect::Sqlite, "/a/b.db".into()));
        assert_eq!(dialect("sqlite:///a/b").unwrap(), (Dialect::Sqlite, "/a/b".into()));
        assert_eq!(dialect("sqlite:file:jobs.db?mode=ro").unwrap().1, "file:jobs.db?mode=ro");
        assert!(Target::parse("sqlite::memory:").unwrap().memory);
        #[cfg(feature = "mysql")]
        assert_eq!(dialect("mariadb://h/d").unwrap(), (Dialect::Mysql, "mysql://h/d".into()));
        #[cfg(feature = "postgres")]
        for url in ["postgres:/h/d", "postgresql:h/d"] {
            let error = Target::parse(url).err().unwrap();
            assert!(
                error.kind() == ErrorKind::Config && error.to_string().contains("two slashes"),
                "{error}"
            );
        }
        let error = Target::parse("sqlite:shop.db?mode=rwc").err().unwrap();
        assert!(error.to_string().contains("`sqlite:file:shop.db?mode=rwc`"), "{error}");
        for url in ["oracle://h/d", "sqlit:shop.db", "nothing", ""] {
            let error = Target::parse(url).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("postgres://"), "{error}");
        }
    }

    /// Connections opened after the process had changed its directory led to another, empty file.
    #[test]
    fn a_relative_file_is_that_of_the_directory_at_the_start() {
        let here = std::env::current_dir().unwrap();
        for url in ["jobs.sqlite", "sqlite:jobs.sqlite", "sqlite://./jobs.sqlite"] {
            let address = Target::parse(url).unwrap().address;
            assert_eq!(std::path::Path::new(&address), here.join("jobs.sqlite"), "{url}");
        }
    }

    #[test]
    #[cfg(not(feature = "mysql"))]
    fn a_database_that_was_not_built_in_is_named() {
        let error = Target::parse("mysql://h/d").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("`mysql`"), "{error}");
    }

    #[test]
    #[cfg(feature = "postgres")]
    fn no_part_of_a_password_gets_into_a_message() {
        let target = Target::parse("postgres://me:s%40crit@host/db?password=other").unwrap();
        let clean = target.redact("cannot log in with s@crit or s%40crit or other at host");
        assert_eq!(clean, "cannot log in with *** or *** or *** at host");
    }

    /// "cannot e***ecute" tells it.
    #[test]
    fn a_short_password_is_hidden_where_it_may_be_one() {
        for (password, text, clean) in [
            ("x", "cannot execute: a tax is due", "cannot execute: a tax is due"),
            ("a", "a host was not found", "a host was not found"),
            ("1", "port 5432, attempt 1", "port 5432, attempt 1"),
            ("x", "no file me:x@host/db", "no file me:***@host/db"),
            ("x", "password=x host=h", "password=*** host=h"),
            ("x", "bad port \"x\"", "bad port \"***\""),
            ("xx", "xxx 'xx' xx", "xxx '***' xx"),
            ("x", "xx", "xx"),
            ("wax", "waxing, or \"wax\"", "waxing, or \"***\""),
            ("ilex", "silexes", "s***es"),
        ] {
            let target = Target::parse(&format!("sqlite://me:{password}@host/db")).unwrap();
            assert_eq!(target.redact(text), clean, "{password}");
        }
    }

    #[test]
    fn a_mistyped_url_keeps_its_password_to_itself() {
        for url in [
            "postgres://me:hun/ter2@host/db",
            "postgres:/me:hun%2Fter2@host/db",
            "postgres:me:hun/ter2@host/db",
            "sqlite://me:hun/ter2@host/db",
            "mysql://host/db?user=me&password=hun/ter2",
            "postgres://host/db?sslpassword=hun/ter2",
            "mysql://me:hun,x/ter2@host,other/db",
        ] {
            let Ok(target) = Target::parse(url) else { continue };
            let clean = target.redact(&format!("{url} is wrong: bad port \"hun/ter2\""));
            assert!(!clean.contains("hun/ter2") && !clean.contains("hun%2F"), "{url}: {clean}");
            let part = target.redact("bad port \"hun\"");
            assert!(!part.contains("hun") || url.contains("%2F"), "{url}: {part}");
        }
        let target = Target::parse("sqlite://me:hun/ter2@host/db").unwrap();
        let file = target.missing_file().unwrap();
        assert!(file.ends_with("/me:hun/ter2@host/db"), "{file}");
        assert!(target.redact(file).ends_with("/me:***@host/db"));
        assert_eq!(target.redact("no file me:hun/ter2@host/db"), "no file me:***@host/db");
        assert_eq!(Target::parse("sqlite:shop.db").unwrap().redact("no shop.db"), "no shop.db");
    }

    #[test]
    fn a_cause_that_repeats_the_password_keeps_its_text_alone() {
        let target = Target::parse("sqlite://me:hunter2@host/x").unwrap();
        let cleaned = |text: &str| {
            let fault =
                target.clean(Fault::caused(FaultKind::Refused, std::io::Error::other(text)).with(text));
            let cause = fault.cause.unwrap();
            (fault.message, cause.to_string(), cause.is::<std::io::Error>())
        };
        assert_eq!(cleaned("disk full"), ("disk full".into(), "disk full".into(), true));
        assert_eq!(cleaned("is it hunter2?"), ("is it ***?".into(), "is it ***?".into(), false));
    }
}
