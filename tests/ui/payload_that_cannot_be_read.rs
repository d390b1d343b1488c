use firetime::{Builder, Job};

pub struct Order;

const SHIP: Job<Order> = Job::new("ship");

pub fn on_threads(node: Builder) -> Builder {
    node.handler(SHIP, |_, _order| Ok(()))
}

pub fn as_tasks(node: Builder) -> Builder {
    node.async_handler(SHIP, |_, _order| async { Ok(()) })
}
