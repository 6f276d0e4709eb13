//! Histories for the tests of this room, made of facts as the ledger holds them, and the picture of an attempt.

use super::*;
use crate::core::engine::{Fact, History, Record, Verdict};
use crate::core::ladder::Step;
use crate::core::recipe::{Layer, LayerKind};
use oomctl_base::Effect;
use oomctl_base::job::{JobId, JobRef, JobState, JobStatus, Token};
use oomctl_diagnose::{Class, Incident};
use oomctl_gpu::{GpuReading, GpuSample, SampleLine};

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
    let record = |(seq, (second, fact)): (u64, (i64, Fact))| Record::new(seq, at(second), 1, fact);
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
            outputs: Vec::new(),
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

fn gib_bytes(gib: u64) -> Bytes {
    Bytes(gib << 30)
}

fn sample(at: i64, gibs: &[u64]) -> SampleLine {
    let gpu = |(gpu, gib): (usize, &u64)| {
        let used_bytes = gib_bytes(*gib);
        GpuSample {
            reading: GpuReading {
                gpu: u32::try_from(gpu).unwrap(),
                uuid: format!("GPU-{gpu}"),
                name: "A100".to_owned(),
                total_bytes: gib_bytes(80),
                used_bytes,
                own_bytes: None,
                pid: None,
                utilization_percent: None,
            },
            peak_bytes: used_bytes,
            own_peak_bytes: None,
            utilization_looks: 0,
            utilization_sum_percent: 0,
        }
    };
    SampleLine {
        v: 1,
        at: Timestamp::from_second(at).unwrap(),
        gpus: gibs.iter().enumerate().map(gpu).collect(),
    }
}

fn drawn(lines: &[(i64, &[u64])], expected: Option<u64>) -> Option<Plot> {
    let mut tracks = Tracks::default();
    for (at, gibs) in lines {
        tracks.take("n1", &sample(*at, gibs));
    }
    plot(tracks.sorted(), expected.map(gib_bytes), 64)
}

#[test]
fn a_line_goes_in_steps_from_the_first_sample_to_the_last() {
    let plot = drawn(&[(0, &[0]), (50, &[84]), (100, &[42])], None).unwrap();
    assert_eq!(plot.curves[0].path, "M40 186H395V24.1H750V105");
    let capacity = plot.capacity.unwrap();
    assert!(capacity.y > 24.1, "{capacity:?}");
}

#[test]
fn the_fullest_is_drawn_last_and_what_was_expected_has_a_height() {
    let plot = drawn(&[(0, &[30, 70, 50])], Some(60)).unwrap();
    let drawn: Vec<(u32, bool)> = plot.curves.iter().map(|c| (c.gpu, c.fullest)).collect();
    assert_eq!(drawn, [(0, false), (2, false), (1, true)]);
    let expected = plot.expected.unwrap();
    assert!(expected.y > plot.capacity.unwrap().y);
}

#[test]
fn without_samples_there_is_no_picture_and_a_thousand_gpus_are_too_many() {
    assert_eq!(drawn(&[], Some(60)), None);
    let gibs: Vec<u64> = (0..200).map(|n| n % 80).collect();
    let plot = drawn(&[(0, &gibs)], None).unwrap();
    assert_eq!((plot.curves.len(), plot.undrawn), (64, 136));
}
