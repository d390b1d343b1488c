//! A question that programs ask.

use serde_json::Value;

use crate::Client;
use crate::console::asked::Asked;
use crate::console::web::trouble::Trouble;

/// A question: where it is asked, by which parameters, and what answers it.
pub(super) struct Read {
    pub(super) path: &'static str,
    pub(super) parameters: &'static [&'static str],
    pub(super) make: fn(&Client, &Asked) -> Result<Value, Trouble>,
}
