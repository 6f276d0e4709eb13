//! Signals that detach, and a word to whoever sent one while this process cannot listen.

use std::time::Duration;
use std::{io, thread};

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
