//! The messages that docs/troubleshooting.md has headings for.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::fs;
use std::path::Path;

/// A heading of the page, and what stands below it.
pub struct Section {
    /// The messages in the heading; `…` stands for what differs each time.
    pub quoted: Vec<String>,
    /// Everything down to the next heading.
    pub text: String,
}

impl Section {
    /// The lines of a log that it shows.
    pub fn lines(&self) -> Vec<&str> {
        let inside = self.text.split("```").nth(1).unwrap_or_default();
        inside.lines().skip(1).collect()
    }
}

/// The sections of the page, in its order.
pub fn sections() -> Vec<Section> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/troubleshooting.md");
    let page = fs::read_to_string(page).unwrap();
    let sections = page.split("\n### ").skip(1);
    sections
        .map(|section| {
            let (heading, text) = section.split_once('\n').unwrap();
            let text = text.split("\n## ").next().unwrap_or(text);
            Section {
                quoted: heading
                    .split('`')
                    .skip(1)
                    .step_by(2)
                    .map(str::to_owned)
                    .collect(),
                text: text.to_owned(),
            }
        })
        .collect()
}

/// Does `text` hold the parts of a quoted message, in their order?
pub fn is_said(quoted: &str, text: &str) -> bool {
    let mut rest = Some(text);
    for part in quoted.split('…').map(str::trim) {
        rest = rest
            .and_then(|r| r.split_once(part))
            .map(|(_, after)| after);
    }
    rest.is_some()
}
