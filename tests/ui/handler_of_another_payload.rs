use firetime::{Builder, Context, HandlerError, Job};

const MAIL: Job<String> = Job::new("mail");

fn mail(_: &Context, _number: u64) -> Result<(), HandlerError> {
    Ok(())
}

pub fn by_function(node: Builder) -> Builder {
    node.handler(MAIL, mail)
}

pub fn by_closure(node: Builder) -> Builder {
    node.handler(MAIL, |_, _number: u64| Ok(()))
}
