//! What requests bring and answers carry: addresses, cookies, what went wrong, and the files of pages.

pub(crate) mod assets;
pub(crate) mod cookie;
pub(crate) mod query;
pub(crate) mod said;
pub(crate) mod trouble;
