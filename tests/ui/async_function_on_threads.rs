use firetime::{Builder, Context, HandlerError, Job};

const PING: Job<String> = Job::new("ping");

async fn ping(_: Context, _host: String) -> Result<(), HandlerError> {
    Ok(())
}

async fn ping_by_reference(_: &Context, _host: String) -> Result<(), HandlerError> {
    Ok(())
}

pub fn by_value(node: Builder) -> Builder {
    node.handler(PING, ping)
}

pub fn by_reference(node: Builder) -> Builder {
    node.handler(PING, ping_by_reference)
}

pub fn by_closure(node: Builder) -> Builder {
    node.handler(PING, |_, _host| async { Ok(()) })
}

pub fn as_the_compiler_proposes(node: Builder) -> Builder {
    node.handler(PING, |_, _host| Ok(async {}))
}
