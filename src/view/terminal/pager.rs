//! Long texts: through the user's pager on a terminal, else to standard output as they are.

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGINT;

use super::{CommandFailure, print};

/// Where a long text goes.
pub struct Pager {
    child: Option<Child>,
}

impl Pager {
    /// `$PAGER`, else less, where standard output is a terminal. `LESS` is what git sets it to: end where the text fits the
    /// screen, pass colours, leave the screen as it is.
    pub fn open() -> Self {
        let wanted = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
        let words = shlex::split(&wanted).unwrap_or_default();
        let named = words.split_first().filter(|(program, _)| *program != "cat");
        let (program, arguments) = match named {
            Some((program, arguments)) if std::io::stdout().is_terminal() => (program, arguments),
            _ => return Self { child: None },
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", "FRX");
        }
        let child = command.spawn().ok();
        if child.is_some() {
            // Ctrl-C is the pager's, as it is under git: whoever dies of it leaves the pager alone on the terminal.
            let ignored = Arc::new(AtomicBool::new(false));
            drop(signal_hook::flag::register(SIGINT, ignored));
        }
        Self { child }
    }

    /// Hands on a piece of the text. The reader may go away before the end, which gives `false`.
    pub fn write(&mut self, text: &str) -> Result<bool, CommandFailure> {
        let Some(stdin) = self.child.as_mut().and_then(|child| child.stdin.as_mut()) else {
            return print::piece(text);
        };
        let text = print::terminal_safe(text);
        let text = match anstream::AutoStream::choice(&std::io::stdout()) {
            anstream::ColorChoice::Never => anstream::adapter::strip_str(&text).to_string(),
            _ => text,
        };
        match stdin.write_all(text.as_bytes()) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(e) => Err(CommandFailure::refused(format!(
                "cannot write to the pager: {e}"
            ))),
        }
    }

    /// Waits until the reader has read enough.
    pub fn close(self) {
        if let Some(mut child) = self.child {
            drop(child.stdin.take());
            drop(child.wait());
        }
    }
}
