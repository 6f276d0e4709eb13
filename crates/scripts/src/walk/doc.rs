//! A script that is being followed.

use crate::shell::{self, ShellScript, SimpleCommand};
use crate::traced::{Quote, Span, Traced, Why};

/// A script or a string of commands that is being followed.
#[derive(Debug, Default)]
pub(crate) struct Doc {
    pub traced: Traced,
    pub text: String,
    pub script: ShellScript,
    /// The folder of the script's file.
    pub folder: String,
}

impl Doc {
    /// A part of the script as one of its own, in the same folder.
    pub(super) fn part(&self, traced: Traced) -> Self {
        let text = traced.text();
        Self {
            script: shell::read(&text),
            folder: self.folder.clone(),
            traced,
            text,
        }
    }

    /// Where bytes of the script stand, and in which quotes.
    pub(super) fn place(&self, start: usize, end: usize, quoted: bool) -> (Span, Quote) {
        let bytes = self.traced.slice(start, end).quoted(quotes(quoted));
        if let Some((span, quote, [])) = bytes.stretch() {
            return (span, quote);
        }
        let nowhere = Span::empty(0, 0);
        (bytes.place().unwrap_or(nowhere), Quote::Nested)
    }

    /// Where a command begins, for what is put before it; None where it stands in several places.
    pub(super) fn start_of(&self, command: &SimpleCommand) -> Option<Span> {
        let first = self.traced.slice(command.start, command.start + 1);
        let stretch = first.stretch();
        let stretch = stretch.filter(|(_, quote, via)| *quote == Quote::Raw && via.is_empty());
        stretch.map(|(span, ..)| span)
    }

    /// Bytes of the script as something that is not known.
    pub(super) fn code(&self, start: usize, end: usize, why: Why) -> Traced {
        let code = self.text.get(start..end).unwrap_or_default();
        Traced::computed(code, self.place(start, end, false).0, why)
    }

    pub(super) fn escape(&self, start: usize, end: usize, text: &str, inner: Quote) -> Traced {
        let (span, _) = self.place(start, end, false);
        let bytes = self.traced.slice(start, end).quoted(inner);
        let quote = bytes.stretch().map_or(Quote::Nested, |(_, quote, _)| quote);
        Traced::escape(span, text, quote)
    }
}

pub(super) fn quotes(quoted: bool) -> Quote {
    if quoted { Quote::Double } else { Quote::Bare }
}
