//! This process and its host as people know them.

/// This process for people: `host/process id`.
pub(crate) fn this_process() -> String {
    format!("{}/{}", host_name(), std::process::id())
}

pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A label for people: the address the host's own name resolves to, or nothing.
pub(super) fn host_ip() -> String {
    use std::net::ToSocketAddrs;
    (host_name().as_str(), 0)
        .to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.next())
        .map_or_else(String::new, |address| address.ip().to_string())
}
