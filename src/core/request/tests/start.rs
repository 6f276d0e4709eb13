//! Where runs start after others, on a small framework of its own.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::core::config::{from_flags, parse_preset};
use crate::core::engine::tests::at;
use crate::core::ladder::{Decision, Policy};
use crate::core::learn::{AttemptEnd, LearnedEntries, LearnedEntry, LearnedRung};
use crate::core::measure::Measured;
use crate::core::recipe::{Layer, LayerKind, Preset};
use crate::core::request::{Ground, Inputs, NamedText, Request, Start};
use oomctl_base::{Origin, Value};

const PRESET: &str = "
preset: toy
summary: a made-up framework
files: [{ name: job.sh, template: job.sh.j2, entry: true }]
knobs:
  - { name: prompts, role: train_batch, type: int, default: 64, effect: changes-training, spelling: { flag: --prompts }, doc: d }
  - { name: micro, role: micro_batch, type: int, default: 32, spelling: { flag: --micro }, doc: d }
  - { name: length, role: sequence_length, type: int, default: 1024, effect: changes-training, spelling: { flag: --length }, doc: d }
  - { name: offload, role: param_offload, type: bool, default: false, spelling: { switch: --offload }, doc: d }
  - { name: gpus, role: gpus_per_node, type: int, default: 1, effect: resources, spelling: { flag: --gpus }, doc: d }
  - { name: stop, type: int, effect: changes-training, spelling: { flag: --stop }, doc: d }
  - { name: save, type: int, default: 10, effect: resources, spelling: { flag: --save }, doc: d }
  - { name: mem, role: host_memory, type: size, default: 64G, effect: resources, spelling: { flag: --mem }, doc: d }
rules:
  - { name: micro-divides, must: prompts % micro == 0, message: 'x', stage: step, source: toy }
ladder:
  - { rung: halve, title: t, moves: [{ role: train_batch, times: 0.5 }, { role: micro_batch, times: 0.5 }] }
  - { rung: offload, title: t, moves: [{ role: param_offload, to: true }, { role: host_memory, times: 2, along: true }] }
  - { rung: thin, title: t, moves: [{ role: micro_batch, times: 0.5 }], laps: 3 }
  - { rung: shorten, title: t, moves: [{ role: sequence_length, times: 0.5, floor: 64 }] }
tune:
  - { gain: 0.1, because: b, step: { rung: stay, title: t, when: offload, moves: [{ knob: offload, to: false }] } }
  - { gain: 0.08, because: b, step: { rung: thicker, title: t, moves: [{ knob: micro, times: 2 }], laps: 5 } }
probe: { steps: stop, set: { save: -1 } }
";

/// The request of `run`, with values of the project file and of the command line.
pub(crate) fn request(run: &str, project: &[(&str, Value)], set: &[&str]) -> Request {
    let file = parse_preset("toy.yaml", PRESET).unwrap();
    let preset = Preset::assemble(file, Vec::new(), None).unwrap();
    let mut layer = Layer::new(LayerKind::Project);
    for (knob, value) in project {
        let name = "PROJECT".to_owned();
        layer.set(*knob, value.clone(), Origin::Env { name });
    }
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    let flags = from_flags(&preset, &set, &[]).unwrap();
    let text = "run{% for w in flags %} {{ w }}{% endfor %}\n";
    Request::new(Inputs {
        layers: vec![layer, flags],
        ..stored(run, PRESET, ("job.sh.j2", text))
    })
    .unwrap()
}

/// The inputs of `run` with nothing set: a preset, and its template with its name.
pub(crate) fn stored(run: &str, preset: &str, (template, text): (&str, &str)) -> Inputs {
    let file = parse_preset("toy.yaml", preset).unwrap();
    let source = NamedText {
        path: "toy.yaml".to_owned(),
        text: preset.to_owned(),
    };
    let work = || "/work".to_owned();
    Inputs {
        run: run.to_owned(),
        ladder: Preset::assemble(file, Vec::new(), None)
            .unwrap()
            .ladder
            .into(),
        templates: BTreeMap::from([(template.to_owned(), text.to_owned())]).into(),
        ..Inputs::bare(source, "local", work(), work())
    }
}

fn with_policy(request: &Request, policy: Policy) -> Request {
    let inputs = Inputs {
        policy,
        ..request.inputs().clone()
    };
    Request::new(inputs).unwrap()
}

/// What a project knows, and the GPUs that it has.
pub(crate) struct Project {
    entries: Vec<LearnedEntry>,
    gpu: i64,
}

impl Project {
    pub(crate) fn with(gpu: i64) -> Self {
        Self {
            entries: Vec::new(),
            gpu,
        }
    }

    pub(crate) fn memory(&self) -> LearnedEntries {
        LearnedEntries::new(self.entries.clone())
    }

    fn fits(&self, request: &Request, layers: &[Layer]) -> bool {
        let recipe = request.recipe(layers).unwrap();
        let number = |knob: &str| match recipe.value(knob) {
            Value::Int(n) => *n,
            _ => 0,
        };
        let states = match recipe.value("offload") {
            Value::Bool(true) => 2_000,
            _ => 10_000,
        };
        number("micro") * number("length") + states <= self.gpu
    }

    /// Submits and watches: starts where the memory says, and climbs rung by rung. The attempts that it
    /// took; `None` when the ladder ended.
    fn run(&mut self, asked: Request) -> Option<u32> {
        let start = asked.start(&self.memory()).unwrap();
        let request = match &start {
            Some(start) => asked.starting(start),
            None => asked,
        };
        self.run_as_asked(&request)
    }

    /// The same, whatever earlier runs taught.
    pub(crate) fn run_as_asked(&mut self, request: &Request) -> Option<u32> {
        let mut taken: Vec<Layer> = Vec::new();
        let mut rungs = request.learned();
        for attempt in 1..=20 {
            let fits = self.fits(request, &taken);
            let end = match fits {
                true => AttemptEnd::Fitted,
                false => AttemptEnd::Failed {
                    kind: "cuda_oom".to_owned(),
                    phase: "backward".to_owned(),
                },
            };
            self.note(request, &taken, &rungs, attempt, end);
            if fits {
                return Some(attempt);
            }
            match request.climb(&taken, None, attempt).unwrap() {
                Decision::Climb { steps, .. } => {
                    rungs.extend(steps.iter().map(LearnedRung::of));
                    taken.extend(steps.into_iter().map(|s| s.layer));
                }
                Decision::Exhausted { .. } => return None,
            }
        }
        None
    }

    fn note(
        &mut self,
        of: &Request,
        taken: &[Layer],
        rungs: &[LearnedRung],
        attempt: u32,
        end: AttemptEnd,
    ) {
        let now = i64::try_from(self.entries.len()).unwrap();
        self.entries.push(LearnedEntry {
            id: format!("{now}"),
            run: of.inputs().run.clone(),
            attempt,
            at: at(now),
            end,
            job: of.job(taken).unwrap(),
            rungs: rungs.to_vec(),
            measured: Measured::default(),
        });
    }

    fn start(&self, request: &Request) -> Start {
        request.start(&self.memory()).unwrap().unwrap()
    }
}

#[test]
fn the_second_run_starts_where_the_first_one_fitted() {
    // 32 * 1024 + 10000 do not fit, nor 16 * 1024 + 10000; 16 * 1024 + 2000 do.
    let mut project = Project::with(20_000);
    assert_eq!(project.run(request("a", &[], &[])), Some(3));
    let start = project.start(&request("b", &[], &[]));
    assert_eq!(start.ground, Ground::Fits);
    assert_eq!(start.rungs, ["halve", "offload"]);
    assert_eq!(
        (start.because.run.as_str(), start.because.attempt),
        ("a", 3)
    );
    assert_eq!(project.run(request("b", &[], &[])), Some(1));
    // The rungs are handed on, and the third run knows them from the second.
    let start = project.start(&request("c", &[], &[]));
    assert_eq!((start.rungs.len(), start.because.run.as_str()), (2, "b"));
    // What goes along with a rung comes with it.
    let request = request("c", &[], &[]).starting(&start);
    let recipe = request.recipe(&[]).unwrap();
    assert_eq!(recipe.value("mem"), &Value::Text("128G".to_owned()));
    assert_eq!(
        recipe.values["micro"].origin.to_string(),
        "learned from run b, attempt 1 (rung halve)"
    );
}

#[test]
fn a_rung_that_was_learned_is_taken() {
    let mut project = Project::with(20_000);
    project.run(request("a", &[], &[]));
    let asked = request("b", &[], &[]);
    let start = project.start(&asked);
    let Decision::Climb { steps, .. } = asked.starting(&start).climb(&[], None, 1).unwrap() else {
        panic!()
    };
    assert_eq!(steps[0].rung, "thin");
}

#[test]
fn what_failed_at_a_length_fails_at_a_longer_one_and_what_fitted_fits_at_a_shorter_one() {
    let mut project = Project::with(20_000);
    project.run(request("a", &[], &[]));
    // Longer: known to fail, and nothing is known to fit.
    let longer = project.start(&request("b", &[("length", Value::Int(2048))], &[]));
    assert_eq!(longer.ground, Ground::Untried);
    assert_eq!(longer.rungs, ["halve", "offload"]);
    assert_eq!(longer.because.attempt, 2);
    // Shorter: nothing says that it fails, so it starts as asked.
    let shorter = request("c", &[("length", Value::Int(512))], &[]);
    assert_eq!(shorter.start(&project.memory()).unwrap(), None);
    // Shorter, with what fitted before.
    let known = [
        ("length", Value::Int(512)),
        ("micro", Value::Int(16)),
        ("prompts", Value::Int(32)),
        ("offload", Value::Bool(true)),
    ];
    let start = project.start(&request("d", &known, &[]));
    assert_eq!((start.ground, start.rungs.len()), (Ground::FitsAsAsked, 0));
}

#[test]
fn what_the_user_sets_or_pins_stays() {
    let mut project = Project::with(20_000);
    project.run(request("a", &[], &[]));
    let asked = request("b", &[], &["micro=32"]);
    let start = project.start(&asked);
    assert_eq!((start.ground, start.rungs.len()), (Ground::NoneKnown, 0));
    // A value that was changed since wins as well, wherever it was given.
    let changed = request(
        "c",
        &[("micro", Value::Int(8)), ("prompts", Value::Int(64))],
        &[],
    );
    assert_eq!(changed.start(&project.memory()).unwrap(), None);
}

#[test]
fn of_a_rung_that_changes_training_only_the_rest_is_learned_where_that_is_forbidden() {
    let mut project = Project::with(20_000);
    project.run(request("a", &[], &[]));
    let asked = with_policy(&request("b", &[], &[]), Policy::SameMath);
    let start = project.start(&asked);
    assert_eq!(start.ground, Ground::Untried);
    assert_eq!(start.rungs, ["halve", "offload"]);
    assert!(start.changes.iter().all(|change| change.knob != "prompts"));
}

#[test]
fn other_gpus_other_stack_other_overrides_say_nothing() {
    let mut project = Project::with(20_000);
    project.run(request("a", &[], &[]));
    let two = request("b", &[("gpus", Value::Int(2))], &[]);
    assert_eq!(two.start(&project.memory()).unwrap(), None);
    let inputs = request("c", &[], &[]).inputs().clone();
    let other = |change: &dyn Fn(&mut Inputs)| {
        let mut inputs = inputs.clone();
        change(&mut inputs);
        let request = Request::new(inputs).unwrap();
        request.start(&project.memory()).unwrap()
    };
    assert!(other(&|_| ()).is_some());
    assert_eq!(other(&|i| i.cluster = Some("large".to_owned())), None);
    assert_eq!(other(&|i| i.backend = "slurm".to_owned()), None);
}

#[test]
fn the_later_of_two_that_contradict_each_other_counts() {
    let mut project = Project::with(20_000);
    project.run(request("a", &[], &[]));
    // Somebody mended a leak and submitted afresh: as asked it fits now.
    let asked = request("b", &[], &[]);
    project.note(&asked, &[], &[], 1, AttemptEnd::Fitted);
    assert_eq!(project.start(&asked).ground, Ground::FitsAsAsked);
}

fn asked() -> impl Strategy<Value = (u32, u32, bool)> {
    (1_u32..6, 8_u32..13, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever was asked for before: no run starts with what is known to fail, none is made smaller than it
    /// must be, what is called proven is so, and what fitted once is found at once.
    #[test]
    fn runs_start_where_the_evidence_says(gpu in 4_000_i64..90_000, jobs in prop::collection::vec(asked(), 1..6)) {
        let mut project = Project::with(gpu);
        for (micro, length, offload) in jobs {
            let project_file = [
                ("micro", Value::Int(1 << micro)),
                ("length", Value::Int(1 << length)),
                ("offload", Value::Bool(offload)),
            ];
            let asked = || request("r", &project_file, &[]);
            let memory = project.memory();
            if let Some(start) = asked().start(&memory).unwrap() {
                let here = asked().job(&start.layers).unwrap();
                let known_to_fail = memory.failed(&asked().job(&[]).unwrap()).is_some();
                prop_assert_eq!(known_to_fail, start.ground != Ground::FitsAsAsked);
                prop_assert_eq!(memory.failed(&here).is_some(), start.ground == Ground::NoneKnown);
                if matches!(start.ground, Ground::Fits | Ground::FitsAsAsked) {
                    prop_assert!(project.fits(&asked(), &start.layers));
                }
                if let Some((_, fewer)) = start.layers.split_last() {
                    let job = asked().job(fewer).unwrap();
                    prop_assert!(memory.fitted(&job).is_none());
                    prop_assert!(start.ground == Ground::Fits || memory.failed(&job).is_some());
                }
            }
            if project.run(asked()).is_some() {
                prop_assert_eq!(project.run(asked()), Some(1));
            }
        }
    }
}
