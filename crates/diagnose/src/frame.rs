//! One frame of a traceback, in the shapes in which Python's world prints it.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ascii::compiled;
use oomctl_base::word_list;

/// A place in the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// File, as printed.
    pub file: String,
    /// Line in it, where one is printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Function; empty where none is printed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// The source line, where it is printed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
}

/// Who prints frames like this: it decides which of the next lines are source code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FrameShape {
    /// `File "f.py", line 3, in g`, one source line below.
    Plain,
    /// IPython: `File f.py:3, in g(…)` or `f.py in g(…)`, numbered lines below, an arrow at the one.
    Notebook,
    /// rich and pytest: an arrow at the line, in a box or not.
    Boxed,
}

const SHAPES: [(&str, FrameShape); 6] = [
    (
        r#"File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,? in (?P<function>[\w.<>[:^ascii:]]+))?"#,
        FrameShape::Plain,
    ),
    (
        r"^\s*File (?P<file>\S+?):(?P<line>\d+), in (?P<function>[\w.<>[:^ascii:]]+)",
        FrameShape::Notebook,
    ),
    (
        r"^\s*(?P<file>Cell In ?\[\d+\]), line (?P<line>\d+)",
        FrameShape::Notebook,
    ),
    (
        r"^\s*(?P<file>(?:[A-Za-z]:\\[^:]+?|[^\s:]+)\.py|<[\w-]+>) in (?P<function>[\w.<>[:^ascii:]]+)\(",
        FrameShape::Notebook,
    ),
    (
        r"^\s*[│|]\s*(?P<file>[^│]*?\.py):(?P<line>\d+)\s+in\s+(?P<function>[\w.<>[:^ascii:]]+)",
        FrameShape::Boxed,
    ),
    (
        r"^\s*(?P<file>[^\s:]+\.py):(?P<line>\d+): in (?P<function>[\w.<>[:^ascii:]]+)",
        FrameShape::Boxed,
    ),
];

static COMPILED: LazyLock<[(Regex, FrameShape); 6]> =
    LazyLock::new(|| SHAPES.map(|(pattern, shape)| (compiled(pattern), shape)));

/// Has the line what every one of the shapes needs? Sentences say `in` as well.
fn may_be_frame(body: &str) -> bool {
    let start = body.trim_start();
    let named = |at: usize| body[..at].ends_with([':', '>']) || body[..at].ends_with(".py");
    static IN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(" in "));
    static FILE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("File \""));
    let mut places = IN.find_iter(body.as_bytes());
    start.starts_with("File ")
        || start.starts_with("Cell In")
        || places.any(|at| start.starts_with(['│', '|']) || named(at))
        || FILE.find(body.as_bytes()).is_some()
}

/// The edge of a box.
const EDGE: &str = "│";

/// Longest text that is looked at for a frame, in bytes.
const LONGEST: usize = 1_000;

impl Frame {
    /// Reads a line without its prefix.
    pub(crate) fn read(body: &str) -> Option<(Self, FrameShape)> {
        if body.len() > LONGEST || !may_be_frame(body) {
            return None;
        }
        COMPILED.iter().find_map(|(regex, shape)| {
            // Asking for groups takes memory, also where nothing matches.
            let found = regex.is_match(body).then(|| regex.captures(body))??;
            let part = |name| found.name(name).map_or("", |m| m.as_str());
            let function = part("function");
            if function == EDGE {
                return None;
            }
            let frame = Self {
                file: part("file").trim().to_owned(),
                line: part("line").parse().ok(),
                function: function.rsplit('.').next().unwrap_or(function).to_owned(),
                code: String::new(),
            };
            Some((frame, *shape))
        })
    }

    /// The first part of a frame that a box breaks: its path does not end, or only its function is missing.
    pub(crate) fn broken(body: &str) -> Option<&str> {
        let inside = body.trim_start().strip_prefix(EDGE)?;
        let inside = inside.trim_matches([' ', '│']);
        let path = inside.strip_suffix(" in").unwrap_or(inside);
        let is_path = path.starts_with(['/', '~']) && !path.contains(' ');
        (is_path && inside.len() <= LONGEST).then_some(inside)
    }

    /// The frame as CPython would print it.
    pub(crate) fn canonical(&self) -> String {
        let line = self.line.unwrap_or(0);
        format!("File \"{}\", line {line}, in {}", self.file, self.function)
    }

    /// Is it code that a user may change: no installed package nor its command, no part of the interpreter?
    pub fn is_users(&self) -> bool {
        const OTHERS: [&str; 12] = word_list(
            "site-packages dist-packages /lib/python3 /Lib/ <frozen <string> <__array_function__
             /runpy.py /torch/ /transformers/ /ray/ /vllm/",
        );
        let file = self.file.replace('\\', "/");
        // What starts a package: `.venv/bin/tune`.
        let command = file
            .rsplit_once("/bin/")
            .is_some_and(|(_, name)| !name.contains(['/', '.']));
        !command && !OTHERS.iter().any(|part| file.contains(part))
    }
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.function.is_empty() {
            write!(f, " in {}", self.function)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printer_of_frames_is_read() {
        // CPython; IPython 8 and 7; a notebook's cell; rich; pytest.
        for (line, shown) in [
            (
                r#"  File "/w/train.py", line 12, in main"#,
                "/w/train.py:12 in main",
            ),
            (
                "File ~/env/trainer.py:2245, in Trainer.train(self, x)",
                "~/env/trainer.py:2245 in train",
            ),
            (
                "/env/trainer.py in training_step(self, model)",
                "/env/trainer.py in training_step",
            ),
            (
                r"D:\Program Files\env\session.py in run(self, fetches)",
                r"D:\Program Files\env\session.py in run",
            ),
            ("Cell In[8], line 14", "Cell In[8]:14"),
            (
                "│ /w/model.py:105 in to_device                     │",
                "/w/model.py:105 in to_device",
            ),
            ("src/x.py:288: in pipeline", "src/x.py:288 in pipeline"),
            // faulthandler has no comma.
            (
                r#"  File "/w/s.py", line 1419 in watch"#,
                "/w/s.py:1419 in watch",
            ),
        ] {
            let found = Frame::read(line).map(|(frame, _)| frame.to_string());
            assert_eq!(found.as_deref(), Some(shown), "{line}");
        }
        for line in [
            "there are files in here",
            "step 3 in epoch 4",
            "loss.py: in doubt",
        ] {
            assert!(Frame::read(line).is_none(), "{line}");
        }
    }

    #[test]
    fn installed_packages_are_nobodys_code() {
        let frame = |file: &str| Frame {
            file: file.to_owned(),
            line: None,
            function: String::new(),
            code: String::new(),
        };
        assert!(frame("/home/me/project/train.py").is_users());
        assert!(frame("Cell In[8]").is_users());
        assert!(!frame("/env/lib/python3.11/site-packages/x.py").is_users());
        assert!(!frame("<frozen runpy>").is_users());
        assert!(!frame("/home/me/.venv/bin/tune").is_users());
        assert!(frame("/home/me/project/bin/train.py").is_users());
    }
}
