//! Chromium without a window, and as much of its DevTools protocol as a look at a page needs.
//!
//! The protocol goes over two pipes (`--remote-debugging-pipe`), each message a JSON document that ends
//! with a zero byte: <https://chromedevtools.github.io/devtools-protocol/>.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::place::PATIENCE;
use oomctl_base::word_list;

/// What it is called, by distribution.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Nothing but the page: no network of its own, no first-run pages. Without the sandbox, for tests run as root.
const FLAGS: [&str; 10] = word_list(
    "--headless --remote-debugging-pipe --no-sandbox --disable-gpu --disable-quic --no-first-run
     --disable-background-networking --disable-component-update --disable-sync
     --disable-dev-shm-usage",
);
/// The shell makes descriptors 3 and 4, where Chromium looks for its pipes, of our two ends.
const START: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// Its profile, which nothing else uses.
    home: tempfile::TempDir,
    session: Value,
    calls: u64,
    /// Events, in the order in which they came.
    heard: Vec<Value>,
}

impl Browser {
    /// Starts it. `None`, and a word about it, where there is none and none is demanded.
    pub fn start() -> Option<Self> {
        let Some(program) = NAMES.into_iter().find(|name| is_installed(name)) else {
            let word = "no Chromium (Debian: apt-get install chromium)";
            assert!(std::env::var_os("CI").is_none(), "{word}");
            eprintln!("skipped, the report page was looked at by no browser: {word}");
            return None;
        };
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", START, "sh", program])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", home.path().display()))
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(home.path().join("said")).unwrap());
        let mut child = command.spawn().unwrap();
        let (sender, from) = channel();
        let answers = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            to: child.stdin.take().unwrap(),
            child,
            from,
            home,
            session: Value::Null,
            calls: 0,
            heard: Vec::new(),
        };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let id = json!({ "targetId": target["targetId"], "flatten": true });
        self.session = self.call("Target.attachToTarget", id)["sessionId"].take();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Calls a method and gives its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let sent = self.to.write_all(format!("{message}\0").as_bytes());
        sent.unwrap_or_else(|e| panic!("{method}: {e}\n{}", self.said()));
        loop {
            let mut message = self.message(method);
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.heard.push(message);
        }
    }

    #[track_caller]
    fn message(&self, what: &str) -> Value {
        let message = self.from.recv_timeout(PATIENCE);
        message.unwrap_or_else(|e| panic!("{what}: {e}\n{}", self.said()))
    }

    /// What the program printed.
    fn said(&self) -> String {
        std::fs::read_to_string(self.home.path().join("said")).unwrap_or_default()
    }

    /// Opens a file, and waits until it is there with all that belongs to it.
    #[track_caller]
    pub fn open(&mut self, page: &Path) {
        self.heard.clear();
        let url = format!("file://{}", page.display());
        let answer = self.call("Page.navigate", json!({ "url": url }));
        assert!(answer["errorText"].is_null(), "{answer}");
        while self.events("Page.loadEventFired").next().is_none() {
            let message = self.message("load");
            self.heard.push(message);
        }
    }

    /// The parameters of the events of a kind since the page was opened.
    pub fn events(&self, method: &str) -> impl Iterator<Item = &Value> {
        let those = self.heard.iter().filter(move |m| m["method"] == method);
        those.map(|m| &m["params"])
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", asked);
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        answer["result"]["value"].take()
    }

    /// The same, where it is a text.
    #[track_caller]
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.value(expression);
        value.as_str().unwrap_or_else(|| panic!("{value}")).into()
    }

    /// The same, where it is a list of texts.
    #[track_caller]
    pub fn texts(&mut self, expression: &str) -> Vec<String> {
        let value = self.value(expression);
        serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{e}: {value}"))
    }

    /// Presses a key that writes `text`, or nothing.
    pub fn press(&mut self, key: &str, code: u32, text: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// The width of the window, in pixels; a narrow one is that of a telephone.
    pub fn width(&mut self, pixels: u32) {
        let narrow = pixels < 600;
        let size =
            json!({ "width": pixels, "height": 800, "deviceScaleFactor": 1, "mobile": narrow });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// The medium, `screen` or `print`, and its scheme of colours.
    pub fn media(&mut self, medium: &str, scheme: &str) {
        let scheme = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let media = json!({ "media": medium, "features": scheme });
        self.call("Emulation.setEmulatedMedia", media);
    }
}

impl Drop for Browser {
    /// Its processes end when it has closed its pipe, and then nobody writes into the profile.
    fn drop(&mut self) {
        let close = json!({ "id": 0, "method": "Browser.close" });
        if self.to.write_all(format!("{close}\0").as_bytes()).is_ok() {
            while self.from.recv_timeout(PATIENCE).is_ok() {}
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn is_installed(program: &str) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", "command -v \"$1\" >/dev/null", "sh", program]);
    command.status().unwrap().success()
}
