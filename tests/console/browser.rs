//! A headless Chromium, steered over its debugging protocol by two pipes: no port is opened for it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::page::Page;

/// Names under which Chromium is installed.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// Hands the pipes to Chromium as its third and fourth file; standard error goes to a file.
const WITH_PIPES: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>\"$CHROMIUM_LOG\"";

/// What comes for a session; the browser's own has no name.
type Sessions = Arc<Mutex<HashMap<String, Sender<Value>>>>;

/// A browser; dropping it ends its processes and removes its files.
pub struct Browser {
    child: Child,
    wire: Wire,
    own: Mutex<Receiver<Value>>,
    _folder: TempDir,
}

/// The way to the browser.
#[derive(Clone)]
pub struct Wire {
    stdin: Arc<Mutex<ChildStdin>>,
    sessions: Sessions,
    next: Arc<AtomicU64>,
}

impl Browser {
    pub fn start() -> Self {
        let program = program();
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command
            .args(["-c", WITH_PIPES, &program, "--headless=new", "--remote-debugging-pipe"])
            // Containers have neither a user for the sandbox nor a large /dev/shm; pages are our own.
            .args(["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-extensions", "--disable-default-apps", "--hide-scrollbars"])
            // Nothing but this machine is reached, whatever a page or the browser itself asks for.
            .args(["--proxy-server=127.0.0.1:9", "--proxy-bypass-list=127.0.0.1"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .env("CHROMIUM_LOG", &log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("starting sh");
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let wire =
            Wire { stdin: Arc::new(Mutex::new(stdin)), sessions: Sessions::default(), next: Arc::default() };
        let own = wire.listen("");
        let sessions = Arc::clone(&wire.sessions);
        std::thread::spawn(move || hand_out(stdout, &sessions));
        let browser = Self { child, wire, own: Mutex::new(own), _folder: folder };
        let version = browser.call("Browser.getVersion", json!({}));
        assert!(
            version["product"].is_string(),
            "{program} does not answer: {}",
            std::fs::read_to_string(log).unwrap()
        );
        browser
    }

    /// A new tab with cookies of its own.
    pub fn page(&self) -> Page {
        let context = self.call("Target.createBrowserContext", json!({}))["browserContextId"].clone();
        let blank = json!({"url": "about:blank", "browserContextId": context});
        let target = self.call("Target.createTarget", blank)["targetId"].clone();
        let session = self.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        Page::new(self.wire.clone(), session["sessionId"].as_str().expect("a session"))
    }

    fn call(&self, method: &str, parameters: Value) -> Value {
        let own = self.own.lock().unwrap();
        let id = self.wire.send("", method, &parameters);
        loop {
            let message = own.recv_timeout(crate::SOON).unwrap_or_else(|_| panic!("{method}: no answer"));
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.wire.send("", "Browser.close", &json!({}));
        self.child.wait().ok();
    }
}

impl Wire {
    /// What comes for a session from now on.
    pub fn listen(&self, session: &str) -> Receiver<Value> {
        let (tell, told) = channel();
        self.sessions.lock().unwrap().insert(session.to_owned(), tell);
        told
    }

    /// Sends a call, and answers the number that its answer will have.
    pub fn send(&self, session: &str, method: &str, parameters: &Value) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !session.is_empty() {
            message["sessionId"] = json!(session);
        }
        let mut stdin = self.stdin.lock().unwrap();
        // Whoever waits for the answer of a browser that has gone says so.
        stdin.write_all(format!("{message}\0").as_bytes()).and_then(|()| stdin.flush()).ok();
        id
    }
}

/// Gives each message to its session, until the browser has ended.
fn hand_out(stdout: ChildStdout, sessions: &Sessions) {
    for message in BufReader::new(stdout).split(0).map_while(Result::ok) {
        let Ok(message) = serde_json::from_slice::<Value>(&message) else { continue };
        let session = message["sessionId"].as_str().unwrap_or_default();
        if let Some(tell) = sessions.lock().unwrap().get(session) {
            // A test that has ended hears no more.
            tell.send(message.clone()).ok();
        }
    }
    sessions.lock().unwrap().clear();
}

/// The browser's program: the one that FIRETIME_CHROMIUM names, else the first that is installed.
fn program() -> String {
    let named = std::env::var("FIRETIME_CHROMIUM").ok();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| std::env::split_paths(&paths).any(|folder| folder.join(name).is_file());
    named.or_else(|| NAMES.iter().find(|name| is_there(name)).map(|name| (*name).to_owned())).unwrap_or_else(|| {
        panic!(
            "no Chromium: install Debian's package `chromium` (scripts/install.sh does), or name the program with \
             FIRETIME_CHROMIUM"
        )
    })
}
