//! Many programs, each as soon as a GPU is free for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::place::{LaunchPlace, MachineGpus};
use super::{LaunchError, SharedListener, locked};
use crate::core::launch::GpuWish;
use crate::io::program::{Ears, ProgramEvent};

/// One program of a queue.
pub struct Queued<'a, R> {
    /// What its first attempt asks of the GPUs.
    pub wish: GpuWish,
    /// Who is told of it.
    pub listener: SharedListener,
    /// Runs it at the place that was found.
    pub run: Box<dyn FnOnce(MachineGpus, LaunchPlace) -> R + Send + 'a>,
}

/// Runs programs in the order given, several at a time where several GPUs are free. The result of each, in
/// that order; none for one that was not begun, or whose thread broke.
pub fn queue<R: Send>(
    entries: Vec<Queued<'_, R>>,
    list: Option<&str>,
    ears: &Ears,
) -> Vec<Option<Result<R, LaunchError>>> {
    let running = Arc::new(AtomicUsize::new(0));
    let turn = CpuTurn::default();
    let turn = &turn;
    std::thread::scope(|scope| {
        let mut started = Vec::new();
        for entry in entries {
            let found = find(&entry, list, ears, &running);
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
                let done = (entry.run)(machine, place);
                running.fetch_sub(1, Ordering::AcqRel);
                drop(taken);
                ears.tell(|| ProgramEvent::Freed);
                done
            }))));
        }
        let ends = started.into_iter().map(|begun| match begun? {
            Ok(thread) => thread.join().ok().map(Ok),
            Err(error) => Some(Err(error)),
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
fn find<R>(
    entry: &Queued<'_, R>,
    list: Option<&str>,
    ears: &Ears,
    running: &Arc<AtomicUsize>,
) -> Result<(MachineGpus, LaunchPlace), LaunchError> {
    let mut machine = MachineGpus::open(list.map(str::to_owned))?;
    machine.others = Some(Arc::clone(running));
    let place = machine.place(&entry.wish, ears, &mut *locked(&*entry.listener))?;
    // From here on the program waits for itself: the queue has gone on to the next.
    machine.others = None;
    Ok((machine, place))
}
