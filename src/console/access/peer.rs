//! Who is at the other end of a request's connection: the browser, or a proxy that speaks for it.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::request::Parts;

use crate::console::options::Options;

/// The other end of a connection, as far as it is known.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Whether it is one of the proxies that may speak for others.
    pub(crate) is_proxy: bool,
    /// Where the request comes from, as the proxy says if it is one.
    pub(crate) from: Option<IpAddr>,
    /// Whether the browser asked by HTTPS, as the proxy says.
    pub(crate) is_https: bool,
}

impl Peer {
    pub(crate) fn of(parts: &Parts, options: &Options) -> Self {
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|it| it.0.ip().to_canonical());
        let is_proxy = address.is_some_and(|it| options.is_proxy(it));
        let said = |name: &str| {
            let lines = parts.headers.get_all(name).into_iter().next_back();
            lines.filter(|_| is_proxy).and_then(|line| line.to_str().ok())
        };
        // The proxy has added the last one: those before it are what the browser says.
        let last = said("x-forwarded-for").and_then(|list| list.rsplit(',').next()?.trim().parse().ok());
        let is_https = said("x-forwarded-proto").is_some_and(|it| it.trim().eq_ignore_ascii_case("https"));
        Self { is_proxy, from: last.or(address), is_https }
    }

    /// What logins and open pages are counted by: an address, of IPv6 the network that one customer gets.
    pub(crate) fn network(&self) -> Option<String> {
        Some(match self.from?.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn peer(address: &str, lines: &[(&str, &str)]) -> Peer {
        let address: SocketAddr = address.parse().unwrap();
        let request = Request::get("/").extension(ConnectInfo(address));
        let request = lines.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Peer::of(&request.body(()).unwrap().into_parts().0, &Options::new())
    }

    #[test]
    fn a_proxy_speaks_for_others_and_nobody_else_does() {
        let lines = [("x-forwarded-for", "1.1.1.1, 2.2.2.2"), ("x-forwarded-proto", "https")];
        for proxy in ["127.0.0.1:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            let proxy = peer(proxy, &lines);
            assert!(proxy.is_proxy && proxy.is_https, "{proxy:?}");
            assert_eq!(proxy.network().unwrap(), "2.2.2.2", "what the browser claims comes first");
        }
        let other = peer("10.0.0.1:9", &lines);
        assert!(!other.is_proxy && !other.is_https);
        assert_eq!(other.network().unwrap(), "10.0.0.1");
        assert_eq!(peer("[2001:db8:1:2:3::4]:9", &[]).network().unwrap(), "2001:db8:1:2::/64");
        assert!(!peer("127.0.0.1:9", &[]).is_https);
    }
}
