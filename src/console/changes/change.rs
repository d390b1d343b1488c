//! A change that a form orders.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::carried::carry;
use super::order::Order;
use crate::Client;
use crate::console::asked::Asked;
use crate::console::state::Console;
use crate::console::web::query::{Query, is_page};
use crate::console::web::said::Said;
use crate::console::web::trouble::Trouble;
use crate::console::words::first_line;

/// Carries out what a form orders, if it repeats the token that the browser holds.
pub(crate) async fn change(
    State(console): State<Console>,
    asked: Asked,
    headers: HeaderMap,
    form: Bytes,
) -> Response {
    let permitted = || {
        let form = asked.form(&headers, &form)?;
        let order = Order::read(&form)?;
        let permit = asked.permit(order.role())?;
        Ok((form, order, permit))
    };
    let (form, order, permit) = match permitted() {
        Ok(permitted) => permitted,
        Err(trouble) => return console.refuse(&asked, trouble),
    };
    let tasks = console.tasks().clone();
    let change = move |client: &Client| {
        let reason = first_line(form.get("reason").unwrap_or_default());
        let also = form.get("also").is_some();
        let (said, to) = carry(client, &tasks, &order, (&reason, also)).or_else(refused)?;
        Ok((said, to.unwrap_or_else(|| back(&form, &order))))
    };
    console.change(asked, permit, change).await
}

/// What the client refuses is told on the page that the form was on; a database that is away has its own.
fn refused(trouble: Trouble) -> Result<(Said, Option<String>), Trouble> {
    match trouble.status.is_client_error() {
        true => Ok((Said::not_done(format!("Nothing was changed: {}", trouble.said)), None)),
        false => Err(trouble),
    }
}

/// The page that a change leads to: one of the console's own, or else that of what it changes.
pub(super) fn back(form: &Query, order: &Order) -> String {
    form.get("back").filter(|to| is_page(to)).map_or_else(|| order.page(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leads_to_a_page_of_the_console() {
        let order = Order::Run("a b".to_owned());
        let to = |to: &str| back(&Query::default().with("back", to), &order);
        assert_eq!(to("schedules?q=a+b&state=paused"), "schedules?q=a+b&state=paused");
        assert_eq!((to("now").as_str(), to("audit?verb=run").as_str()), ("now", "audit?verb=run"));
        for elsewhere in [
            "",
            "?a=b",
            "https://evil.example/",
            "//evil.example",
            "../admin",
            "javascript:x",
            "jobs\r\nx:y",
            "x?jobs",
        ] {
            assert_eq!(to(elsewhere), "schedule?name=a+b", "{elsewhere}");
        }
    }
}
