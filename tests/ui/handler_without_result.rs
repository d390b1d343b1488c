use firetime::{Builder, Context, Job};

const COUNT: Job<()> = Job::new("count");

fn count(_: &Context, (): ()) {}

fn read(_: &Context, (): ()) -> Result<(), std::io::Error> {
    Ok(())
}

pub fn of_nothing(node: Builder) -> Builder {
    node.handler(COUNT, count)
}

pub fn of_another_error(node: Builder) -> Builder {
    node.handler(COUNT, read)
}
