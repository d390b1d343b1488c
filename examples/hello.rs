//! The README's program, with an orderly end: press Enter to stop. Start it twice, in two terminals: one node
//! says hello, and when you stop it the other goes on. `cargo run --example hello`.

use std::time::Duration;

use firetime::{Job, Schedule, Scheduler, Trigger};

const GREET: Job<String> = Job::new("greet");

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let every_two_seconds = Trigger::cron("0/2 * * * * ?", "Europe/Berlin")?;
    let hello = Schedule::new("hello", GREET, &"Ada".to_string(), every_two_seconds)?;
    let scheduler = Scheduler::builder("hello", "sqlite:hello.db")
        .handler(GREET, |context, name| {
            println!("hello {name}, planned for {}, fence {}", context.fire_time(), context.fence());
            Ok(())
        })
        .on_event(|event| println!("-- {event}"))
        .start()?;
    println!("ensured: {:?}; press Enter to stop", scheduler.client().ensure(&hello).run()?);
    std::io::stdin().read_line(&mut String::new())?;
    let stopped = scheduler.shutdown(Duration::from_secs(10));
    println!("stopped {}", if stopped.is_clean() { "cleanly" } else { "with work left to others" });
    Ok(())
}
