//! A measurement on phantom GPUs beside the loop: it runs on a thread of its own, and the loop asks whether it is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use crate::core::engine::{AttemptEvent, PhantomMeasurement, Run};
use crate::core::recipe::Layer;
use crate::core::request::Request;
use crate::io::program::Ears;

/// The signal that ends a measurement nobody waits for any more.
const SIGTERM: i32 = 15;

/// Measures the configuration of a request with these rungs. Who listens with the ears is told to stop.
pub type Measurer =
    Arc<dyn Fn(&Request, &[Layer], &Ears) -> PhantomMeasurement + Send + Sync + 'static>;

/// A measurement that runs. Dropping it ends the program.
pub(super) struct Measuring {
    ears: Ears,
    result: Receiver<PhantomMeasurement>,
    thread: Option<JoinHandle<()>>,
}

impl Measuring {
    fn start(measurer: &Measurer, request: Request, rungs: Vec<Layer>) -> Self {
        let (sender, result) = sync_channel(1);
        let (ears, measurer) = (Ears::default(), Arc::clone(measurer));
        let heard = ears.clone();
        let thread = std::thread::spawn(move || {
            let _ = sender.send(measurer(&request, &rungs, &heard));
        });
        Self {
            ears,
            result,
            thread: Some(thread),
        }
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        self.ears.hear(SIGTERM);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The measurements of the runs of a supervisor.
#[derive(Default)]
pub(super) struct Measurements {
    /// None where nothing is measured here.
    pub(super) measurer: Option<Measurer>,
    running: BTreeMap<String, Measuring>,
}

impl Measurements {
    /// Begins the measurement of the next attempt of a run, or looks whether it is over.
    pub(super) fn look(&mut self, run: &Run) -> AttemptEvent {
        let Some(measurer) = &self.measurer else {
            let why = "only `submit --watch`, `retry --watch` and `watch` measure";
            return AttemptEvent::PhantomMeasured(Box::new(PhantomMeasurement::impossible(why)));
        };
        let name = &run.history.run;
        let running = self.running.entry(name.clone()).or_insert_with(|| {
            Measuring::start(measurer, run.request.clone(), run.history.rungs())
        });
        let measured = match running.result.try_recv() {
            Err(TryRecvError::Empty) => return AttemptEvent::PhantomRuns,
            Ok(measured) => measured,
            Err(TryRecvError::Disconnected) => {
                PhantomMeasurement::impossible("the measurement itself failed")
            }
        };
        self.running.remove(name);
        AttemptEvent::PhantomMeasured(Box::new(measured))
    }
}
