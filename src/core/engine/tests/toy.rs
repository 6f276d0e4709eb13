//! What a test asks for, on a made-up framework whose ladder has so many rungs.

use std::cell::RefCell;
use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::core::recipe::{Layer, LayerKind};
use crate::core::request::tests::start::stored;
use crate::core::request::{Inputs, Limits, Request, Stacks, Supervision};
use oomctl_base::units::Bytes;
use oomctl_base::{Origin, Value};
use oomctl_diagnose::{Class, Evidence, EvidenceRole, Incident};

/// What a test asks for: a ladder with `rungs` rungs for the GPU and `host_rungs` for the host.
#[derive(Debug, Clone)]
pub(crate) struct Toy {
    pub name: String,
    pub rungs: usize,
    pub host_rungs: usize,
    pub limits: Limits,
    pub supervision: Supervision,
    pub workdir: std::path::PathBuf,
    /// Its files cannot be made.
    pub illegal: bool,
    /// A later attempt goes on from a checkpoint.
    pub resumes: bool,
    /// It trains on fixed data instead of responses that it samples.
    pub fixed_data: bool,
    pub time_limit_s: Option<u64>,
    /// What a node has of memory.
    pub memory: Option<Bytes>,
    /// A micro batch other than the usual one.
    pub micro: Option<u32>,
}

pub(super) const KNOBS: &str = "
preset: toy
summary: a made-up framework
files: [{ name: job.sbatch, template: job.sbatch.j2, entry: true }]
knobs:
  - { name: micro, role: micro_batch, type: int, default: 32, min: 1, doc: d }
  - { name: workers, type: int, default: 64, min: 1, doc: d }
  - { name: response, role: response_length, type: int, default: 512, doc: d }
  - { name: gpus, role: gpus_per_node, type: int, default: 4, effect: resources, doc: d }
  - { name: time, role: time_limit, type: duration, effect: resources, doc: d }
  - { name: mem, role: host_memory, type: size, effect: resources, doc: d }
  - { name: exclude, role: excluded_nodes, type: list, effect: resources, doc: d }
ladder:
";

/// A script that cannot be made of it is one whose template fails.
const SCRIPT: &str = "#!/bin/bash\n#SBATCH --job-name={{ attempt.token }}\nworkers={{ workers }}\ntrain micro={{ micro }}\n";

thread_local! {
    /// Thousands of simulated days have a few presets: by their texts, and made ready.
    static MADE: RefCell<(BTreeMap<String, Inputs>, Stacks)> = RefCell::default();
}

impl Toy {
    pub(crate) fn new(rungs: usize) -> Self {
        Self {
            name: "r1".to_owned(),
            rungs,
            host_rungs: 0,
            limits: Limits::default(),
            supervision: Supervision::default(),
            workdir: "/work".into(),
            illegal: false,
            resumes: false,
            fixed_data: false,
            time_limit_s: None,
            memory: None,
            micro: None,
        }
    }

    /// The preset: rungs that halve, one after the other, and one that nobody can take.
    fn preset(&self) -> String {
        let rung = |name: &str, answers: &str, knob: &str| {
            format!(
                "  - {{ rung: {name}, title: t, answers: [{answers}], moves: [{{ knob: {knob}, times: 0.5 }}] }}\n"
            )
        };
        let mut text = match self.fixed_data {
            true => KNOBS.replace("role: response_length, ", ""),
            false => KNOBS.to_owned(),
        };
        for n in 1..=self.rungs {
            text += &rung(&format!("rung-{n}"), "gpu_oom, engine_memory", "micro");
        }
        for n in 1..=self.host_rungs {
            text += &rung(&format!("host-{n}"), "host_oom, shm", "workers");
        }
        text += "  - { rung: more_gpus, title: t, when: 'false', when_text: the profile has no more, moves: [{ knob: gpus, times: 2 }] }\n";
        if self.resumes {
            text += "checkpoint: { written_when: 'true', lost: nothing }\n";
        }
        text
    }

    /// The request that it stands for.
    pub(crate) fn request(&self) -> Request {
        let script = match self.illegal {
            true => "{{ micro.of.nothing }}",
            false => SCRIPT,
        };
        let mut layer = Layer::new(LayerKind::Project);
        let mut set = |knob: &str, value: Option<String>| {
            let name = "TOY".to_owned();
            if let Some(value) = value {
                layer.set(knob, Value::Text(value), Origin::Env { name });
            }
        };
        set("time", self.time_limit_s.map(|s| format!("{s}s")));
        set("mem", self.memory.map(|m| format!("{}K", m.0 >> 10)));
        if let Some(micro) = self.micro {
            let name = "TOY".to_owned();
            layer.set("micro", Value::Int(micro.into()), Origin::Env { name });
        }
        MADE.with_borrow_mut(|(known, stacks)| {
            let preset = self.preset();
            let bare = known
                .entry(preset.clone() + script)
                .or_insert_with(|| stored(&self.name, &preset, ("job.sbatch.j2", script)));
            let inputs = Inputs {
                run: self.name.clone(),
                layers: vec![layer],
                limits: self.limits.clone(),
                supervision: self.supervision.clone(),
                workdir: self.workdir.display().to_string(),
                ..bare.clone()
            };
            stacks.request(inputs).expect("a preset without faults")
        })
    }
}

/// A fatal incident of a class, with one line of evidence.
pub(crate) fn incident(kind: &str, class: Class) -> Incident {
    Incident {
        evidence: vec![Evidence {
            signature: kind.to_owned(),
            role: EvidenceRole::Root,
            file: "slurm.err".to_owned(),
            line: 1,
            offset: 0,
            text: format!("it was {kind}"),
        }],
        ..Incident::bare(kind, class)
    }
}

/// A log that shows no failure.
pub(crate) fn nothing() -> Incident {
    Incident {
        fatal: false,
        evidence: Vec::new(),
        ..incident("no_failure", Class::NotOom)
    }
}

/// Seconds of the tests' clock.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a moment in this century")
}
