//! The hosts of a URL: `mysql://user:password@a,b:3307,c/database` names three servers of one database.
//!
//! Connections lead to the host that gave the last one. If it gives no more, the others are tried in the
//! URL's order, each for its share of the time that opening a connection may take.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::time::boot;

/// The addresses that a URL stands for, each with one host.
#[derive(Clone)]
pub(crate) struct Hosts {
    addresses: Vec<String>,
    /// The one that gave the last connection; shared by the connections of a pool.
    lead: Arc<AtomicUsize>,
}

impl Hosts {
    /// Takes a server's URL apart; any other has one address.
    pub(crate) fn of(url: &str) -> Self {
        Self { addresses: addresses(url), lead: Arc::default() }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn are_several(&self) -> bool {
        self.addresses.len() > 1
    }

    /// What `open` gives at the first host that gives something within its share of the time that is left. A
    /// host whose server takes connections only if there is no other ([`FaultKind::Busy`]) is asked again,
    /// last.
    pub(crate) fn first<T>(
        &self,
        wait: Duration,
        open: impl Fn(&str, Duration, Pickiness) -> Step<T>,
    ) -> Step<T> {
        let (count, first) = (self.addresses.len(), self.lead.load(Ordering::Relaxed));
        let began = boot();
        let pickiness = if count > 1 { Pickiness::OnlyTheBest } else { Pickiness::AnyThatWorks };
        let mut todo: VecDeque<_> = (0..count).map(|n| ((first + n) % count, pickiness)).collect();
        let mut refusals: Vec<(&str, Fault)> = Vec::new();
        while let Some((place, pickiness)) = todo.pop_front() {
            let (address, others) = (&self.addresses[place], u32::try_from(todo.len()).unwrap_or(u32::MAX));
            let spent = (boot() - began).duration();
            let fault = match open(address, wait.saturating_sub(spent) / others.saturating_add(1), pickiness)
            {
                Ok(opened) => {
                    self.lead.store(place, Ordering::Relaxed);
                    return Ok(opened);
                }
                Err(fault) => fault,
            };
            match fault.kind {
                FaultKind::Senseless => return Err(fault),
                _ if count == 1 => return Err(fault),
                FaultKind::Busy if pickiness == Pickiness::OnlyTheBest => {
                    todo.push_back((place, Pickiness::AnyThatWorks));
                }
                _ => refusals.push((host(address), fault)),
            }
        }
        let kind = refusals.first().map_or(FaultKind::Lost, |(_, first)| first.kind);
        let kind = if refusals.iter().all(|(_, fault)| fault.kind == kind) { kind } else { FaultKind::Lost };
        let said: Vec<_> = refusals.iter().map(|(host, fault)| format!("{host}: {fault}")).collect();
        Err(Fault::caused(kind, said.join("; ")).with("no host gives a connection"))
    }
}

/// Which servers of a cluster a connection may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pickiness {
    /// Those that are up to date.
    OnlyTheBest,
    /// Those that also serve another with a copy of their data, too.
    AnyThatWorks,
}

/// Where the hosts of a URL are: what is before them, they, and what is behind them.
fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let begin = url.find("://")? + 3;
    let end = url[begin..].find(['/', '?']).map_or(url.len(), |end| begin + end);
    let begin = url[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
    Some((&url[..begin], &url[begin..end], &url[end..]))
}

fn addresses(url: &str) -> Vec<String> {
    match parts(url) {
        Some((before, hosts, behind)) if hosts.contains(',') => {
            hosts.split(',').map(|host| format!("{before}{}{behind}", host.trim())).collect()
        }
        _ => vec![url.to_owned()],
    }
}

/// The host of an address, with its port.
fn host(address: &str) -> &str {
    parts(address).map_or("", |(_, host, _)| host)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const URL: &str = "mysql://me:a,b@one,two:3307, [::1]:3/db?x=1,2";

    #[test]
    fn each_host_has_an_address() {
        assert_eq!(
            Hosts::of(URL).addresses,
            [
                "mysql://me:a,b@one/db?x=1,2",
                "mysql://me:a,b@two:3307/db?x=1,2",
                "mysql://me:a,b@[::1]:3/db?x=1,2"
            ]
        );
        for alone in ["mysql://me:a,b@one/db", "postgres:///db?host=a,b", "/a,b.db", "sqlite:a,b.db"] {
            assert_eq!(Hosts::of(alone).addresses, [alone]);
        }
    }

    /// The hosts that were asked, and the one that answered.
    fn asked(hosts: &Hosts, answers: &str, kind: FaultKind) -> (Vec<String>, Step<String>) {
        let asked = RefCell::new(Vec::new());
        let opened = hosts.first(Duration::from_secs(60), |address, wait, _| {
            // Refused at once, they leave their time to the others.
            let left = hosts.addresses.len() - asked.borrow().len();
            let share = Duration::from_secs(60) / u32::try_from(left).unwrap();
            assert!(wait <= share && wait > share / 10 * 9, "{wait:?} of {share:?}");
            asked.borrow_mut().push(host(address).to_owned());
            let given = host(address) == answers;
            if given { Ok(answers.to_owned()) } else { Err(Fault::new(kind, "no")) }
        });
        (asked.into_inner(), opened)
    }

    #[test]
    fn the_next_host_is_tried_and_kept() {
        let hosts = Hosts::of(URL);
        let (tried, opened) = asked(&hosts, "two:3307", FaultKind::Lost);
        assert_eq!((tried, opened.unwrap()), (vec!["one".into(), "two:3307".into()], "two:3307".into()));
        let (tried, _) = asked(&hosts.clone(), "two:3307", FaultKind::Lost);
        assert_eq!(tried, ["two:3307"]);
        let (tried, opened) = asked(&hosts, "nowhere", FaultKind::Lost);
        assert_eq!(tried, ["two:3307", "[::1]:3", "one"]);
        let fault = opened.unwrap_err();
        assert!(fault.to_string().contains("[::1]:3: no; one: no"));
        assert_eq!(fault.kind, FaultKind::Lost);
        assert_eq!(asked(&hosts, "nowhere", FaultKind::Refused).1.unwrap_err().kind, FaultKind::Refused);
    }

    #[test]
    fn a_reluctant_host_is_asked_again_when_no_other_answers() {
        let hosts = Hosts::of("mysql://one,two/db");
        let opened = hosts.first(Duration::from_secs(2), |address, _, pickiness| match host(address) {
            "one" if pickiness == Pickiness::AnyThatWorks => Ok("one"),
            "one" => Err(Fault::new(FaultKind::Busy, "it is a donor")),
            _ => Err(Fault::new(FaultKind::Lost, "gone")),
        });
        assert_eq!(opened.unwrap(), "one");
    }

    #[test]
    fn a_pooler_that_is_refused_is_not_passed_over() {
        let hosts = Hosts::of("postgres://one,two/db");
        let (tried, opened) = asked(&hosts, "two", FaultKind::Senseless);
        assert_eq!((tried.len(), opened.unwrap_err().kind), (1, FaultKind::Senseless));
    }
}
