//! Changes: what people and programs may order, what it will do, and what became of it.

pub(crate) mod bulk;
pub(crate) mod button;
pub(crate) mod carried;
pub(crate) mod change;
pub(crate) mod confirm;
pub(crate) mod edit;
pub(crate) mod followed;
pub(crate) mod missed;
pub(crate) mod order;
