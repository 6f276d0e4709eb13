//! Histories for the tests of this room, made of facts as the ledger holds them.

use jiff::Timestamp;

use crate::core::engine::{Fact, History, LEDGER_VERSION, Record, Verdict};
use crate::core::ladder::Step;
use crate::core::recipe::{Layer, LayerKind};
use oomctl_base::Effect;
use oomctl_base::job::{JobId, JobRef, JobState, JobStatus, Token};
use oomctl_diagnose::{Class, Incident};

/// GPUs of every attempt.
const GPUS: u64 = 4;

/// A run whose attempts were intended, started and ended at these seconds, and worked or ran out of GPU
/// memory.
pub fn history(attempts: &[(i64, i64, i64, bool)]) -> History {
    let at = |second| Timestamp::from_second(second).unwrap();
    let first = attempts.first().map_or(0, |a| a.0);
    let created = Fact::Created {
        run: "r1".to_owned(),
        version: "0.1.0".to_owned(),
    };
    let mut facts = vec![(first, created)];
    for (number, (intended, started, ended, worked)) in (1..).zip(attempts) {
        facts.extend(attempt(number, at(*started), at(*ended), *worked).map(|fact| (*ended, fact)));
        let place = facts.len() - 4;
        facts[place].0 = *intended;
    }
    let record = |(seq, (second, fact)): (u64, (i64, Fact))| Record {
        v: LEDGER_VERSION,
        seq,
        at: at(second),
        epoch: 1,
        fact,
    };
    let records: Vec<Record> = (1..).zip(facts).map(record).collect();
    History::replay(&records)
}

fn attempt(number: u32, started: Timestamp, ended: Timestamp, worked: bool) -> [Fact; 4] {
    let token = Token(format!("oomctl-{number}"));
    let id = JobId(format!("470{number}"));
    let state = if worked {
        JobState::Completed
    } else {
        JobState::Failed
    };
    let mut incident = Incident::bare("cuda_oom", Class::GpuOom);
    incident.fatal = !worked;
    [
        Fact::Intended {
            attempt: number,
            token: token.clone(),
            script: "job.sbatch".to_owned(),
            script_sha256: String::new(),
            gpus: GPUS,
            rungs: Vec::new(),
        },
        Fact::Submitted {
            attempt: number,
            job: JobRef {
                id: id.clone(),
                cluster: None,
                token: Some(token),
                submitted: started,
            },
            adopted: false,
        },
        Fact::Ended {
            attempt: number,
            status: Some(JobStatus {
                started: Some(started),
                ended: Some(ended),
                ..JobStatus::bare(id, state)
            }),
            gpu_seconds: ended.duration_since(started).as_secs_f64() * 4.0,
        },
        Fact::Diagnosed {
            attempt: number,
            incident: Box::new(incident),
            progress: None,
        },
    ]
}

/// Lets an attempt be followed by so many rungs at once.
pub fn with_rungs(history: &mut History, attempt: usize, rungs: usize) {
    let step = |n: usize| Step {
        rung: format!("rung-{n}"),
        title: "a rung".to_owned(),
        changes: Vec::new(),
        effect: Effect::SameMath,
        notes: Vec::new(),
        reshards: false,
        layer: Layer::new(LayerKind::Rung),
    };
    history.attempts[attempt].verdict = Some(Verdict::Climb {
        steps: (0..rungs).map(step).collect(),
        skipped: Vec::new(),
        expects: None,
        withdrawn: None,
    });
}
