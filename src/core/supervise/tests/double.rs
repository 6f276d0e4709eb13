//! An intent with a ladder of so many rungs, and the words that the tests share.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;

use crate::core::diagnose::{Class, Evidence, EvidenceRole, Incident, Pool};
use crate::core::ladder::{Decision, Past, Skipped, Step};
use crate::core::learn::Job;
use crate::core::recipe::{Effect, Layer, LayerKind, Origin, Problem, Refusal, Setting, Value};
use crate::core::render::{AttemptPlace, RenderedFile};
use crate::core::supervise::{Handed, Intent, Limits, Resources, Supervision};
use crate::core::units::Bytes;

/// An intent whose ladder has `rungs` rungs for the GPU and `host_rungs` for the host.
#[derive(Debug, Clone)]
pub(crate) struct Double {
    pub name: String,
    pub rungs: usize,
    pub host_rungs: usize,
    pub limits: Limits,
    pub supervision: Supervision,
    pub options: Vec<String>,
    pub workdir: std::path::PathBuf,
    /// The configuration with so many rungs is refused.
    pub illegal_at: Option<usize>,
    /// A later attempt goes on from a checkpoint.
    pub resumes: bool,
    pub time_limit_s: Option<u64>,
    /// What there is of each memory.
    pub memory: Option<Bytes>,
}

impl Double {
    pub(crate) fn new(rungs: usize) -> Self {
        Self {
            name: "r1".to_owned(),
            rungs,
            host_rungs: 0,
            limits: Limits::default(),
            supervision: Supervision::default(),
            options: Vec::new(),
            workdir: "/work".into(),
            illegal_at: None,
            resumes: false,
            time_limit_s: None,
            memory: None,
        }
    }
}

impl Intent for Double {
    fn run(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn memory_limit(&self, _rungs: &[Layer], _pool: Pool) -> Option<Bytes> {
        self.memory
    }

    fn supervision(&self) -> &Supervision {
        &self.supervision
    }

    fn workdir(&self) -> &Path {
        &self.workdir
    }

    fn handed(&self, _rungs: &[Layer]) -> Result<Handed, Refusal> {
        Ok(Handed {
            options: self.options.clone(),
            ..Handed::default()
        })
    }

    fn climb(
        &self,
        rungs: &[Layer],
        past: Past<'_>,
        incident: &Incident,
        attempt: u32,
    ) -> Result<Decision, Refusal> {
        let height = match incident.class {
            Class::HostOom | Class::Shm => self.host_rungs,
            _ => self.rungs,
        };
        let climbed = rungs.iter().filter(|l| l.settings.contains_key("micro"));
        let left_out = past.left_out.len();
        let climbed = climbed.count() + left_out;
        if climbed >= height {
            let skipped = vec![Skipped {
                rung: "more_gpus".to_owned(),
                reason: "the profile has no more".to_owned(),
            }];
            return Ok(Decision::Exhausted {
                skipped,
                shortfall: None,
            });
        }
        let name = format!("rung-{}", climbed + 1);
        let mut layer = Layer::new(LayerKind::Rung);
        let setting = Setting {
            value: Value::Int(32 >> (climbed + 1)),
            origin: Origin::Rung {
                rung: name.clone(),
                attempt: attempt + 1,
            },
        };
        layer.settings.insert("micro".to_owned(), setting);
        Ok(Decision::Climb {
            steps: vec![Step {
                title: name.clone(),
                rung: name,
                changes: Vec::new(),
                effect: Effect::SameMath,
                notes: Vec::new(),
                reshards: false,
                layer,
            }],
            skipped: Vec::new(),
            expects: None,
        })
    }

    fn exclude(&self, _rungs: &[Layer], nodes: &[String], attempt: u32) -> Option<Layer> {
        let mut layer = Layer::new(LayerKind::Rung);
        let setting = Setting {
            value: Value::Text(nodes.join(",")),
            origin: Origin::Rung {
                rung: "another node".to_owned(),
                attempt,
            },
        };
        layer.settings.insert("exclude".to_owned(), setting);
        Some(layer)
    }

    fn resumes(&self, _rungs: &[Layer]) -> bool {
        self.resumes
    }

    fn job(&self, rungs: &[Layer]) -> Option<Job> {
        let micro = 32_u8 >> rungs.len();
        Some(Job {
            same: BTreeMap::from([("preset".to_owned(), "double".to_owned())]),
            sizes: BTreeMap::from([("micro".to_owned(), f64::from(micro))]),
        })
    }

    fn resources(&self, _rungs: &[Layer]) -> Result<Resources, Refusal> {
        Ok(Resources {
            gpus: 4,
            nodes: 1,
            time_limit_s: self.time_limit_s,
        })
    }

    fn render(&self, rungs: &[Layer], at: &AttemptPlace) -> Result<Vec<RenderedFile>, Refusal> {
        if self.illegal_at == Some(rungs.len()) {
            return Err(Problem::new("20 sequences cannot be split by 8").into());
        }
        let micro = rungs.iter().rev().find_map(|l| l.settings.get("micro"));
        let micro = micro.map_or("32".to_owned(), |s| s.value.to_string());
        Ok(vec![RenderedFile {
            name: "job.sbatch".to_owned(),
            text: format!(
                "#!/bin/bash\n#SBATCH --job-name={}\ntrain micro={micro}\n",
                at.token
            ),
            entry: true,
        }])
    }

    fn recipe(&self, rungs: &[Layer]) -> Result<serde_json::Value, Refusal> {
        Ok(serde_json::json!({ "rungs": rungs.len() }))
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
