//! What wakes the loop besides time: signals, and logs that may have grown, fed into one channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::steer::SteerRequest;
use oomctl_follow::Waiter;

/// Signals that mean: go away, the run goes on without you.
const DETACH: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// After a word that logs grew, others are gathered for so long: a thousand lines a second are thirty
/// wake-ups, not a thousand.
const GATHER: Duration = Duration::from_millis(30);

/// How often the thread that waits for logs looks whether anybody still listens.
const LISTENER_LOOK: Duration = Duration::from_secs(1);

/// What woke the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// A signal, by its number.
    Signal(i32),
    /// Logs may have grown; the followers know which.
    Logs,
    /// A job has ended, or a place may have come free: the scheduler has news.
    Jobs,
    /// Somebody who looks on wants something.
    Asked(SteerRequest),
}

/// Where somebody who looks on asks for something.
#[derive(Debug, Clone)]
pub struct Asker(Sender<Wake>);

impl Asker {
    /// Asks. What comes of it is told to the observer; nothing is promised before the ledger has it.
    pub fn ask(&self, what: SteerRequest) {
        drop(self.0.send(Wake::Asked(what)));
    }
}

/// Where the loop waits.
pub struct WakeSources {
    sender: Sender<Wake>,
    wakes: Receiver<Wake>,
    /// A word that logs grew is in the channel: one is enough.
    told: Arc<AtomicBool>,
    handle: Option<Handle>,
}

/// While this lives, growing logs wake the loop.
pub struct LogWakes {
    stop: Arc<AtomicBool>,
}

impl Drop for LogWakes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl WakeSources {
    /// Signals of this process. The first one detaches; while the program is inside a call to the
    /// scheduler a second one ends it at once, which loses nothing either.
    ///
    /// # Errors
    /// When the signals cannot be caught.
    pub fn signals() -> std::io::Result<Self> {
        Self::signals_then(|| {})
    }

    /// The same, with something that is done at once when the first comes, whatever this process is at: it may be
    /// inside a call to the scheduler, and have seconds to live.
    ///
    /// # Errors
    /// When the signals cannot be caught.
    pub fn signals_then(act: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let seen = Arc::new(AtomicBool::new(false));
        for signal in DETACH {
            let code = 128 + signal;
            signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&seen))?;
            signal_hook::flag::register(signal, Arc::clone(&seen))?;
        }
        let mut signals = Signals::new(DETACH)?;
        let (tell, mut sources) = Self::channel();
        sources.handle = Some(signals.handle());
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut act = Some(act);
                for signal in signals.forever() {
                    if let Some(act) = act.take() {
                        act();
                    }
                    if tell.send(Wake::Signal(signal)).is_err() {
                        return;
                    }
                }
            })?;
        Ok(sources)
    }

    /// A channel instead of signals.
    pub fn channel() -> (Sender<Wake>, Self) {
        let (sender, wakes) = channel();
        let sources = Self {
            sender: sender.clone(),
            wakes,
            told: Arc::default(),
            handle: None,
        };
        (sender, sources)
    }

    /// Lets somebody who looks on ask for something.
    pub fn asker(&self) -> Asker {
        Asker(self.sender.clone())
    }

    /// Lets growing logs wake the loop. Where no thread can be had they are polled, as ever.
    pub fn logs(&self, waiter: Waiter) -> LogWakes {
        let (tell, told) = (self.sender.clone(), Arc::clone(&self.told));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("logs".to_owned());
        let started = thread.spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if !waiter.wait(LISTENER_LOOK) {
                    continue;
                }
                if !told.swap(true, Ordering::AcqRel) && tell.send(Wake::Logs).is_err() {
                    return;
                }
                std::thread::sleep(GATHER);
            }
        });
        drop(started);
        LogWakes { stop }
    }

    /// Waits for something to happen, at most so long.
    pub fn wait(&self, at_most: Duration) -> Option<Wake> {
        let wake = self.wakes.recv_timeout(at_most).ok()?;
        if wake == Wake::Logs {
            // Before they are read: what comes while they are is worth another word.
            self.told.store(false, Ordering::Release);
        }
        Some(wake)
    }
}

impl Drop for WakeSources {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.close();
        }
    }
}
