//! Headless Chromium, driven by its DevTools protocol over two pipes: messages in JSON, each with a zero byte at its end.
#![allow(clippy::disallowed_methods, reason = "a browser takes its own time")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The longest wait for an answer and for a condition: a machine under load starts the browser slowly.
const PATIENCE: Duration = Duration::from_secs(90);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    number: u64,
    /// Errors of scripts, and what the page's own policy refused.
    pub(crate) errors: Vec<String>,
    /// The addresses that the page asked for.
    pub(crate) requests: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser with an empty page.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let mut child = Command::new("sh")
            // The browser reads its pipe at descriptor 3 and writes at 4.
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", "chromium"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let input = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (tell, messages) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while output.read_until(0, &mut bytes).is_ok_and(|length| length > 0) {
                bytes.pop();
                let Ok(message) = serde_json::from_slice(&bytes) else { break };
                if tell.send(message).is_err() {
                    break;
                }
                bytes.clear();
            }
        });
        let (errors, requests) = (Vec::new(), Vec::new());
        let mut browser =
            Self { child, input, messages, session: None, number: 0, errors, requests, _profile: profile };
        let page = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method, and notes the events that come meanwhile.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("the browser reads");
        loop {
            let answer = self.messages.recv_timeout(PATIENCE);
            let mut answer = answer.unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == self.number {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let of = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(of["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if of["entry"]["level"] == "error" => {
                self.errors.push(of["entry"]["text"].to_string());
            }
            Some("Network.requestWillBeSent") => {
                let address = of["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(address.chars().take(80).collect());
            }
            _ => {}
        }
    }

    /// Opens a file, with a fragment.
    pub(crate) fn open(&mut self, file: &Path, fragment: &str) {
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.call("Page.navigate", json!({ "url": format!("file://{}{fragment}", file.display()) }));
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.call("Runtime.evaluate", parameters);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// The value of an expression as text.
    #[track_caller]
    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.value(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a condition holds in the page.
    #[track_caller]
    pub(crate) fn wait(&mut self, condition: &str) {
        let begin = Instant::now();
        while self.value(&format!("Boolean({condition})")) != json!(true) {
            assert!(begin.elapsed() < PATIENCE, "never: {condition}; {:?}", self.errors);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses and releases a key.
    pub(crate) fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key }));
        }
    }

    /// Moves the mouse from the middle of an element by a number of pixels, with the button pressed meanwhile.
    #[track_caller]
    pub(crate) fn drag(&mut self, selector: &str, by: f64) {
        let (x, y) = self.middle(selector);
        self.mouse("mouseMoved", x, y);
        self.mouse("mousePressed", x, y);
        for step in 1..=8 {
            self.mouse("mouseMoved", x + by * f64::from(step) / 8.0, y);
        }
        self.mouse("mouseReleased", x + by, y);
    }

    /// Clicks at the middle of an element.
    #[track_caller]
    pub(crate) fn click(&mut self, selector: &str) {
        let (x, y) = self.middle(selector);
        self.mouse("mousePressed", x, y);
        self.mouse("mouseReleased", x, y);
    }

    pub(crate) fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        let pressed = if kind == "mouseMoved" { 0 } else { 1 };
        let parameters = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": pressed });
        self.call("Input.dispatchMouseEvent", parameters);
    }

    /// The middle of an element, which is scrolled into view; the page has seen the scrolling.
    #[track_caller]
    pub(crate) fn middle(&mut self, selector: &str) -> (f64, f64) {
        let place = self.value(&format!(
            "(async () => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{ block: 'center' }}); \
             await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); \
             const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        ));
        (place[0].as_f64().expect("a place"), place[1].as_f64().expect("a place"))
    }

    /// Selects a text in an editor, as a user does before typing over it.
    #[track_caller]
    pub(crate) fn type_over(&mut self, editor: &str, old: &str, new: &str) {
        self.value(&format!(
            "(() => {{ const a = document.querySelector('#{editor} textarea'); a.focus(); const i = a.value.indexOf({old:?}); \
             if (i < 0) throw new Error('no such text'); a.setSelectionRange(i, i + {}); }})()",
            old.len()
        ));
        self.call("Input.insertText", json!({ "text": new }));
    }

    /// Writes a picture of the whole page to a file.
    pub(crate) fn picture(&mut self, file: &Path) {
        let shot =
            self.call("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": true }));
        std::fs::write(file, decoded(shot["data"].as_str().expect("a picture")))
            .expect("the file is written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends its other processes itself when it is asked to, and at the latest when its pipe closes.
        let close = json!({ "id": self.number + 1, "method": "Browser.close" }).to_string() + "\0";
        let asked = self.input.write_all(close.as_bytes()).is_ok();
        for _ in 0..500 {
            if !asked || self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes of a text in base64 (RFC 4648).
fn decoded(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for six in text.bytes().filter_map(value) {
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

#[test]
fn base64_is_decoded() {
    assert_eq!(decoded("d2VmdA=="), b"weft");
    assert_eq!(decoded("+/8="), [0xfb, 0xff]);
}
