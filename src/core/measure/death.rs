//! Why a program died on phantom GPUs, as a log of it would tell.

use oomctl_diagnose::{Class, Incident, Scanner};

use super::phantom::PhantomRecord;

const UNKNOWN: &str = "unknown";

/// The failure in what PyTorch said: a traceback with its message, or the message alone.
pub fn phantom_incident(said: &str) -> Incident {
    let mut scanner = Scanner::new(&[]);
    let source = scanner.source("phantom");
    let line = match said.starts_with("Traceback") {
        true => format!("{said}\n"),
        false => format!("torch.OutOfMemoryError: {said}\n"),
    };
    scanner.feed(source, 0, line.as_bytes());
    scanner.finish_source(source);
    let incident = scanner.verdict(None);
    match incident.class {
        Class::GpuOom => incident,
        _ => Incident::bare("cuda_oom", Class::GpuOom),
    }
}

impl PhantomRecord {
    /// The phase in which it ran out of memory: where its traceback tells one, the one that its log tells, else the one that was marked.
    pub fn died_in(&self) -> Option<String> {
        let marked = self.failed_in.as_deref();
        let told = self.traceback.as_deref().map(phantom_incident);
        let told = told.map(|incident| incident.phase);
        let told = told.filter(|phase| self.is_full() && phase != UNKNOWN);
        let same = |phase: &String| marked.is_some_and(|m| m.replace(' ', "_") == *phase);
        told.filter(|phase| !same(phase))
            .or_else(|| marked.map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn died_in(kind: &str, marked: &str, frame: &str) -> Option<String> {
        let text = "CUDA out of memory. Tried to allocate 2.00 GiB.";
        let traceback = format!("Traceback (most recent call last):\n{frame}{kind}: {text}\n");
        let record = serde_json::json!({
            "failure": {"type": kind, "text": text}, "failed_in": marked, "traceback": traceback,
        });
        serde_json::from_value::<PhantomRecord>(record)
            .unwrap()
            .died_in()
    }

    #[test]
    fn a_traceback_tells_the_phase_and_the_recorder_where_it_does_not() {
        let oom = "torch.OutOfMemoryError";
        let update = "  File \"/x/verl/workers/engine_workers.py\", line 713, in update_actor\n    output = self.actor.train_mini_batch(data=data)\n";
        let plain = "  File \"/x/train.py\", line 3, in <module>\n    x = torch.empty(4)\n";
        let step = "  File \"/x/torch/optim/adamw.py\", line 9, in step\n    y = x * 2\n";
        for (kind, marked, frame, wanted) in [
            (oom, "forward", update, "actor_update"),
            (oom, "checkpoint", plain, "checkpoint"),
            (oom, "optimizer step", step, "optimizer step"),
            ("builtins.ValueError", "forward", update, "forward"),
        ] {
            assert_eq!(died_in(kind, marked, frame).as_deref(), Some(wanted));
        }
    }
}
