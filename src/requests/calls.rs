//! The store calls of the requests' machine.

use std::sync::Arc;

use crate::machine::calls::calls;
use crate::store::Carrier;
use crate::store::request::{CarriedOut, Request, RequestQuery};

calls! { []
    /// Reads a page of the requests that wait.
    page = Page { "looking for requests", asks (query: RequestQuery), keeps (), brings Vec<Request> }
        |store| store.requests(&query);
    /// Carries one of them out.
    carry_out = CarryOut {
        "carrying out a request",
        asks (request: Request, carrier: Arc<dyn Carrier>), keeps Request, brings CarriedOut
    } |store| store.carry_out(&request, &*carrier);
}
