#![deny(unused_must_use)]

use firetime::{Client, Job, Schedule};

const GREET: Job<String> = Job::new("greet");

pub fn greet(client: &Client, nightly: &Schedule) {
    client.enqueue(GREET, &"Ada".to_string());
    client.ensure(nightly);
    client.pause("nightly").reason("stock-taking");
    client.verify(..);
}
