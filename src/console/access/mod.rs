//! Who asks, what they may do and see, and from where.

pub(crate) mod clock;
pub(crate) mod header;
pub(crate) mod hosts;
pub(crate) mod known;
mod limiter;
pub(crate) mod logins;
pub(crate) mod masks;
pub(crate) mod password;
pub(crate) mod peer;
pub(crate) mod role;
mod secret;
pub(crate) mod sessions;
pub(crate) mod token;
pub(crate) mod user;
pub(crate) mod users;
