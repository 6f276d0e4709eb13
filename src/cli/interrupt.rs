//! Signals that detach, and a word to whoever sent one while this process cannot listen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

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

fn cannot(why: &io::Error) -> CommandFailure {
    CommandFailure::refused(format!("cannot listen for signals: {why}"))
}

/// A question at the terminal. Ctrl-C answers it with no, and says what did not happen.
pub struct OpenQuestion {
    signals: Option<Handle>,
    away: Arc<AtomicBool>,
}

impl OpenQuestion {
    /// Listens until it is dropped. Without a thread or signals Ctrl-C ends the program without a word.
    pub fn ask(not_done: &'static str) -> Self {
        let away = Arc::new(AtomicBool::new(false));
        let elsewhere = Arc::clone(&away);
        let signals = Signals::new([SIGINT]).ok().and_then(|mut signals| {
            let handle = signals.handle();
            let listen = move || {
                for signal in signals.forever() {
                    if !elsewhere.load(Ordering::Relaxed) {
                        print::talk(&format!("\n{not_done}"));
                        std::process::exit(128 + signal);
                    }
                }
            };
            thread::Builder::new().spawn(listen).ok().map(|_| handle)
        });
        Self { signals, away }
    }

    /// Does something that has Ctrl-C for itself, such as a pager.
    pub fn meanwhile<T>(&self, act: impl FnOnce() -> T) -> T {
        self.away.store(true, Ordering::Relaxed);
        let done = act();
        self.away.store(false, Ordering::Relaxed);
        done
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if let Some(signals) = &self.signals {
            signals.close();
        }
    }
}
