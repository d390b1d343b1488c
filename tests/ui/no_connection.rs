use firetime::{Client, Job};

const GREET: Job<String> = Job::new("greet");

pub struct Pool;

pub fn greet(client: &Client, pool: &mut Pool) {
    let _ = client.enqueue(GREET, &"Ada".to_string()).run_in(pool);
}
