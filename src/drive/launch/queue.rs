//! Many programs, each as soon as a GPU is free for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::place::{LaunchPlace, MachineGpus};
use super::{AttemptLoop, LaunchError, LaunchJob, LaunchListener, LaunchOutcome, Summary};
use crate::core::exit::Exit;
use crate::io::program::{Ears, ProgramEvent};

/// One program of a queue.
pub struct QueueEntry<'a> {
    /// The program.
    pub job: LaunchJob<'a>,
    /// Who is told of it.
    pub listener: Box<dyn LaunchListener + 'a>,
}

/// Runs programs in the order given, several at a time where several GPUs are free. The result of each, in
/// that order; none for one that was not begun.
pub fn queue(
    entries: Vec<QueueEntry<'_>>,
    list: Option<&str>,
    ears: &Ears,
) -> Vec<Option<Result<Summary, LaunchError>>> {
    let running = Arc::new(AtomicUsize::new(0));
    let turn = CpuTurn::default();
    let turn = &turn;
    std::thread::scope(|scope| {
        let mut started = Vec::new();
        for mut entry in entries {
            let found = find(&mut entry, list, ears, &running);
            let (machine, place) = match found {
                Ok((_, LaunchPlace::Signal(_))) => {
                    started.push(None);
                    continue;
                }
                Ok(found) => found,
                Err(error) => {
                    started.push(Some(Err(error)));
                    continue;
                }
            };
            // Without a GPU they would all begin at once.
            let alone = !matches!(place, LaunchPlace::Gpu(_));
            let taken = alone.then(|| turn.take());
            running.fetch_add(1, Ordering::AcqRel);
            let running = Arc::clone(&running);
            started.push(Some(Ok(scope.spawn(move || {
                let done = run(entry, machine, place);
                running.fetch_sub(1, Ordering::AcqRel);
                drop(taken);
                ears.tell(|| ProgramEvent::Freed);
                done
            }))));
        }
        let ends = started.into_iter().map(|s| {
            s.map(|s| s.and_then(|thread| thread.join().unwrap_or_else(|_| Ok(broken()))))
        });
        ends.collect()
    })
}

/// Whose turn it is to run without a GPU.
#[derive(Default)]
struct CpuTurn {
    taken: Mutex<bool>,
    back: Condvar,
}

impl CpuTurn {
    fn take(&self) -> Taken<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.back.wait_while(taken, |taken| *taken);
        *free.unwrap_or_else(PoisonError::into_inner) = true;
        Taken(self)
    }
}

/// The turn, until this is dropped.
struct Taken<'t>(&'t CpuTurn);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let taken = &self.0.taken;
        *taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.back.notify_one();
    }
}

/// A GPU for the next program.
fn find(
    entry: &mut QueueEntry<'_>,
    list: Option<&str>,
    ears: &Ears,
    running: &Arc<AtomicUsize>,
) -> Result<(MachineGpus, LaunchPlace), LaunchError> {
    let mut machine = MachineGpus::open(list.map(str::to_owned))?;
    machine.others = Some(Arc::clone(running));
    let attempt = entry.job.launch.attempt(&[])?;
    let place = machine.place(&attempt, None, ears, entry.listener.as_mut())?;
    Ok((machine, place))
}

fn run(
    mut entry: QueueEntry<'_>,
    mut machine: MachineGpus,
    place: LaunchPlace,
) -> Result<Summary, LaunchError> {
    // From here on the program waits for itself: the queue has gone on to the next.
    machine.others = None;
    AttemptLoop::new(&entry.job).run(&mut machine, Some(place), entry.listener.as_mut())
}

/// What is said of a program whose thread broke.
fn broken() -> Summary {
    Summary {
        outcome: LaunchOutcome::Failed,
        exit_code: Exit::Failed.code(),
        attempts: Vec::new(),
    }
}
