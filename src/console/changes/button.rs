//! Buttons that give orders.

use askama::Template;
use askama::filters::HtmlSafe;

use super::order::Order;
use crate::console::frame::Frame;
use crate::console::web::query::{self, Query};

/// A button that gives an order, or leads to the page where it is confirmed.
#[derive(Clone, Debug, Template)]
#[template(path = "console/button.html")]
pub(crate) struct Button {
    label: String,
    /// Which of the buttons it is: `primary`, `danger`, or one of many.
    kind: &'static str,
    fields: Vec<(&'static str, String)>,
    /// The address of the page that confirms it.
    confirms: Option<String>,
    token: String,
    back: String,
}

impl HtmlSafe for Button {}

impl Button {
    /// None on pages of those who may not give the order.
    pub(crate) fn new(frame: &Frame, label: impl Into<String>, order: &Order) -> Option<Self> {
        let fields = order.fields();
        let confirms = order.is_confirmed().then(|| match order {
            Order::Edit(order) => query::address("edit", "name", &order.name),
            Order::Bulk(order) => order.address(&frame.back),
            Order::Missed(order) => order.address(),
            _ => {
                let query = Query::default().with("back", &frame.back);
                fields.iter().fold(query, |query, (name, value)| query.with(name, value)).of("confirm")
            }
        });
        let (token, back) = (frame.token.clone(), frame.back.clone());
        (frame.role >= order.role()).then(|| Self {
            label: label.into(),
            kind: "",
            fields,
            confirms,
            token,
            back,
        })
    }

    /// The same, as the one to press first.
    pub(crate) fn primary(self) -> Self {
        Self { kind: "primary", ..self }
    }

    /// The same, as one to be careful with.
    pub(crate) fn danger(self) -> Self {
        Self { kind: "danger", ..self }
    }

    /// The same in the page that confirms it.
    pub(super) fn confirmed(self, back: String) -> Self {
        Self { confirms: None, back, ..self }
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn back(&self) -> &str {
        &self.back
    }

    pub(crate) fn fields(&self) -> &[(&'static str, String)] {
        &self.fields
    }
}
