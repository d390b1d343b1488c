use firetime::{Client, Error, Job, Schedule, Trigger};

pub struct Order;

const SHIP: Job<Order> = Job::new("ship");

pub fn enqueued(client: &Client) -> Result<(), Error> {
    client.enqueue(SHIP, &Order).run()?;
    Ok(())
}

pub fn scheduled(trigger: Trigger) -> Result<Schedule, Error> {
    Schedule::new("ship", SHIP, &Order, trigger)
}
