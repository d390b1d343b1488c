//! `console`: serves the pages of the console, for applications that do not mount them, and makes the secrets
//! of its users file.

use std::io::{self, BufRead, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use firetime::Client;
use firetime::console::{NewToken, Options, Role, Users, hash_password, router};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
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
    /// The file of those who may log in.
    pub(crate) users: Option<PathBuf>,
    pub(crate) options: Options,
    /// Whether people log in, here or at a proxy.
    pub(crate) has_login: bool,
    /// Who changes something, for the audit, where no login knows.
    pub(crate) actor: Option<String>,
}

pub(crate) fn serve(target: &Target, serving: Serving, out: &mut dyn Write) -> Result {
    let Serving { listen, users, options, has_login, actor } = serving;
    if !has_login && !listen.ip().is_loopback() {
        return Err(Failure::Usage(format!(
            "{listen} can be reached from other machines, and whoever reaches the console may change everything. \
             Have people log in (--users FILE, or --trust-header NAME behind a proxy that asks who they are), or \
             listen on 127.0.0.1 or [::1] and let them in through a tunnel: `ssh -L 8088:127.0.0.1:{} THIS_MACHINE`",
            listen.port()
        )));
    }
    let users = users.map(Users::open).transpose().map_err(|error| Failure::Usage(error.to_string()))?;
    let options = users.into_iter().fold(options, Options::users);
    let client = actor.iter().fold(connect(target)?, |client, actor| client.acting_as(actor));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = bound(listen).await?;
        writeln!(out, "the console is at http://{}/", listener.local_addr()?)?;
        out.flush()?;
        answer(&listener, TowerToHyperService::new(router(client, options))).await
    })
}

/// `console hash-password`: the hash of a password, which is no argument, as others could see it there.
pub(crate) fn hash(out: &mut dyn Write) -> Result {
    let password = if io::stdin().is_terminal() {
        let password = rpassword::prompt_password("Password: ")?;
        if rpassword::prompt_password("Once more: ")? != password {
            return Err(Failure::Usage("the two passwords differ; nothing was made".to_owned()));
        }
        password
    } else {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        line.trim_end_matches(['\r', '\n']).to_owned()
    };
    writeln!(out, "{}", hash_password(&password)?)?;
    Ok(())
}

/// `console new-token`: a token, and its line for the users file.
pub(crate) fn new_token(name: &str, role: Role, out: &mut dyn Write) -> Result {
    if name.is_empty() || name.chars().any(char::is_whitespace) {
        return Err(Failure::Usage(format!("{name:?}: a program's name in the users file is one word")));
    }
    let NewToken { token, hash, .. } = NewToken::generate()?;
    writeln!(out, "{token}\ntoken {name} {role} {hash}")?;
    Ok(())
}

/// Serves a console that only shows, beside whatever else the program does, and answers where.
pub(crate) fn beside(client: Client, listen: SocketAddr) -> Result<SocketAddr> {
    if !listen.ip().is_loopback() {
        let said =
            format!("{listen} can be reached from other machines: the demo is shown on this one alone");
        return Err(Failure::Usage(said));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(bound(listen))?;
    let address = listener.local_addr()?;
    let pages = TowerToHyperService::new(router(client, Options::new().read_only(true)));
    let thread = std::thread::Builder::new().name("firetime-console".to_owned());
    #[expect(clippy::disallowed_methods, reason = "it answers whoever asks, and ends with the program")]
    thread.spawn(move || runtime.block_on(answer(&listener, pages)))?;
    Ok(address)
}

async fn bound(listen: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(listen).await.map_err(|error| {
        Failure::Failed(format!("listening on {listen}: {error}; name another address with --listen"))
    })
}

/// Answers whoever connects, until the program is ended.
async fn answer(listener: &TcpListener, pages: TowerToHyperService<axum::Router>) -> Result {
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return Ok(()) };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // It may be out of file descriptors: others hang up soon.
                log::warn!("accepting a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let pages = pages.clone();
        let pages = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(address));
            pages.call(request)
        });
        tokio::spawn(async move {
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            // Whoever asked may have gone.
            connection.serve_connection(TokioIo::new(stream), pages).await.ok();
            drop(permit);
        });
    }
}
