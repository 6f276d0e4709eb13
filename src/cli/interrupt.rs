//! Signals that detach, and a word to whoever sent one while this process cannot listen.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use signal_hook::consts::SIGINT;
use signal_hook::iterator::{Handle, Signals};

use crate::drive::WakeSources;
use crate::view::{CommandFailure, print};

/// A call to the scheduler can take most of a minute, and is not cut short; who has waited so long for an answer
/// to Ctrl-C wonders whether it was heard.
const WONDER: Duration = Duration::from_secs(1);

const WAITING: &str =
    "interrupted; waiting for the scheduler's answer. Ctrl-C again quits now and loses nothing";

/// The signals of this process, where nothing else is waited for that could take long.
pub fn listen_quietly() -> Result<WakeSources, CommandFailure> {
    WakeSources::signals().map_err(|e| cannot(&e))
}

/// The signals of this process.
pub fn listen() -> Result<WakeSources, CommandFailure> {
    listen_then(|| {})
}

/// The same, with something that is done at once when the first comes.
pub fn listen_then(act: impl FnOnce() + Send + 'static) -> Result<WakeSources, CommandFailure> {
    let signals = WakeSources::signals_then(move || {
        act();
        // Without a thread nothing is said, which is no reason not to go away.
        drop(thread::Builder::new().spawn(|| {
            thread::sleep(WONDER);
            print::talk(WAITING);
        }));
    });
    signals.map_err(|e| cannot(&e))
}

/// That no signals can be heard.
pub fn cannot(why: &io::Error) -> CommandFailure {
    CommandFailure::refused(format!("cannot listen for signals: {why}"))
}

/// A question at the terminal. Ctrl-C answers it with no, and says what did not happen.
pub struct OpenQuestion {
    not_done: &'static str,
    /// Without a thread or signals Ctrl-C ends the program without a word.
    listener: Option<(Handle, JoinHandle<()>)>,
}

impl OpenQuestion {
    /// Listens until it is dropped.
    pub fn ask(not_done: &'static str) -> Self {
        let listener = Signals::new([SIGINT]).ok().and_then(|mut signals| {
            let handle = signals.handle();
            let listen = move || {
                if let Some(signal) = signals.forever().next() {
                    print::talk(&format!("\n{not_done}"));
                    std::process::exit(128 + signal);
                }
            };
            let thread = thread::Builder::new().spawn(listen).ok()?;
            Some((handle, thread))
        });
        Self { not_done, listener }
    }

    /// Does something that has Ctrl-C for itself, such as a pager. Nobody listens meanwhile: a thread that hears of it too late
    /// would take it for an answer to the question.
    pub fn meanwhile<T>(&mut self, act: impl FnOnce() -> T) -> T {
        self.close();
        let done = act();
        *self = Self::ask(self.not_done);
        done
    }

    fn close(&mut self) {
        if let Some((signals, thread)) = self.listener.take() {
            signals.close();
            drop(thread.join());
        }
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.close();
    }
}
