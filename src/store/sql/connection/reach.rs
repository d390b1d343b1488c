//! Opening a connection to a server that may never answer.
//!
//! MariaDB's client gives diesel no limit to set, and PostgreSQL's limit ends with the login: on a network
//! that swallows what is sent a connect never returns, and soon every thread the pool has for connecting
//! waits in one. So it runs on a thread of its own and is left behind when it takes too long. While one to
//! MariaDB hangs, no other is begun before the server has spoken to a plain socket, so that an outage leaves
//! a few threads behind, not one every second.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam::channel::{RecvTimeoutError, bounded};

use crate::store::sql::session::fault::{Fault, FaultKind, Step};

/// Where connections of one pool lead to.
#[derive(Clone, Default)]
pub(crate) struct Reach {
    hanging: Arc<AtomicUsize>,
}

impl Reach {
    /// What `connect` gives, if it gives it within `wait`. `server` is asked first if others hang already.
    pub(crate) fn open<T: Send + 'static>(
        &self,
        server: Option<&str>,
        wait: Duration,
        connect: impl FnOnce() -> Step<T> + Send + 'static,
    ) -> Step<T> {
        let silent = || Fault::new(FaultKind::Lost, format!("the server does not answer within {wait:.1?}"));
        let in_doubt = self.hanging.load(Ordering::Relaxed) > 0;
        if in_doubt && server.is_some_and(|server| !speaks(server, wait)) {
            return Err(silent());
        }
        // A result that comes too late finds nobody: that is how its thread learns that it was given up.
        let (reply, answer) = bounded(0);
        let hanging = Arc::clone(&self.hanging);
        spawn("firetime-connect", move || {
            if reply.send(connect()).is_err() {
                hanging.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        match answer.recv_timeout(wait) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                self.hanging.fetch_add(1, Ordering::Relaxed);
                Err(silent())
            }
            Err(RecvTimeoutError::Disconnected) => Err(Fault::new(FaultKind::Lost, "connecting panicked")),
        }
    }
}

/// Whether anything comes from there, be it a refusal: MariaDB speaks first.
fn speaks(server: &str, wait: Duration) -> bool {
    let addresses = server.to_socket_addrs().into_iter().flatten();
    let hears = |address: SocketAddr| {
        let mut stream = TcpStream::connect_timeout(&address, wait)?;
        stream.set_read_timeout(Some(wait))?;
        stream.read(&mut [0])
    };
    let is_silence =
        |error: std::io::Error| matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
    addresses.into_iter().any(|address| !hears(address).is_err_and(is_silence))
}

/// A thread for what may hang in the driver's library.
#[expect(clippy::disallowed_methods, reason = "what hangs must not take its caller's thread with it")]
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Step<()> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    started
        .map(drop)
        .map_err(|error| Fault::new(FaultKind::Lost, format!("cannot start the thread {name}: {error}")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_connect_that_hangs_is_left_behind_and_the_next_waits_for_the_servers_word() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let reach = Reach::default();
        let (release, gate) = channel::<()>();
        let hangs = reach.open(Some(&server), SHORT, move || {
            gate.recv().ok();
            Ok(())
        });
        assert_eq!(hangs.unwrap_err().kind, FaultKind::Lost);
        let untried =
            reach.open(Some(&server), SHORT, || -> Step<()> { panic!("the server has said nothing") });
        assert!(untried.unwrap_err().message.contains("does not answer"));

        let speaking = std::thread::scope(|scope| {
            let asking = scope.spawn(|| reach.open(Some(&server), LONG, || Ok(7)));
            // The silent question of before is still in line.
            drop(listener.accept().unwrap());
            listener.accept().unwrap().0.write_all(b"5").unwrap();
            asking.join().unwrap()
        });
        assert_eq!(speaking.unwrap(), 7);
        release.send(()).unwrap();
        while reach.hanging.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_server_that_refuses_has_spoken() {
        let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().to_string();
        assert!(speaks(&closed, LONG));
    }
}
