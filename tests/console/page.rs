//! A tab of the browser, as a person uses it: it is looked at, clicked and typed into.

use std::cell::RefCell;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use serde_json::{Value, json};

use crate::SOON;
use crate::browser::Wire;

/// Finds an element by a selector, or, of those with words after a bar, the first that is seen to say them.
const FIND: &str = "(wanted) => {
    const [selector, words] = wanted.split(' | ');
    const seen = (it) => it.getClientRects().length > 0;
    const says = (it) => words === undefined || it.textContent.replace(/\\s+/g, ' ').trim() === words;
    return [...document.querySelectorAll(selector)].find((it) => seen(it) && says(it));
}";

/// A tab.
pub struct Page {
    wire: Wire,
    session: String,
    messages: Receiver<Value>,
    /// What the browser has complained of since the last look.
    complaints: RefCell<Vec<String>>,
    /// How many pages have been loaded.
    loads: RefCell<usize>,
}

impl Page {
    pub fn new(wire: Wire, session: &str) -> Self {
        let messages = wire.listen(session);
        let session = session.to_owned();
        let page =
            Self { wire, session, messages, complaints: RefCell::default(), loads: RefCell::default() };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
        page.size(1280, 900);
        page
    }

    /// Calls the browser; events that come meanwhile are kept.
    pub fn call(&self, method: &str, parameters: Value) -> Value {
        let answer = self.try_call(method, parameters);
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&self, method: &str, parameters: Value) -> Result<Value, String> {
        let id = self.wire.send(&self.session, method, &parameters);
        loop {
            let message = self.next(method);
            if message["id"] == id {
                return match message["error"]["message"].as_str() {
                    Some(error) => Err(error.to_owned()),
                    None => Ok(message["result"].clone()),
                };
            }
        }
    }

    /// The next message; events are noted.
    fn next(&self, waiting_for: &str) -> Value {
        let message = self.messages.recv_timeout(SOON);
        let message = message.unwrap_or_else(|_| panic!("waiting for {waiting_for} at {}", self.session));
        let of = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => *self.loads.borrow_mut() += 1,
            "Log.entryAdded" => self.complain(&of["entry"]["level"], &of["entry"]),
            "Runtime.consoleAPICalled" => self.complain(&of["type"], &of["args"]),
            "Runtime.exceptionThrown" => self.complain(&json!("error"), &of["exceptionDetails"]),
            "Page.javascriptDialogOpening" => self.complain(&json!("error"), of),
            _ => {}
        }
        message
    }

    fn complain(&self, level: &Value, what: &Value) {
        if ["error", "warning", "assert"].iter().any(|it| level == it) {
            self.complaints.borrow_mut().push(what.to_string());
        }
    }

    /// Errors, warnings and violations of the policy since the last look.
    pub fn complaints(&self) -> Vec<String> {
        // What has been reported before this call's answer is among them.
        self.run("0");
        self.complaints.take()
    }

    /// The window's size.
    pub fn size(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    pub fn dark(&self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Opens an address, and waits until it is loaded.
    pub fn open(&self, url: &str) {
        let before = *self.loads.borrow();
        let answer = self.call("Page.navigate", json!({"url": url}));
        assert!(answer["errorText"].is_null(), "{url}: {answer}");
        // Another place on the same page is not loaded.
        if answer["loaderId"].is_string() {
            self.wait_for_load(before, url);
        }
    }

    /// A page that is live hears of something again and again, whether another is loaded or not.
    fn wait_for_load(&self, before: usize, what: &str) {
        let deadline = Instant::now() + SOON;
        while *self.loads.borrow() == before {
            assert!(Instant::now() < deadline, "{what} leads to no page");
            self.next(what);
        }
    }

    /// What a script answers.
    pub fn run(&self, script: &str) -> Value {
        self.try_run(script).unwrap_or_else(|error| panic!("{error}: {script}"))
    }

    pub fn try_run(&self, script: &str) -> Result<Value, String> {
        let asked = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let answer = self.try_call("Runtime.evaluate", asked)?;
        match answer["exceptionDetails"].is_null() {
            true => Ok(answer["result"]["value"].clone()),
            false => Err(answer["exceptionDetails"].to_string()),
        }
    }

    /// What a function of the element answers.
    pub fn of(&self, wanted: &str, function: &str) -> Value {
        self.run(&format!(
            "(() => {{ const it = ({FIND})({}); if (!it) throw Error('not there'); return ({function})(it); }})()",
            json!(wanted)
        ))
    }

    pub fn has(&self, wanted: &str) -> bool {
        self.run(&format!("!!({FIND})({})", json!(wanted))) == json!(true)
    }

    /// The page's text as it is seen.
    pub fn text(&self) -> String {
        self.run("document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    pub fn address(&self) -> String {
        self.run("location.pathname + location.search").as_str().unwrap().to_owned()
    }

    /// Presses the mouse on the middle of an element.
    pub fn click(&self, wanted: &str) {
        let place = self.of(
            wanted,
            "(it) => {
                it.scrollIntoView({block: 'center', inline: 'center'});
                const box = it.getClientRects()[0];
                const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
                const top = document.elementFromPoint(x, y);
                return [x, y, it === top || it.contains(top) || top.contains(it)];
            }",
        );
        assert_eq!(place[2], true, "{wanted} is covered by something else");
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Clicks on what leads to a page, and waits until that is loaded.
    pub fn follow(&self, wanted: &str) {
        let before = *self.loads.borrow();
        self.click(wanted);
        self.wait_for_load(before, wanted);
    }

    /// Presses a key that leads to a page, and waits until that is loaded.
    pub fn follow_key(&self, key: &str) {
        let before = *self.loads.borrow();
        self.key(key);
        self.wait_for_load(before, key);
    }

    /// Types into an element.
    pub fn fill(&self, wanted: &str, text: &str) {
        self.of(wanted, "(it) => { it.focus(); it.select?.(); }");
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses a key: Tab, Enter, Space, Escape or a letter.
    pub fn key(&self, key: &str) {
        let (name, code, number, text) = match key {
            "Tab" => ("Tab", "Tab", 9, ""),
            "Enter" => ("Enter", "Enter", 13, "\r"),
            "Space" => (" ", "Space", 32, " "),
            "Escape" => ("Escape", "Escape", 27, ""),
            letter => (letter, "", u32::from(letter.to_uppercase().as_bytes()[0]), letter),
        };
        let event = |kind: &str, text: &str| json!({"type": kind, "key": name, "code": code, "windowsVirtualKeyCode": number, "text": text});
        self.call(
            "Input.dispatchKeyEvent",
            event(if text.is_empty() { "rawKeyDown" } else { "keyDown" }, text),
        );
        self.call("Input.dispatchKeyEvent", event("keyUp", ""));
    }

    /// Asks for the page again and again until a script answers yes.
    pub fn reload_until(&self, what: &str, script: &str) {
        let deadline = Instant::now() + SOON;
        while self.run(script) != json!(true) {
            assert!(Instant::now() < deadline, "{what}: {}", self.text());
            let before = *self.loads.borrow();
            self.call("Page.reload", json!({}));
            self.wait_for_load(before, what);
        }
    }

    /// Looks again and again until a script answers yes.
    pub fn until(&self, what: &str, script: &str) {
        let deadline = Instant::now() + SOON;
        while self.try_run(script) != Ok(json!(true)) {
            assert!(Instant::now() < deadline, "{what}: {}", self.text());
        }
    }

    /// A PNG of the whole page, in base 64.
    pub fn picture(&self) -> String {
        let height = self.run("document.documentElement.scrollHeight").as_u64().unwrap();
        let width = self.run("innerWidth").as_u64().unwrap();
        self.size(u32::try_from(width).unwrap(), u32::try_from(height.max(700)).unwrap());
        self.call("Page.captureScreenshot", json!({"format": "png"}))["data"].as_str().unwrap().to_owned()
    }
}
