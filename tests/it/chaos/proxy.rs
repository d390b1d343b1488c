//! A TCP proxy between one node and its database that can cut, delay, hold everything, or cut at a commit.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use super::wire::{Commit, Protocol, Sieve, Watch};

const LONG: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Each piece is late by this, in both directions.
    Delay(Duration),
    /// A black hole: nothing gets through and nobody is told. What was sent arrives once it ends.
    Hold,
    /// A black hole without an end: what these connections carry is lost, and they stay silent for ever.
    Swallow,
    /// Connections break, new ones too.
    Down,
}

/// What becomes of the next commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It never reaches the database.
    Before,
    /// The database has done it; its answer never reaches the client.
    After,
}

pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    upstream: SocketAddr,
    protocol: Protocol,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    mode: Mode,
    /// PostgreSQL's notifications are lost.
    is_deaf: bool,
    /// How the next commit is cut, and of what kind it must be.
    fuse: Option<(Cut, Option<Commit>)>,
    pairs: Vec<Arc<Pair>>,
    threads: Vec<JoinHandle<()>>,
    connections_cut: usize,
    commits_cut: usize,
    news_lost: usize,
    closed: bool,
}

/// A client's connection and the one to the database that goes with it.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    watch: Mutex<Watch>,
    cut: AtomicBool,
    /// Nothing it carries arrives any more.
    swallowed: AtomicBool,
    /// The server's next answer is the end.
    answer_is_cut: AtomicBool,
}

impl Pair {
    fn cut(&self) -> bool {
        let first = !self.cut.swap(true, Ordering::SeqCst);
        // Either side may have gone by itself.
        drop(self.client.shutdown(Shutdown::Both));
        drop(self.server.shutdown(Shutdown::Both));
        first
    }
}

impl Proxy {
    pub fn new(upstream: SocketAddr, protocol: Protocol) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = State {
            mode: Mode::Pass,
            is_deaf: false,
            fuse: None,
            pairs: Vec::new(),
            threads: Vec::new(),
            connections_cut: 0,
            commits_cut: 0,
            news_lost: 0,
            closed: false,
        };
        let shared =
            Arc::new(Shared { upstream, protocol, state: Mutex::new(state), changed: Condvar::new() });
        let same = Arc::clone(&shared);
        let acceptor = spawn(move || accept(&listener, &same));
        Self { address, shared, acceptor: Some(acceptor) }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn set(&self, mode: Mode) {
        let mut state = self.shared.state();
        state.mode = mode;
        if mode == Mode::Swallow {
            state.pairs.iter().for_each(|pair| pair.swallowed.store(true, Ordering::SeqCst));
        }
        drop(state);
        self.shared.changed.notify_all();
        if mode == Mode::Down {
            self.cut_all();
        }
    }

    /// From now on PostgreSQL's notifications are lost, or are so no more; everything else gets through.
    pub fn set_deaf(&self, is_deaf: bool) {
        self.shared.state().is_deaf = is_deaf;
    }

    /// How many were lost.
    pub fn news_lost(&self) -> usize {
        self.shared.state().news_lost
    }

    /// Breaks every connection there is.
    pub fn cut_all(&self) {
        let mut state = self.shared.state();
        let pairs = std::mem::take(&mut state.pairs);
        state.connections_cut += pairs.iter().filter(|pair| pair.cut()).count();
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until so many connections are open: the proxy may learn a moment later that a client has closed
    /// one.
    pub fn await_open(&self, count: usize) {
        let differs = |state: &mut State| {
            state.pairs.iter().filter(|pair| !pair.cut.load(Ordering::SeqCst)).count() != count
        };
        let (state, waited) =
            self.shared.changed.wait_timeout_while(self.shared.state(), LONG, differs).unwrap();
        drop(state);
        assert!(!waited.timed_out(), "there are not {count} open connections");
    }

    /// The next commit, of this kind if one is named, is cut.
    pub fn cut_commit(&self, how: Cut, kind: Option<Commit>) {
        self.shared.state().fuse = Some((how, kind));
    }

    /// Connections broken in all, and commits cut.
    pub fn counted(&self) -> (usize, usize) {
        let state = self.shared.state();
        (state.connections_cut, state.commits_cut)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.cut_all();
        // Wakes the acceptor.
        drop(TcpStream::connect(self.address));
        let acceptor = self.acceptor.take();
        acceptor.into_iter().for_each(|thread| drop(thread.join()));
        self.cut_all();
        let threads = std::mem::take(&mut self.shared.state().threads);
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Waits as the mode asks; false if the connection is over.
    fn passes(&self, is_cut: impl Fn() -> bool) -> bool {
        let came = Instant::now();
        let mut state = self.state();
        loop {
            if state.closed || is_cut() {
                return false;
            }
            let rest = match state.mode {
                Mode::Pass | Mode::Swallow => return true,
                Mode::Down => return false,
                Mode::Hold => Duration::from_secs(3_600),
                Mode::Delay(by) => by.saturating_sub(came.elapsed()),
            };
            if rest.is_zero() {
                return true;
            }
            state = self.changed.wait_timeout(state, rest).unwrap().0;
        }
    }

    /// How this commit is cut, if it is the one.
    fn burn(&self, commit: Commit) -> Option<Cut> {
        let fits = |fuse: &mut (Cut, Option<Commit>)| fuse.1.is_none_or(|kind| kind == commit);
        self.state().fuse.take_if(fits).map(|(how, _)| how)
    }

    fn cut(&self, pair: &Pair) {
        let mut state = self.state();
        state.connections_cut += usize::from(pair.cut());
        state.commits_cut += 1;
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((client, _)) = listener.accept() {
        if shared.state().closed {
            return;
        }
        // What is refused is dropped, and so closed.
        if shared.passes(|| false)
            && let Ok(server) = TcpStream::connect(shared.upstream)
        {
            connect(client, server, shared);
        }
    }
}

fn connect(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let pair = Arc::new(Pair {
        client,
        server,
        watch: Mutex::new(Watch::new(shared.protocol)),
        cut: AtomicBool::new(false),
        swallowed: AtomicBool::new(false),
        answer_is_cut: AtomicBool::new(false),
    });
    let mut state = shared.state();
    pair.swallowed.store(state.mode == Mode::Swallow, Ordering::SeqCst);
    state.pairs.retain(|pair| !pair.cut.load(Ordering::SeqCst));
    state.pairs.push(Arc::clone(&pair));
    for direction in [requests, answers] {
        let (pair, shared) = (Arc::clone(&pair), Arc::clone(shared));
        state.threads.push(spawn(move || {
            // An error is the connection's end, as is the end of the stream.
            drop(direction(&pair, &shared));
            if !pair.swallowed.load(Ordering::SeqCst) {
                pair.cut();
            }
            // Whoever has seen it open under the lock waits by now.
            drop(shared.state());
            shared.changed.notify_all();
        }));
    }
}

fn requests(pair: &Pair, shared: &Shared) -> std::io::Result<()> {
    let mut bytes = vec![0; 65_536];
    loop {
        let length = (&pair.client).read(&mut bytes)?;
        let commits = pair.watch.lock().unwrap().client(&bytes[..length]);
        if length == 0 || !shared.passes(|| pair.cut.load(Ordering::SeqCst)) {
            return Ok(());
        }
        match commits.and_then(|commit| shared.burn(commit)) {
            Some(Cut::Before) => {
                shared.cut(pair);
                return Ok(());
            }
            Some(Cut::After) => pair.answer_is_cut.store(true, Ordering::SeqCst),
            None => {}
        }
        if !pair.swallowed.load(Ordering::SeqCst) {
            (&pair.server).write_all(&bytes[..length])?;
        }
    }
}

fn answers(pair: &Pair, shared: &Shared) -> std::io::Result<()> {
    let (mut bytes, mut sieve) = (vec![0; 65_536], Sieve::default());
    loop {
        let length = (&pair.server).read(&mut bytes)?;
        if length > 0 && pair.answer_is_cut.load(Ordering::SeqCst) {
            shared.cut(pair);
            return Ok(());
        }
        pair.watch.lock().unwrap().server(&bytes[..length]);
        if length == 0 || !shared.passes(|| pair.cut.load(Ordering::SeqCst)) {
            return Ok(());
        }
        if pair.swallowed.load(Ordering::SeqCst) {
            continue;
        }
        match shared.protocol {
            Protocol::Postgres => {
                let is_deaf = shared.state().is_deaf;
                let passed = sieve.pass(&bytes[..length], is_deaf);
                shared.state().news_lost += std::mem::take(&mut sieve.taken);
                (&pair.client).write_all(&passed)?;
            }
            Protocol::Mariadb => (&pair.client).write_all(&bytes[..length])?,
        }
    }
}
