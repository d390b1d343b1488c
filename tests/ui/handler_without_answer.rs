use firetime::{Builder, Context, HandlerError, Job};

const COUNT: Job<()> = Job::new("count");

async fn count(_: Context, (): ()) -> Result<u32, HandlerError> {
    Ok(17)
}

pub fn on_threads(node: Builder) -> Builder {
    node.handler(COUNT, |_, ()| Ok(17))
}

pub fn as_tasks(node: Builder) -> Builder {
    node.async_handler(COUNT, count)
}
