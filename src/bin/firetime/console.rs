//! `console`: serves the pages of the console, for applications that do not mount them.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use firetime::console::{Options, router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::failure::{Failure, Result};
use crate::inspect::connect;
use crate::target::Target;

/// So many connections may be open at once; further ones wait for one of these to end.
const MOST_CONNECTIONS: usize = 256;
/// Whoever takes longer to say what they want is hung up on.
const PATIENCE: Duration = Duration::from_secs(10);

/// How the console is served.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) listen: SocketAddr,
    /// Names under which it may be reached, besides this machine's own.
    pub(crate) hosts: Vec<String>,
    pub(crate) is_read_only: bool,
    /// Who changes something, for the audit.
    pub(crate) actor: Option<String>,
}

pub(crate) fn serve(target: &Target, serving: &Serving, out: &mut dyn Write) -> Result {
    let listen = serving.listen;
    if !listen.ip().is_loopback() {
        return Err(Failure::Usage(format!(
            "{listen} can be reached from other machines, and the console knows no login: whoever reaches it may \
             change everything. Listen on 127.0.0.1 or [::1], and let people in through a reverse proxy on this \
             machine that asks who they are (name it with --host), or through a tunnel: \
             `ssh -L 8088:127.0.0.1:{} THIS_MACHINE`",
            listen.port()
        )));
    }
    let client = serving.actor.iter().fold(connect(target)?, |client, actor| client.acting_as(actor));
    let options = Options::new().read_only(serving.is_read_only);
    let options = serving.hosts.iter().fold(options, |options, host| options.host(host));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            Failure::Failed(format!("listening on {listen}: {error}; name another address with --listen"))
        })?;
        writeln!(out, "the console is at http://{}/", listener.local_addr()?)?;
        out.flush()?;
        answer(&listener, TowerToHyperService::new(router(client, options))).await
    })
}

/// Answers whoever connects, until the program is ended.
async fn answer(listener: &TcpListener, pages: TowerToHyperService<axum::Router>) -> Result {
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return Ok(()) };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // It may be out of file descriptors: others hang up soon.
                log::warn!("accepting a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let pages = pages.clone();
        tokio::spawn(async move {
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            // Whoever asked may have gone.
            connection.serve_connection(TokioIo::new(stream), pages).await.ok();
            drop(permit);
        });
    }
}
