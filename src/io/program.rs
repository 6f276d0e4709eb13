//! A program that is run here: its output goes through as it comes, and signals go to its process group.
//!
//! Threads feed one channel: one for each stream, one that waits for the end, one for the signals of all.

use std::io::{self, ErrorKind, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::{SigId, flag, low_level};

use super::scheduler::local::process::group_lives;
use super::words::{self, PipeRead};
use oomctl_base::job::ExitStatus;

/// Events that wait to be taken: a program that prints faster than it is read waits.
const MOST_EVENTS: usize = 64;
/// Signals that are passed on.
const PASSED_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Something that happened.
#[derive(Debug)]
pub enum ProgramEvent {
    /// All that the program itself wrote to one of its two streams has come.
    Said,
    /// A stream was closed by all that had it.
    Closed,
    /// The program ended.
    Exited(ExitStatus),
    /// A signal for us.
    Signal(i32),
}

/// Where the events of one program are taken from.
pub struct Inbox {
    /// Where they are put.
    pub sender: SyncSender<ProgramEvent>,
    events: Receiver<ProgramEvent>,
}

impl Default for Inbox {
    fn default() -> Self {
        let (sender, events) = sync_channel(MOST_EVENTS);
        Self { sender, events }
    }
}

impl Inbox {
    /// What puts events here; false once nobody takes them any more.
    pub fn listener(&self) -> impl Fn(ProgramEvent) -> bool + Send + Sync + use<> {
        let sender = self.sender.clone();
        move |event| sender.send(event).is_ok()
    }

    /// The next event; `None` when the time has come.
    pub fn next(&self, until: Instant) -> Option<ProgramEvent> {
        let left = until.saturating_duration_since(Instant::now());
        // We hold a sender ourselves: the channel is never closed.
        self.events.recv_timeout(left).ok()
    }
}

/// One who is told, with the number by which it is forgotten once it says that it has gone away.
type ProgramListener = (u64, Arc<dyn Fn(ProgramEvent) -> bool + Send + Sync>);

/// Who is told of signals.
#[derive(Clone, Default)]
pub struct Ears {
    listeners: Arc<Mutex<Vec<ProgramListener>>>,
    added: Arc<AtomicU64>,
    /// The first signal that ends programs; 0 while there was none.
    ending: Arc<AtomicI32>,
    /// What closes them; none where they were never opened.
    handle: Option<Handle>,
}

impl Ears {
    /// From now on signals are not this process's end, but told to all who listen.
    ///
    /// # Errors
    /// When they cannot be caught.
    pub fn open() -> io::Result<Self> {
        let mut signals = Signals::new(PASSED_ON)?;
        let ears = Self {
            handle: Some(signals.handle()),
            ..Self::default()
        };
        let told = ears.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    told.hear(signal);
                }
            })?;
        Ok(ears)
    }

    /// From now on signals mean what they meant before, until the answer is dropped.
    ///
    /// # Errors
    /// When that cannot be set.
    pub fn close(self) -> io::Result<UsualSignals> {
        if let Some(handle) = &self.handle {
            handle.close();
        }
        let yes = Arc::new(AtomicBool::new(true));
        let usual = |signal| flag::register_conditional_default(signal, Arc::clone(&yes));
        PASSED_ON
            .into_iter()
            .map(usual)
            .collect::<io::Result<_>>()
            .map(UsualSignals)
    }

    /// Takes in a signal, for those who listen and for those who come to listen later.
    pub fn hear(&self, signal: i32) {
        if Self::ends(signal) {
            let first = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = self.ending.compare_exchange(0, signal, first.0, first.1);
        }
        let listeners: Vec<_> = self.lock().clone();
        let told = |listener: &ProgramListener| (listener.1)(ProgramEvent::Signal(signal));
        let gone = listeners.iter().filter(|l| !told(l)).map(|l| l.0);
        let gone: Vec<u64> = gone.collect();
        // Those who have gone away are forgotten.
        if !gone.is_empty() {
            self.lock().retain(|(number, _)| !gone.contains(number));
        }
    }

    /// Does the signal end a program, as a rule?
    pub fn ends(signal: i32) -> bool {
        matches!(signal, SIGINT | SIGTERM | SIGHUP | SIGQUIT)
    }

    /// The signal that ended everything, if one came.
    pub fn ending(&self) -> Option<i32> {
        Some(self.ending.load(Ordering::Acquire)).filter(|signal| *signal != 0)
    }

    /// From now on this listener is told, until it answers false.
    pub fn add(&self, listener: impl Fn(ProgramEvent) -> bool + Send + Sync + 'static) {
        let number = self.added.fetch_add(1, Ordering::AcqRel);
        self.lock().push((number, Arc::new(listener)));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<ProgramListener>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Signals do what they do in a program that catches none.
pub struct UsualSignals(Vec<SigId>);

impl Drop for UsualSignals {
    fn drop(&mut self) {
        for id in self.0.drain(..) {
            low_level::unregister(id);
        }
    }
}

/// Where the program's output goes.
pub struct Outputs {
    /// Its standard output.
    pub out: Box<dyn Write + Send>,
    /// Its standard error.
    pub err: Box<dyn Write + Send>,
}

/// A program that was started.
#[derive(Debug, Clone, Copy)]
pub struct RunningProgram {
    group: Pid,
}

impl RunningProgram {
    /// Starts it. `environment` comes on top of ours.
    ///
    /// # Errors
    /// When it cannot be started: `NotFound` where there is no such program.
    pub fn start(
        command: &[String],
        environment: &[(String, String)],
        outputs: Outputs,
        inbox: &Inbox,
    ) -> io::Result<Self> {
        let (name, arguments) = command.split_first().ok_or(ErrorKind::InvalidInput)?;
        let (life, alive) = io::pipe()?;
        let life = Arc::new(life);
        let mut child = Command::new(name)
            .args(arguments)
            .envs(environment.iter().map(|(n, v)| (n, v)))
            .stdin(input())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let group = group.ok_or(ErrorKind::InvalidData)?;
        if let Some(stream) = child.stdout.take() {
            pump(stream, outputs.out, &life, inbox);
        }
        if let Some(stream) = child.stderr.take() {
            pump(stream, outputs.err, &life, inbox);
        }
        await_end(child, alive, inbox.sender.clone());
        Ok(Self { group })
    }

    /// Its process id, and that of its group.
    pub fn pid(&self) -> i32 {
        self.group.as_raw_nonzero().get()
    }

    /// Passes a signal on to its process group.
    pub fn signal(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = kill_process_group(self.group, signal);
        }
    }

    /// Is anything of its process group left?
    pub fn leaves_something(&self) -> bool {
        test_kill_process_group(self.group).is_ok() && group_lives(self.pid())
    }

    /// Kills what it left.
    pub fn kill(&self) {
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

/// Ours, unless it is a terminal: the program is not in the terminal's foreground, and a read would stop it.
fn input() -> Stdio {
    if io::stdin().is_terminal() {
        Stdio::null()
    } else {
        Stdio::inherit()
    }
}

/// Passes a stream through. When nobody reads what we write any more, the program is told so by the end of
/// its own stream, as if it had written there itself.
fn pump(
    stream: impl Read + AsFd + Send + 'static,
    mut to: Box<dyn Write + Send>,
    life: &Arc<PipeReader>,
    inbox: &Inbox,
) {
    let (life, events) = (Arc::clone(life), inbox.sender.clone());
    let run = move || {
        words::read(stream, life, |words| match words {
            PipeRead::Piece(bytes) => {
                let passed = to.write_all(&bytes).and_then(|()| to.flush());
                passed.is_ok()
            }
            PipeRead::All => events.send(ProgramEvent::Said).is_ok(),
        });
        let _ = events.send(ProgramEvent::Closed);
    };
    std::thread::spawn(run);
}

/// Waits for the end of the program; then `alive` is dropped.
fn await_end(mut child: Child, alive: PipeWriter, events: SyncSender<ProgramEvent>) {
    std::thread::spawn(move || {
        let exit = match child.wait() {
            Ok(status) => ExitStatus::from(status),
            // Somebody else waited for it: how it ended is not known.
            Err(_) => ExitStatus::of(1, 0),
        };
        drop(alive);
        let _ = events.send(ProgramEvent::Exited(exit));
    });
}

/// How long output is waited for that comes after all that the program itself wrote, from what it left running;
/// and the program's own, where somebody told it to end and nobody takes what it wrote.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How far the end of a program has come: it has ended, what it wrote was read, its streams are closed.
#[derive(Debug, Default)]
pub struct ProgramEnd {
    exited: Option<(Instant, ExitStatus)>,
    said: Option<Instant>,
    streams_said: u8,
    streams_closed: u8,
}

impl ProgramEnd {
    /// Takes what happened `now` into account.
    pub fn heard(&mut self, event: &ProgramEvent, now: Instant) {
        match event {
            ProgramEvent::Exited(exit) => self.exited = Some((now, *exit)),
            ProgramEvent::Said => self.streams_said += 1,
            ProgramEvent::Closed => self.streams_closed += 1,
            ProgramEvent::Signal(_) => {}
        }
        if self.exited.is_some() && self.streams_said == 2 && self.said.is_none() {
            self.said = Some(now);
        }
    }

    /// Has the program ended? What it wrote may still be on its way.
    pub fn has_exited(&self) -> bool {
        self.exited.is_some()
    }

    /// How the program ended, once no output is waited for any more. `told`: somebody told it to end, so that
    /// what it wrote is not waited for without end.
    pub fn over(&self, told: bool, now: Instant) -> Option<ExitStatus> {
        let (_, exit) = self.exited?;
        let waited = self.until(told).is_some_and(|until| now >= until);
        (self.streams_closed == 2 || waited).then_some(exit)
    }

    /// When it is over at the latest, if that is known.
    pub fn until(&self, told: bool) -> Option<Instant> {
        let exited = self.exited.filter(|_| told).map(|(at, _)| at);
        Some(self.said.or(exited)? + LAST_WORDS)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;

    /// Takes nothing until it is told to.
    struct Stuck {
        gate: Receiver<()>,
        said: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.gate.recv();
            self.said.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    /// What a program said on standard error before it was over, and how it ended. Its standard error is not
    /// taken until `late` has been asked whether it is over.
    fn run(script: &str, late: impl Fn(&ProgramEnd)) -> (String, Option<ExitStatus>) {
        let inbox = Inbox::default();
        let (go, gate) = sync_channel(0);
        let said = Arc::new(Mutex::new(Vec::new()));
        let outputs = Outputs {
            out: Box::new(io::sink()),
            err: Box::new(Stuck {
                gate,
                said: Arc::clone(&said),
            }),
        };
        let command = ["/bin/bash", "-c", script].map(str::to_owned);
        let program = RunningProgram::start(&command, &[], outputs, &inbox).unwrap();
        let mut ending = ProgramEnd::default();
        let next = |ending: &mut ProgramEnd| {
            let event = inbox.next(Instant::now() + HOUR).unwrap();
            ending.heard(&event, Instant::now());
        };
        while !ending.has_exited() {
            next(&mut ending);
        }
        late(&ending);
        drop(go);
        while ending.over(false, Instant::now() + HOUR).is_none() {
            next(&mut ending);
        }
        program.kill();
        let said = String::from_utf8(said.lock().unwrap().clone()).unwrap();
        (said, ending.over(false, Instant::now() + HOUR))
    }

    #[test]
    fn a_program_is_not_over_while_what_it_wrote_is_on_its_way() {
        let (said, exit) = run("echo CUDA out of memory >&2; exit 1", |ending| {
            assert_eq!(ending.over(false, Instant::now() + HOUR), None);
            // Whom somebody told to end is not waited for without end.
            assert!(ending.over(true, Instant::now() + HOUR).is_some());
        });
        assert_eq!(said, "CUDA out of memory\n");
        assert_eq!(exit.map(|e| e.code), Some(1));
    }

    #[test]
    fn a_program_is_over_though_what_it_left_running_keeps_its_streams() {
        let (said, exit) = run("sleep 300 & echo left >&2", |_| {});
        assert_eq!(said, "left\n");
        assert_eq!(exit, Some(ExitStatus::default()));
    }
}
